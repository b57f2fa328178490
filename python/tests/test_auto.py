"""The method `auto` against plain NumPy in double precision, and what it takes."""

from __future__ import annotations

import numpy as np
import pytest

import offspan

special = pytest.importorskip("scipy.special")

WIDTH, CLASSES, SEED = 24, 6, 3
NORMAL_95 = 1.6448536269514722


# --- the reference ---------------------------------------------------------------------------------


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


# --- data ------------------------------------------------------------------------------------------


def features(count, seed, scale=1.0):
    """Rows around class means, positive as after a ReLU; `scale` moves them away from the means."""
    means = np.random.default_rng(11).uniform(0.0, 2.0, (CLASSES, WIDTH))
    draw = np.random.default_rng(seed)
    noise = draw.normal(0.0, 0.7 * scale, (count, WIDTH))
    return np.maximum(means[draw.integers(0, CLASSES, count)] + noise, 0.0).astype(np.float32)


@pytest.fixture(scope="module")
def last_layer():
    draw = np.random.default_rng(12)
    return draw.normal(0.0, 0.5, (CLASSES, WIDTH)), draw.normal(size=CLASSES)


def logits_of(z, layer):
    return (z.astype(np.float64) @ layer[0].T + layer[1]).astype(np.float32)


def bent(z, layer):
    """Logits that no linear layer gives."""
    return np.tanh(logits_of(z, layer) / 3) * 5


# --- tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["head and logits", "head", "logits", "features"])
@pytest.mark.parametrize(("explained_variance", "is_bounded"), [(0.99, True), (0.3, False)])
def test_scores_are_those_of_the_reference(given, explained_variance, is_bounded, last_layer):
    train, new = features(600, seed=1), np.vstack([features(200, seed=2), features(100, seed=3, scale=3.0)])
    head = last_layer if given.startswith("head") else None
    known = {"head and logits": logits_of, "logits": bent}.get(given, lambda z, layer: None)
    reference = Reference(train, known(train, last_layer), head, explained_variance)
    assert (reference.q < reference.wanted) == is_bounded
    expected = reference.score(new, known(new, last_layer))
    kept = int((~set_aside(600, SEED)).sum())
    assert kept <= 500, "all kept rows set the kernel's width"
    # Measured: 5e-8 with a head, whose cut is in single precision, 1e-12 without; 2e-5 in single precision. Products
    # in 16 bits may change a residual by a thousandth of itself, and changed a score by at most 4e-3 of itself.
    for precision, tolerance in (("f64", 1e-6), ("f32", 1e-4)):
        options = {"landmarks": kept, "explained_variance": explained_variance, "precision": precision}
        auto = offspan.make(head=head, seed=SEED, **options)
        auto.fit(train, known(train, last_layer), hold_out=0)
        found = auto.detector.info["results"]["found"]
        fixed = "bits of products" in found
        assert not fixed or precision == "f32"
        of_e, of_scores = (1e-3, 1e-2) if fixed else (tolerance, tolerance)
        assert auto.detector.info["results"]["kpca"]["components"] == reference.q
        assert found["gamma"] == pytest.approx(reference.gamma, rel=1e-9)
        assert found["residual median"] == pytest.approx(reference.median_e, rel=of_e)
        assert found["residual spread"] == pytest.approx(reference.spread_e, rel=of_e)
        assert ("clip reach" in found) == (head is not None)
        if head is not None:
            assert found["clip reach"] == pytest.approx(reference.reach, rel=1e-9)
        if reference.with_energy:
            assert found["temperature"] == pytest.approx(reference.temperature, rel=1e-6)
            assert found["weight of the residual"] == pytest.approx(reference.weight, rel=10 * of_e)
        np.testing.assert_allclose(auto.score(new, known(new, last_layer)), expected, rtol=of_scores)


def test_the_last_layer_is_found_again_from_logits(last_layer):
    train, new = features(4000, seed=4), np.vstack([features(300, seed=5), features(100, seed=6, scale=3.0)])
    logits = logits_of(train, last_layer)
    given = offspan.make(head=last_layer, landmarks=128).fit(train, logits)
    found = offspan.make(landmarks=128).fit(train, logits)
    without = offspan.make(landmarks=128).fit(train, bent(train, last_layer))
    reach = [method.detector.info["results"]["found"].get("clip reach") for method in (given, found, without)]
    assert reach[0] == reach[1] and reach[2] is None
    expected = given.score(new)
    np.testing.assert_allclose(found.score(new, logits_of(new, last_layer)), expected, rtol=1e-4)
    # Then later rows need no logits, either.
    np.testing.assert_allclose(found.score(new), expected, rtol=1e-4)
    with pytest.raises(offspan.InputError, match="needs logits"):
        without.score(new)


def test_auto_is_the_default_and_takes_what_there_is(rows, strangers, head):
    logits, strange_logits = (given @ head[0].T + head[1] for given in (rows, strangers))
    assert offspan.make().name == "auto"
    for method, known, strange in [
        (offspan.make().fit(rows), None, None),
        (offspan.make().fit(rows, logits=logits), logits, strange_logits),
        (offspan.make(head=head).fit(rows), None, None),
    ]:
        assert method.detector.method == "auto"
        auroc = offspan.metrics.evaluate(method.score(rows, known), method.score(strangers, strange)).auroc
        assert auroc > 0.9
        assert method.predict(rows, known).mean() > 0.9


def test_auto_needs_a_few_rows(rows):
    with pytest.raises(offspan.InputError, match="auto on the training rows: expected at least 40 rows, got 12"):
        offspan.make().fit(rows[:12], hold_out=0)


def test_a_row_of_zeros_has_the_worst_score(rows, head):
    auto = offspan.make(head=head).fit(rows)
    assert auto.score(np.zeros((1, 12)))[0] == -np.inf
    assert not auto.predict(np.zeros((1, 12)))[0]
