"""The terms of `auto` in plain NumPy, double precision, with every kept row a landmark.

python3 auto_f64.py writes golden log p-values of `auto` for the fixture of the baselines. Not here are the distances to
planes, which begin with seeded clusters, and the weights, which come from seeded trials.
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


class Scale:
    """The median, and the spread below it in standard deviations of a normal distribution with such a percentile."""

    def __init__(self, values):
        self.median = np.median(values)
        self.spread = (self.median - np.percentile(values, 5)) / NORMAL_95

    def log_p(self, values):
        return special.log_ndtr((values - self.median) / self.spread)


class Space:
    """Rows whose covariance inside the classes is made round, shrunk after Ledoit and Wolf."""

    def __init__(self, rows, classes):
        count, width = rows.shape
        self.centre = rows.mean(axis=0)
        y = rows - self.centre
        present, classes, sizes = np.unique(classes, return_inverse=True, return_counts=True)
        means = np.array([y[classes == number].mean(axis=0) for number in range(len(present))])
        inside = y - means[classes]
        covariance = inside.T @ inside / count
        mean = np.trace(covariance) / width
        distance = ((covariance - mean * np.eye(width)) ** 2).sum()
        noise = (((inside**2).sum(axis=1) ** 2).mean() - (covariance**2).sum()) / count
        shrinkage = np.clip(noise / distance, 0, 1)
        values, vectors = np.linalg.eigh(covariance)
        values = (1 - shrinkage) * values + shrinkage * mean
        self.whitening = vectors / np.sqrt(np.maximum(values, 1e-8 * values[-1]))
        white = means @ self.whitening * np.sqrt(sizes / count)[:, None]
        values, vectors = np.linalg.eigh(white.T @ white)
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = min(64, len(present) - 1, int((values > 1e-12 * values[0]).sum()))
        self.between, self.discriminants = values[:kept], vectors[:, :kept]
        self.means = means @ self.whitening @ self.discriminants

    def terms(self, rows):
        """The relative distance to classes, and what lies off the directions in which they differ."""
        white = (rows - self.centre) @ self.whitening
        h = white @ self.discriminants
        nearest = ((h[:, None] - self.means) ** 2).sum(axis=2).min(axis=1)
        relative = (h**2 / (1 + self.between)).sum(axis=1) - nearest
        return relative, -np.sqrt(np.maximum((white**2).sum(axis=1) - (h**2).sum(axis=1), 0))


class Reference:
    """`auto` with every kept row a landmark, which leaves nothing to chance but the rows set aside."""

    def __init__(self, z, logits=None, head=None, explained_variance=0.99, seed=SEED):
        z = np.asarray(z, dtype=np.float64)
        aside = set_aside(len(z), seed)
        kept, self.with_energy = z[~aside], logits is not None or head is not None

        # The kernel's width: four over the median squared distance between unit vectors.
        landmarks = unit(kept)
        distances = np.maximum(2 - 2 * landmarks @ landmarks.T, 0)[np.triu_indices(len(kept), 1)]
        self.gamma = 4.0 / np.median(distances)
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

        # Both spaces, with the classes that the network predicts.
        self.spaces = []
        if self.with_energy:
            classes = self.logits(kept, None if logits is None else logits[~aside]).argmax(axis=1)
            self.spaces = [("", Space(kept, classes)), (" of unit rows", Space(unit(kept), classes))]
            known = None if logits is None else logits[aside]
            plain = self.logits(z[aside], known)
            above_mean = np.median(plain.max(axis=1) - plain.mean(axis=1))
            self.temperature = min(1.0, above_mean / (3 * np.log(plain.shape[1])))

        # How the terms spread on the rows set aside.
        values = self.values(z[aside], None if logits is None else logits[aside])
        self.scales = {name: Scale(value) for name, value in values.items()}

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

    def values(self, z, logits=None):
        """Every term that is here, larger for more in-distribution."""
        z = np.asarray(z, dtype=np.float64)
        values = {"span": -self.residual(z)}
        if self.with_energy:
            values["energy"] = self.energy(z, logits)
        for of, space in self.spaces:
            values["class" + of], values["off the classes" + of] = space.terms(unit(z) if of else z)
        return values

    def log_p_values(self, z, logits=None):
        return {name: self.scales[name].log_p(value) for name, value in self.values(z, logits).items()}


def main() -> None:
    """Log p-values of the test and OoD rows: with features alone, with the last layer, with logits besides."""
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
            for term, log_p in reference.log_p_values(rows["features"], known).items():
                golden[f"{case}/{name}/{term}"] = log_p
    save_file(golden, fixture / "golden-auto.safetensors")
    print(f"{len(golden)} sets of golden log p-values; {int((~set_aside(len(train['features']), SEED)).sum())} landmarks")


if __name__ == "__main__":
    sys.exit(main())
