"""What p-values and checks say: which rows of a batch are OoD, and whether a calibration still holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import _internal
from ._arrays import as_numbers
from ._internal import CONFIDENCE, KEEP


@dataclass(frozen=True)
class FitCheck:
    """Two tests of the claim that later in-distribution rows have scores like the calibration rows.

    They are for one check: whoever checks often will see a small p-value at some time (:class:`Monitor` may be asked
    as often as one likes).
    """

    #: Later rows.
    rows: int
    #: How many of them the threshold refuses.
    flagged: int
    #: The share of them that it should refuse on average.
    expected_share: float
    #: How likely at least so many are refused, if nothing has changed.
    flagged_p_value: float
    #: The largest distance between the distribution functions of both sets of scores (Kolmogorov and Smirnov).
    distance: float
    #: How likely a distance at least as large is, if nothing has changed.
    distance_p_value: float
    #: Both as one test: twice the smaller of the two, at most 1.
    p_value: float


def benjamini_hochberg(p_values: npt.ArrayLike, level: float) -> npt.NDArray[np.bool_]:
    """Tell which rows of a batch to call OoD, so that on average at most this share of them are not.

    >>> import offspan
    >>> offspan.benjamini_hochberg([0.01, 0.5, 0.02, 0.9], level=0.05)
    array([ True, False,  True, False])
    """
    return _internal.benjamini_hochberg(as_numbers(p_values, "p_values"), level)


def adjusted_p_values(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Give the smallest level at which :func:`benjamini_hochberg` takes each row for an OoD row.

    >>> import offspan
    >>> offspan.adjusted_p_values([0.01, 0.5, 0.02, 0.9])
    array([0.04      , 0.66666667, 0.04      , 0.9       ])
    """
    return _internal.adjusted(as_numbers(p_values, "p_values"))


def rows_needed(keep: float = KEEP, confidence: float = CONFIDENCE) -> int:
    """Tell the fewest rows that a threshold with this promise can be set with.

    >>> import offspan
    >>> offspan.rows_needed(keep=0.99)
    299
    """
    return _internal.rows_needed(keep, confidence)
