"""The authors' formula in NumPy, as one writes it: map, centre, reconstruct with U U^T, norm of what is left.

Matrices have the shapes of the offspan detector. Where a value takes an eigendecomposition to get (whitening, subspace), a
stand-in of the same shape takes its place: the time does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .workspace import GAMMA, Fitted

Array = NDArray[np.floating]
Scorer = Callable[[Array], Array]


def unit(rows: Array) -> Array:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class StandIn:
    """Weights of a detector's shape, made once and cast for each contender."""

    def __init__(self, fitted: Fitted, train: Array) -> None:
        draw = np.random.default_rng(0)
        size = fitted.dimensions
        self.fitted = fitted
        self.gamma = GAMMA[fitted.map]
        self.mean = draw.normal(0.0, 0.01, size)
        self.basis = np.linalg.qr(draw.normal(size=(size, fitted.components)))[0]
        if fitted.map == "nystrom":
            self.landmarks = unit(train[draw.choice(len(train), size, replace=False)].astype(np.float64))
            self.whitening = draw.normal(0.0, size**-0.5, (size, size))
        else:
            self.omega = draw.normal(0.0, np.sqrt(2.0 * self.gamma), (fitted.width, size))
            self.offset = draw.uniform(0.0, 2.0 * np.pi, size)

    def formula(self, dtype: DTypeLike) -> Scorer:
        """Rows of this type to scores."""
        phi = self.nystrom(dtype) if self.fitted.map == "nystrom" else self.fourier(dtype)
        mean = self.mean.astype(dtype)
        reconstruct = (self.basis @ self.basis.T).astype(dtype)

        def score(rows: Array) -> Array:
            centred = phi(unit(rows)) - mean
            return -np.linalg.norm(centred - centred @ reconstruct, axis=1)

        return score

    def nystrom(self, dtype: DTypeLike) -> Scorer:
        landmarks, whitening = self.landmarks.astype(dtype), self.whitening.astype(dtype)
        squares = np.sum(landmarks * landmarks, axis=1)

        def phi(x: Array) -> Array:
            distances = np.sum(x * x, axis=1, keepdims=True) + squares - 2.0 * (x @ landmarks.T)
            return np.exp(-self.gamma * np.maximum(distances, 0.0)) @ whitening.T

        return phi

    def fourier(self, dtype: DTypeLike) -> Scorer:
        omega, offset = self.omega.astype(dtype), self.offset.astype(dtype)
        scale = np.sqrt(2.0 / len(offset)).astype(dtype)
        return lambda x: scale * np.cos(x @ omega + offset)
