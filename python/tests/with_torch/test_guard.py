"""``offspan.torch.guard``: from a trained network to a guarded one."""

from __future__ import annotations

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch import nn
from torch_networks import Convolutional, ConvolutionalHead, Softmax, Tokens, batches, hooks, images

import offspan
from offspan.torch import Guarded, GuardedOutput, NativeDetector, extract, guard
from offspan.torch._network import to_network

OPTIONS = {"landmarks": 64}


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Convolutional().eval()


@pytest.fixture
def guarded(network):
    return guard(network, batches(400), "kpca-nys", calibrate=batches(300, seed=2), keep=0.9, **OPTIONS)


def test_one_call_makes_what_the_steps_make(network, guarded):
    train, other, new = (extract(network, batches(rows, seed=seed)) for rows, seed in ((400, 0), (300, 2), (50, 5)))
    method = offspan.make("kpca-nys", head=train.head, **OPTIONS).fit(train.features, train.logits, hold_out=0.0)
    method.calibrate(other.features, other.logits, keep=0.9)
    found = guarded(images(50, seed=5))
    expected = method.score(new.features, new.logits)
    scale = np.abs(expected).max()
    assert np.abs(found.score.numpy() - expected).max() <= 1e-4 * scale
    torch.testing.assert_close(found.logits, network(images(50, seed=5)))
    clear = np.abs(expected - method.threshold) > 1e-4 * scale
    np.testing.assert_array_equal(found.is_ood.numpy()[clear], ~method.predict(new.features, new.logits)[clear])
    np.testing.assert_allclose(found.p_value.numpy(), method.p_values(new.features, new.logits), atol=2 / 301)
    assert isinstance(found, GuardedOutput)


def test_the_default_method_guards(network):
    found = guard(network, batches(400), calibrate=batches(300, seed=2), keep=0.9)(images(20, seed=6))
    assert torch.isfinite(found.score).all() and found.is_ood.dtype == torch.bool


def test_the_network_is_left_as_it_was(network):
    network.train()
    network.layer2[1].eval()
    modes = [module.training for module in network.modules()]
    before = copy.deepcopy(network.state_dict())
    guarded = guard(network, batches(200), "energy", hold_out=0.4)
    assert [module.training for module in network.modules()] == modes
    assert hooks(network) == 0
    guarded.eval()(images(4))
    assert hooks(network) == 0
    for name, value in network.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_only_copies_to_a_device_go_on_beside_the_work(monkeypatch):
    said = []
    plain = torch.Tensor.to

    def to(tensor, *args, **kwargs):
        said.append(kwargs.pop("non_blocking"))
        return plain(tensor, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", to)
    for device in ("cpu", "meta"):
        to_network((torch.ones(2), {"mask": torch.ones(2, dtype=torch.int64)}), torch.device(device), torch.float64)
    assert said == [False, False, True, True]


def test_hooks_do_not_stay_where_a_fit_fails(network):
    with pytest.raises(offspan.InputError, match="landmarks"):
        guard(network, batches(400), "kpca-nys", landmarks=5000)
    assert hooks(network) == 0
    assert not network.training


def test_weights_are_shared_with_the_network(network, guarded):
    assert all(a is b for a, b in zip(network.parameters(), guarded.model.parameters()))
    expected = guarded(images(4)).logits
    with torch.no_grad():
        network.fc.bias += 1.0
        network.layer1[0].weight.zero_()
    found = guarded(images(4)).logits
    torch.testing.assert_close(found, network(images(4)))
    assert not torch.equal(found, expected)
    guarded.double()
    assert network.fc.weight.dtype == torch.float64


def test_scores_are_those_of_evaluation_mode(network, guarded):
    expected = guarded(images(8)).score
    guarded.train()
    torch.manual_seed(3)
    found = guarded(images(8))
    torch.testing.assert_close(found.score, expected)
    assert all(module.training for module in guarded.modules())
    with pytest.raises(offspan.InputError, match=r"call `guarded\.eval\(\)` before it is traced"):
        torch.jit.trace(guarded, (images(8),))


def test_logits_keep_their_gradient(network, guarded):
    guarded(images(4)).logits.sum().backward()
    assert network.fc.weight.grad is not None


def test_a_row_that_is_not_finite_is_out(guarded):
    broken = images(6)
    broken[2] = float("nan")
    found = guarded(broken)
    assert found.score[2] == -float("inf") and bool(found.is_ood[2])
    torch.testing.assert_close(found.score[3:], guarded(images(6)).score[3:])


def test_threads_share_a_guarded_network(guarded):
    given = [images(5, seed=seed) for seed in range(12)]
    expected = [guarded(rows).score for rows in given]
    with ThreadPoolExecutor(6) as pool:
        for found, score in zip(pool.map(guarded, given * 5), expected * 5):
            torch.testing.assert_close(found.score, score)


def replicas(module: nn.Module, count: int) -> list[nn.Module]:
    """Copies as `DataParallel` makes them, without the devices."""
    modules = list(module.modules())
    index = {child: place for place, child in enumerate(modules)}
    made = [[child._replicate_for_data_parallel() for child in modules] for _ in range(count)]
    for copies in made:
        for place, child in enumerate(modules):
            for name, part in child._modules.items():
                copies[place]._modules[name] = None if part is None else copies[index[part]]
            for name, value in child._parameters.items():
                setattr(copies[place], name, value.detach())
            for name, value in child._buffers.items():
                copies[place]._buffers[name] = value
    return [copies[0] for copies in made]


def test_replicas_of_data_parallel_keep_their_tensors_apart(guarded):
    given = [images(5, seed=seed) for seed in range(8)]
    expected = [guarded(rows).score for rows in given]
    copies = replicas(guarded, 4)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: copies[number % 4](given[number % 8]), range(40)))
    for number, one in enumerate(found):
        torch.testing.assert_close(one.score, expected[number % 8])
    torch.testing.assert_close(nn.DataParallel(guarded)(given[0]).score, expected[0])


def test_copies_stand_alone(network, guarded):
    expected = guarded(images(5))
    for other in (copy.deepcopy(guarded), pickle.loads(pickle.dumps(guarded))):
        torch.testing.assert_close(other(images(5)), expected, rtol=0, atol=0)
        with torch.no_grad():
            other.model.layer1[0].weight.zero_()
        assert not torch.equal(other(images(5)).score, expected.score)
    torch.testing.assert_close(guarded(images(5)), expected, rtol=0, atol=0)


def test_the_state_carries_weights_and_detector(guarded, tmp_path):
    path = tmp_path / "net.pt"
    torch.save(guarded.state_dict(), path)
    torch.manual_seed(77)
    again = Guarded.load(path, Convolutional().eval(), images(2))
    torch.testing.assert_close(again(images(9)), guarded(images(9)), rtol=0, atol=0)
    torch.save(Convolutional().state_dict(), path)
    with pytest.raises(offspan.FormatError, match="expected the state of a guarded network"):
        Guarded.load(path, Convolutional().eval(), images(2))


def test_a_trace_stands_for_the_guarded_network(guarded):
    traced = torch.jit.trace(guarded, (images(3),))
    stored = io.BytesIO()
    torch.jit.save(traced, stored)
    stored.seek(0)
    torch.testing.assert_close(GuardedOutput(*torch.jit.load(stored)(images(11, seed=9))), guarded(images(11, seed=9)))


@pytest.mark.parametrize("layer", ["layer2", "layer1"])
def test_features_may_come_from_another_layer(network, layer):
    guarded = guard(network, batches(300), "pca", layer, hold_out=0.3)
    data = extract(network, [images(7, seed=4)], layer)
    expected = guarded.detector(torch.tensor(data.features)).score
    torch.testing.assert_close(guarded(images(7, seed=4)).score, expected)


def test_networks_that_go_on_after_their_head_and_those_of_tokens():
    torch.manual_seed(2)
    rows = torch.randn(400, 10)
    network = Softmax().eval()
    guarded = guard(network, rows.split(50), "energy", head="last")
    expected = torch.logsumexp(network.last(network.body(rows).relu()), 1)
    torch.testing.assert_close(guarded(rows).score, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(guarded(rows).logits, network(rows))
    tokens = torch.randn(400, 5, 4)
    assert guard(Tokens().eval(), tokens.split(50), "pca")(tokens).score.shape == (400,)


def test_logits_of_a_network_without_a_linear_head_are_its_output():
    torch.manual_seed(2)
    network = ConvolutionalHead().eval()
    guarded = guard(network, batches(400), "energy", layer="features")
    assert guarded.detector.needs == ["logits"]
    found = guarded(images(9, seed=3))
    torch.testing.assert_close(found.score, torch.logsumexp(network(images(9, seed=3)), 1))


def test_a_module_in_two_places_is_watched_in_both():
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(10, 6)
            self.fc = nn.Linear(6, 4)
            self.heads = nn.ModuleList([self.fc])

        def forward(self, x):
            return self.heads[0](self.body(x).relu())

    rows = torch.randn(300, 10)
    network = Shared().eval()
    guarded = guard(network, rows.split(50), "pca")
    expected = guarded.detector(network.body(rows).relu()).score
    torch.testing.assert_close(guarded(rows).score, expected)


def test_a_layer_that_is_no_module_of_the_twin_is_said():
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(10, 4)
            self.plain = [self.fc]

        def forward(self, x):
            return self.plain[0](x)

    rows = torch.randn(300, 10)
    with pytest.raises(offspan.InputError, match=r"layer 'fc' did not run.*use OODModule"):
        guard(Hidden().eval(), rows.split(50), "pca")(rows)


def test_a_detector_that_is_there_already_needs_an_input_only(network, guarded, tmp_path):
    train = extract(network, batches(400))
    method = offspan.make("vim", head=train.head).fit(train.features, train.logits)
    method.save(tmp_path / "vim.offspan")
    for detector in (method, method.detector, tmp_path / "vim.offspan", method.to_torch()):
        found = Guarded(network, detector, images(1))(images(5))
        np.testing.assert_allclose(found.score.numpy(), method.score(extract(network, [images(5)]).features), rtol=1e-3)
    assert Guarded(network, method, images(1), dtype=torch.float64)(images(5)).score.dtype == torch.float64


def test_what_cannot_be_guarded_says_why(network):
    with pytest.raises(offspan.InputError, match="decides by a threshold, and the detector has none"):
        guard(network, batches(200), "energy", hold_out=0.0)
    with pytest.raises(offspan.InputError, match="hold_out: expected none beside calibrate"):
        guard(network, batches(200), calibrate=batches(100), hold_out=0.2)
    with pytest.raises(offspan.InputError, match=r"tnn cannot be exported: .*; OODModule takes every method"):
        guard(network, iter(()), "tnn")
    with pytest.raises(offspan.InputError, match="expected an iterable of batches"):
        guard(network, images(50))
    assert isinstance(guard(network, batches(400), "energy").detector, NativeDetector)
