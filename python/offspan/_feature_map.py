"""Feature maps on their own: coordinates in which a kernel is nearly an inner product."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import _internal
from ._arrays import as_array, as_rows
from .errors import InputError


class FeatureMap:
    """Coordinates Φ with Φ(x)·Φ(y) ≈ k(x, y). Rows are taken as they are: nothing scales them to unit length.

    >>> import numpy as np, offspan
    >>> rows = np.random.default_rng(0).normal(size=(50, 4))
    >>> phi = offspan.FeatureMap.nystrom(rows, gamma=0.1, precision="f64").transform(rows)
    >>> squared = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    >>> np.allclose(phi @ phi.T, np.exp(-0.1 * squared))
    True
    """

    def __init__(self, native: _internal.FeatureMap) -> None:
        self._native = native

    @classmethod
    def random_fourier(
        cls,
        width: int,
        features: int,
        *,
        kernel: str = "gaussian",
        gamma: float = 1.0,
        draw: str = "structured",
        seed: int = 0,
        precision: str = "f32",
    ) -> FeatureMap:
        """Random Fourier features of a gaussian or laplacian kernel."""
        native = _internal.FeatureMap.random_fourier(
            width, features, kernel=kernel, gamma=gamma, draw=draw, seed=seed, precision=precision
        )
        return cls(native)

    @classmethod
    def nystrom(
        cls,
        landmarks: npt.ArrayLike,
        *,
        kernel: str = "gaussian",
        gamma: float = 1.0,
        degree: int = 2,
        coef0: float = 1.0,
        rank_floor: float = 1e-12,
        precision: str = "f32",
    ) -> FeatureMap:
        """Nyström coordinates: exact between these landmarks, an approximation elsewhere."""
        native = _internal.FeatureMap.nystrom(
            as_rows(landmarks, "landmarks"),
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            rank_floor=rank_floor,
            precision=precision,
        )
        return cls(native)

    def transform(self, rows: npt.ArrayLike) -> npt.NDArray[Any]:
        """Give the coordinates of rows, in the map's precision."""
        return self._native.transform(as_rows(rows, "rows"))

    @property
    def width(self) -> int:
        """Width of the rows."""
        return self._native.width

    @property
    def output(self) -> int:
        """Number of coordinates."""
        return self._native.output


def choose_landmarks(
    rows: int, count: int, sampling: str = "uniform", energies: npt.ArrayLike | None = None, seed: int = 0
) -> npt.NDArray[np.int64]:
    """Choose rows as landmarks, as a fit does; ascending row numbers.

    >>> import offspan
    >>> offspan.choose_landmarks(5, 2, "low-energy", energies=[3.0, 1.0, 2.0, 9.0, 7.0]).tolist()
    [1, 2]
    """
    if sampling == "uniform":
        return np.asarray(_internal.uniform_rows(rows, count, seed), dtype=np.int64)
    if sampling not in ("low-energy", "high-energy"):
        raise InputError(f"sampling: expected uniform, low-energy or high-energy, got {sampling!r}")
    if energies is None:
        raise InputError(f"{sampling} sampling needs the energy of each row")
    values = as_array(energies, "energies").astype(np.float64)
    if values.shape != (rows,):
        raise InputError(f"energies: expected shape [{rows}], got {list(values.shape)}")
    if not 1 <= count <= rows:
        raise InputError(f"landmarks: expected from 1 to {rows}, got {count}")
    order = np.argsort(values if sampling == "low-energy" else -values, kind="stable")
    return np.sort(order[:count]).astype(np.int64)
