from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.pytorch_ood needs PyTorch, which is not installed")
pytest.importorskip("pytorch_ood.api", reason="pytorch-ood is not installed, or lacks a package that it needs")

import pytorch_ood
import torch
from pytorch_ood import api
from pytorch_ood.api import ModelNotSetException, RequiresFittingException
from torch_networks import Convolutional, batches, images, labels

import offspan
from offspan.pytorch_ood import OffspanDetector
from offspan.torch import extract
from offspan.torch._tensorfile import read_tensors

PROJECT = Path(__file__).resolve().parents[3]
PACKS = PROJECT.parent / "shared" / "packs"


def metrics():
    try:
        from pytorch_ood.metrics import OODMetrics
    except ImportError:  # before version 0.4
        from pytorch_ood.utils import OODMetrics
    return OODMetrics()


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Convolutional().eval()


@pytest.fixture
def train(network):
    return extract(network, batches(400))


@pytest.mark.parametrize(("name", "options"), [("knn", {"neighbours": 5}), ("energy", {}), ("mahalanobis", {})])
def test_scores_are_offspans_with_the_sign_flipped(network, train, name, options):
    detector = OffspanDetector(network.features, name, head=network.fc, **options)
    assert isinstance(detector, api.Detector)
    assert detector.fit(batches(400)) is detector
    own = offspan.make(name, head=train.head, **options).fit(train.features, labels=train.labels, hold_out=0.0)
    x = images(30, seed=2)
    features = network.features(x).detach()
    scores = detector(x)
    assert scores.shape == (30,)
    np.testing.assert_allclose(scores.numpy(), -own.score(features), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(detector.predict_features(features).numpy(), scores.numpy())
    assert detector.detector.threshold is None


def test_rows_with_negative_labels_are_left_out(network, train):
    ood_rows = torch.randn(100, 12) * 50
    z = torch.cat([torch.from_numpy(train.features), ood_rows])
    y = torch.cat([torch.from_numpy(train.labels), torch.full((100,), -1)])
    order = torch.randperm(500)
    mixed = OffspanDetector(None, "mahalanobis").fit_features(z[order], y[order])
    clean = OffspanDetector(None, "mahalanobis").fit_features(z[:400], y[:400])
    torch.testing.assert_close(mixed.predict_features(z), clean.predict_features(z), rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="no in-distribution rows"):
        OffspanDetector(None, "pca").fit_features(ood_rows, torch.full((100,), -1))


def test_the_frameworks_own_exceptions_are_raised(network):
    with pytest.raises(ModelNotSetException):
        OffspanDetector(None, "knn").predict(images(2))
    with pytest.raises(ModelNotSetException):
        OffspanDetector(None, "knn").fit(batches(8))
    with pytest.raises(RequiresFittingException):
        OffspanDetector(network.features, "knn").predict(images(2))
    with pytest.raises(RequiresFittingException):
        OffspanDetector(None, "knn").predict_features(torch.randn(2, 12))


def test_a_fitted_detector_needs_no_fit(network, train):
    own = offspan.make("pca", components=4).fit(train.features)
    for given in (own.detector, own):
        scores = OffspanDetector(network.features, given)(images(5))
        np.testing.assert_allclose(scores.numpy(), -own.score(network.features(images(5))), rtol=1e-5, atol=1e-6)
    assert OffspanDetector(network.features, own.detector).requires_fit is False
    with pytest.raises(offspan.InputError, match="belong to a method's name"):
        OffspanDetector(None, own.detector, components=3)


def test_a_method_that_needs_the_head_says_so():
    with pytest.raises(offspan.InputError, match=r"(?i)head|last layer"):
        OffspanDetector(None, "energy").fit_features(torch.randn(50, 12), labels(50))


def test_the_frameworks_grid_search_tunes_options(network):
    if not hasattr(pytorch_ood.utils, "GridSearch"):
        pytest.skip("this version of pytorch-ood has no GridSearch")
    detector = OffspanDetector(network.features, "knn", neighbours=1)
    validation = [*batches(40, seed=3), (images(40, seed=4) * 5, torch.full((40,), -1))]
    search = pytorch_ood.utils.GridSearch(
        detector, batches(200), validation, hyperparameter_space={"neighbours": [1, 5, 50]}
    )
    best = search.run()
    assert detector.get_hyperparameters() == best
    scores = {record["params"]["neighbours"]: record["score"] for record in search.results_}
    assert len(scores) == 3
    assert scores[best["neighbours"]] == max(scores.values())
    with pytest.raises(ValueError, match="cannot set gamma"):
        detector.set_hyperparameters(gamma=1.0)


@pytest.mark.skipif(not PACKS.is_dir(), reason="the packs of real features are not beside the project")
@pytest.mark.parametrize(
    ("pack", "sets", "name", "options"),
    [
        ("cifar10-densenet", ("svhn", "textures"), "kpca-nys", {"landmarks": 512}),
        ("cifar10-densenet", ("svhn",), "energy", {}),
        ("clinc150-minilm", ("oos_test",), "mahalanobis", {}),
    ],
)
def test_the_frameworks_auroc_on_real_features_is_ours(pack, sets, name, options):
    if name == "mahalanobis" and not hasattr(pytorch_ood, "metrics"):
        pytest.skip(
            "before version 0.4, the framework's metrics put scores through a sigmoid, which large ones do not survive"
        )
    folder = PACKS / pack
    head = tuple(read_tensors(folder / "head.safetensors")[part] for part in ("weight", "bias"))
    train, test = (read_tensors(folder / f"{split}.safetensors") for split in ("train", "test"))
    own = offspan.make(name, head=head, **options)
    own.fit(train["features"], labels=train["labels"], hold_out=0.0)
    detector = OffspanDetector(lambda features: features, name, head=head, **options)
    detector.fit_features(
        torch.from_numpy(np.array(train["features"])), torch.from_numpy(np.array(train["labels"]).astype(int))
    )
    ind = own.score(test["features"])
    for ood_row in sets:
        ood = read_tensors(folder / "ood" / f"{ood_row}.safetensors")["features"]
        measured = metrics()
        for rows, label in ((test["features"], 0), (ood, -1)):
            for batch in torch.from_numpy(np.array(rows)).split(1000):
                measured.update(detector(batch), torch.full((len(batch),), label))
        expected = offspan.metrics.evaluate(ind, own.score(ood)).auroc
        assert measured.compute()["AUROC"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.skipif(not PACKS.is_dir(), reason="the packs of real features are not beside the project")
def test_the_frameworks_auroc_on_real_features_is_what_offspan_eval_prints(tmp_path, command_line):
    folder = PACKS / "clinc150-minilm"
    options = {"landmarks": 256, "sampling": "uniform", "residual": "complete"}
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    command = [command_line, "eval", folder, "--method", "kpca-nys", *flags, "--json", tmp_path / "eval.json"]
    subprocess.run(command, check=True, capture_output=True)
    printed = json.loads((tmp_path / "eval.json").read_text())["results"][0]["sets"]["oos_test"]["auroc"]

    train, test, ood = (
        torch.from_numpy(np.array(read_tensors(folder / f"{split}.safetensors")["features"]))
        for split in ("train", "test", "ood/oos_test")
    )
    detector = OffspanDetector(None, "kpca-nys", **options).fit_features(train, torch.zeros(len(train)))
    measured = metrics()
    measured.update(detector.predict_features(test), torch.zeros(len(test)).long())
    measured.update(detector.predict_features(ood), torch.full((len(ood),), -1))
    assert measured.compute()["AUROC"] == pytest.approx(printed, abs=1e-6)
