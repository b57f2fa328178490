"""Fits whose rows lie on many machines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Callable

import numpy.typing as npt

from . import _internal
from ._arrays import PathLike, Rows, as_head, as_inputs
from ._detector import Detector
from ._internal import CONFIDENCE, KEEP
from ._method import native_method
from ._progress import reporter
from .errors import InputError


class FitPlan:
    """A fit as a sequence of passes over rows that may lie anywhere.

    Every machine carries out a pass on its own rows (:meth:`partial`), parts are merged in any order and tree
    (:meth:`merge`), and the plan takes what all of them found (:meth:`advance`) until no pass is left. The detector is
    the one that a fit on one machine gives, up to rounding. ``offspan.dask``, ``offspan.spark`` and ``offspan.ray`` do
    all of it on their engines.

    Parameters
    ----------
    method, head, options
        As in :func:`offspan.make`.
    hold_out, keep, confidence
        As in :meth:`offspan.Method.fit`.

    Examples
    --------
    >>> import numpy as np, offspan
    >>> rows = np.random.default_rng(0).normal(size=(900, 8)) + 2
    >>> plan = offspan.FitPlan("kpca-rff", features=64)
    >>> while plan.has_pass():
    ...     part = plan.partial(rows[:500])  # on one machine
    ...     other = plan.partial(rows[500:], first_row=500)  # on another
    ...     plan.advance(plan.merge(part, other))
    >>> plan.finish().score(rows).shape
    (900,)

    """

    def __init__(
        self,
        method: str = "auto",
        head: Any = None,
        *,
        hold_out: float | None = None,
        keep: float = KEEP,
        confidence: float = CONFIDENCE,
        **options: Any,
    ) -> None:
        self._plan = _internal.FitPlan(
            native_method(method, options), head=as_head(head), hold_out=hold_out, keep=keep, confidence=confidence
        )

    @property
    def stage(self) -> str | None:
        """What the next pass is for; None if the fit is done."""
        return self._plan.stage

    @property
    def passes(self) -> int:
        """How many passes were carried out."""
        return self._plan.passes

    @property
    def spec(self) -> dict[str, Any]:
        """The method with all its parameters."""
        return json.loads(self._plan.spec())

    def has_pass(self) -> bool:
        """Tell whether a pass is left."""
        return self._plan.stage is not None

    def partial(
        self,
        features: Rows,
        logits: Rows | None = None,
        labels: npt.ArrayLike | PathLike | None = None,
        first_row: int = 0,
    ) -> bytes:
        """Carry out the next pass on some rows.

        Rows have numbers through all parts: ``first_row`` is that of the first one here. The same row must have the
        same number in every pass, and be in one part of it. A table brings its logits and labels along, as in
        :meth:`offspan.Method.fit`. The same rows give the same bytes on machines with the same kind of processor;
        another kind may round products and decompositions differently.
        """
        if first_row < 0:
            raise InputError(f"first_row: expected a row number from 0 on, got {first_row}")
        return self._plan.partial(*as_inputs(features, logits, labels), first_row)

    @staticmethod
    def merge(first: bytes, second: bytes) -> bytes:
        """Join what one pass found on some rows and on others."""
        return _internal.merge_parts(first, second)

    @staticmethod
    def merge_all(parts: Iterable[bytes]) -> bytes:
        """Join any number of parts of one pass."""
        parts = iter(parts)
        try:
            merged = next(parts)
        except StopIteration:
            raise InputError("parts: expected at least one, got none") from None
        for part in parts:
            merged = _internal.merge_parts(merged, part)
        return merged

    @staticmethod
    def rows_of(part: bytes) -> int:
        """Tell how many rows a part has seen."""
        return _internal.rows_of_part(part)

    def advance(self, found: bytes, *, progress: bool | Callable[[str, int, int], object] = False) -> None:
        """Take what a pass found on all rows, and find out what to look for next."""
        with reporter(progress) as report:
            self._plan.advance(found, progress=report)

    def finish(self) -> Detector:
        """Give the detector, once no pass is left."""
        return Detector(self._plan.finish())

    def to_bytes(self) -> bytes:
        """Give the plan as bytes, for another machine."""
        return self._plan.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> FitPlan:
        """Read the plan that :meth:`to_bytes` gave."""
        plan = cls.__new__(cls)
        plan._plan = _internal.FitPlan.from_bytes(data)
        return plan

    def __reduce__(self) -> tuple[Callable[[bytes], FitPlan], tuple[bytes]]:
        return (FitPlan.from_bytes, (self.to_bytes(),))

    def __repr__(self) -> str:
        left = "no pass left" if self.stage is None else f"next: {self.stage}"
        return f"FitPlan({self.passes} passes done, {left})"
