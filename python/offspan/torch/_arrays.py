"""Tensors as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from offspan import InputError
from offspan._arrays import as_array

#: An array of any shape and type.
Array = npt.NDArray[Any]

DTYPES = ("float32", "float16")


def to_numpy(value: Any) -> Array:
    """A tensor as an array of the same type; bfloat16, which NumPy lacks, becomes float32."""
    return as_array(value, "a tensor")


def check_dtype(dtype: str) -> np.dtype[Any]:
    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return np.dtype(dtype)


def in_dtype(array: Array, dtype: np.dtype[Any], what: str) -> Array:
    """The array in the type that is kept; numbers that float16 cannot hold are an error, not an infinity."""
    with np.errstate(over="ignore"):
        narrow = array.astype(dtype, copy=False)
    if dtype == np.float16 and array.dtype != np.float16 and np.isinf(narrow).any() and not np.isinf(array).any():
        largest = float(np.abs(array).max())
        raise InputError(f"{what} reach {largest:g}, beyond float16's 65504: keep them with dtype='float32'")
    return narrow
