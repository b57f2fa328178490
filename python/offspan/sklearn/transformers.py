"""offspan's feature maps as scikit-learn transformers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import offspan

from ._inputs import Floats, check_logits, check_rows, seed_from

MOST_LANDMARKS = 256

# What |a - b| is in the kernels exp(-gamma * |a - b|), as SciPy calls it.
DISTANCES = {"gaussian": "sqeuclidean", "laplacian": "cityblock"}
# Rows that are compared with the landmarks, and the kernel between them below which coordinates say nothing.
ROWS_TO_COMPARE, NEARLY_ZERO = 256, 1e-3


class _MapTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Holds a fitted ``offspan.FeatureMap``.

    The map itself is not part of a pickle: what it was made from is, and the same parts give the same
    map.
    """

    _map: offspan.FeatureMap
    _recipe: tuple[str, tuple[Any, ...], dict[str, Any]]

    def transform(self, X: ArrayLike) -> Floats:
        """The coordinates of rows: float32 for float16 and float32, else float64."""
        check_is_fitted(self, "_map")
        rows = check_rows(self, X, reset=False)
        return self._map.transform(rows).astype(np.promote_types(rows.dtype, np.float32), copy=False)

    def _make_map(self, rows: Floats, kind: str, *arguments: Any, **options: Any) -> None:
        options["precision"] = "f64" if rows.dtype == np.float64 else "f32"
        self._recipe = (kind, arguments, options)
        self._follow_recipe()

    def _follow_recipe(self) -> None:
        kind, arguments, options = self._recipe
        self._map = getattr(offspan.FeatureMap, kind)(*arguments, **options)
        self._n_features_out = self._map.output

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_map", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_recipe" in state:
            self._follow_recipe()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RandomFourierFeatures(_MapTransformer):
    """Random cosines whose inner products approach a kernel.

    ``transform(a) @ transform(b).T`` is ``exp(-gamma * |a - b|**2)`` up to an error of about
    ``1 / sqrt(features)``. Rows are taken as they are; put a ``Normalizer`` in front for unit vectors.

    Parameters
    ----------
    features : int
        How many.
    kernel : {"gaussian", "laplacian"}
    gamma : float
    draw : {"structured", "orthogonal", "iid"}, optional
        How frequencies are drawn. The structured draw, default for the gaussian kernel, takes
        ``features * log(width)`` operations for a row instead of ``features * width``; the laplacian
        kernel has the iid draw only.
    random_state : int, RandomState instance or None

    Examples
    --------
    >>> import numpy as np
    >>> from offspan.sklearn import RandomFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(10, 4))
    >>> RandomFourierFeatures(features=64, gamma=0.5).fit_transform(X).shape
    (10, 64)
    """

    def __init__(
        self,
        features: int = 256,
        *,
        kernel: str = "gaussian",
        gamma: float = 1.0,
        draw: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.features = features
        self.kernel = kernel
        self.gamma = gamma
        self.draw = draw
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> RandomFourierFeatures:
        """Draws the frequencies; of the rows only their width and type matter."""
        rows = check_rows(self, X)
        default_draw = "iid" if self.kernel == "laplacian" else "structured"
        self._make_map(
            rows,
            "random_fourier",
            rows.shape[1],
            self.features,
            kernel=self.kernel,
            gamma=self.gamma,
            draw=self.draw or default_draw,
            seed=seed_from(self.random_state),
        )
        return self


class Nystroem(_MapTransformer):
    """Coordinates of a kernel's feature space, seen through landmarks among the training rows.

    ``transform(a) @ transform(b).T`` approaches the kernel and equals it where a or b is a landmark. Of
    landmarks that say the same (copies, or more than a linear kernel has dimensions) one is enough, so
    there may be fewer coordinates than landmarks. Rows are taken as they are; put a ``Normalizer`` in
    front for unit vectors.

    Parameters
    ----------
    landmarks : int, optional
        How many; by default 256, or all rows where there are fewer.
    kernel : {"gaussian", "laplacian", "polynomial", "linear"}
    gamma : float
        Of the gaussian and the laplacian kernel.
    degree, coef0 : int, float
        Of the polynomial kernel.
    sampling : {"uniform", "low-energy", "high-energy"}
        Which rows become landmarks: any, those that the network is least sure of, or those that it is
        surest of. The last two need logits in :meth:`fit`.
    rank_floor : float
        Directions with eigenvalues of at most this share of the largest are dropped: they carry rounding
        noise only.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    landmark_indices_ : ndarray of int
        Their row numbers in the training rows, ascending.
    landmarks_ : ndarray of shape (landmarks, features)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if the training rows had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from offspan.sklearn import Nystroem
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> Nystroem(landmarks=20, gamma=0.5).fit_transform(X).shape
    (100, 20)
    """

    def __init__(
        self,
        landmarks: int | None = None,
        *,
        kernel: str = "gaussian",
        gamma: float = 1.0,
        degree: int = 2,
        coef0: float = 1.0,
        sampling: str = "uniform",
        rank_floor: float = 1e-12,
        random_state: Any = 0,
    ) -> None:
        self.landmarks = landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.sampling = sampling
        self.rank_floor = rank_floor
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None, logits: ArrayLike | None = None) -> Nystroem:
        """Chooses the landmarks and decomposes their kernel matrix.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : ignored
        logits : array of shape (rows, classes), optional
            For energy sampling: the energy of a row is the logsumexp of its logits.
        """
        rows = check_rows(self, X)
        energies = None if logits is None else logsumexp(check_logits(logits, rows).astype(np.float64), axis=1)
        self.landmark_indices_ = offspan.choose_landmarks(
            len(rows),
            min(MOST_LANDMARKS, len(rows)) if self.landmarks is None else self.landmarks,
            sampling=self.sampling,
            energies=energies,
            seed=seed_from(self.random_state),
        )
        self.landmarks_ = rows[self.landmark_indices_]
        self._make_map(
            rows,
            "nystrom",
            self.landmarks_,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            rank_floor=self.rank_floor,
        )
        self._warn_of_far_rows(rows)
        return self

    def _warn_of_far_rows(self, rows: Floats) -> None:
        """Rows that are far from every landmark, as gamma measures, have coordinates of zeros."""
        if self.kernel not in DISTANCES or len(rows) < 2:
            return
        some = np.unique(np.linspace(0, len(rows) - 1, ROWS_TO_COMPARE).astype(int))
        distances = cdist(rows[some].astype(np.float64), self.landmarks_.astype(np.float64), DISTANCES[self.kernel])
        # A landmark is no distance from itself.
        distances[some[:, None] == self.landmark_indices_] = np.inf
        others = np.isfinite(distances)
        if not others.any():
            return
        nearest = np.median(distances[others.any(axis=1)].min(axis=1))
        if np.exp(-self.gamma * nearest) >= NEARLY_ZERO:
            return
        typical = np.median(distances[others])
        warnings.warn(
            f"most coordinates are nearly zero: gamma={self.gamma:g} is too large for rows this far apart, with "
            f"kernel values of about exp(-{self.gamma * nearest:.3g}) even between a row and the landmark nearest to "
            f"it. Scale the rows first (StandardScaler, Normalizer), or try gamma={1 / typical:.2g}, one over the "
            "median distance",
            UserWarning,
            stacklevel=3,
        )
