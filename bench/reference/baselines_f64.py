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


# --------------------------------------------------------------------------------------------------------------------------------------
# Subspaces


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
} | {
    method.__name__: method
    for method in (
        *(msp, maxlogit, odin_eps0, gen, gradnorm, gradorth, lowdim_projection, lowdim_probe),
        *(mahalanobis, mahalanobis_pp, ssd, ssd_plus, knn, knn_plus, tnn, nnguide, she, dml),
        *(vim, vim_f64rank, regpca, regpca_react, regpca_react_rawfit),
        *(react, dice, bats, vra, ash_b, ash_p, ash_s, scale, line, ddcs),
        *(rank_feat, rank_feat_weight, mcf, mnc, dml_plus, godin, csi),
    )
}


# --------------------------------------------------------------------------------------------------------------------------------------
# Against an oracle


def check_pack(folder: Path, golden_name: str, methods: dict[str, Callable[..., Scorer]]) -> dict[str, float]:
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
        if method not in methods:
            raise ValueError(f"no method is known for the golden {name!r}")
        score = methods[method](train, head, **entry["params"])
        found[name] = 0.0
        for set_name, rows in sets.items():
            expected = golden[f"{name}/{set_name}"]
            found[name] = max(found[name], float(np.max(np.abs(score(rows) - expected)) / np.max(np.abs(expected))))
        print(f"{folder.name:<20}{name:<24}{found[name]:.1e}")
    return found


def check_oracle(description: str, golden_name: str, methods: dict[str, Callable[..., Scorer]]) -> int:
    """Compares methods with every golden file of this name in the oracle folder that the command line names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("oracle_dir", type=Path, nargs="?", default=ORACLE)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    args = parser.parse_args()

    folders = sorted(path.parent for path in args.oracle_dir.rglob(f"{golden_name}.json"))
    if not folders:
        print(f"no {golden_name}.json under {args.oracle_dir}", file=sys.stderr)
        return 2
    try:
        worst = [value for folder in folders for value in check_pack(folder, golden_name, methods).values()]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(worst)} goldens; worst difference {max(worst):.1e} (tolerance {args.tolerance:.0e})")
    return 0 if max(worst) <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(check_oracle(__doc__.splitlines()[0], "golden", METHODS))
