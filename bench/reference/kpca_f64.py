"""Kernel PCA for out-of-distribution detection: a plain float64 reference.

Every function states the formula it computes and computes it the obvious way; speed comes second. The only concession to size is
that training rows are visited in blocks, so memory stays O(M^2 + block * M) for M map features (exact KPCA is O(N^2) by nature).
Needs Python 3.11, numpy and safetensors, nothing else.

Conventions, used everywhere:

* A score is higher for rows that look more in-distribution (InD); a residual ``e`` is lower for them.
* Inputs are widened to float64 before any arithmetic. Nothing is rounded on the way.
* ``unit(z) = z / ||z||`` without an epsilon; a zero row has no direction and is an error here.
* Covariances divide by N. Percentiles interpolate linearly (type 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Array = NDArray[np.float64]

T = TypeVar("T")

BLOCK = 4096
EIGEN_FLOOR = 1e-12


def required(value: T | None, what: str) -> T:
    """The value, or an error that names what is missing."""
    if value is None:
        raise ValueError(f"{what} is missing")
    return value


# --------------------------------------------------------------------------------------------------------------------------------------
# Data


@dataclass(frozen=True)
class Split:
    """One set of rows: features [n, m] and, where stored, logits [n, C]."""

    features: Array
    logits: Array | None = None


@dataclass(frozen=True)
class Head:
    """The last layer: logits = z W^T + b."""

    weight: Array
    bias: Array


@dataclass(frozen=True)
class Rff:
    """Given random Fourier draws: omega [M, m] and u [M]."""

    omega: Array
    u: Array


def load_split(path: Path) -> Split:
    """Read ``features`` and, where present, ``logits``; widen both to float64."""
    tensors = load_file(path)
    logits = tensors.get("logits")
    return Split(tensors["features"].astype(np.float64), None if logits is None else logits.astype(np.float64))


def load_head(path: Path) -> Head:
    tensors = load_file(path)
    return Head(tensors["weight"].astype(np.float64), tensors["bias"].astype(np.float64))


def load_rff(path: Path) -> Rff:
    tensors = load_file(path)
    return Rff(tensors["omega"].astype(np.float64), tensors["u"].astype(np.float64))


def blocks(n: int, size: int = BLOCK) -> Iterator[slice]:
    """Cover 0..n with slices of at most ``size`` rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


# --------------------------------------------------------------------------------------------------------------------------------------
# Rows before the kernel


def unit(z: Array) -> Array:
    """z / ||z||, row by row."""
    norms = np.sqrt(np.sum(z * z, axis=1, keepdims=True))
    if np.any(norms == 0.0):
        raise ValueError(f"{int(np.sum(norms == 0.0))} zero row(s): a zero vector has no direction")
    return z / norms


def energy(logits: Array) -> Array:
    """E = log sum_c exp(l_c), with the maximum subtracted first."""
    top = logits.max(axis=1)
    return top + np.log(np.sum(np.exp(logits - top[:, None]), axis=1))


def clip_at_percentile(z: Array, percentile: float) -> float:
    """The ReAct threshold c: the percentile (type 7) over all entries of the training features, one global number."""
    return float(np.percentile(z, percentile, method="linear"))


# --------------------------------------------------------------------------------------------------------------------------------------
# Kernels


def squared_distances(a: Array, b: Array) -> Array:
    """||a_i - b_j||^2 = ||a_i||^2 + ||b_j||^2 - 2 a_i.b_j, never under 0."""
    d = np.sum(a * a, axis=1)[:, None] + np.sum(b * b, axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.maximum(d, 0.0)


def l1_distances(a: Array, b: Array, block: int = 128) -> Array:
    """||a_i - b_j||_1, one column at a time over blocks of rows small enough for the cache."""
    out = np.empty((len(a), len(b)))
    for rows in blocks(len(a), block):
        part = a[rows]
        buffer = np.empty_like(part)
        for j, row in enumerate(b):
            np.subtract(part, row, out=buffer)
            np.abs(buffer, out=buffer)
            np.sum(buffer, axis=1, out=out[rows, j])
    return out


@dataclass(frozen=True)
class Kernel:
    """k(a, b):

    linear      a.b
    gaussian    exp(-gamma ||a - b||^2)
    laplacian   exp(-gamma ||a - b||_1)
    polynomial  (a.b + coef0)^degree
    """

    name: str
    gamma: float | None = None
    degree: int | None = None
    coef0: float | None = None

    def __call__(self, a: Array, b: Array) -> Array:
        """The matrix k(a_i, b_j)."""
        if self.name == "linear":
            return a @ b.T
        if self.name == "gaussian":
            return np.exp(-required(self.gamma, "gamma") * squared_distances(a, b))
        if self.name == "laplacian":
            return np.exp(-required(self.gamma, "gamma") * l1_distances(a, b))
        if self.name == "polynomial":
            return self.power(a @ b.T)
        raise ValueError(f"unknown kernel {self.name!r}")

    def diagonal(self, a: Array) -> Array:
        """The vector k(a_i, a_i)."""
        if self.name in ("gaussian", "laplacian"):
            return np.ones(len(a))
        squared_norms = np.sum(a * a, axis=1)
        return squared_norms if self.name == "linear" else self.power(squared_norms)

    def power(self, products: Array) -> Array:
        return (products + required(self.coef0, "coef0")) ** required(self.degree, "degree")


# --------------------------------------------------------------------------------------------------------------------------------------
# Feature maps


class FeatureMap(Protocol):
    def __call__(self, x: Array) -> Array: ...


@dataclass(frozen=True)
class IdentityMap:
    """Phi(x) = x."""

    def __call__(self, x: Array) -> Array:
        return x


@dataclass(frozen=True)
class RffMap:
    """Phi(x) = sqrt(2 / M) cos(omega x + u)."""

    rff: Rff

    def __call__(self, x: Array) -> Array:
        return np.sqrt(2.0 / len(self.rff.u)) * np.cos(x @ self.rff.omega.T + self.rff.u)


@dataclass(frozen=True)
class NystromMap:
    """Phi(x) = L^(-1/2) U^T k(x, landmarks), where k(landmarks, landmarks) = U L U^T.

    Eigenvalues at or under 1e-12 of the largest are dropped, not clamped: ``spectrum`` has all of them (descending),
    ``whitening`` [M, kept] holds U L^(-1/2) for those that stay.
    """

    kernel: Kernel
    landmarks: Array
    spectrum: Array
    whitening: Array

    @property
    def kept(self) -> int:
        return self.whitening.shape[1]

    def __call__(self, x: Array) -> Array:
        return self.kernel(x, self.landmarks) @ self.whitening


def fit_nystrom(kernel: Kernel, landmarks: Array, floor: float = EIGEN_FLOOR) -> NystromMap:
    k = kernel(landmarks, landmarks)
    values, vectors = np.linalg.eigh((k + k.T) / 2.0)
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = values > floor * values[0]
    return NystromMap(kernel, landmarks, values, vectors[:, keep] / np.sqrt(values[keep]))


def choose_landmarks(sampling: str, count: int, energies: Array | None, rows: int) -> NDArray[np.intp]:
    """Row indices of the landmarks: the ``count`` smallest or largest energies (ties: the earlier row), or the first rows."""
    if count > rows:
        raise ValueError(f"{count} landmarks asked of {rows} training rows")
    if sampling == "first":
        return np.arange(count)
    energies = required(energies, "an energy to sample by: training logits (or the head, with clipping)")
    if sampling == "low-energy":
        return np.argsort(energies, kind="stable")[:count]
    if sampling == "high-energy":
        return np.argsort(-energies, kind="stable")[:count]
    raise ValueError(f"unknown sampling {sampling!r}")


# --------------------------------------------------------------------------------------------------------------------------------------
# Moments and subspace


def moments(x: Array, phi: FeatureMap, block: int = BLOCK) -> tuple[Array, Array]:
    """Mean and covariance (divided by N) of Phi over all rows of x, block by block.

    Two summaries (n, mean, M2) merge as  delta = mean_b - mean_a,
    mean = mean_a + delta n_b / n,  M2 = M2_a + M2_b + delta delta^T n_a n_b / n.
    """
    n, mean, m2 = 0, np.zeros(0), np.zeros((0, 0))
    for rows in blocks(len(x), block):
        f = phi(x[rows])
        f_mean = f.mean(axis=0)
        f = f - f_mean
        f_m2 = f.T @ f
        if n == 0:
            n, mean, m2 = len(f), f_mean, f_m2
            continue
        total = n + len(f)
        delta = f_mean - mean
        m2 += f_m2 + np.outer(delta, delta) * (n * len(f) / total)
        mean = mean + delta * (len(f) / total)
        n = total
    return mean, m2 / n


def choose_q(eigenvalues: Array, ratio: float | None, q: int | None) -> int:
    """A fixed q, or the smallest q with sum(lambda_1..q) / sum(lambda) >= ratio. Eigenvalues descend and are not negative."""
    if (ratio is None) == (q is None):
        raise ValueError("give either a ratio or q")
    if q is not None:
        if not 0 < q <= len(eigenvalues):
            raise ValueError(f"q = {q} is not in 1..{len(eigenvalues)}")
        return q
    share = np.cumsum(eigenvalues) / np.sum(eigenvalues)
    return min(int(np.sum(share < required(ratio, "ratio"))) + 1, len(eigenvalues))


def descending_eigh(symmetric: Array) -> tuple[Array, Array]:
    """Eigenpairs, largest first; negative eigenvalues (rounding of a semidefinite matrix) become 0."""
    values, vectors = np.linalg.eigh(symmetric)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


@dataclass(frozen=True)
class Subspace:
    """Mean, all eigenvalues of the covariance (descending), and the q leading eigenvectors as columns."""

    mean: Array
    eigenvalues: Array
    basis: Array


def fit_subspace(x: Array, phi: FeatureMap, ratio: float | None, q: int | None) -> Subspace:
    mean, covariance = moments(x, phi)
    values, vectors = descending_eigh(covariance)
    return Subspace(mean, values, vectors[:, : choose_q(values, ratio, q)])


def plain_squared(subspace: Subspace, f: Array) -> Array:
    """||(I - U_q U_q^T)(Phi - mu)||^2 for mapped rows f."""
    d = f - subspace.mean
    d = d - (d @ subspace.basis) @ subspace.basis.T
    return np.sum(d * d, axis=1)


# --------------------------------------------------------------------------------------------------------------------------------------
# Models: each gives a residual e >= 0 per row


class Model(Protocol):
    @property
    def eigenvalues(self) -> Array: ...

    @property
    def q(self) -> int: ...

    def residual(self, x: Array, kind: str | None) -> Array: ...


@dataclass(frozen=True)
class MappedKpca:
    """KPCA through an explicit map.

    plain     e   = ||(I - U_q U_q^T)(Phi - mu)||
    complete  e^2 = max(k(x, x) - ||Phi||^2, 0) + plain^2     (Nystrom only: what the landmarks cannot represent counts too)
    """

    phi: FeatureMap
    subspace: Subspace

    @property
    def eigenvalues(self) -> Array:
        return self.subspace.eigenvalues

    @property
    def q(self) -> int:
        return self.subspace.basis.shape[1]

    def residual(self, x: Array, kind: str | None) -> Array:
        f = self.phi(x)
        e2 = plain_squared(self.subspace, f)
        if kind == "complete":
            if not isinstance(self.phi, NystromMap):
                raise ValueError("the complete residual is defined for the Nystrom map")
            e2 = e2 + np.maximum(self.phi.kernel.diagonal(x) - np.sum(f * f, axis=1), 0.0)
        elif kind != "plain":
            raise ValueError(f"unknown residual {kind!r}")
        return np.sqrt(e2)


@dataclass(frozen=True)
class ExactKpca:
    """KPCA from the full centred kernel matrix of the training rows.

    K_c = K - row means - column means + mean = U Lambda U^T;  for a row x with k_x = [k(x, x_j)]:
    kc  = k_x - mean(k_x) - column means of K + mean(K);  t_i = u_i^T kc / sqrt(lambda_i);
    e^2 = k(x, x) - 2 mean(k_x) + mean(K) - sum_{i<=q} t_i^2, not under 0.
    """

    kernel: Kernel
    train: Array
    column_means: Array
    eigenvalues: Array
    basis: Array

    @property
    def q(self) -> int:
        return self.basis.shape[1]

    def residual(self, x: Array, kind: str | None = None) -> Array:
        k = self.kernel(x, self.train)
        row_means = k.mean(axis=1)
        grand_mean = self.column_means.mean()
        kc = k - row_means[:, None] - self.column_means + grand_mean
        t = (kc @ self.basis) / np.sqrt(self.eigenvalues[: self.q])
        e2 = self.kernel.diagonal(x) - 2.0 * row_means + grand_mean - np.sum(t * t, axis=1)
        return np.sqrt(np.maximum(e2, 0.0))


def fit_exact(kernel: Kernel, x: Array, ratio: float | None, q: int | None) -> ExactKpca:
    k = kernel(x, x)
    k = (k + k.T) / 2.0
    means = k.mean(axis=0)
    values, vectors = descending_eigh(k - means[:, None] - means[None, :] + means.mean())
    return ExactKpca(kernel, x, means, values, vectors[:, : choose_q(values, ratio, q)])


@dataclass(frozen=True)
class ExactProp2:
    """The form printed in the paper's Proposition 2: e = ||U_p^T k_x||, K = U Lambda U^T uncentred, U_p = all but the q leading
    eigenvectors; computed as ||k_x - U_q U_q^T k_x||. No centring, no 1 / sqrt(lambda)."""

    kernel: Kernel
    train: Array
    eigenvalues: Array
    basis: Array

    @property
    def q(self) -> int:
        return self.basis.shape[1]

    def residual(self, x: Array, kind: str | None = None) -> Array:
        k = self.kernel(x, self.train)
        r = k - (k @ self.basis) @ self.basis.T
        return np.sqrt(np.sum(r * r, axis=1))


def fit_prop2(kernel: Kernel, x: Array, ratio: float | None, q: int | None) -> ExactProp2:
    k = kernel(x, x)
    values, vectors = descending_eigh((k + k.T) / 2.0)
    return ExactProp2(kernel, x, values, vectors[:, : choose_q(values, ratio, q)])


# --------------------------------------------------------------------------------------------------------------------------------------
# From a setting to scores


@dataclass(frozen=True)
class Setting:
    """One way to detect: everything that a fit and a score depend on.

    map       identity | rff | nystrom | exact | exact-prop2
    landmarks, sampling   Nystrom only: count, and low-energy | high-energy | first
    ratio, q  exactly one of them
    residual  plain | complete; None for the exact maps, which have one residual each
    react_value, react_percentile   clip the features at c, or at a percentile of the training features; at most one of them
    fuse      None: score -e;  "ratio": E / e;  "product": (1 - e) E
    """

    map: str
    kernel: str = "linear"
    cosine: bool = True
    gamma: float | None = None
    degree: int | None = None
    coef0: float | None = None
    landmarks: int | None = None
    sampling: str | None = None
    ratio: float | None = None
    q: int | None = None
    residual: str | None = "plain"
    react_value: float | None = None
    react_percentile: float | None = None
    fuse: str | None = None

    def make_kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma, self.degree, self.coef0)


@dataclass(frozen=True)
class Detector:
    """A fitted setting. ``clip`` is the ReAct threshold in use; ``train_energies`` are those the landmarks were chosen by, and
    ``landmark_rows`` the training rows that were chosen (Nystrom only)."""

    setting: Setting
    model: Model
    head: Head | None
    clip: float | None
    train_energies: Array | None
    landmark_rows: NDArray[np.intp] | None = None

    @property
    def nystrom(self) -> NystromMap | None:
        """The Nystrom map, if that is what the detector stands on."""
        phi = self.model.phi if isinstance(self.model, MappedKpca) else None
        return phi if isinstance(phi, NystromMap) else None

    def residual(self, features: Array, kind: str | None = None) -> Array:
        """e for raw features, in blocks; ``kind`` overrides the setting's residual."""
        parts = [
            self.model.residual(prepare(features[rows], self.clip, self.setting.cosine), kind or self.setting.residual)
            for rows in blocks(len(features))
        ]
        return np.concatenate(parts)

    def score(self, split: Split) -> Array:
        """Higher = more in-distribution."""
        return fuse(self.setting.fuse, self.residual(split.features), split, self.clip, self.head)


def prepare(z: Array, clip: float | None, cosine: bool) -> Array:
    """Clip first (min(z, c)), then the cosine map."""
    z = z if clip is None else np.minimum(z, clip)
    return unit(z) if cosine else z


def split_energy(split: Split, clip: float | None, head: Head | None) -> Array | None:
    """Unclipped: E of the stored logits. Clipped: E of W min(z, c) + b."""
    if clip is None:
        return None if split.logits is None else energy(split.logits)
    if head is None:
        return None
    return energy(np.minimum(split.features, clip) @ head.weight.T + head.bias)


def fuse(kind: str | None, e: Array, split: Split, clip: float | None, head: Head | None) -> Array:
    """-e, E / e, or (1 - e) E."""
    if kind is None:
        return -e
    energies = required(split_energy(split, clip, head), "an energy to fuse with: stored logits (or the head, with clipping)")
    if kind == "ratio":
        return energies / e
    if kind == "product":
        return (1.0 - e) * energies
    raise ValueError(f"unknown fusion {kind!r}")


def fit(setting: Setting, train: Split, head: Head | None = None, rff: Rff | None = None, kernel: Kernel | None = None) -> Detector:
    """Fit a setting on training rows. ``kernel`` replaces the setting's own (to study rounding)."""
    clip = setting.react_value
    if setting.react_percentile is not None:
        clip = clip_at_percentile(train.features, setting.react_percentile)
    x = prepare(train.features, clip, setting.cosine)
    kernel = kernel or setting.make_kernel()
    energies = split_energy(train, clip, head)

    model: Model
    landmark_rows = None
    if setting.map == "exact":
        model = fit_exact(kernel, x, setting.ratio, setting.q)
    elif setting.map == "exact-prop2":
        model = fit_prop2(kernel, x, setting.ratio, setting.q)
    else:
        phi: FeatureMap
        if setting.map == "identity":
            phi = IdentityMap()
        elif setting.map == "rff":
            phi = RffMap(required(rff, "rff draws"))
        elif setting.map == "nystrom":
            sampling, count = required(setting.sampling, "sampling"), required(setting.landmarks, "landmarks")
            landmark_rows = choose_landmarks(sampling, count, energies, len(x))
            phi = fit_nystrom(kernel, x[landmark_rows])
        else:
            raise ValueError(f"unknown map {setting.map!r}")
        model = MappedKpca(phi, fit_subspace(x, phi, setting.ratio, setting.q))
    return Detector(setting, model, head, clip, energies, landmark_rows)


# --------------------------------------------------------------------------------------------------------------------------------------
# Metrics: InD is the positive class


def fpr95(ind: Array, ood: Array) -> float:
    """t = sort(InD)[floor(0.05 n)]; the share of OoD with score >= t."""
    threshold = np.sort(ind)[int(np.floor(0.05 * len(ind)))]
    return float(np.mean(ood >= threshold))


def midranks(values: Array) -> Array:
    """Ranks 1..n in ascending order; tied values share the mean of their ranks."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return (below + up_to + 1) / 2.0


def auroc(ind: Array, ood: Array) -> float:
    """(sum of the midranks of InD in the pooled scores - n (n + 1) / 2) / (n m)."""
    if not (np.all(np.isfinite(ind)) and np.all(np.isfinite(ood))):
        raise ValueError("scores are not finite")
    n, m = len(ind), len(ood)
    rank_sum = np.sum(midranks(np.concatenate([ind, ood]))[:n])
    return float((rank_sum - n * (n + 1) / 2.0) / (n * m))
