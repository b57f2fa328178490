"""Fits whose rows come bit by bit, or on several machines."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from . import _internal
from ._arrays import Rows, as_head, as_rows, optional_rows
from ._detector import Detector
from ._method import Method


class Moments:
    """All that a kernel PCA fit has to know of the rows it has seen: mergeable, small, picklable.

    Two of them with the same map add up, in any order, to the fit of all their rows.

    >>> import numpy as np, offspan
    >>> rows = np.random.default_rng(0).normal(size=(1000, 6)) + 2
    >>> kpca = offspan.KPCA("rff", features=64)
    >>> first, second = (offspan.Moments(kpca, width=6).update(half) for half in np.split(rows, 2))
    >>> detector = first.merge(second).detector()
    >>> detector.info["training"]["rows"]
    1000
    """

    def __init__(self, kpca: Method, width: int | None = None, landmarks: npt.ArrayLike | None = None) -> None:
        """Begin with no rows.

        Parameters
        ----------
        kpca
            The method: :class:`KPCA`, or :func:`make` of ``pca``, ``kpca-rff``, ``kpca-nys`` or ``kpca-sketch``.
        width
            Width of the rows, for maps that need not see any.
        landmarks
            Rows to use as landmarks, for Nyström.

        """
        if landmarks is not None:
            self._native = _internal.PartialFit.with_landmarks(kpca._method, as_rows(landmarks, "landmarks"))
        elif width is not None:
            self._native = _internal.PartialFit.of_width(kpca._method, width)
        else:
            raise TypeError("Moments: expected `width`, or `landmarks` for a Nyström map")
        self._head = kpca.head

    @classmethod
    def begin(cls, kpca: Method, features: Rows, logits: Rows | None = None) -> Moments:
        """Begin with no rows, with landmarks, where the map needs some, chosen among these. They are not added yet."""
        given = as_rows(features, "features")
        return cls._begin(kpca._method_for(given), kpca.head, given, logits)

    @classmethod
    def _begin(cls, method: _internal.Method, head: Any, features: Any, logits: Rows | None) -> Moments:
        native = _internal.PartialFit.begin(method, features, optional_rows(logits, "logits"), head)
        return cls._of(native, head)

    @classmethod
    def _of(cls, native: _internal.PartialFit, head: Any) -> Moments:
        moments = cls.__new__(cls)
        moments._native, moments._head = native, head
        return moments

    def update(self, features: Rows) -> Moments:
        """Add rows. After an error nothing has changed."""
        self._native.update(as_rows(features, "features"))
        return self

    def merge(self, other: Moments) -> Moments:
        """Add the rows that another one with the same map has seen."""
        self._native.merge(other._native)
        return self

    @property
    def rows(self) -> int:
        """Rows seen."""
        return self._native.rows

    @property
    def width(self) -> int:
        """Width of the rows."""
        return self._native.width

    def detector(self, head: Any = None) -> Detector:
        """Give the detector of all rows seen. It has no threshold until :meth:`Detector.calibrated` sets one."""
        return Detector(self._native.detector(self._head if head is None else as_head(head)))

    def to_bytes(self) -> bytes:
        """Give everything as bytes."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, head: Any = None) -> Moments:
        """Make again of which :meth:`to_bytes` gave the bytes. The last layer is not among them."""
        return cls._of(_internal.PartialFit.from_bytes(bytes(data)), as_head(head))

    def __reduce__(self) -> tuple[Any, ...]:
        return Moments.from_bytes, (self.to_bytes(), self._head)

    def __repr__(self) -> str:
        return f"<offspan.Moments of {self.rows} rows of width {self.width}>"
