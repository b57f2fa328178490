"""Every method of offspan as a scikit-learn outlier detector."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

import offspan
from offspan._internal import CONFIDENCE, KEEP

from ._inputs import Floats, check_logits, check_rows, seed_from
from .detector import LOWEST_SCORE, offset_on_training_rows

# `auto` sets rows aside to decide with, and has a least number of rows for that.
FEWEST_ROWS_FOR_AUTO = 40


class OODDetector(OutlierMixin, BaseEstimator):
    """Out-of-distribution detection by any method of offspan.

    Scores are those of :func:`offspan.make` with the same method and options; higher is more in-distribution. Rows of
    zeros, which have no direction, are left out of the fit with a warning (with the option ``cosine=False`` they are
    rows like any other).

    Parameters
    ----------
    method : str
        As in :func:`offspan.methods`: ``"auto"``, ``"knn"``, ``"mahalanobis"``, ``"vim"``, ``"knn+react"``, … With
        fewer than 40 rows ``"auto"`` has none to decide with: it warns, and kernel PCA is fitted with its defaults.
    keep, confidence : float
        The threshold keeps at least the share ``keep`` of in-distribution rows; which rows it is set with is chance,
        so that is true in at least the share ``confidence`` of all cases.
    hold_out : float, optional
        Share of the rows to keep out of the fit and set the threshold with. By default 5 %, or more of few rows.
        Where there are too few for the promise (0.95 with 0.95 takes 59), or with 0, ``offset_`` is set on the rows of
        the fit, with a warning: they score better than new ones do.
    head : (weight, bias), torch.nn.Linear or path, optional
        The network's last layer, for methods that use it.
    options : dict, optional
        The method's parameters, as :func:`offspan.make` takes them: ``{"neighbours": 10}``.
    random_state : int, RandomState instance or None
        An integer is offspan's seed: the same one gives the same detector, with any number of threads.

    Attributes
    ----------
    detector_ : offspan.Detector
        The fitted detector; ``detector_.save(path)`` shares it with the command line.
    method_ : str
        The method that was fitted.
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this: the detector's threshold, where it has one.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if the training rows had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from offspan.sklearn import OODDetector
    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=(800, 4)) @ rng.normal(size=(4, 32))
    >>> strange = rng.normal(size=(5, 32))
    >>> detector = OODDetector("knn", options={"neighbours": 5}).fit(known)
    >>> detector.predict(strange)
    array([-1, -1, -1, -1, -1])
    >>> bool((detector.p_values(strange) < 0.05).all())
    True
    """

    detector_: offspan.Detector
    method_: str
    offset_: float

    def __init__(
        self,
        method: str = "auto",
        *,
        keep: float = KEEP,
        confidence: float = CONFIDENCE,
        hold_out: float | None = None,
        head: Any = None,
        options: Mapping[str, Any] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.keep = keep
        self.confidence = confidence
        self.hold_out = hold_out
        self.head = head
        self.options = options
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        logits: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        calibrate: ArrayLike | None = None,
    ) -> OODDetector:
        """Fits the detector to in-distribution rows.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : ignored
            scikit-learn's outlier detectors get 1 and -1 here, which are no classes: see ``labels``.
        logits : array of shape (rows, classes), optional
            The network's outputs for the same rows, for methods that use them.
        labels : array of shape (rows,), optional
            The class of each row as a whole number, for methods that use it.
        calibrate : array of shape (other rows, features), optional
            Other in-distribution rows to set the threshold with. For methods that score by logits use
            ``detector_.calibrated``.
        """
        rows = check_rows(self, X, ensure_min_samples=2, ensure_min_features=2)
        known = None if logits is None else check_logits(logits, rows)
        if labels is not None:
            check_consistent_length(rows, labels)
        others = None if calibrate is None else check_rows(self, calibrate, reset=False)
        classes = None if labels is None else np.asarray(labels)
        rows, known, classes = self._with_something(rows, known, classes)
        method = self._method(len(rows))
        method.fit(
            rows,
            known,
            classes,
            hold_out=self.hold_out,
            keep=self.keep,
            confidence=self.confidence,
            calibrate=others,
        )
        if method.threshold is None:
            warnings.warn(
                "the detector has no threshold: offset_ is set on training rows, which score better than new ones do",
                UserWarning,
                stacklevel=2,
            )
            # 1 - 0.9 is less than 0.1.
            share = round(1 - self.keep, 12)
            offset = offset_on_training_rows(method.score(rows, known), share)
        else:
            offset = method.threshold
        self.detector_ = method.detector
        self.method_ = method.detector.method
        self.offset_ = offset
        return self

    def score_samples(self, X: ArrayLike, logits: ArrayLike | None = None) -> NDArray[np.float64]:
        """The score of each row; higher is more in-distribution.

        A row that cannot be scored, such as one of zeros by a method that needs its direction, gets the lowest float64
        in place of −∞, which scikit-learn's metrics refuse.
        """
        check_is_fitted(self, "offset_")
        rows = check_rows(self, X, reset=False)
        scores = self.detector_.score(rows, self._logits(logits, rows))
        lifted: NDArray[np.float64] = np.maximum(scores, LOWEST_SCORE)
        return lifted

    def decision_function(self, X: ArrayLike, logits: ArrayLike | None = None) -> NDArray[np.float64]:
        """Scores shifted by ``offset_``: negative for outliers."""
        return self.score_samples(X, logits) - self.offset_

    def predict(self, X: ArrayLike, logits: ArrayLike | None = None) -> NDArray[np.int64]:
        """1 for in-distribution rows, -1 for outliers."""
        return np.where(self.decision_function(X, logits) >= 0, 1, -1)

    def p_values(self, X: ArrayLike, logits: ArrayLike | None = None) -> NDArray[np.float64]:
        """How unusual each row is: an in-distribution row has one of at most u with a chance of at most u."""
        scores = self.score_samples(X, logits)
        return self.detector_.p_values_of(scores)

    def _with_something(self, rows: Floats, *belonging: Any) -> tuple[Any, ...]:
        """Rows that are not all zeros, with what belongs to them; without a copy where all are such."""
        found = np.logical_or.reduce(rows, axis=1)
        if found.all() or (self.options or {}).get("cosine") is False:
            return rows, *belonging
        if found.sum() < 2:
            raise ValueError(f"X: expected at least 2 rows that are not all zeros, got {found.sum()}")
        warnings.warn(
            f"{len(rows) - found.sum()} of {len(rows)} rows are all zeros and left out of the fit",
            UserWarning,
            stacklevel=3,
        )
        return rows[found], *(None if each is None else each[found] for each in belonging)

    @staticmethod
    def _logits(logits: ArrayLike | None, rows: Floats) -> Floats | None:
        return None if logits is None else check_logits(logits, rows)

    def _method(self, rows: int) -> offspan.Method:
        """The method to fit to this many rows."""
        options = dict(self.options or {})
        if "seed" in options:
            raise ValueError("options: expected no seed, which random_state gives, got one")
        options["seed"] = seed_from(self.random_state)
        if self.method == "auto" and rows < FEWEST_ROWS_FOR_AUTO:
            offspan.make(self.method, head=self.head, **options)  # Bad options are bad with few rows, too.
            warnings.warn(
                f"auto takes at least {FEWEST_ROWS_FOR_AUTO} rows to decide with, got {rows}: kernel PCA is fitted "
                "with its defaults instead",
                UserWarning,
                stacklevel=3,
            )
            return offspan.KPCA(seed=options["seed"])
        return offspan.make(self.method, head=self.head, **options)
