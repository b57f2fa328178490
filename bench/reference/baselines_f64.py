"""The methods beside kernel PCA: a plain float64 reference.

    python baselines_f64.py [ORACLE_DIR]

Each method is one function ``method(train, head, **parameters)`` that fits and returns a function from rows to scores (higher = more
in-distribution). Rows and the head are dicts of float64 arrays (``features``, ``logits``, ``labels``, ... / ``weight``, ``bias``, ...).
Run as a script, the file recomputes every baseline golden of an oracle folder (../shared/oracle beside the project if none is named)
and prints max |score - golden| / max |golden| over the sets. Exit status: 0 if all are within the tolerance, 1 if not, 2 if there is
nothing to check or a golden is unknown.

Conventions, beside those of kpca_f64:

* z is a row of features, l its stored logits; where z or W changes, logits are W' z' + b. E(l) = lse(l) = log sum exp l.
* Standard deviations divide by N. Of equal entries the first counts as the larger.
* pinv of a symmetric matrix leaves out eigenvalues at or under (its width) * 2^-52 * the largest.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from kpca_f64 import Array, blocks, choose_q, descending_eigh, energy, squared_distances, unit

Tensors = dict[str, Array]
Scorer = Callable[[Tensors], Array]

TOLERANCE, CG_TOLERANCE = 1e-7, 1e-16
ORACLE = Path(__file__).resolve().parents[3] / "shared" / "oracle"


def load_tensors(path: Path) -> Tensors:
    """Every tensor of a file: floats widened to float64, labels as they are."""
    return {name: x.astype(np.float64) if x.dtype.kind == "f" else x for name, x in load_file(path).items()}


# --------------------------------------------------------------------------------------------------------------------------------------
# Parts


def softmax(logits: Array) -> Array:
    """exp(l_c) / sum exp(l)."""
    return np.exp(logits - energy(logits)[:, None])


def percentile(x: Array, percent: float, axis: int | None = None) -> Array:
    """Linear between order statistics at percent / 100 * (n - 1) (type 7)."""
    return np.percentile(x, percent, axis=axis, method="linear")


def class_means(x: Array, labels: Array, classes: int) -> Array:
    """One row per class: the mean of the rows with that label."""
    return np.stack([x[labels == c].mean(axis=0) for c in range(classes)])


def symmetric_pinv(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    kept = values > len(matrix) * 2.0**-52 * np.max(np.abs(values))
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T


def squared_form(x: Array, matrix: Array) -> Array:
    """x^T A x, row by row."""
    return np.sum((x @ matrix) * x, axis=1)


def head_energy(z: Array, head: Tensors, weight: Array | None = None) -> Array:
    """lse(W z + b)."""
    return energy(z @ (head["weight"] if weight is None else weight).T + head["bias"])


def without_leading_part(x: Array) -> Array:
    """X - s_1 u_1 v_1^T for each matrix of a stack."""
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    return x - s[..., :1, None] * u[..., :, :1] * vt[..., :1, :]


# --------------------------------------------------------------------------------------------------------------------------------------
# Logits and last-layer gradients


def msp(train: Tensors, head: Tensors) -> Scorer:
    """max_c softmax(l)_c"""
    return lambda rows: softmax(rows["logits"]).max(axis=1)


def maxlogit(train: Tensors, head: Tensors) -> Scorer:
    """max_c l_c"""
    return lambda rows: rows["logits"].max(axis=1)


def energy_score(train: Tensors, head: Tensors, T: float) -> Scorer:
    """T lse(l / T)"""
    return lambda rows: T * energy(rows["logits"] / T)


def odin_eps0(train: Tensors, head: Tensors, T: float) -> Scorer:
    """max_c softmax(l / T)_c: the input is not perturbed."""
    return lambda rows: softmax(rows["logits"] / T).max(axis=1)


def gen(train: Tensors, head: Tensors, gamma: float, M: float) -> Scorer:
    """-sum over the M largest p of p^gamma (1 - p)^gamma; 1 - p of the largest is the sum of the others"""

    def score(rows: Tensors) -> Array:
        p = np.sort(softmax(rows["logits"]), axis=1)
        rest = 1.0 - p
        rest[:, -1] = np.sum(p[:, :-1], axis=1)
        return -np.sum((p * rest)[:, -min(int(M), p.shape[1]) :] ** gamma, axis=1)

    return score


def entropy(train: Tensors, head: Tensors) -> Scorer:
    """sum p log p, log p = l - lse(l)"""

    def score(rows: Tensors) -> Array:
        log_p = rows["logits"] - energy(rows["logits"])[:, None]
        return np.sum(np.exp(log_p) * log_p, axis=1)

    return score


def renyi(train: Tensors, head: Tensors, gamma: float) -> Scorer:
    """-log sum p^gamma / (1 - gamma)"""
    return lambda rows: -energy(gamma * (rows["logits"] - energy(rows["logits"])[:, None])) / (1.0 - gamma)


def logit_gap(train: Tensors, head: Tensors, N: int) -> Scorer:
    """The largest logit minus the mean of the next min(N, C - 2)"""

    def score(rows: Tensors) -> Array:
        l = -np.sort(-rows["logits"], axis=1)
        return l[:, 0] - l[:, 1 : 1 + min(int(N), l.shape[1] - 2)].mean(axis=1)

    return score


def joint_energy(train: Tensors, head: Tensors) -> Scorer:
    """sum_c log(1 + exp l_c)"""
    return lambda rows: np.sum(np.logaddexp(0.0, rows["logits"]), axis=1)


def klm(train: Tensors, head: Tensors) -> Scorer:
    """-min_k sum_c p_c log(p_c / d_kc), d_k = mean softmax of the training rows with argmax k; classes never predicted are left out."""
    p, predicted = softmax(train["logits"]), train["logits"].argmax(axis=1)
    typical = np.stack([p[predicted == k].mean(axis=0) for k in np.unique(predicted)])

    def score(rows: Tensors) -> Array:
        log_p = rows["logits"] - energy(rows["logits"])[:, None]
        return -np.min(np.sum(np.exp(log_p)[:, None] * (log_p[:, None] - np.log(typical)), axis=2), axis=1)

    return score


def bisect(increasing: Callable[[float], float], low: float, high: float) -> float:
    """The root of an increasing function, until no number is left between the ends."""
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle
        low, high = (middle, high) if increasing(middle) < 0.0 else (low, middle)


def temp_scale(train: Tensors, head: Tensors) -> Scorer:
    """max softmax(b l), b = argmin of mean(lse(b l) - b l_y) over the training rows: the root of its derivative, which increases in b."""
    l = train["logits"]
    right = np.mean(l[np.arange(len(l)), train["labels"]])
    beta = bisect(lambda b: float(np.mean(np.sum(softmax(b * l) * l, axis=1)) - right), 1e-3, 1e3)
    return lambda rows: softmax(beta * rows["logits"]).max(axis=1)


def openmax(train: Tensors, head: Tensors, alpha: int, tail: int) -> Scorer:
    """-1 / (1 + exp(lse(l') - u)); l'_c = l_c (1 - w_c F_c(||l - v_c||)), u = sum (l - l'), w = (alpha + 1 - i) / alpha for the i-th largest
    logit; v_c = mean logits of the rows that are labelled and predicted c, F_c = the Weibull distribution of maximum likelihood of the tail
    largest distances of these rows, shifted so that the smallest is 1."""
    l, y = train["logits"], train["labels"]
    right = l.argmax(axis=1) == y
    centres = class_means(l[right], y[right], l.shape[1])
    fits = []
    for c, centre in enumerate(centres):
        t = np.sort(np.linalg.norm(l[right & (y == c)] - centre, axis=1))[-int(tail) :]
        top = t[-1] - t[0] + 1.0
        x = (t - t[0] + 1.0) / top

        def slope(k: float, x: Array = x) -> float:
            return float(np.sum(x**k * np.log(x)) / np.sum(x**k) - 1.0 / k - np.mean(np.log(x)))

        k = bisect(slope, 1e-3, 1e3)
        fits.append((t[0], k, top * np.mean(x**k) ** (1.0 / k)))
    first, shape, scale = np.array(fits).T

    def score(rows: Tensors) -> Array:
        l = rows["logits"]
        distances = np.linalg.norm(l[:, None] - centres, axis=2)
        below = 1.0 - np.exp(-((np.maximum(distances - first + 1.0, 0.0) / scale) ** shape))
        rank = np.argsort(np.argsort(-l, axis=1, kind="stable"), axis=1, kind="stable")
        lowered = l * (1.0 - np.maximum(alpha - rank, 0.0) / alpha * below)
        return -1.0 / (1.0 + np.exp(energy(lowered) - np.sum(l - lowered, axis=1)))

    return score


def gradnorm(train: Tensors, head: Tensors) -> Scorer:
    """||z||_1 sum_c |C p_c - 1|, p = softmax(l)"""

    def score(rows: Tensors) -> Array:
        p = softmax(rows["logits"])
        return np.sum(np.abs(rows["features"]), axis=1) * np.sum(np.abs(p.shape[1] * p - 1.0), axis=1)

    return score


def gradorth(train: Tensors, head: Tensors, r: float) -> Scorer:
    """||p - 1/C|| ||B^T z||; B spans the leading right singular vectors of the uncentred rows, the fewest with a share >= r of s^2."""
    _, s, vt = np.linalg.svd(train["features"], full_matrices=False)
    b = vt[: choose_q(s**2, r, None)].T

    def score(rows: Tensors) -> Array:
        p = softmax(rows["logits"])
        return np.linalg.norm(p - 1.0 / p.shape[1], axis=1) * np.linalg.norm(rows["features"] @ b, axis=1)

    return score


def lowdim_projection(train: Tensors, head: Tensors) -> Scorer:
    """psi_c = sum (G - g)(g_c - g) / F over the entries of G = p z^T, the gradient of lse(l) by W; g, g_c: means over the training rows
    and those of class c; F: the variance of each entry. Entries with F <= 1e-12 max F are left out. A matrix [n, C], not a score."""
    p, z, labels = softmax(train["logits"]), train["features"], train["labels"]
    classes = p.shape[1]
    g = p.T @ z / len(z)
    variance = sum(np.square(p[rows, :, None] * z[rows, None, :] - g).sum(axis=0) for rows in blocks(len(z), 64)) / len(z)
    scale = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 1e-12 * variance.max())
    toward = [(p[labels == c].T @ z[labels == c] / np.sum(labels == c) - g) * scale for c in range(classes)]

    def project(rows: Tensors) -> Array:
        p, z = softmax(rows["logits"]), rows["features"]
        return np.stack([np.sum((p @ t) * z, axis=1) - np.sum(g * t) for t in toward], axis=1)

    return project


def fit_probe(x: Array, labels: Array, classes: int, ridge: float) -> Array:
    """argmin_B mean cross-entropy(B x_i, y_i) + ridge/2 ||B||^2 by Newton's method; each step by conjugate gradients, halved until the
    objective falls. Ends at max |gradient| < 1e-12 or where rounding allows no further descent."""
    target = np.eye(classes)[labels]
    b = np.zeros((classes, x.shape[1]))

    def objective(b: Array) -> float:
        logits = x @ b.T
        return float(np.mean(energy(logits) - np.sum(logits * target, axis=1)) + 0.5 * ridge * np.sum(b * b))

    for _ in range(100):
        p = softmax(x @ b.T)
        gradient = (p - target).T @ x / len(x) + ridge * b
        if np.max(np.abs(gradient)) < 1e-12:
            break

        def curvature(d: Array, p: Array = p) -> Array:
            pd = p * (x @ d.T)
            return (pd - p * pd.sum(axis=1, keepdims=True)).T @ x / len(x) + ridge * d

        step, residual = np.zeros_like(b), -gradient
        direction, size = residual, float(np.sum(residual * residual))
        start = size
        for _ in range(4 * b.size):
            if size <= CG_TOLERANCE * start:
                break
            bent = curvature(direction)
            along = size / float(np.sum(direction * bent))
            step, residual = step + along * direction, residual - along * bent
            size, before = float(np.sum(residual * residual)), size
            direction = residual + size / before * direction
        length, now = 1.0, objective(b)
        while objective(b + length * step) > now + 1e-14 * abs(now) and length > 1e-6:
            length /= 2.0
        b = b + length * step
    assert np.max(np.abs(gradient)) < 1e-10, np.max(np.abs(gradient))
    return b


def lowdim_probe(train: Tensors, head: Tensors, lam: float) -> Scorer:
    """lse(A x + a), x = the projection standardised by the training rows; (A, a) = the ridge-penalised logistic probe, bias included."""
    project = lowdim_projection(train, head)
    raw = project(train)
    mean, std = raw.mean(axis=0), raw.std(axis=0)

    def inputs(rows: Tensors) -> Array:
        x = (project(rows) - mean) / std
        return np.hstack([x, np.ones((len(x), 1))])

    probe = fit_probe(inputs(train), train["labels"], raw.shape[1], lam)
    return lambda rows: energy(inputs(rows) @ probe.T)


# --------------------------------------------------------------------------------------------------------------------------------------
# Distances and neighbours


def mahalanobis(train: Tensors, head: Tensors, normalise: bool = False) -> Scorer:
    """max_c -(z - mu_c)^T P (z - mu_c); P = pinv of the covariance about the class means."""
    view = unit if normalise else np.asarray
    z, labels = view(train["features"]), train["labels"]
    means = class_means(z, labels, len(head["bias"]))
    centred = z - means[labels]
    precision = symmetric_pinv(centred.T @ centred / len(z))
    return lambda rows: np.max([-squared_form(view(rows["features"]) - mean, precision) for mean in means], axis=0)


def mahalanobis_pp(train: Tensors, head: Tensors) -> Scorer:
    """mahalanobis on z / ||z||"""
    return mahalanobis(train, head, normalise=True)


def ssd(train: Tensors, head: Tensors, on: str = "features") -> Scorer:
    """-x^T P x, x = (unit(z) - mean) / std per channel, P = pinv of X^T X / N; channels with std <= 1e-6 max std are left out."""
    z = unit(train[on])
    mean, std = z.mean(axis=0), z.std(axis=0)
    kept = std > 1e-6 * std.max()

    def standardised(rows: Tensors) -> Array:
        return ((unit(rows[on]) - mean) / np.where(kept, std, 1.0))[:, kept]

    x = standardised(train)
    precision = symmetric_pinv(x.T @ x / len(x))
    return lambda rows: -squared_form(standardised(rows), precision)


def ssd_plus(train: Tensors, head: Tensors) -> Scorer:
    """ssd on the contrastive features"""
    return ssd(train, head, on="supcon")


def knn(train: Tensors, head: Tensors, k: int, on: str = "features") -> Scorer:
    """-(the k-th smallest ||unit(z) - unit(z_i)||^2)"""
    bank = unit(train[on])
    return lambda rows: -np.sort(squared_distances(unit(rows[on]), bank), axis=1)[:, k - 1]


def knn_plus(train: Tensors, head: Tensors, k: int) -> Scorer:
    """knn on the contrastive features"""
    return knn(train, head, k, on="supcon")


def tnn(train: Tensors, head: Tensors, k: int, d: int) -> Scorer:
    """-||(I - T^T T)(unit(z) - c)||; c = mean of the k nearest training unit vectors, T = top-d right singular vectors of these minus c."""
    bank = unit(train["features"])

    def one(x: Array, distances: Array) -> float:
        near = bank[np.argsort(distances, kind="stable")[:k]]
        offset = x - near.mean(axis=0)
        tangents = np.linalg.svd(near - near.mean(axis=0))[2][:d]
        return -float(np.linalg.norm(offset - tangents.T @ (tangents @ offset)))

    def score(rows: Tensors) -> Array:
        x = unit(rows["features"])
        return np.array([one(*pair) for pair in zip(x, squared_distances(x, bank), strict=True)])

    return score


def nnguide(train: Tensors, head: Tensors, k: int) -> Scorer:
    """E(l) times the mean of the k largest <unit(z), E_i unit(z_i)>, over all training rows."""
    bank = energy(train["logits"])[:, None] * unit(train["features"])
    return lambda rows: energy(rows["logits"]) * np.sort(unit(rows["features"]) @ bank.T, axis=1)[:, -k:].mean(axis=1)


def she(train: Tensors, head: Tensors) -> Scorer:
    """<z, mu_yhat>, yhat = argmax l, mu_c = mean of the training rows with label c and argmax c."""
    right = train["logits"].argmax(axis=1) == train["labels"]
    patterns = class_means(train["features"][right], train["labels"][right], len(head["bias"]))
    return lambda rows: np.sum(rows["features"] * patterns[rows["logits"].argmax(axis=1)], axis=1)


def dml(train: Tensors, head: Tensors, lam: float) -> Scorer:
    """max_c cos(z, w_c) + lam ||z||"""
    directions = unit(head["weight"])
    return lambda rows: np.max(unit(rows["features"]) @ directions.T, axis=1) + lam * np.linalg.norm(rows["features"], axis=1)


def rmds(train: Tensors, head: Tensors, normalise: bool = False) -> Scorer:
    """max_c -(z - mu_c)^T P_w (z - mu_c) + (z - mu)^T P_0 (z - mu), both through singular vectors of the centred rows"""
    view = unit if normalise else np.asarray
    z, labels = view(train["features"]), train["labels"]
    means = class_means(z, labels, len(head["bias"]))

    def whitened(centred: Array) -> Array:
        _, s, vt = np.linalg.svd(centred, full_matrices=False)
        kept = s**2 > centred.shape[1] * 2.0**-52 * s[0] ** 2
        return vt[kept].T / s[kept] * np.sqrt(len(centred))

    within, total = whitened(z - means[labels]), whitened(z - z.mean(axis=0))

    def score(rows: Tensors) -> Array:
        x = view(rows["features"])
        nearest = np.min([np.sum(((x - mean) @ within) ** 2, axis=1) for mean in means], axis=0)
        return np.sum(((x - z.mean(axis=0)) @ total) ** 2, axis=1) - nearest

    return score


def rmds_pp(train: Tensors, head: Tensors) -> Scorer:
    """rmds on z / ||z||"""
    return rmds(train, head, normalise=True)


def beta_norm(z: Array, beta: float) -> Array:
    """z / ||z||^beta"""
    return z / np.linalg.norm(z, axis=1, keepdims=True) ** beta


def beta_energy(train: Tensors, head: Tensors, beta: float) -> Scorer:
    """lse(W z / ||z||^beta + b)"""
    return lambda rows: head_energy(beta_norm(rows["features"], beta), head)


def beta_mahalanobis(train: Tensors, head: Tensors, beta: float) -> Scorer:
    """mahalanobis on z / ||z||^beta"""
    score = mahalanobis(train | {"features": beta_norm(train["features"], beta)}, head)
    return lambda rows: score(rows | {"features": beta_norm(rows["features"], beta)})


def wdiscood(train: Tensors, head: Tensors, N: int, alpha: float, normalise: bool = False) -> Scorer:
    """-min_c ||G^T (x - m_c)|| - alpha ||(I - G G^T)(x - m)||; x = S_w^(-1/2) z, G = top min(N, rank) eigenvectors of the scatter of the
    whitened class means about the whitened mean."""
    view = unit if normalise else np.asarray
    z, labels = view(train["features"]), train["labels"]
    means, mean = class_means(z, labels, len(head["bias"])), z.mean(axis=0)
    centred = z - means[labels]
    values, vectors = descending_eigh(centred.T @ centred / len(z))
    kept = values > len(values) * 2.0**-52 * values[0]
    white = vectors[:, kept] / np.sqrt(values[kept])
    m_c, m = means @ white, mean @ white
    between, directions = descending_eigh((m_c - m).T @ (m_c - m) / len(m_c))
    g = directions[:, : min(int(N), int(np.sum(between > 1e-10 * between[0])))]

    def score(rows: Tensors) -> Array:
        x = view(rows["features"]) @ white
        near = np.min(np.linalg.norm((x @ g)[:, None] - m_c @ g, axis=2), axis=1)
        off = (x - m) - (x - m) @ g @ g.T
        return -near - alpha * np.linalg.norm(off, axis=1)

    return score


def wdiscood_unit(train: Tensors, head: Tensors, N: int, alpha: float) -> Scorer:
    """wdiscood on z / ||z||"""
    return wdiscood(train, head, N, alpha, normalise=True)


def caref(train: Tensors, head: Tensors) -> Scorer:
    """-||z - nu_yhat||_1 / ||z||_1, nu_k = mean of the training rows with argmax k"""
    means = class_means(train["features"], train["logits"].argmax(axis=1), len(head["bias"]))

    def score(rows: Tensors) -> Array:
        z = rows["features"]
        return -np.sum(np.abs(z - means[rows["logits"].argmax(axis=1)]), axis=1) / np.sum(np.abs(z), axis=1)

    return score


def cadref(train: Tensors, head: Tensors) -> Scorer:
    """-(e+ / E + e- / mean E), e+- = sum max(+-sign(w_yhat) (z - nu_yhat), 0) / ||z||_1"""
    means = class_means(train["features"], train["logits"].argmax(axis=1), len(head["bias"]))
    mean_energy = energy(train["logits"]).mean()

    def score(rows: Tensors) -> Array:
        z, predicted = rows["features"], rows["logits"].argmax(axis=1)
        signed = np.sign(head["weight"][predicted]) * (z - means[predicted])
        up, down = np.sum(np.maximum(signed, 0.0), axis=1), np.sum(np.maximum(-signed, 0.0), axis=1)
        return -(up / energy(rows["logits"]) + down / mean_energy) / np.sum(np.abs(z), axis=1)

    return score


def distances(a: Array, b: Array) -> Array:
    """||a_i - b_j||, by differences"""
    return np.stack([np.linalg.norm(row - b, axis=1) for row in a])


def trust(train: Tensors, head: Tensors, alpha: float, k: int) -> Scorer:
    """Distance to the nearest kept row of another class over that to the nearest kept row of yhat; per class the int(alpha n) rows with the
    largest distance to their k-th nearest other row are not kept."""
    z, labels = train["features"], train["labels"]
    keep = np.ones(len(z), dtype=bool)
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        lonely = np.sort(distances(z[rows], z[rows]), axis=1)[:, k]
        keep[rows[np.argsort(lonely, kind="stable")[len(rows) - int(alpha * len(rows)) :]]] = False

    def score(rows: Tensors) -> Array:
        d = distances(rows["features"], z[keep])
        own = labels[keep] == rows["logits"].argmax(axis=1)[:, None]
        return np.where(own, np.inf, d).min(axis=1) / np.where(own, d, np.inf).min(axis=1)

    return score


def dknn(train: Tensors, head: Tensors, k: int) -> Scorer:
    """How many of the k nearest training rows have label yhat"""

    def score(rows: Tensors) -> Array:
        near = np.argsort(distances(rows["features"], train["features"]), axis=1, kind="stable")[:, :k]
        return np.sum(train["labels"][near] == rows["logits"].argmax(axis=1)[:, None], axis=1).astype(np.float64)

    return score


def lid(train: Tensors, head: Tensors, k: int) -> Scorer:
    """-k / sum_{i <= k} log(d_k / d_i)"""

    def score(rows: Tensors) -> Array:
        d = np.sort(distances(rows["features"], train["features"]), axis=1)[:, :k]
        return -k / np.sum(np.log(d[:, -1:] / d), axis=1)

    return score


def relation(train: Tensors, head: Tensors, t: float, thr: float) -> Scorer:
    """sum_i r_i^t where r_i > thr, r_i = max(cos(z, z_i), 0) p^T p_i"""
    bank, beliefs = unit(train["features"]), softmax(train["logits"])

    def score(rows: Tensors) -> Array:
        r = np.maximum(unit(rows["features"]) @ bank.T, 0.0) * (softmax(rows["logits"]) @ beliefs.T)
        return np.sum(np.where(r > thr, r, 0.0) ** t, axis=1)

    return score


# --------------------------------------------------------------------------------------------------------------------------------------
# The last layer's geometry


def mean_margin(z: Array, logits: Array, head: Tensors) -> Array:
    """Mean over c != yhat of (l_yhat - l_c) / ||w_yhat - w_c||"""
    apart = distances(head["weight"], head["weight"])
    predicted = logits.argmax(axis=1)
    gap = logits[np.arange(len(z)), predicted][:, None] - logits
    norm = np.where(apart[predicted] > 0.0, apart[predicted], np.inf)
    return np.sum(gap / norm, axis=1) / (logits.shape[1] - 1)


def fdbd(train: Tensors, head: Tensors) -> Scorer:
    """mean_margin / ||z - mu||"""
    mean = train["features"].mean(axis=0)
    return lambda rows: mean_margin(rows["features"], rows["logits"], head) / np.linalg.norm(rows["features"] - mean, axis=1)


def fdbd_norm(train: Tensors, head: Tensors) -> Scorer:
    """mean_margin / ||z||"""
    return lambda rows: mean_margin(rows["features"], rows["logits"], head) / np.linalg.norm(rows["features"], axis=1)


def nci(train: Tensors, head: Tensors, alpha: float) -> Scorer:
    """w_yhat (z - mu) / ||z - mu|| + alpha ||z||_1"""
    mean = train["features"].mean(axis=0)

    def score(rows: Tensors) -> Array:
        toward = head["weight"][rows["logits"].argmax(axis=1)]
        return np.sum(toward * unit(rows["features"] - mean), axis=1) + alpha * np.sum(np.abs(rows["features"]), axis=1)

    return score


def neco(train: Tensors, head: Tensors, d: int | None = None, r: float | None = None, times_logit: bool = True) -> Scorer:
    """||P^T x|| / ||x|| (times max l), x = (z - mean) / std without channels of std <= 1e-6 max, P = top eigenvectors of x^T x: d, or the
    fewest with a share >= r."""
    z = train["features"]
    mean, std = z.mean(axis=0), z.std(axis=0)
    kept = std > 1e-6 * std.max()

    def standardised(rows: Tensors) -> Array:
        return ((rows["features"] - mean) / np.where(kept, std, 1.0))[:, kept]

    x = standardised(train)
    values, vectors = descending_eigh(x.T @ x / len(x))
    top = vectors[:, : choose_q(values, r, None if d is None else int(d))]

    def score(rows: Tensors) -> Array:
        x = standardised(rows)
        ratio = np.linalg.norm(x @ top, axis=1) / np.linalg.norm(x, axis=1)
        return ratio * rows["logits"].max(axis=1) if times_logit else ratio

    return score


def ctm_weight(train: Tensors, head: Tensors) -> Scorer:
    """max_c cos(z, w_c)"""
    return lambda rows: np.max(unit(rows["features"]) @ unit(head["weight"]).T, axis=1)


def ctm_mean(train: Tensors, head: Tensors) -> Scorer:
    """max_c cos(z, mu_c)"""
    means = unit(class_means(train["features"], train["labels"], len(head["bias"])))
    return lambda rows: np.max(unit(rows["features"]) @ means.T, axis=1)


def ora(train: Tensors, head: Tensors) -> Scorer:
    """max over c != yhat of angle(z - g, z_c - g) / pi, g = mean of the class means, z_c = the projection of z on the boundary with c; the
    angle of unit vectors as 2 atan2(||a - b||, ||a + b||)."""
    g = class_means(train["features"], train["labels"], len(head["bias"])).mean(axis=0)
    weight = head["weight"]

    def one(z: Array, logits: Array) -> float:
        own = int(logits.argmax())
        angles = []
        for c in range(len(weight)):
            d = weight[own] - weight[c]
            if c != own and np.any(d):
                a, b = unit((z - g)[None])[0], unit((z - (logits[own] - logits[c]) / (d @ d) * d - g)[None])[0]
                angles.append(2.0 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))
        return max(angles) / np.pi

    return lambda rows: np.array([one(*pair) for pair in zip(rows["features"], rows["logits"], strict=True)])


def class_mean_pca(train: Tensors, head: Tensors, r: float) -> Scorer:
    """||U^T (z - g)||^2 / ||z - g||^2, U = the leading right singular vectors of mu_c - g with a share >= r of s^2"""
    means = class_means(train["features"], train["labels"], len(head["bias"]))
    g = means.mean(axis=0)
    _, s, vt = np.linalg.svd(means - g, full_matrices=False)
    top = vt[: choose_q(s**2, r, None)].T
    return lambda rows: np.sum(((rows["features"] - g) @ top) ** 2, axis=1) / np.sum((rows["features"] - g) ** 2, axis=1)


def pnml(train: Tensors, head: Tensors) -> Scorer:
    """-log sum_c p_c / (p_c + (1 - p_c) p_c^kappa) / log C; x = [1, unit(z)], p = softmax([b, W] x), kappa = max(squared norm of x outside
    the span of the training rows, q / (1 + q)), q = x^T (X^T X)^+ x."""

    def extended(rows: Tensors) -> Array:
        z = unit(rows["features"])
        return np.hstack([np.ones((len(z), 1)), z])

    x = extended(train)
    values, vectors = descending_eigh(x.T @ x)
    kept = values > len(values) * 2.0**-52 * values[0]
    weight = np.hstack([head["bias"][:, None], head["weight"]])

    def score(rows: Tensors) -> Array:
        x = extended(rows)
        p = softmax(x @ weight.T)
        q = np.sum((x @ vectors[:, kept]) ** 2 / values[kept], axis=1)
        kappa = np.maximum(np.sum((x @ vectors[:, ~kept]) ** 2, axis=1), q / (1.0 + q))[:, None]
        return -np.log(np.sum(p / (p + (1.0 - p) * p**kappa), axis=1)) / np.log(p.shape[1])

    return score


def actsub(train: Tensors, head: Tensors, pct: float, lam: float, k: int) -> Scorer:
    """lse(W scaled(dec) + b) (-log(1 - c))^lam; dec = V_q V_q^T z of W = U S V^T, the rest = z - dec; q = argmin over 1..rank of
    |mean ||dec|| - mean ||rest|||; scaled as in scale; c = mean of the k largest cosines of the rest with those of the training rows, at
    least 0."""
    weight = head["weight"]
    _, s, vt = np.linalg.svd(weight, full_matrices=False)
    rank = int(np.sum(s > max(weight.shape) * 2.0**-23 * s[0]))

    def parts(z: Array, q: int) -> tuple[Array, Array]:
        inside = z @ vt[:q].T @ vt[:q]
        return inside, z - inside

    def gap(q: int) -> float:
        inside, rest = parts(train["features"], q)
        return abs(float(np.linalg.norm(inside, axis=1).mean() - np.linalg.norm(rest, axis=1).mean()))

    q = min(range(1, rank + 1), key=gap)
    bank = unit(parts(train["features"], q)[1])

    def score(rows: Tensors) -> Array:
        inside, rest = parts(rows["features"], q)
        mask = largest(inside, pct)
        factor = np.exp(inside.sum(axis=1, keepdims=True) / (inside * mask).sum(axis=1, keepdims=True))
        cosine = np.maximum(np.sort(unit(rest) @ bank.T, axis=1)[:, -int(k) :].mean(axis=1), 0.0)
        return head_energy(inside * factor, head) * (-np.log(1.0 - cosine)) ** lam

    return score


# --------------------------------------------------------------------------------------------------------------------------------------
# Histograms and fusions


def nac(train: Tensors, head: Tensors, M: int, O: float, alpha: float) -> Scorer:
    """mean_j min(n_j[bin(s_j)] / O, 1), s = 1 / (1 + exp(-alpha z g)), g = W^T (p - 1/C); edges log_1000(1 + i (sqrt(1000) - 1) / (M/2 - 1))
    up to 1/2, mirrored."""
    half = int(M) // 2
    lower = np.log1p(np.arange(half) * (np.sqrt(1000.0) - 1.0) / (half - 1)) / np.log(1000.0)
    lower[0], lower[-1] = 0.0, 0.5
    edges = np.concatenate([lower, 1.0 - lower[-2::-1]])

    def bins(rows: Tensors) -> Array:
        p = softmax(rows["logits"])
        state = 1.0 / (1.0 + np.exp(-alpha * rows["features"] * ((p - 1.0 / p.shape[1]) @ head["weight"])))
        return np.clip(np.searchsorted(edges, state, side="right") - 1, 0, len(edges) - 2)

    of_train = bins(train)
    counts = np.stack([np.bincount(column, minlength=len(edges) - 1) for column in of_train.T])

    def score(rows: Tensors) -> Array:
        here = bins(rows)
        return np.mean(np.minimum(counts[np.arange(here.shape[1]), here] / O, 1.0), axis=1)

    return score


def weiper_kld(
    train: Tensors, head: Tensors, r: int, delta: float, bins: int, lam1: float, lam2: float, s1: int, s2: int, eps1: float, eps2: float
) -> Scorer:
    """-[K(h(z), s1, eps1) + lam1 K(h(W~ z + b), s2, eps2) - lam2 mean over copies of max softmax]; W~ = r copies of W, each row plus
    delta ||w_c|| times the unit row of head["noise"]; h = histogram of the entries of a row between the smallest and largest training
    entry; K = symmetric divergence from the training mean after smoothing over s bins and adding eps."""
    weight, bias = head["weight"], head["bias"]
    noise = head["noise"][: int(r)]
    noise = noise / np.linalg.norm(noise, axis=2, keepdims=True)
    heads = weight + delta * np.linalg.norm(weight, axis=1)[:, None] * noise

    def logits(z: Array) -> Array:
        return np.einsum("rcm,nm->nrc", heads, z) + bias

    def histograms(x: Array, low: float, high: float) -> Array:
        return np.stack([np.histogram(row, bins=int(bins), range=(low, high))[0] / len(row) for row in x])

    def fitted(x: Array, s: int, eps: float) -> Callable[[Array], Array]:
        low, high = float(x.min()), float(x.max())
        typical = histograms(x, low, high).mean(axis=0) + eps
        typical = typical / typical.sum()

        def divergence(x: Array) -> Array:
            padded = np.pad(histograms(x, low, high), ((0, 0), ((s - 1) // 2, s // 2)), mode="edge")
            smooth = np.stack([np.convolve(row, np.ones(s) / s, mode="valid") for row in padded]) + eps
            smooth = smooth / smooth.sum(axis=1, keepdims=True)
            return np.sum((smooth - typical) * np.log(smooth / typical), axis=1)

        return divergence

    def flat_rows(x: Array) -> Array:
        return x.reshape(len(x), -1)

    of_features, of_logits = fitted(train["features"], int(s1), eps1), fitted(flat_rows(logits(train["features"])), int(s2), eps2)

    def score(rows: Tensors) -> Array:
        changed = logits(rows["features"])
        certainty = np.stack([softmax(changed[:, i]).max(axis=1) for i in range(len(heads))]).mean(axis=0)
        return -(of_features(rows["features"]) + lam1 * of_logits(flat_rows(changed)) - lam2 * certainty)

    return score


def mme(
    train: Tensors,
    head: Tensors,
    T: float,
    match: float,
    lo: float = 0.01,
    hi: float = 0.99,
    pct: float = 90.0,
    q: int | None = None,
    D: int | None = None,
) -> Scorer:
    """The logarithm of the product: lse(l_s) - alpha ||R^T (v - o)|| + lse(d / T) - min d / T + log match where argmax l_s is the nearest
    class + log(1 - r) + log(mean_margin(v) / ||v - mu||). v = z between quantiles of all entries, l_s = logits of scale(z), d = squared
    distances of unit(z) to the unit class means of unit rows, r = ||(I - U U^T)(v - mu)|| / ||v||; o, R, alpha as in vim."""
    z, m = train["features"], train["features"].shape[1]
    q, D = (256 if m > 256 else m // 2) if q is None else int(q), m // 2 if D is None else int(D)
    low, high = percentile(z, 100.0 * lo), percentile(z, 100.0 * hi)
    mean = z.mean(axis=0)
    top = descending_eigh((z - mean).T @ (z - mean) / len(z))[1][:, :q]
    centres = unit(class_means(unit(z), train["labels"], len(head["bias"])))
    virtual = vim(train, head, D)

    def score(rows: Tensors) -> Array:
        z = rows["features"]
        v = np.clip(z, low, high)
        mask = largest(z, pct)
        scaled = z * np.exp(z.sum(axis=1, keepdims=True) / (z * mask).sum(axis=1, keepdims=True))
        l_s = scaled @ head["weight"].T + head["bias"]
        # vim of v is its energy less the virtual logit.
        virtual_logit = energy(rows["logits"]) - virtual(rows | {"features": v})
        d = np.sum((unit(z)[:, None] - centres) ** 2, axis=2) / T
        off = (v - mean) - (v - mean) @ top @ top.T
        r = np.linalg.norm(off, axis=1) / np.linalg.norm(v, axis=1)
        margin = mean_margin(v, v @ head["weight"].T + head["bias"], head) / np.linalg.norm(v - mean, axis=1)
        agrees = l_s.argmax(axis=1) == d.argmin(axis=1)
        return energy(l_s) - virtual_logit + energy(d) - d.min(axis=1) + np.log(match) * agrees + np.log(1.0 - r) + np.log(margin)

    return score


# --------------------------------------------------------------------------------------------------------------------------------------
# Subspaces


def off_subspace(train: Tensors, head: Tensors, D: int) -> Scorer:
    """||R^T (z - o)|| as in vim"""
    u, s, vt = np.linalg.svd(head["weight"], full_matrices=False)
    kept = s > max(head["weight"].shape) * 2.0**-23 * s[0]
    origin = -((u[:, kept].T @ head["bias"]) / s[kept]) @ vt[kept]
    z = train["features"] - origin
    rest = descending_eigh(z.T @ z / len(z))[1][:, int(D) :]
    return lambda rows: np.linalg.norm((rows["features"] - origin) @ rest, axis=1)


def residual(train: Tensors, head: Tensors, D: int) -> Scorer:
    """-||R^T (z - o)||"""
    length = off_subspace(train, head, D)
    return lambda rows: -length(rows)


def gen_residual(train: Tensors, head: Tensors, gamma: float, M: float, D: int) -> Scorer:
    """gen ||R^T (z - o)||"""
    entropies, length = gen(train, head, gamma, M), off_subspace(train, head, D)
    return lambda rows: entropies(rows) * length(rows)


def vim(train: Tensors, head: Tensors, D: int, eps: float = 2.0**-23) -> Scorer:
    """E(l) - alpha ||R^T (z - o)||; o = -W^+ b without singular values <= max(C, m) eps max, R = eigenvectors after the D largest of the
    second moment about o, alpha = mean(max l) / mean ||R^T (z - o)|| over the training rows."""
    u, s, vt = np.linalg.svd(head["weight"], full_matrices=False)
    kept = s > max(head["weight"].shape) * eps * s[0]
    origin = -((u[:, kept].T @ head["bias"]) / s[kept]) @ vt[kept]
    z = train["features"] - origin
    rest = descending_eigh(z.T @ z / len(z))[1][:, D:]

    def residual(rows: Tensors) -> Array:
        return np.linalg.norm((rows["features"] - origin) @ rest, axis=1)

    alpha = train["logits"].max(axis=1).mean() / residual(train).mean()
    return lambda rows: energy(rows["logits"]) - alpha * residual(rows)


def vim_f64rank(train: Tensors, head: Tensors, D: int) -> Scorer:
    """vim with eps = 2^-52"""
    return vim(train, head, D, eps=2.0**-52)


def regpca(train: Tensors, head: Tensors, q: int, pct: float | None = None, raw_fit: bool = False) -> Scorer:
    """E (1 - ||(I - U_q U_q^T)(z - mean)|| / ||z||), U_q = top eigenvectors of the covariance. With pct, z = min(z, c) as in react, in the
    fit too unless raw_fit."""
    cap = np.inf if pct is None else percentile(train["features"], pct)
    z = train["features"] if raw_fit else np.minimum(train["features"], cap)
    mean = z.mean(axis=0)
    top = descending_eigh((z - mean).T @ (z - mean) / len(z))[1][:, :q]

    def score(rows: Tensors) -> Array:
        z = np.minimum(rows["features"], cap)
        e = energy(rows["logits"]) if pct is None else head_energy(z, head)
        off = (z - mean) - (z - mean) @ top @ top.T
        return e * (1.0 - np.linalg.norm(off, axis=1) / np.linalg.norm(z, axis=1))

    return score


def regpca_react(train: Tensors, head: Tensors, q: int, pct: float) -> Scorer:
    """regpca on clipped rows"""
    return regpca(train, head, q, pct)


def regpca_react_rawfit(train: Tensors, head: Tensors, q: int, pct: float) -> Scorer:
    """regpca fitted to rows as they are, scoring clipped ones"""
    return regpca(train, head, q, pct, raw_fit=True)


# --------------------------------------------------------------------------------------------------------------------------------------
# Rectified features and weights


def react(train: Tensors, head: Tensors, pct: float) -> Scorer:
    """lse(W min(z, c) + b), c = the percentile of all training entries."""
    cap = percentile(train["features"], pct)
    return lambda rows: head_energy(np.minimum(rows["features"], cap), head)


def after_react(method: Callable[..., Scorer], train: Tensors, head: Tensors, pct: float, **params: float) -> Scorer:
    """A method on min(z, c) and W min(z, c) + b in place of z and l, in the fit too."""
    cap = percentile(train["features"], pct)

    def clipped(rows: Tensors) -> Tensors:
        z = np.minimum(rows["features"], cap)
        return rows | {"features": z, "logits": z @ head["weight"].T + head["bias"]}

    score = method(clipped(train), head, **params)
    return lambda rows: score(clipped(rows))


def dice(train: Tensors, head: Tensors, pct: float, clip_pct: float | None = None) -> Scorer:
    """lse(W' z + b), W' = W where mean(z) * W is over the percentile of all its entries, else 0. With clip_pct, z = min(z, c) as in react;
    the mean stays that of rows as they are."""
    contribution = train["features"].mean(axis=0) * head["weight"]
    weight = np.where(contribution > percentile(contribution, pct), head["weight"], 0.0)
    cap = np.inf if clip_pct is None else percentile(train["features"], clip_pct)
    return lambda rows: head_energy(np.minimum(rows["features"], cap), head, weight)


def bats(train: Tensors, head: Tensors, lam: float) -> Scorer:
    """lse(W z' + b), each channel of z' within mean +- lam std"""
    mean, std = train["features"].mean(axis=0), train["features"].std(axis=0)
    return lambda rows: head_energy(np.clip(rows["features"], mean - lam * std, mean + lam * std), head)


def vra(train: Tensors, head: Tensors, lo: float, hi: float) -> Scorer:
    """lse(W z' + b), z' = 0 under the channel's lo quantile and at most its hi quantile"""
    low, high = percentile(train["features"], 100.0 * lo, axis=0), percentile(train["features"], 100.0 * hi, axis=0)
    return lambda rows: head_energy(np.where(rows["features"] < low, 0.0, np.minimum(rows["features"], high)), head)


def largest(z: Array, pct: float) -> Array:
    """Which entries are among the k = m - round(m pct / 100) largest of their row (Python's round)."""
    k = z.shape[1] - round(z.shape[1] * pct / 100.0)
    mask = np.zeros(z.shape, dtype=bool)
    np.put_along_axis(mask, np.argsort(-z, axis=1, kind="stable")[:, :k], True, axis=1)
    return mask


def shape_by_largest(head: Tensors, pct: float, shape: Callable[[Array, Array, Array, Array], Array]) -> Scorer:
    """lse(W shape(z, mask, sum of the row, sum of its largest) + b)"""

    def score(rows: Tensors) -> Array:
        z = rows["features"]
        mask = largest(z, pct)
        return head_energy(shape(z, mask, z.sum(axis=1, keepdims=True), (z * mask).sum(axis=1, keepdims=True)), head)

    return score


def ash_b(train: Tensors, head: Tensors, pct: float) -> Scorer:
    """The k largest entries become (sum of the row) / k, the rest 0."""
    return shape_by_largest(head, pct, lambda z, mask, total, kept: mask * total / mask.sum(axis=1, keepdims=True))


def ash_p(train: Tensors, head: Tensors, pct: float) -> Scorer:
    """The k largest entries stay, the rest becomes 0."""
    return shape_by_largest(head, pct, lambda z, mask, total, kept: mask * z)


def ash_s(train: Tensors, head: Tensors, pct: float) -> Scorer:
    """ash_p times exp(sum of the row / sum of the kept entries)"""
    return shape_by_largest(head, pct, lambda z, mask, total, kept: mask * z * np.exp(total / kept))


def scale(train: Tensors, head: Tensors, pct: float) -> Scorer:
    """z exp(sum of the row / sum of its k largest entries)"""
    return shape_by_largest(head, pct, lambda z, mask, total, kept: z * np.exp(total / kept))


def line(train: Tensors, head: Tensors, pa: float, pw: float, clip: float) -> Scorer:
    """z = min(z, clip), y = argmax(W z + b), s = mu_y * w_y with mu_y the mean of the unclipped rows labelled y. Channels with s over its
    pa-th percentile and weights with |s| * W over the pw-th percentile of all its entries stay; lse(W' z' + b)."""
    weight, bias = head["weight"], head["bias"]
    importance = class_means(train["features"], train["labels"], len(bias)) * weight

    def score(rows: Tensors) -> Array:
        z = np.minimum(rows["features"], clip)
        predicted = (z @ weight.T + bias).argmax(axis=1)
        out = np.empty(len(z))
        for c, s in enumerate(importance):
            product = np.abs(s) * weight
            masked = np.where(product > percentile(product, pw), weight, 0.0)
            of_class = predicted == c
            out[of_class] = head_energy(z[of_class] * (s > percentile(s, pa)), head, masked)
        return out

    return score


def ddcs(train: Tensors, head: Tensors, a: float, keep: float, lo: float, hi: float) -> Scorer:
    """x = max(z, t_l), and x / sqrt(1 + (x / t_h)^4) + t_l where x >= t_h; t_l, t_h = percentiles of all training entries. Of the channels
    the round(keep m) with the smallest a S - (1 - a) V stay: S = mean of mu_i mu_j over i != j, V = variance (ddof 1) of the class means
    of x."""
    low, high = percentile(train["features"], lo), percentile(train["features"], hi)

    def shaped(rows: Tensors) -> Array:
        x = np.maximum(rows["features"], low)
        return np.where(x >= high, x / np.sqrt(1.0 + (x / high) ** 4) + low, x)

    classes = len(head["bias"])
    means = class_means(shaped(train), train["labels"], classes)
    similar = np.mean([means[i] * means[j] for i in range(classes) for j in range(classes) if i != j], axis=0)
    cost = a * similar - (1.0 - a) * means.var(axis=0, ddof=1)
    mask = np.zeros(len(cost))
    mask[np.argsort(cost, kind="stable")[: round(keep * len(cost))]] = 1.0
    return lambda rows: head_energy(shaped(rows) * mask, head)


def bf_act(train: Tensors, head: Tensors, n: int, pct: float) -> Scorer:
    """lse(W z' + b), z' = z / sqrt(1 + (z / t)^(2 n)), t = the percentile of all training entries"""
    t = percentile(train["features"], pct)
    return lambda rows: head_energy(rows["features"] / np.sqrt(1.0 + (rows["features"] / t) ** (2 * int(n))), head)


def lts(train: Tensors, head: Tensors, pct: float) -> Scorer:
    """lse(s l), s = (sum relu(z) / sum of its k largest)^2"""

    def score(rows: Tensors) -> Array:
        z = np.maximum(rows["features"], 0.0)
        factor = (z.sum(axis=1) / (z * largest(z, pct)).sum(axis=1)) ** 2
        return energy(factor[:, None] * rows["logits"])

    return score


def shaped_by_bins(train: Tensors, head: Tensors, bins: int, tail: float = 0.001) -> Callable[[Array], Array]:
    """z theta_bin(z), 0 outside of the bins; bins equal ones between the tail quantiles of all entries; theta = 1000 I / ||I||, I = what the
    entries of a bin contribute to the predicted class's logit on average."""
    z, predicted = train["features"], train["logits"].argmax(axis=1)
    low, high = percentile(z, 100.0 * tail), percentile(z, 100.0 * (1.0 - tail))
    width = (high - low) / int(bins)

    def places(z: Array) -> Array:
        inside = (z >= low) & (z < high)
        return np.where(inside, np.minimum(np.floor((z - low) / width), int(bins) - 1), int(bins)).astype(np.int64)

    contribution = np.bincount(places(z).ravel(), (head["weight"][predicted] * z).ravel(), int(bins) + 1)[: int(bins)]
    theta = np.append(1000.0 * contribution / np.linalg.norm(contribution), 0.0)
    return lambda z: theta[places(z)] * z


def opt_fs_e(train: Tensors, head: Tensors, bins: int, tail: float = 0.001) -> Scorer:
    """lse(W z' + b) of shaped features"""
    shaped = shaped_by_bins(train, head, bins, tail)
    return lambda rows: head_energy(shaped(rows["features"]), head)


def opt_fs_v(train: Tensors, head: Tensors, bins: int, tail: float = 0.001) -> Scorer:
    """sum_j w_yhat,j z'_j of shaped features"""
    shaped = shaped_by_bins(train, head, bins, tail)
    return lambda rows: np.sum(head["weight"][rows["logits"].argmax(axis=1)] * shaped(rows["features"]), axis=1)


# --------------------------------------------------------------------------------------------------------------------------------------
# Feature maps and specially trained networks


def pooled_energy(maps: Array, head: Tensors) -> Array:
    """lse of the head on the mean over positions of each map [n, m, h w] without its leading singular part"""
    return head_energy(without_leading_part(maps).mean(axis=2), head)


def flat(maps: Array) -> Array:
    """[n, m, h, w] as [n, m, h w]"""
    return maps.reshape(*maps.shape[:2], -1)


def rank_feat(train: Tensors, head: Tensors) -> Scorer:
    """pooled_energy of the stored maps"""
    return lambda rows: pooled_energy(flat(rows["maps"]), head)


def rank_feat_weight(train: Tensors, head: Tensors) -> Scorer:
    """pooled_energy of relu(scale (W - s_1 u_1 v_1^T) x + shift + shortcut)"""
    weight = without_leading_part(head["block.weight"])

    def score(rows: Tensors) -> Array:
        x = head["block.scale"][:, None] * (weight @ flat(rows["block_input"])) + head["block.shift"][:, None]
        return pooled_energy(np.maximum(x + flat(rows["block_shortcut"]), 0.0), head)

    return score


def feature_norm(train: Tensors, head: Tensors) -> Scorer:
    """Mean over channels of ||relu(map)||"""
    return lambda rows: np.linalg.norm(np.maximum(flat(rows["maps"]), 0.0), axis=2).mean(axis=1)


def davis_std(train: Tensors, head: Tensors, gamma: float) -> Scorer:
    """lse(W z' + b), z' = mean + gamma std (ddof 1) over positions"""
    return lambda rows: head_energy(flat(rows["maps"]).mean(axis=2) + gamma * flat(rows["maps"]).std(axis=2, ddof=1), head)


def davis_max(train: Tensors, head: Tensors) -> Scorer:
    """lse(W z' + b), z' = max over positions"""
    return lambda rows: head_energy(flat(rows["maps"]).max(axis=2), head)


def mcf(train: Tensors, head: Tensors) -> Scorer:
    """The largest cosine of the focal-loss network"""
    return lambda rows: rows["focal_cosines"].max(axis=1)


def mnc(train: Tensors, head: Tensors) -> Scorer:
    """The norm of the centre-loss network's features"""
    return lambda rows: np.linalg.norm(rows["centre_features"], axis=1)


def dml_plus(train: Tensors, head: Tensors) -> Scorer:
    """3 mcf / mean(mcf) + mnc / mean(mnc), means over the training rows"""
    cosine, norm = mcf(train, head), mnc(train, head)
    return lambda rows: 3.0 * cosine(rows) / cosine(train).mean() + norm(rows) / norm(train).mean()


def godin(train: Tensors, head: Tensors) -> Scorer:
    """max_c h_c"""
    return lambda rows: rows["godin_h"].max(axis=1)


def csi(train: Tensors, head: Tensors) -> Scorer:
    """Sum over views S of max_i cos(z_S, z_iS) ||z_S|| / mean_i ||z_iS|| + l_S / mean_i l_iS, l_S the logit of the shift that was made."""
    bank, logits = train["csi_features"], train["csi_shift_logits"]

    def score(rows: Tensors) -> Array:
        total = np.sum(rows["csi_shift_logits"] / logits.mean(axis=0), axis=1)
        for view in range(bank.shape[1]):
            z, others = rows["csi_features"][:, view], bank[:, view]
            cosine = np.max(unit(z) @ unit(others).T, axis=1)
            total += cosine * np.linalg.norm(z, axis=1) / np.linalg.norm(others, axis=1).mean()
        return total

    return score


METHODS: dict[str, Callable[..., Scorer]] = {
    "energy": energy_score,
    "knn_k1": knn,
    "knn_k50": knn,
    "react_p98": react,
    "dice_react": dice,
    "dice_react_p10": dice,
    "gradnorm_react": partial(after_react, gradnorm),
    "nnguide_react": partial(after_react, nnguide),
    "lowdim_react": partial(after_react, lowdim_probe),
    "neco_ratio": partial(neco, times_logit=False),
    "neco_evr": neco,
    "neco_evr_ratio": partial(neco, times_logit=False),
    "pca_nre": regpca_react_rawfit,
} | {
    method.__name__: method
    for method in (
        *(msp, maxlogit, odin_eps0, gen, gradnorm, gradorth, lowdim_projection, lowdim_probe),
        *(mahalanobis, mahalanobis_pp, ssd, ssd_plus, knn, knn_plus, tnn, nnguide, she, dml),
        *(vim, vim_f64rank, regpca, regpca_react, regpca_react_rawfit),
        *(react, dice, bats, vra, ash_b, ash_p, ash_s, scale, line, ddcs),
        *(rank_feat, rank_feat_weight, mcf, mnc, dml_plus, godin, csi),
        *(entropy, renyi, logit_gap, joint_energy, klm, temp_scale, openmax),
        *(residual, gen_residual, fdbd, fdbd_norm, nci, neco, ctm_weight, ctm_mean, ora, class_mean_pca, pnml, actsub),
        *(rmds, rmds_pp, beta_energy, beta_mahalanobis, wdiscood, wdiscood_unit, caref, cadref, trust, dknn, relation, lid),
        *(opt_fs_e, opt_fs_v, bf_act, lts, nac, weiper_kld, mme, feature_norm, davis_std, davis_max),
    )
}


# --------------------------------------------------------------------------------------------------------------------------------------
# Against an oracle


def check_pack(folder: Path, golden_name: str) -> dict[str, float]:
    """The largest relative difference of each baseline golden of a folder."""
    train, head = load_tensors(folder / "train.safetensors"), load_tensors(folder / "head.safetensors")
    if (folder / "weiper.safetensors").exists():
        head = head | load_tensors(folder / "weiper.safetensors")
    golden = load_file(folder / f"{golden_name}.safetensors")
    paths = [folder / "test.safetensors", *sorted((folder / "ood").glob("*.safetensors"))]
    sets = {path.stem: load_tensors(path) for path in paths}
    found = {}
    for name, entry in json.loads((folder / f"{golden_name}.json").read_text())["methods"].items():
        if "params" not in entry or name in ("pca_residual", "cop") or name.startswith("kpca_"):
            continue
        method = name.replace("-", "_")
        if method not in METHODS:
            raise ValueError(f"no method is known for the golden {name!r}")
        score = METHODS[method](train, head, **entry["params"])
        found[name] = 0.0
        for set_name, rows in sets.items():
            expected = golden[f"{name}/{set_name}"]
            found[name] = max(found[name], float(np.max(np.abs(score(rows) - expected)) / np.max(np.abs(expected))))
        print(f"{folder.name:<20}{name:<24}{found[name]:.1e}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("oracle_dir", type=Path, nargs="?", default=ORACLE)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    args = parser.parse_args()

    goldens = sorted(path for name in ("golden", "golden-newer") for path in args.oracle_dir.rglob(f"{name}.json"))
    if not goldens:
        print(f"no golden.json under {args.oracle_dir}", file=sys.stderr)
        return 2
    try:
        worst = [value for path in goldens for value in check_pack(path.parent, path.stem).values()]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(worst)} goldens; worst difference {max(worst):.1e} (tolerance {args.tolerance:.0e})")
    return 0 if max(worst) <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
