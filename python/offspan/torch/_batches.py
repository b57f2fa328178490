"""What a data loader yields, taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import numpy as np
import torch
from torch import Tensor

from offspan import InputError

from ._arrays import Array

#: Takes a batch apart into the network's inputs and, where there are any, labels.
Unpack = Callable[[Any], "tuple[Any, Any | None]"]

INPUT_KEYS = ("image", "images", "data", "input", "inputs", "pixel_values", "x")
LABEL_KEYS = ("label", "labels", "target", "targets", "y")


def unpack_batch(batch: Any) -> tuple[Any, Any | None]:
    """Inputs and labels of a tensor, ``(x,)``, ``(x, y, …)``, or a dict with an entry such as "image" or "data"."""
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, Mapping):
        inputs = next((batch[key] for key in INPUT_KEYS if key in batch), None)
        if inputs is None:
            raise InputError(
                f"the loader yields dicts with {sorted(map(str, batch))}, none of {list(INPUT_KEYS)}: "
                "pass unpack=, a function from a batch to (inputs, labels)"
            )
        return inputs, next((batch[key] for key in LABEL_KEYS if key in batch), None)
    if isinstance(batch, (tuple, list)) and batch:
        return batch[0], batch[1] if len(batch) > 1 else None
    raise InputError(
        f"expected the loader to yield tensors, (x, y) or dicts, got {type(batch).__name__}: "
        "pass unpack=, a function from a batch to (inputs, labels)"
    )


def label_array(labels: Any) -> Array:
    """Labels as one int64 per row."""
    try:
        array = torch.as_tensor(labels).detach().cpu().numpy()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"labels must be one whole number per row, got {type(labels).__name__} ({error}): "
            "pass unpack=, a function from a batch to (inputs, labels or None)"
        ) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise InputError(
            f"labels must be one whole number per row, got {array.dtype} of shape {list(array.shape)}: "
            "pass unpack=, a function from a batch to (inputs, labels or None)"
        )
    return array.astype(np.int64)
