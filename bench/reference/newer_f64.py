"""The newer methods beside kernel PCA: a plain float64 reference.

    python newer_f64.py [ORACLE_DIR]

As baselines_f64, whose parts and conventions it uses; the golden scores are those of golden-newer. ``head["noise"]`` has the random rows of
weiper-kld.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from baselines_f64 import (
    Scorer,
    Tensors,
    check_oracle,
    class_means,
    flat,
    gen,
    head_energy,
    largest,
    mahalanobis,
    percentile,
    regpca_react_rawfit,
    softmax,
    vim,
)
from kpca_f64 import Array, choose_q, descending_eigh, energy, unit

# --------------------------------------------------------------------------------------------------------------------------------------
# Logits


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
    """-1 / (1 + exp(lse(l') - u)); l'_c = l_c (1 - w_c F_c(||l - v_c||)), u = sum (l - l'), w = (alpha + 1 - i) / alpha for the i-th
    largest logit; v_c = mean logits of the rows that are labelled and predicted c, F_c = the most likely Weibull distribution of the tail
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


# --------------------------------------------------------------------------------------------------------------------------------------
# Class statistics


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


# --------------------------------------------------------------------------------------------------------------------------------------
# Training rows


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
# Steps


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
    """z theta_bin(z), 0 outside of the bins; bins equal ones between the tail quantiles of all entries; theta = 1000 I / ||I||, I = what
    the entries of a bin contribute to the predicted class's logit on average."""
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
# Histograms, fusions and feature maps


def nac(train: Tensors, head: Tensors, M: int, O: float, alpha: float) -> Scorer:  # noqa: E741
    """mean_j min(n_j[bin(s_j)] / O, 1), s = 1 / (1 + exp(-alpha z g)), g = W^T (p - 1/C); edges log_1000(1 + i (sqrt(1000) - 1) / (M/2 -
    1)) up to 1/2, mirrored."""
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


def feature_norm(train: Tensors, head: Tensors) -> Scorer:
    """Mean over channels of ||relu(map)||"""
    return lambda rows: np.linalg.norm(np.maximum(flat(rows["maps"]), 0.0), axis=2).mean(axis=1)


def davis_std(train: Tensors, head: Tensors, gamma: float) -> Scorer:
    """lse(W z' + b), z' = mean + gamma std (ddof 1) over positions"""
    return lambda rows: head_energy(flat(rows["maps"]).mean(axis=2) + gamma * flat(rows["maps"]).std(axis=2, ddof=1), head)


def davis_max(train: Tensors, head: Tensors) -> Scorer:
    """lse(W z' + b), z' = max over positions"""
    return lambda rows: head_energy(flat(rows["maps"]).max(axis=2), head)


METHODS: dict[str, Callable[..., Scorer]] = {
    "gen": gen,
    "neco_ratio": partial(neco, times_logit=False),
    "neco_evr": neco,
    "neco_evr_ratio": partial(neco, times_logit=False),
    "pca_nre": regpca_react_rawfit,
} | {
    method.__name__: method
    for method in (
        *(entropy, renyi, logit_gap, joint_energy, klm, temp_scale, openmax),
        *(rmds, rmds_pp, beta_energy, beta_mahalanobis, wdiscood, wdiscood_unit, caref, cadref),
        *(trust, dknn, lid, relation),
        *(residual, gen_residual, fdbd, fdbd_norm, nci, neco, ctm_weight, ctm_mean, ora, class_mean_pca, pnml, actsub),
        *(bf_act, lts, opt_fs_e, opt_fs_v),
        *(nac, weiper_kld, mme, feature_norm, davis_std, davis_max),
    )
}


if __name__ == "__main__":
    sys.exit(check_oracle(__doc__.splitlines()[0], "golden-newer", METHODS))
