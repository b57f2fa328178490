"""A detector for a network, from loaders: extract, fit, calibrate."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import offspan
from offspan import Detector, InputError

from ._arrays import Array
from ._batches import Unpack
from ._plan import Plan, Request
from .extract import extract_with_plan
from .extracted import Extracted


def fit_to_loaders(
    model: nn.Module,
    loader: Iterable[Any],
    method: str,
    options: Mapping[str, Any],
    request: Request,
    *,
    calibrate: Iterable[Any] | None,
    keep: float,
    confidence: float,
    hold_out: float | None,
    device: str | torch.device | None,
    unpack: Unpack,
    progress: bool,
) -> tuple[offspan.Method, Plan]:
    """A method fitted to the features of a loader's rows, and where in the network they were found."""
    if calibrate is not None and hold_out:
        raise InputError(f"hold_out: expected none beside calibrate, which sets the threshold, got {hold_out}")
    # A mistake in the name or the options shows here, not after an hour of features.
    offspan.make(method, **options)
    offspan.rows_needed(keep, confidence)
    if hold_out is not None and not 0 <= hold_out < 1:
        raise InputError(f"hold_out: expected a share in [0, 1), got {hold_out}")
    for name, given in (("loader", loader), ("calibrate", calibrate)):
        if isinstance(given, (Tensor, Dataset)):
            raise InputError(
                f"{name}: expected an iterable of batches, such as a DataLoader, got {type(given).__name__}"
            )

    def rows_of(rows: Iterable[Any]) -> tuple[Extracted, Plan]:
        return extract_with_plan(model, rows, request, device=device, unpack=unpack, progress=progress)

    train, plan = rows_of(loader)
    fitted = _fit_known_directions(
        offspan.make(method, head=train.head, **options),
        train,
        hold_out=hold_out if calibrate is None else 0.0,
        keep=keep,
        confidence=confidence,
    )
    if calibrate is not None:
        other, _ = rows_of(calibrate)
        fitted.calibrate(other.features, other.logits, other.extras or None, keep=keep, confidence=confidence)
    return fitted, plan


def as_detector(given: Any) -> Detector | None:
    """The detector of what users give as one; None stays None."""
    if given is None or isinstance(given, Detector):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Detector.load(given)
    if not isinstance(given, offspan.Method):
        raise InputError(
            f"detector: expected a Detector, a fitted method or the path of a detector file, got {type(given).__name__}"
        )
    # A method has its detector once it is fitted, and says so if it is not.
    return given.detector


def _fit_known_directions(method: offspan.Method, train: Extracted, **options: Any) -> offspan.Method:
    """Fit, and where the method refuses rows of zeros, which have no direction, to the others with a warning."""
    parts: dict[str, Any] = {"features": train.features, "logits": train.logits, "labels": train.labels}
    extras = dict(train.extras or {})
    try:
        return method.fit(*parts.values(), extras=extras or None, **options)
    except InputError as error:
        found: Array = np.any(train.features, axis=1)
        if "is all zeros" not in str(error) or found.sum() < 2 or found.all():
            raise
    warnings.warn(
        f"the features of {len(found) - found.sum()} of {len(found)} rows are all zeros, which has no direction: they "
        "are left out of the fit; such rows are scored −∞",
        UserWarning,
        stacklevel=4,
    )
    kept: list[Any] = [None if part is None else np.asarray(part)[found] for part in parts.values()]
    return method.fit(*kept, extras={name: np.asarray(rows)[found] for name, rows in extras.items()} or None, **options)
