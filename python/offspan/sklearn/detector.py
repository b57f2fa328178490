"""Kernel PCA as a scikit-learn outlier detector."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

import offspan

from ._inputs import Floats, check_logits, check_rows, seed_from

# What "auto" means: this share of in-distribution rows may be called outliers, as everywhere in offspan.
AUTO_CONTAMINATION = 0.05
# scikit-learn's contamination is what is to be expected, not a bound that is seldom broken. With even chances the
# threshold keeps more or fewer rows than that; and 14 held-out rows are enough, where a confidence of 0.95 takes 59.
EVEN_CHANCES = 0.5
# Rows to hold out for it, and the fewest rows that can spare them.
HELD_OUT_SHARE, HELD_OUT_ROWS, FEWEST_ROWS = 0.05, 30, 100

# The score of a row without direction: the lowest that scikit-learn's metrics accept.
LOWEST_SCORE = np.finfo(np.float64).min


class KPCADetector(OutlierMixin, BaseEstimator):
    """Out-of-distribution detection by the residual of kernel PCA.

    The training rows are mapped into the feature space of a kernel; the score of a row is minus its
    distance there from the principal subspace that they fill. Higher is more in-distribution.

    Parameters
    ----------
    map : {"nystrom", "rff", "pca", "sketch", "exact"}
        How the kernel becomes coordinates: through landmarks, through random Fourier features, not at
        all (linear kernel), through a tensor sketch (polynomial kernel), or from the full kernel matrix.
    kernel : {"gaussian", "laplacian", "polynomial", "linear"}, optional
        By default the map's own: gaussian for ``nystrom``, ``rff`` and ``exact``, linear for ``pca``,
        polynomial for ``sketch``.
    gamma : float, optional
        Of the gaussian kernel ``exp(-gamma * |a - b|**2)`` or the laplacian one. The method's default
        (1 for ``nystrom``, 2 for ``rff``) suits unit vectors; with ``cosine=False`` it has to be given.
    cosine : bool
        Whether rows are scaled to unit length first. Then a row of zeros has no direction: it is left
        out of the fit, gets the lowest score and is an outlier. Needs at least two features.
    landmarks : int, optional
        For ``nystrom``. By default 1024, but at most half of the rows: a row that is its own landmark
        scores better than any new one.
    features : int, optional
        For ``rff`` and ``sketch``; 2048 by default.
    sampling : {"uniform", "low-energy", "high-energy"}
        Which rows become landmarks. The last two need logits in :meth:`fit`.
    residual : {"complete", "plain"}, optional
        By default complete for ``nystrom`` with uniform landmarks, which cover the rows, so that what they
        cannot represent is strange; else plain.
    explained_variance : float, optional
        Share of the variance that the subspace holds; the method's default where neither this nor
        ``components`` is given.
    components : int, optional
        A fixed number of directions instead.
    react : float or str, optional
        Cut activations at this value, or at a percentile of the training activations such as ``"p90"``.
    precision : {"f32", "f64"}
        Of the arithmetic. Rows of float16, float32 and float64 are read as they are, without a copy, and
        rounded to this.
    contamination : "auto" or float in (0, 0.5]
        Sets ``offset_``. A number is the share of the training rows that become outliers, at most.
        ``"auto"`` is for clean training rows: it holds 5 % of them (about 30 where that is more) out of the
        fit and sets with those the threshold that keeps 95 % of *new* in-distribution rows, with even chances
        of a few more or a few less (``keep=0.95, confidence=0.5`` elsewhere in offspan). With fewer than 100
        rows it warns and takes 5 % of the training rows.
    random_state : int, RandomState instance or None
        An integer is offspan's seed: the same one gives the same detector, with any number of threads.

    Attributes
    ----------
    detector_ : offspan.Detector
        The fitted detector; ``detector_.save(path)`` shares it with the command line. With ``"auto"`` and
        100 rows or more ``offset_`` is its threshold. Otherwise ``offset_`` comes from rows of the fit, which
        cannot promise anything for new ones, and the detector has no threshold until
        ``detector_.calibrated(rows)`` sets one.
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if the training rows had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from offspan.sklearn import KPCADetector
    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=(800, 4)) @ rng.normal(size=(4, 32))
    >>> strange = rng.normal(size=(5, 32))
    >>> detector = KPCADetector().fit(known)
    >>> detector.predict(strange)
    array([-1, -1, -1, -1, -1])
    """

    detector_: offspan.Detector
    offset_: float

    def __init__(
        self,
        map: str = "nystrom",
        *,
        kernel: str | None = None,
        gamma: float | None = None,
        cosine: bool = True,
        landmarks: int | None = None,
        features: int | None = None,
        sampling: str = "uniform",
        residual: str | None = None,
        explained_variance: float | None = None,
        components: int | None = None,
        react: float | str | None = None,
        precision: str = "f32",
        contamination: float | str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.map = map
        self.kernel = kernel
        self.gamma = gamma
        self.cosine = cosine
        self.landmarks = landmarks
        self.features = features
        self.sampling = sampling
        self.residual = residual
        self.explained_variance = explained_variance
        self.components = components
        self.react = react
        self.precision = precision
        self.contamination = contamination
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None, logits: ArrayLike | None = None) -> KPCADetector:
        """Fits the detector to in-distribution rows.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : ignored
        logits : array of shape (rows, classes), optional
            For energy sampling of landmarks.
        """
        share = self._share_of_outliers()
        rows = check_rows(self, X, ensure_min_samples=2, ensure_min_features=2 if self.cosine else 1)
        known = None if logits is None else check_logits(logits, rows)
        if self.cosine:
            rows, known = _with_direction(rows, known)
        hold_out = _share_to_hold_out(len(rows)) if share is None else 0.0
        method = offspan.KPCA(self.map, **self._options())
        method.fit(rows, known, hold_out=hold_out, keep=1 - AUTO_CONTAMINATION, confidence=EVEN_CHANCES)
        self.detector_ = method.detector
        if method.threshold is not None:
            self.offset_ = method.threshold
            return self
        if share is None:
            warnings.warn(
                f"{len(rows)} rows are too few to hold some out: offset_ is set on training rows, which score "
                "better than new ones do",
                UserWarning,
                stacklevel=2,
            )
            share = AUTO_CONTAMINATION
        self.offset_ = offset_on_training_rows(self.detector_.score(rows), share)
        return self

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Minus the residual of each row; higher is more in-distribution."""
        check_is_fitted(self, "offset_")
        scores: NDArray[np.float64] = np.maximum(self.detector_.score(check_rows(self, X, reset=False)), LOWEST_SCORE)
        return scores

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores shifted by ``offset_``: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """1 for in-distribution rows, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def _options(self) -> dict[str, Any]:
        """The parameters of ``offspan.KPCA``; those that are ``None`` are left to it."""
        options = {
            "kernel": self.kernel,
            "gamma": self.gamma,
            "cosine": self.cosine,
            "landmarks": self.landmarks,
            "features": self.features,
            "sampling": self.sampling if self.map == "nystrom" else None,
            "residual": self.residual,
            "explained_variance": self.explained_variance,
            "components": self.components,
            "react": self.react,
            "precision": self.precision,
            "seed": seed_from(self.random_state),
        }
        return {name: value for name, value in options.items() if value is not None}

    def _share_of_outliers(self) -> float | None:
        """The contamination, or ``None`` for "auto"."""
        value = self.contamination
        if isinstance(value, str) and value == "auto":
            return None
        if isinstance(value, Real) and 0 < value <= 0.5:
            return float(value)
        raise ValueError(f'contamination: expected "auto" or a number in (0, 0.5], got {value!r}')


def offset_on_training_rows(scores: NDArray[np.float64], share: float) -> float:
    """The highest of the scores below which at most this share of them lie."""
    refused = int(share * len(scores))
    # The quotient has no rounding that matters, the product has.
    if (refused + 1) / len(scores) <= share:
        refused += 1
    return float(np.sort(scores)[refused])


def _with_direction(rows: Floats, logits: Floats | None) -> tuple[Floats, Floats | None]:
    """The rows that are not all zeros; without a copy where all are such."""
    found = np.logical_or.reduce(rows, axis=1)
    if found.all():
        return rows, logits
    if found.sum() < 2:
        raise ValueError(f"X: expected at least 2 rows that are not all zeros, got {found.sum()}")
    return rows[found], None if logits is None else logits[found]


def _share_to_hold_out(rows: int) -> float:
    return max(HELD_OUT_SHARE, HELD_OUT_ROWS / rows) if rows >= FEWEST_ROWS else 0.0
