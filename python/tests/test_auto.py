"""The method `auto` against plain NumPy in double precision, and what it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import offspan

pytest.importorskip("scipy.special")
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench" / "reference"))
from auto_f64 import SEED, Reference, set_aside

WIDTH, CLASSES = 24, 6


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
def test_terms_are_those_of_the_reference(given, explained_variance, is_bounded, last_layer):
    train, new = features(600, seed=1), np.vstack([features(200, seed=2), features(100, seed=3, scale=3.0)])
    head = last_layer if given.startswith("head") else None
    known = {"head and logits": logits_of, "logits": bent}.get(given, lambda z, layer: None)
    reference = Reference(train, known(train, last_layer), head, explained_variance)
    assert (reference.q < reference.wanted) == is_bounded
    expected = reference.log_p_values(new, known(new, last_layer))
    kept = int((~set_aside(600, SEED)).sum())
    assert kept <= 500, "all kept rows set the kernel's width"
    # Products in 16 bits may change a residual by a thousandth of itself.
    for precision, tolerance in (("f64", 1e-5), ("f32", 2e-2)):
        options = {"landmarks": kept, "explained_variance": explained_variance, "precision": precision}
        auto = offspan.make(head=head, seed=SEED, **options)
        auto.fit(train, known(train, last_layer), hold_out=0)
        found = auto.detector.info["results"]["found"]
        assert precision == "f32" or "bits of products" not in found
        assert auto.detector.info["results"]["kpca"]["components"] == reference.q
        assert found["gamma"] == pytest.approx(reference.gamma, rel=1e-9)
        explained = auto.explain(new, known(new, last_layer))
        shared = [name for name in explained.p_values if name in expected]
        # Terms of no weight are left out of a detector.
        assert len(shared) >= (1 if given == "features" else 2), explained.weights
        if "energy" in shared:
            assert found["temperature"] == pytest.approx(reference.temperature, rel=1e-6)
            assert ("clip reach" in found) == (head is not None)
            if head is not None:
                assert found["clip reach"] == pytest.approx(reference.reach, rel=1e-9)
        for name in shared:
            p_values = np.exp(expected[name])
            np.testing.assert_allclose(explained.p_values[name], p_values, rtol=tolerance, atol=tolerance, err_msg=name)
        weights = sum(weight * np.log(explained.p_values[name]) for name, weight in explained.weights.items())
        score = auto.score(new, known(new, last_layer))
        near = score > -30
        np.testing.assert_allclose(weights[near], score[near], rtol=1e-6)


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


def test_auto_is_the_default_and_takes_what_there_is(rows, ood_rows, head):
    logits, strange_logits = (given @ head[0].T + head[1] for given in (rows, ood_rows))
    assert offspan.make().name == "auto"
    for method, known, strange in [
        (offspan.make().fit(rows), None, None),
        (offspan.make().fit(rows, logits=logits), logits, strange_logits),
        (offspan.make(head=head).fit(rows), None, None),
    ]:
        assert method.detector.method == "auto"
        auroc = offspan.metrics.evaluate(method.score(rows, known), method.score(ood_rows, strange)).auroc
        assert auroc > 0.9
        assert method.predict(rows, known).mean() > 0.9


def test_auto_needs_a_few_rows(rows):
    with pytest.raises(offspan.InputError, match="auto on the training rows: expected at least 40 rows, got 12"):
        offspan.make().fit(rows[:12], hold_out=0)


def test_a_row_of_zeros_has_the_worst_score(rows, head):
    auto = offspan.make(head=head).fit(rows)
    assert auto.score(np.zeros((1, 12)))[0] == -np.inf
    assert not auto.predict(np.zeros((1, 12)))[0]
