"""What every estimator asks of its inputs."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, check_random_state

try:
    from sklearn.utils.validation import validate_data as _validate_data
except ImportError:  # scikit-learn before 1.6 has it as a method

    def _validate_data(estimator: Any, X: Any, **options: Any) -> Any:
        return estimator._validate_data(X, **options)


Floats = NDArray[np.floating[Any]]

# Rows of these types are used as they are; others become float64.
FLOATS = [np.float64, np.float32, np.float16]

LARGEST_SEED = 2**32 - 1


def check_rows(estimator: Any, X: ArrayLike, **options: Any) -> Floats:
    """Finite rows as an array; sets the estimator's width and column names, or compares with them."""
    rows: Floats = _validate_data(estimator, X, dtype=FLOATS, **options)
    return rows


def check_logits(logits: ArrayLike, rows: Floats) -> Floats:
    """Logits as an array with one row for each of these."""
    checked: Floats = check_array(logits, dtype=FLOATS, input_name="logits")
    check_consistent_length(rows, checked)
    return checked


def seed_from(random_state: Any) -> int:
    """An integer is the seed itself; ``None`` and generators give a random one."""
    if isinstance(random_state, Integral):
        seed = int(random_state)
        if not 0 <= seed <= LARGEST_SEED:
            raise ValueError(f"random_state: expected an integer from 0 to {LARGEST_SEED}, got {seed}")
        return seed
    return int(check_random_state(random_state).randint(LARGEST_SEED, dtype=np.uint32))
