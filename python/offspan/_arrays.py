"""What users give, as arrays that the native module reads without a copy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ._tables import has_pyarrow, is_arrow, is_table_path, labels_of, read_table, rows_of
from .errors import InputError

PathLike = Union[str, "os.PathLike[str]"]
#: Rows of numbers: an array, anything that NumPy can make one of, Arrow data, or the path of a file.
Rows = Union[npt.ArrayLike, PathLike, Any]

_FLOATS = (np.float16, np.float32, np.float64)


def is_path(given: Any) -> bool:
    return isinstance(given, (str, os.PathLike))


def is_table(given: Any) -> bool:
    if is_path(given):
        return is_table_path(os.fspath(given))
    # Without pyarrow, NumPy makes an array of many frames, too.
    return is_arrow(given) and (has_pyarrow() or not hasattr(given, "__array__"))


def as_inputs(features: Any, logits: Any = None, labels: Any = None) -> tuple[Any, Any, Any]:
    """Features, logits and labels as arrays or paths. A table brings its own logits and labels along."""
    if is_table(features):
        table = read_table(features)
        features = table.features
        logits = table.logits if logits is None else logits
        labels = table.labels if labels is None else labels
    return as_rows(features, "features"), optional_rows(logits, "logits"), as_labels(labels)


def as_rows(given: Any, what: str) -> Any:
    """A float array, or the path as text. Arrays of a type that can be read are passed on as they are."""
    if is_table(given):
        return rows_of(given, what)
    if is_path(given):
        return os.fspath(given)
    array = as_array(given, what)
    if array.dtype.type in _FLOATS and array.dtype.isnative and array.flags.aligned:
        return array
    if array.dtype.kind in "biuf":
        return array.astype(np.float64 if array.dtype.itemsize > 2 or array.dtype.kind != "f" else np.float32)
    hint = " (lists are read with pyarrow: pip install pyarrow)" if is_arrow(given) else ""
    raise InputError(f"{what}: expected numbers, got an array of {array.dtype}{hint}")


def as_array(given: Any, what: str) -> npt.NDArray[Any]:
    if hasattr(given, "detach"):  # A torch tensor: NumPy refuses one that asks for gradients or lives on a GPU.
        given = given.detach().cpu()
        if str(given.dtype) == "torch.bfloat16":
            given = given.float()
    try:
        # np.asanyarray keeps memory maps what they are, so that their pages can be given back.
        return np.asanyarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}: expected an array of numbers: {error}") from error


def as_labels(given: Any) -> Any:
    """Whole numbers, one per row, or the path as text."""
    if given is None:
        return None
    if is_path(given) and not is_table(given):
        return os.fspath(given)
    labels = labels_of(given) if is_table(given) else as_array(given, "labels")
    if labels.dtype.kind not in "iub":
        raise InputError(f"labels: expected whole numbers, got an array of {labels.dtype}")
    if labels.dtype == np.uint64 and len(labels) and labels.max() > np.iinfo(np.int64).max:
        raise InputError("labels: expected whole numbers below 2^63")
    # Buffers that came over a network may begin anywhere.
    return np.require(labels, np.int64, ("C", "ALIGNED"))


def as_head(given: Any) -> Any:
    """The last layer as (weight, bias) in float64, or the path as text."""
    if given is None:
        return None
    if is_path(given):
        return os.fspath(given)
    if hasattr(given, "weight") and hasattr(given, "bias"):  # torch.nn.Linear
        given = (given.weight, given.bias)
    elif isinstance(given, Mapping) and "weight" in given:
        given = (given["weight"], given.get("bias"))
    try:
        weight, bias = given
    except (TypeError, ValueError):
        raise InputError(
            f"head: expected (weight, bias), a linear layer or a path, got {type(given).__name__}"
        ) from None
    weight = np.ascontiguousarray(as_array(weight, "the head's weight"), dtype=np.float64)
    if weight.ndim != 2:
        raise InputError(f"the head's weight: expected shape [classes, width], got {list(weight.shape)}")
    bias = (
        np.zeros(len(weight))
        if bias is None
        else np.ascontiguousarray(as_array(bias, "the head's bias"), dtype=np.float64)
    )
    if bias.ndim != 1:
        raise InputError(f"the head's bias: expected shape [classes], got {list(bias.shape)}")
    return weight, bias


def as_extras(given: Mapping[str, Any] | None) -> dict[str, npt.NDArray[np.float32]] | None:
    """Other tensors of the same rows."""
    if given is None:
        return None
    return {name: np.ascontiguousarray(as_array(array, name), dtype=np.float32) for name, array in given.items()}


def as_numbers(given: Any, what: str) -> npt.NDArray[np.float64]:
    """One number per row, in double precision."""
    array = as_array(given, what)
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        raise InputError(f"{what}: expected one number per row, got an array of {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(array, dtype=np.float64)


def optional_rows(given: Any, what: str) -> Any:
    return None if given is None else as_rows(given, what)
