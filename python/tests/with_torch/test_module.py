from __future__ import annotations

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch_networks import Convolutional, ConvolutionalHead, Softmax, batches, hooks, images

import offspan
from offspan.torch import OODModule, extract

METHODS = {"kpca-nys": {"landmarks": 64}, "vim": {"components": 4}, "energy": {}, "knn": {"neighbours": 5}}


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Convolutional().eval()


@pytest.fixture
def train(network):
    return extract(network, batches(600))


def fitted(train, name):
    method = offspan.make(name, head=train.head, **METHODS[name])
    return method.fit(train.features, train.logits, train.labels)


@pytest.mark.parametrize("name", list(METHODS))
def test_logits_and_scores_are_those_of_network_and_detector(network, train, name):
    method = fitted(train, name)
    logits, score = OODModule(network, method)(images(40, seed=3))
    data = extract(network, [images(40, seed=3)])
    torch.testing.assert_close(logits, network(images(40, seed=3)))
    assert (score.dtype, score.shape, score.device) == (torch.float32, (40,), logits.device)
    np.testing.assert_array_equal(score.numpy(), method.score(data.features, data.logits).astype(np.float32))
    assert hooks(network) == 0


def test_decisions_are_the_detectors_to_the_bit(network, train):
    method = fitted(train, "kpca-nys")
    guarded = OODModule(network, method.detector)
    assert guarded.threshold == method.threshold
    data = extract(network, [images(200, seed=4)])
    _, is_in = guarded.predict(images(200, seed=4))
    assert is_in.dtype == torch.bool
    np.testing.assert_array_equal(is_in.numpy(), method.predict(data.features, data.logits))
    # A threshold between a score and its float32: rounding first would decide otherwise.
    scores = method.score(data.features, data.logits)
    guarded.threshold = float(scores[0])
    assert bool(guarded.predict(images(200, seed=4))[1][0])
    guarded.threshold = float(np.nextafter(scores[0], np.inf))
    assert not bool(guarded.predict(images(200, seed=4))[1][0])


def test_without_threshold_or_detector_it_says_so(network, train):
    guarded = OODModule(network, offspan.make("energy", head=train.head).fit(train.features, hold_out=0.0))
    assert guarded.threshold is None
    with pytest.raises(offspan.NotFittedError, match="no threshold"):
        guarded.predict(images(2))
    with pytest.raises(offspan.NotFittedError, match="no detector yet"):
        OODModule(network, None)(images(2))
    with pytest.raises(offspan.NotFittedError):
        OODModule(network, offspan.make("energy"))


def test_logits_keep_their_gradient_and_scores_have_none(network, train):
    logits, score = OODModule(network, fitted(train, "energy"))(images(4))
    assert not score.requires_grad
    logits.sum().backward()
    assert network.fc.weight.grad is not None


def test_the_first_look_leaves_batch_statistics_alone(network, train):
    once, twice = copy.deepcopy(network).train(), copy.deepcopy(network).train()
    torch.manual_seed(5)
    guarded = OODModule(once, fitted(train, "energy")).train()
    guarded(images(8))
    twice(images(8))
    torch.testing.assert_close(once.layer1[1].running_mean, twice.layer1[1].running_mean, rtol=0, atol=0)
    assert all(module.training for module in guarded.modules())


def test_a_copy_and_a_pickle_score_the_same_on_their_own(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"), layer=network.layer2)
    expected = guarded(images(10))
    for other in (copy.deepcopy(guarded), pickle.loads(pickle.dumps(guarded))):
        torch.testing.assert_close(other(images(10)), expected, rtol=0, atol=0)
        with torch.no_grad():
            other.model.layer1[0].weight.zero_()
        assert not torch.equal(other(images(10))[1], expected[1])
    torch.testing.assert_close(guarded(images(10)), expected, rtol=0, atol=0)


def test_the_state_carries_the_detector(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    guarded.threshold = -0.25
    expected = guarded(images(10))
    stored = io.BytesIO()
    torch.save(guarded.state_dict(), stored)
    stored.seek(0)
    torch.manual_seed(99)
    other = OODModule(Convolutional().eval(), None)
    other.load_state_dict(torch.load(stored))
    torch.testing.assert_close(other(images(10)), expected, rtol=0, atol=0)
    assert other.threshold == -0.25
    assert other.detector == guarded.detector


def test_the_state_loads_as_weights_only(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    stored = io.BytesIO()
    torch.save(guarded.state_dict(), stored)
    stored.seek(0)
    assert "_extra_state" in torch.load(stored, weights_only=True)


def test_the_module_moves_like_any_other(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    expected = guarded(images(6))
    torch.testing.assert_close(guarded.to("cpu")(images(6)), expected)
    double = guarded.double()(images(6).double())
    assert double[0].dtype == torch.float64
    torch.testing.assert_close(double[1], expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("bfloat16_convolutions")
def test_the_module_works_in_bfloat16(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    expected = guarded(images(6))
    narrow = guarded.bfloat16()(images(6).bfloat16())
    assert (narrow[0].dtype, narrow[1].dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(narrow[1], expected[1], rtol=5e-2, atol=5e-2)


class Narrowing(torch.nn.Module):
    """Computes in float32 and hands its features and logits on as bfloat16."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x).bfloat16()


def test_bfloat16_outputs_are_scored_without_bfloat16_arithmetic(network, train):
    """Our part of the above, on every processor: conversion of what the network gives."""
    expected = OODModule(network, fitted(train, "energy"))(images(6))
    narrow = OODModule(Narrowing(network), fitted(train, "energy"))(images(6))
    assert (narrow[0].dtype, narrow[1].dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(narrow[1], expected[1], rtol=5e-2, atol=5e-2)


def test_a_detector_file_is_enough(network, train, tmp_path):
    method = fitted(train, "vim")
    method.save(tmp_path / "vim.offspan")
    torch.testing.assert_close(
        OODModule(network, tmp_path / "vim.offspan")(images(6)), OODModule(network, method)(images(6)), rtol=0, atol=0
    )


def test_maps_reach_detectors_that_need_them(network):
    train = extract(network, batches(60), maps=True)
    method = offspan.make("rank-feat", head=train.head)
    method.fit(train.features, train.logits, extras=train.extras, hold_out=0.0)
    _, score = OODModule(network, method, maps=True)(images(60))
    expected = method.score(train.features, train.logits, extras=train.extras)
    np.testing.assert_allclose(score.numpy(), expected, rtol=1e-5)
    with pytest.raises(offspan.InputError, match="maps"):
        OODModule(network, method)(images(6))


def test_a_network_without_linear_head_works_by_its_layer_and_output():
    network = ConvolutionalHead().eval()
    train = extract(network, batches(200), layer="features", logits=True)
    method = offspan.make("energy").fit(train.features, train.logits, hold_out=0.0)
    logits, score = OODModule(network, method, layer="features")(images(6))
    torch.testing.assert_close(score, logits.logsumexp(1).detach(), rtol=1e-5, atol=1e-5)
    with pytest.raises(offspan.InputError, match="found no linear head"):
        OODModule(network, method)(images(6))


def test_a_network_that_goes_on_after_its_head_is_scored_by_the_heads_logits():
    torch.manual_seed(2)
    network, x = Softmax().eval(), torch.randn(100, 10)
    train = extract(network, [x], head="last")
    method = offspan.make("energy").fit(train.features, train.logits, hold_out=0.0)
    output, score = OODModule(network, method, head="last")(x)
    torch.testing.assert_close(output, network(x))
    np.testing.assert_allclose(score.numpy(), method.score(train.features, train.logits), rtol=1e-5)


def test_threads_that_share_a_network_get_their_own_rows(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    inputs = [images(16, seed=seed) for seed in range(8)]
    with torch.no_grad():
        expected = [guarded(x)[1] for x in inputs]
        with ThreadPoolExecutor(4) as pool:
            scores = list(pool.map(lambda x: [guarded(x)[1] for _ in range(10)], inputs))
    for wanted, got in zip(expected, scores):
        for score in got:
            torch.testing.assert_close(score, wanted)
    assert hooks(network) == 0
