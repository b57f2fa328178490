"""How well scores tell in-distribution rows from others. Fractions throughout; higher is more in-distribution."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _internal
from ._arrays import as_array


@dataclass(frozen=True)
class Evaluation:
    """How well one method tells one set of OoD rows from the in-distribution set."""

    fpr: float
    auroc: float
    aupr_in: float
    aupr_out: float
    detection_error: float
    tpr: float
    intervals: dict[str, tuple[float, float]] | None
    #: The false positive rate by every rule for the threshold.
    fpr_by_rule: dict[str, float]
    _ind: npt.NDArray[np.float64] = field(repr=False, compare=False)
    _ood: npt.NDArray[np.float64] = field(repr=False, compare=False)

    @property
    def fpr95(self) -> float:
        """The false positive rate at 95 % true positives; only where that was the rate asked for."""
        if self.tpr != 0.95:
            raise AttributeError(f"the evaluation was made at a true positive rate of {self.tpr}; see `fpr`")
        return self.fpr

    def as_dict(self) -> dict[str, Any]:
        """Give the numbers by name."""
        names = ("fpr", "auroc", "aupr_in", "aupr_out", "detection_error", "tpr", "intervals")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _repr_html_(self) -> str:
        from ._html import evaluation_html

        return evaluation_html(self, self._ind, self._ood)


def evaluate(
    ind: npt.ArrayLike,
    ood: npt.ArrayLike,
    *,
    tpr: float = 0.95,
    fpr_rule: str = "at-least",
    interval: str | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Compute every metric from the scores of two sets.

    Parameters
    ----------
    ind, ood
        Scores of in-distribution rows and of others.
    tpr, fpr_rule
        The share of in-distribution rows to keep for the FPR, and which threshold that is.
    interval, level, seed
        Confidence intervals: ``"delong"`` (AUROC) or ``"bootstrap"``, their level, and the bootstrap's seed.

    Examples
    --------
    >>> import offspan
    >>> offspan.metrics.evaluate([0.9, 0.8, 0.7], [0.75, 0.1]).auroc
    0.8333333333333334

    """
    scores = [
        np.ascontiguousarray(as_array(side, name), dtype=np.float64).ravel()
        for name, side in (("ind", ind), ("ood", ood))
    ]
    text = _internal.evaluate(*scores, tpr=tpr, rule=fpr_rule, interval=interval, level=level, seed=seed)
    numbers = {"intervals": None, **json.loads(text)}
    return Evaluation(**numbers, tpr=tpr, _ind=scores[0], _ood=scores[1])
