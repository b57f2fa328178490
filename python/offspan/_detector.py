"""A fitted detector: scores rows, decides, saves and loads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _internal
from ._arrays import PathLike, Rows, as_extras, as_inputs, as_numbers
from ._calibration import FitCheck
from ._explanation import Explanation
from .errors import InputError


class Detector:
    """A fitted detector, as :meth:`Method.fit` leaves it and as detector files hold it.

    The command line reads what is saved here, and the other way round; the scores are the same to the bit.

    >>> import numpy as np, offspan
    >>> rows = np.random.default_rng(0).normal(size=(500, 4)) + 2
    >>> detector = offspan.make("knn", neighbours=5).fit(rows).detector
    >>> same = offspan.Detector.from_bytes(detector.to_bytes())
    >>> bool((same.score(rows) == detector.score(rows)).all())
    True
    """

    def __init__(self, native: _internal.Detector) -> None:
        if not isinstance(native, _internal.Detector):
            raise TypeError("a detector comes from a fit, `Detector.load(path)` or `Detector.from_bytes(data)`")
        self._native = native
        self._info: dict[str, Any] = json.loads(native.info())

    @classmethod
    def load(cls, path: PathLike) -> Detector:
        """Load a detector file."""
        return cls(_internal.Detector.load(os.fspath(path)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Detector:
        """Make the detector again of which :meth:`to_bytes` gave the bytes."""
        return cls(_internal.Detector.from_bytes(bytes(data)))

    def save(self, path: PathLike, *, force: bool = False) -> None:
        """Save the detector. The file appears whole or not at all.

        A file of another kind, such as features, is replaced only with ``force=True``.
        """
        self._native.save(os.fspath(path), force)

    def to_bytes(self) -> bytes:
        """Give the bytes of the detector file."""
        return self._native.to_bytes()

    def score(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> npt.NDArray[np.float64]:
        """Score rows; higher is more in-distribution.

        Parameters
        ----------
        features
            Rows of the width that the detector was fitted on: an array (float16, float32, float64; any order; also a
            memory map), Arrow data, or the path of a file. A table brings its ``logits`` along (:func:`read_table`).
        logits
            The network's outputs for the same rows, for methods that use them and do not keep the last layer.
        extras
            Other tensors of the same rows by name, for the few methods that ask for one.

        """
        rows, logits, _ = as_inputs(features, logits)
        return self._native.score(rows, logits, as_extras(extras))

    def explain(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> Explanation:
        """Tell what each term of the score says of each row: why a row is out.

        For methods whose score is joined from several terms, such as ``auto``; others are refused.

        Parameters
        ----------
        features, logits, extras
            As in :meth:`score`.

        """
        rows, logits, _ = as_inputs(features, logits)
        terms = self._native.explain(rows, logits, as_extras(extras))
        if terms is None:
            raise InputError(
                "explain: expected a detector whose score has terms, such as one of auto; "
                f"this one is of {self.method}, whose score has no parts"
            )
        return Explanation(
            weights={name: weight for name, weight, _ in terms},
            p_values={name: p_values for name, _, p_values in terms},
        )

    def p_values(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> npt.NDArray[np.float64]:
        """Tell how unusual each row is: small for OoD rows.

        An in-distribution row has a p-value of at most u with a chance of at most u, whatever u is and however scores
        are distributed: (1 + calibration scores at or below its own) / (1 + calibration scores).
        """
        return self.p_values_of(self.score(features, logits, extras))

    def p_values_of(self, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Give the p-values of scores that are known already. See :meth:`p_values`."""
        return self._native.p_values(as_numbers(scores, "scores"))

    def predict(
        self,
        features: Rows,
        logits: Rows | None = None,
        extras: Mapping[str, npt.ArrayLike] | None = None,
        *,
        fdr: float | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Decide for each row whether it is in-distribution.

        Parameters
        ----------
        features, logits, extras
            As in :meth:`score`.
        fdr
            Decide by all rows of the batch together, so that on average at most this share of the rows that are
            refused are in-distribution (Benjamini and Hochberg, on :meth:`p_values`). By default each row is decided
            by the threshold alone.

        """
        rows, logits, _ = as_inputs(features, logits)
        return ~self._native.is_out(rows, logits, as_extras(extras), fdr)

    def calibrated(
        self,
        features: Rows | None = None,
        logits: Rows | None = None,
        extras: Mapping[str, npt.ArrayLike] | None = None,
        *,
        keep: float | None = None,
        confidence: float | None = None,
    ) -> Detector:
        """Give the same detector with another threshold.

        Parameters
        ----------
        features
            In-distribution rows which the fit has not seen. Without any, the calibration scores that the detector
            knows set the threshold.
        keep, confidence
            The threshold keeps at least the share ``keep`` of in-distribution rows; which rows it is set with is
            chance, so that is true in at least the share ``confidence`` of all cases. By default as it was, or 0.95.
        logits, extras
            What belongs to the same rows, as in :meth:`score`.

        """
        if features is None and (logits is not None or extras is not None):
            raise InputError("calibrated: expected features together with their logits or extras")
        rows, logits, _ = (None, None, None) if features is None else as_inputs(features, logits)
        native = self._native.calibrated(rows, keep, confidence, logits, as_extras(extras))
        return Detector(native)

    def check(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> FitCheck:
        """Test whether later in-distribution rows still fit the calibration: a small ``p_value`` says no."""
        return FitCheck(**json.loads(self._native.check(self.score(features, logits, extras))))

    def to_torch(self, dtype: Any = None) -> Any:
        """Give the detector as a ``torch.nn.Module`` of PyTorch's own operations, with its numbers as buffers.

        See :class:`offspan.torch.NativeDetector`. Methods whose arithmetic cannot be exported are refused.

        Parameters
        ----------
        dtype
            ``torch.float32``, the default, or ``torch.float64``.

        """
        from .torch import NativeDetector

        return NativeDetector.of(self, dtype)

    @property
    def calibration_scores(self) -> npt.NDArray[np.float64] | None:
        """Scores of the rows that the threshold was set with, ascending; what p-values compare with."""
        return self._native.calibration_scores()

    @property
    def threshold(self) -> float | None:
        """Scores at or above it count as in-distribution."""
        return self._native.threshold

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self._info["method"])

    @property
    def info(self) -> dict[str, Any]:
        """What the detector file says of itself: method, parameters, training rows, what the fit found, threshold."""
        return json.loads(self._native.info())  # A copy: nobody can change ours.

    @property
    def width(self) -> int:
        """Width of the features."""
        return int(self._info["training"]["width"])

    @property
    def eigenvalues(self) -> list[npt.NDArray[np.float64]]:
        """Eigenvalues of each kernel PCA inside, largest first: all, or those of the kept directions."""
        return self._native.eigenvalues()

    def __reduce__(self) -> tuple[Any, ...]:
        return Detector.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, Detector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        training = self._info["training"]
        threshold = "no threshold" if self.threshold is None else f"threshold {self.threshold:.6g}"
        return f"<offspan.Detector {self.method}, {training['rows']} × {training['width']} training rows, {threshold}>"

    def _repr_html_(self) -> str:
        from ._html import detector_html

        return detector_html(self.info, self.threshold, self.eigenvalues)
