"""The recipes for embeddings without a classifier: docs/embeddings.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import offspan

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "crates/offspan/tests/fixture-baselines"


@pytest.fixture(scope="module")
def recipes():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("embeddings", ROOT / "python/examples/embeddings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unit(rows):
    """Rows of unit length."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_msp_behind_a_head_of_cosines_is_mcm():
    draw = np.random.default_rng(3)
    texts, images = draw.normal(size=(7, 16)), unit(draw.normal(size=(50, 16)))
    for temperature in (1.0, 0.01):
        detector = offspan.make("msp", head=offspan.cosine_head(texts, temperature)).fit(images, hold_out=0)
        cosines = images @ unit(texts).T / temperature
        softmax = np.exp(cosines - cosines.max(axis=1, keepdims=True))
        mcm = (softmax / softmax.sum(axis=1, keepdims=True)).max(axis=1)
        np.testing.assert_allclose(detector.score(images), mcm, rtol=1e-5)
    with pytest.raises(offspan.InputError, match="class vectors"):
        offspan.cosine_head(np.zeros((2, 3)))
    with pytest.raises(offspan.InputError, match="temperature"):
        offspan.cosine_head(texts, 0.0)


def test_pseudo_labels_let_class_based_methods_run(rows, ood_rows):
    labels = offspan.pseudo_labels(rows, 4, seed=1)
    assert labels.dtype == np.int64 and set(labels) == {0, 1, 2, 3}
    np.testing.assert_array_equal(labels, offspan.pseudo_labels(rows, 4, seed=1))
    detector = offspan.make("mahalanobis").fit(rows, labels=labels, hold_out=0)
    assert detector.score(rows).mean() > detector.score(ood_rows).mean()
    with pytest.raises(offspan.InputError, match="2 to 600 clusters of 1200 rows"):
        offspan.pseudo_labels(rows, 700)
    pack = offspan.Pack(rows[:900], rows[900:], {"far": ood_rows})
    found = offspan.evaluate(pack, ["mahalanobis", "rmds"])
    assert not found.averages and "labels" in found.without["mahalanobis"]
    found = offspan.evaluate(pack, ["mahalanobis", "rmds"], pseudo_labels=4)
    assert set(found.averages) == {"mahalanobis", "rmds"}
    labelled = offspan.Pack((rows[:900], None, labels[:900]), rows[900:], {"far": ood_rows})
    with pytest.raises(offspan.InputError, match="labels of its own"):
        offspan.evaluate(labelled, ["mahalanobis"], pseudo_labels=4)


def test_rde_is_the_distance_in_kernel_pca_coordinates(recipes):
    covariance = pytest.importorskip("sklearn.covariance")
    draw = np.random.default_rng(5)
    train, new = draw.normal(size=(150, 6)), draw.normal(size=(20, 6)) + 2
    found = recipes.RDE(components=5, rows=1000).fit(train).score(new)

    # The formulas, by eigenvectors of the centred kernel matrix.
    def kernel(a, b):
        return np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 6)

    inner, outer = kernel(train, train), kernel(new, train)
    centre = np.eye(150) - 1 / 150
    values, vectors = np.linalg.eigh(centre @ inner @ centre)
    values, vectors = values[::-1][:5], vectors[:, ::-1][:, :5]
    project = (outer - inner.mean(axis=0)) @ centre @ vectors / np.sqrt(values)
    density = covariance.MinCovDet(random_state=42).fit(vectors * np.sqrt(values))
    apart = project - density.location_
    formula = -np.einsum("ij,jk,ik->i", apart, np.linalg.inv(density.covariance_), apart)
    # The signs of eigenvectors are free, and the robust covariance draws subsets: its figure is that of its own signs.
    np.testing.assert_allclose(np.argsort(found)[:3], np.argsort(formula)[:3])
    np.testing.assert_allclose(found, formula, rtol=0.2)


def test_rde_is_a_method_among_others_on_sentence_embeddings(recipes, packs):
    pytest.importorskip("sklearn")
    folder = next((pack for pack in packs if pack.name == "clinc150-minilm"), None)
    if folder is None:
        pytest.skip("the pack of sentence embeddings is not beside the project")
    whole = offspan.Pack.open(folder)
    splits = {name: whole.read(name).features for name in ("train", "test", "oos_test")}
    # Every fifth row, without labels and logits, as an encoder without a head gives them.
    pack = offspan.Pack(splits["train"][::5], splits["test"][::9], {"oos": splits["oos_test"][::2]}, name="sentences")
    found = offspan.evaluate(
        pack,
        {
            "rde": recipes.RDE(components=20, rows=400),
            "kpca-nys": offspan.make("kpca-nys", sampling="uniform"),
            "mahalanobis": "mahalanobis",
        },
        pseudo_labels=50,
    )
    assert not found.without and set(found.averages) == {"rde", "kpca-nys", "mahalanobis"}
    # Not all find these few sentences: only what classes tell is promised.
    assert found.averages["mahalanobis"]["auroc"] > 0.7, found.averages
