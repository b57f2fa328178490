"""Scores, p-values and decisions as columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import offspan

from ..errors import InputError
from .parts import Sealed
from .tables import Block, Columns


@dataclass(frozen=True)
class Answer:
    """What the new columns are called; None for one that is not wanted."""

    score: str = "score"
    p_value: str | None = "p_value"
    is_in: str | None = "is_in"

    @classmethod
    def checked(
        cls, detector: offspan.Detector, there: list[str], score: str, p_value: str | None, is_in: str | None
    ) -> Answer:
        """Check on the driver what would fail on every worker."""
        answer = cls(score, p_value, is_in)
        for name in answer.names:
            if name in there:
                raise InputError(f"there is a column {name!r} already; give the new one another name")
        if detector.threshold is None and (is_in is not None or p_value is not None):
            raise InputError(
                "the detector has no threshold, so there are no p-values and decisions: calibrate it first "
                "(Detector.calibrated), or ask for the score alone (p_value=None, is_in=None)"
            )
        return answer

    @property
    def names(self) -> list[str]:
        """Names of the new columns."""
        return [name for name in (self.score, self.p_value, self.is_in) if name is not None]


def scores(detector: Sealed, block: Block) -> npt.NDArray[Any]:
    """Score rows on a worker."""
    if not len(block.features):
        return np.empty(0)
    return detector.detector().score(block.features, block.logits)


def answers(detector: Sealed, answer: Answer, columns: Columns, table: Any) -> dict[str, npt.NDArray[Any]]:
    """Make the new columns of a table on a worker."""
    found = scores(detector, columns.block(table))
    opened = detector.detector()
    made: dict[str, npt.NDArray[Any]] = {answer.score: found}
    if answer.p_value is not None:
        made[answer.p_value] = opened.p_values_of(found) if len(found) else np.empty(0)
    if answer.is_in is not None:
        made[answer.is_in] = found >= opened.threshold
    return made
