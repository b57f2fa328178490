from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch_networks import Convolutional, batches, images

import offspan
from offspan.torch import extract, odin_perturb, odin_scores


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Convolutional().double()


def plain_odin(network, x, temperature, eps, std=None):
    """The paper's formula, a row at a time: x + ε·sign(∇ log max softmax(l/T)), then max softmax."""
    network.eval()
    scores, moved = [], []
    for row in x:
        row = row[None].clone().requires_grad_()
        top = torch.softmax(network(row) / temperature, 1).max()
        top.log().backward()
        step = torch.sign(row.grad)
        if std is not None:
            step = step / torch.tensor(std, dtype=x.dtype)[None, :, None, None]
        row = (row + eps * step).detach()
        with torch.no_grad():
            scores.append(float(torch.softmax(network(row) / temperature, 1).max()))
        moved.append(row)
    network.zero_grad(set_to_none=True)
    return np.array(scores), torch.cat(moved)


@pytest.mark.parametrize(
    ("temperature", "eps", "std"), [(1000, 0.0014, None), (1, 0.02, None), (10, 0.01, [0.2, 0.5, 2.0])]
)
def test_it_is_the_papers_formula(network, temperature, eps, std):
    x = images(12).double()
    expected, moved = plain_odin(network, x, temperature, eps, std)
    options = {"temperature": temperature, "eps": eps, "std": std}
    np.testing.assert_allclose(odin_scores(network, x, **options), expected, rtol=1e-12)
    np.testing.assert_allclose(odin_scores(network, batches(12, 5), **options), expected, rtol=1e-12)
    torch.testing.assert_close(odin_perturb(network, x, **options), moved)


def test_the_step_makes_the_predicted_class_more_probable(network):
    options = {"temperature": 1.0}
    assert (
        odin_scores(network, images(30), eps=0.002, **options) > odin_scores(network, images(30), eps=0, **options)
    ).all()


@pytest.mark.parametrize("temperature", [1.0, 1000.0])
def test_without_the_step_it_is_the_score_of_the_logits(network, temperature):
    data = extract(network.float(), batches(40))
    expected = offspan.make("odin", temperature=temperature).fit(data.features, data.logits, hold_out=0.0)
    scores = odin_scores(network, batches(40), temperature=temperature, eps=0.0)
    np.testing.assert_allclose(scores, expected.score(data.features, data.logits), rtol=1e-12)


def test_the_network_is_as_before_and_gradients_need_not_be_on(network):
    network.train()
    network.layer1.eval()
    modes = [module.training for module in network.modules()]
    statistics = network.layer2[1].running_mean.clone()
    expected = odin_scores(network, images(6))
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            np.testing.assert_array_equal(odin_scores(network, images(6)), expected)
    assert [module.training for module in network.modules()] == modes
    assert all(parameter.grad is None for parameter in network.parameters())
    torch.testing.assert_close(network.layer2[1].running_mean, statistics, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (images(2), {"temperature": 0.0}, "temperature must be"),
        (images(2), {"eps": -1.0}, "eps must be"),
        (images(2), {"std": [1.0]}, "for each channel"),
        (images(2), {"std": [1.0, 0.0, 1.0]}, "for each channel"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), {}, r"floating-point tensor, got torch\.uint8"),
        ([], {}, "no batches"),
    ],
)
def test_wrong_arguments_are_told(network, data, options, message):
    with pytest.raises(offspan.InputError, match=message):
        odin_scores(network, data, **options)
