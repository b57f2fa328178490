"""The method `auto` in plain NumPy, double precision, with every kept row a landmark.

python3 auto_f64.py writes the golden scores of `auto` for the fixture of the baselines.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy import special

SEED = 3
NORMAL_95 = 1.6448536269514722


def mix(x):
    """SplitMix64's finaliser."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def set_aside(rows, seed):
    """Which rows are set aside to see how scores spread: about a fifth, each decided by its own hash."""
    count = min(max(int(0.2 * rows), min(20, rows // 2)), 3000)
    below = np.uint64(int(count / rows * float(2**64 - 1)))
    return mix(np.uint64(seed) ^ mix(np.arange(rows, dtype=np.uint64))) < below


def unit(z):
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def median_and_spread(x, tail):
    """The spread towards one tail, in standard deviations of a normal distribution with such a percentile."""
    median = np.median(x)
    return median, abs(np.percentile(x, tail) - median) / NORMAL_95


class Reference:
    """`auto` with every kept row a landmark, which leaves nothing to chance but the rows set aside."""

    def __init__(self, z, logits=None, head=None, explained_variance=0.99, seed=SEED):
        z = np.asarray(z, dtype=np.float64)
        aside = set_aside(len(z), seed)
        kept, self.with_energy = z[~aside], logits is not None or head is not None

        # The kernel's width: a half or four over the median squared distance between unit vectors.
        landmarks = unit(kept)
        distances = np.maximum(2 - 2 * landmarks @ landmarks.T, 0)[np.triu_indices(len(kept), 1)]
        self.gamma = (0.5 if self.with_energy else 4.0) / np.median(distances)
        self.landmarks = landmarks

        # Coordinates in which inner products are the kernel, their principal axes, and those that hold 99 % of the
        # variance, but at most a fifth as many as there are landmarks.
        values, vectors = np.linalg.eigh(self.kernel(kept))
        to_coordinates = vectors / np.sqrt(values)
        phi = self.kernel(kept) @ to_coordinates
        mean = phi.mean(axis=0)
        values, axes = np.linalg.eigh(phi.T @ phi / len(phi) - np.outer(mean, mean))
        values, axes = np.maximum(values[::-1], 0), axes[:, ::-1]
        explained = np.cumsum(values)
        self.wanted = int(np.searchsorted(explained, explained_variance * explained[-1])) + 1
        q = self.q = min(self.wanted, len(kept) // 5)
        # e² = 1 − |U_qᵀΦ|² − 2 Φᵀ(U_p U_pᵀ μ) + |U_pᵀ μ|², with U_p the axes beyond q.
        beyond = axes[:, q:] @ (axes[:, q:].T @ mean)
        self.axes, self.linear, self.constant = to_coordinates @ axes[:, :q], to_coordinates @ beyond, mean @ beyond

        # Activations are cut where a tenth of their distance from the channel's median lies beyond.
        self.head = head
        if head is not None:
            self.centre = np.median(kept, axis=0)
            far = np.sort(np.abs(kept - self.centre).ravel())[::-1]
            beyond = np.cumsum(far) - np.arange(1, len(far) + 1) * far
            self.reach = far[np.searchsorted(beyond, 0.1 * far.sum())]

        # How residual and energy spread on the rows set aside.
        self.median_e, self.spread_e = median_and_spread(self.residual(z[aside]), 95)
        self.weight = (3 * self.spread_e / self.median_e) ** 1.5
        if self.with_energy:
            known = None if logits is None else logits[aside]
            plain = self.logits(z[aside], known)
            above_mean = np.median(plain.max(axis=1) - plain.mean(axis=1))
            self.temperature = min(1.0, above_mean / (3 * np.log(plain.shape[1])))
            self.median_energy, self.spread_energy = median_and_spread(self.energy(z[aside], known), 5)

    def kernel(self, z):
        return np.exp(-self.gamma * np.maximum(2 - 2 * unit(z) @ self.landmarks.T, 0))

    def residual(self, z):
        k = self.kernel(z)
        return np.sqrt(np.maximum(1 - ((k @ self.axes) ** 2).sum(axis=1) - 2 * k @ self.linear + self.constant, 0))

    def logits(self, z, logits):
        return np.asarray(logits, dtype=np.float64) if logits is not None else z @ self.head[0].T + self.head[1]

    def energy(self, z, logits):
        logits = self.logits(z, logits)
        if self.head is not None:
            inside = np.clip(z, self.centre - self.reach, self.centre + self.reach)
            logits = logits - (z - inside) @ self.head[0].T
        return self.temperature * special.logsumexp(logits / self.temperature, axis=1)

    def score(self, z, logits=None):
        z = np.asarray(z, dtype=np.float64)
        residual = self.residual(z)
        if not self.with_energy:
            return -residual
        sureness = (self.energy(z, logits) - self.median_energy) / self.spread_energy
        strangeness = (residual - self.median_e) / self.spread_e
        return special.log_ndtr(sureness) + self.weight * special.log_ndtr(-strangeness)


def main() -> None:
    """Scores of the test and OoD rows: with features alone, with the last layer, with logits besides."""
    from safetensors.numpy import load_file, save_file

    fixture = Path(__file__).resolve().parents[2] / "crates" / "offspan" / "tests" / "fixture-baselines"
    train, head = load_file(fixture / "train.safetensors"), load_file(fixture / "head.safetensors")
    layer = (head["weight"].astype(np.float64), head["bias"].astype(np.float64))
    sets = {path.stem: load_file(path) for path in [fixture / "test.safetensors", *sorted((fixture / "ood").iterdir())]}
    given = {"features": (None, None), "head": (None, layer), "head and logits": (train["logits"], layer)}
    golden = {}
    for case, (logits, last) in given.items():
        reference = Reference(train["features"], logits, last)
        for name, rows in sets.items():
            known = None if logits is None else rows["logits"]
            golden[f"{case}/{name}"] = reference.score(rows["features"], known)
    save_file(golden, fixture / "golden-auto.safetensors")
    print(f"{len(golden)} sets of golden scores; {int((~set_aside(len(train['features']), SEED)).sum())} landmarks")


if __name__ == "__main__":
    sys.exit(main())
