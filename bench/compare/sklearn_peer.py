"""scikit-learn's Nystroem or RBFSampler, then the residual of its PCA, on float32 rows.

The transformers are fitted on a few rows and then given matrices of the detector's shape: their own fit at full size takes
minutes and would not change what a transform costs.
"""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.preprocessing import normalize

from .formula import Array, Scorer, StandIn


def scorer(weights: StandIn) -> Scorer:
    fitted, few = weights.fitted, 8
    draw = np.random.default_rng(0)
    rows = draw.random((few, fitted.width), dtype=np.float32)
    phi: Nystroem | RBFSampler
    if fitted.map == "nystrom":
        phi = Nystroem(kernel="rbf", gamma=weights.gamma, n_components=few).fit(rows)
        phi.components_ = weights.landmarks.astype(np.float32)
        phi.normalization_ = weights.whitening.astype(np.float32)
    else:
        phi = RBFSampler(gamma=weights.gamma, n_components=few).fit(rows)
        phi.random_weights_ = weights.omega.astype(np.float32)
        phi.random_offset_ = weights.offset.astype(np.float32)
    phi.set_params(n_components=fitted.dimensions)
    pca = PCA(n_components=2).fit(draw.random((few, fitted.dimensions), dtype=np.float32))
    pca.components_ = np.ascontiguousarray(weights.basis.T, dtype=np.float32)
    pca.mean_ = weights.mean.astype(np.float32)

    def score(rows: Array) -> Array:
        mapped = phi.transform(normalize(rows))
        return -np.linalg.norm(mapped - pca.inverse_transform(pca.transform(mapped)), axis=1)

    return score
