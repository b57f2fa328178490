"""Out-of-distribution detection on embeddings, where there is no classifier: recipes to copy from.

What they are for, and what they found, is in docs/embeddings.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import offspan


class RDE:
    """Robust density estimation (Yoo et al. 2022), with the parameters of lm-polygraph.

    Kernel PCA to 100 coordinates by an RBF kernel of width 1/m, then the Mahalanobis distance by a covariance that
    outliers do not move (minimum covariance determinant). It needs scikit-learn, and time that grows with the square of
    the rows: ``rows`` of them are enough.
    """

    name = "rde"

    def __init__(self, components: int = 100, rows: int = 5000, seed: int = 42) -> None:
        self.components, self.rows, self.seed = components, rows, seed

    def fit(self, features: np.ndarray) -> RDE:
        """Learn from the embeddings of in-distribution texts."""
        from sklearn.covariance import MinCovDet
        from sklearn.decomposition import KernelPCA

        draw = np.random.default_rng(self.seed)
        chosen = draw.choice(len(features), min(self.rows, len(features)), replace=False)
        few = np.asarray(features[np.sort(chosen)], dtype=np.float64)
        self.projection = KernelPCA(n_components=self.components, kernel="rbf", random_state=self.seed)
        self.density = MinCovDet(random_state=self.seed).fit(self.projection.fit_transform(few))
        return self

    def score(self, features: np.ndarray) -> np.ndarray:
        """The negated squared distance: higher is more in-distribution."""
        return -self.density.mahalanobis(self.projection.transform(np.asarray(features, dtype=np.float64)))


def mean_pooled(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """One embedding per text: the mean of its tokens' hidden states [texts, tokens, width]; padding does not count."""
    weights = np.asarray(mask, dtype=states.dtype)[..., None]
    return (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)


class TokenLevel:
    """A detector of tokens, and the score of a text from those of its tokens.

    ``share`` of the least usual tokens are averaged: 1 is the mean of all, 0 the least usual one alone.
    """

    def __init__(self, method: str = "kpca-nys", share: float = 0.0, **options: Any) -> None:
        self.method = offspan.make(method, **options)
        self.share = share

    def fit(self, states: np.ndarray, mask: np.ndarray) -> TokenLevel:
        """Learn from the tokens of in-distribution texts."""
        self.method.fit(states[np.asarray(mask, dtype=bool)], hold_out=0)
        return self

    def score(self, states: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """One score per text."""
        mask = np.asarray(mask, dtype=bool)
        tokens = np.full(mask.shape, np.inf)
        tokens[mask] = self.method.score(states[mask])
        tokens.sort(axis=1)  # The least usual first, padding last.
        lengths = mask.sum(axis=1)
        taken = np.maximum(1, np.ceil(self.share * lengths)).astype(int)
        return np.array([row[:count].mean() for row, count in zip(tokens, taken)])
