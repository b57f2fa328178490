"""Kernel PCA with its parameters spelt out."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from . import _internal
from ._arrays import Rows, as_rows, is_path
from ._detector import Detector
from ._method import Method, native_method
from ._moments import Moments
from .errors import InputError

#: The default of the core.
MOST_LANDMARKS = 1024

_METHODS = {
    "nystrom": "kpca-nys",
    "rff": "kpca-rff",
    "sketch": "kpca-sketch",
    "exact": "kpca-exact",
    "pca": "pca",
}


class KPCA(Method):
    """The residual of kernel PCA: how far a row lies off the span of the training rows in a kernel's feature space.

    Parameters
    ----------
    map
        How the kernel becomes coordinates: ``"nystrom"`` (landmarks among the training rows, any kernel), ``"rff"``
        (random Fourier features, gaussian or laplacian), ``"sketch"`` (polynomial), ``"exact"`` (small sets), ``"pca"``
        (the linear kernel).
    kernel, gamma, degree, coef0
        The kernel; what is not given has the default of the map (gaussian, γ 1 for Nyström, 2 for random features).
    cosine
        Whether rows are scaled to unit length first.
    landmarks, sampling, landmark_rows, residual, rank_floor, rank_rule
        For Nyström: number and choice of landmarks, and whether the residual counts what they cannot represent.
        Without other wishes landmarks are a uniform sample (1024, or half of the rows of an array where there are
        fewer than 2048) with the complete residual, which needs features only;
        the paper's choice is ``sampling="low-energy"`` with the plain residual, and needs logits or the last layer.
    features, draw, frequencies
        For random features: their number and how they are drawn.
    explained_variance, components
        How many directions the subspace keeps: by their share of the variance, or their number.
    react, fuse
        Clipping of activations at a value or a percentile (``"p90"``), and the combination with the energy score.
    seed, precision, weights
        Seed of every random choice; ``"f32"`` or ``"f64"``; landmarks kept as ``"full"``, ``"f16"`` or ``"bf16"``.
    head
        The network's last layer, where energies are used: ``(weight, bias)``, a linear layer or a path.

    Examples
    --------
    >>> import numpy as np, offspan
    >>> rows = np.random.default_rng(0).normal(size=(1000, 8)) + 2
    >>> kpca = offspan.KPCA("rff", features=256, explained_variance=0.9).fit(rows)
    >>> bool(kpca.predict(rows).mean() > 0.8)
    True

    """

    def __init__(
        self,
        map: str = "nystrom",
        *,
        kernel: str | None = None,
        gamma: float | None = None,
        degree: int | None = None,
        coef0: float | None = None,
        cosine: bool = True,
        landmarks: int | None = None,
        sampling: str | None = None,
        landmark_rows: npt.ArrayLike | None = None,
        residual: str | None = None,
        rank_floor: float | None = None,
        rank_rule: str | None = None,
        features: int | None = None,
        draw: str | None = None,
        frequencies: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        explained_variance: float | None = None,
        components: int | None = None,
        react: float | str | None = None,
        fuse: str | None = None,
        seed: int = 0,
        precision: str = "f32",
        weights: str | None = None,
        head: Any = None,
    ) -> None:
        if map not in _METHODS:
            raise InputError(f"map: expected {', '.join(_METHODS)}, got {map!r}")
        if map == "nystrom" and sampling in (None, "uniform") and landmark_rows is None:
            sampling, residual = "uniform", residual or "complete"
        options = {
            "kernel": kernel,
            "gamma": gamma,
            "degree": degree,
            "coef0": coef0,
            "cosine": None if cosine else False,
            "landmarks": landmarks,
            "sampling": sampling,
            "landmark_rows": landmark_rows,
            "residual": residual,
            "rank_floor": rank_floor,
            "rank_rule": rank_rule,
            "features": features,
            "draw": draw,
            "frequencies": frequencies,
            "explained_variance": explained_variance,
            "components": components,
            "react": react,
            "fuse": fuse,
            "seed": seed,
            "precision": precision,
            "weights": weights,
        }
        given = {name: value for name, value in options.items() if value is not None}
        self.map = map
        super().__init__(_METHODS[map], head=head, **given)
        self._moments: Moments | None = None

    def partial_fit(self, features: Rows, logits: Rows | None = None) -> KPCA:
        """Add rows to the fit. Nyström chooses its landmarks among the rows of the first call.

        The detector is that of all rows so far; it is made when it is first asked for, and has no threshold until
        :meth:`calibrate` sets one. After an error nothing has changed. A call of :meth:`fit` starts again.
        """
        if self._moments is None and self._detector is not None:
            raise InputError(
                "partial_fit: this one was fitted to all its rows at once, which it does not keep; "
                "make a new KPCA and begin with partial_fit"
            )
        given = as_rows(features, "features")
        moments = self._moments
        if moments is None:
            moments = Moments._begin(self._method_for(given), self.head, given, logits)
        moments.update(given)
        self._moments, self._detector = moments, None
        return self

    @property
    def moments(self) -> Moments | None:
        """What :meth:`partial_fit` has seen."""
        return self._moments

    @property
    def detector(self) -> Detector:
        """The fitted detector."""
        if self._detector is None and self._moments is not None:
            self._detector = self._moments.detector()
        return super().detector

    @property
    def is_fitted(self) -> bool:
        """Whether there is a detector, or rows to make one of."""
        return self._detector is not None or (self._moments is not None and self._moments.rows > 1)

    def _keep(self, detector: Detector) -> None:
        super()._keep(detector)
        self._moments = None

    def _method_for(self, features: Any) -> _internal.Method:
        """Without a wish, half of few rows become landmarks: a row that is its own landmark scores too well."""
        wanted = {"landmarks", "landmark_rows"} & set(self.options)
        rows = MOST_LANDMARKS * 2 if is_path(features) or features.ndim != 2 else len(features)
        if self.name != "kpca-nys" or wanted or rows >= 2 * MOST_LANDMARKS:
            return self._method
        return native_method(self.name, {**self.options, "landmarks": max(1, rows // 2)})

    def __repr__(self) -> str:
        return f"offspan.KPCA({', '.join([repr(self.map), *self._shown_options()])}){self._shown_state()}"
