from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_networks import (
    CLASSES,
    Convolutional,
    ConvolutionalHead,
    Perceptron,
    RectifiedOutside,
    Softmax,
    Tokens,
    batches,
    hooks,
    images,
    labels,
)

import offspan
from offspan.torch import extract


@pytest.fixture
def network():
    torch.manual_seed(1)
    network = Convolutional()
    with torch.no_grad():  # batch statistics that differ from those of a new network
        for _ in range(3):
            network(images(32, seed=9) * 2 + 1)
    return network


def by_hand(network, x):
    """Features and logits in evaluation mode, without any of our code."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        features = network.features(x)
        logits = network.fc(features)
    for module, training in modes:
        module.training = training
    return features.numpy(), logits.numpy()


def test_features_are_what_enters_the_head_in_evaluation_mode(network):
    data = extract(network, batches(50))
    features, logits = by_hand(network, images(50))
    np.testing.assert_allclose(data.features, features, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(data.logits, logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(data.labels, labels(50).numpy())
    assert (data.features.dtype, data.logits.dtype, data.labels.dtype) == (np.float32, np.float32, np.int64)
    assert len(data) == 50


def test_the_head_makes_the_logits_of_the_features(network):
    data = extract(network, batches(50))
    weight, bias = data.head
    np.testing.assert_allclose(data.features @ weight.T + bias, data.logits, rtol=1e-5, atol=1e-5)


def test_a_head_without_bias_has_zeros():
    network = nn.Sequential(nn.Linear(10, 4), nn.Linear(4, 3, bias=False))
    data = extract(network, [torch.randn(6, 10)])
    np.testing.assert_array_equal(data.head[1], np.zeros(3))
    np.testing.assert_allclose(data.features @ data.head[0].T, data.logits, rtol=1e-5, atol=1e-6)


def test_the_head_given_back_does_not_follow_the_network(network):
    data = extract(network, batches(8))
    before = data.head[0].copy()
    with torch.no_grad():
        network.fc.weight.add_(1)
    np.testing.assert_array_equal(data.head[0], before)


def test_modes_and_batch_statistics_are_as_before(network):
    network.train()
    network.layer1.eval()  # frozen, as in fine-tuning
    modes = [module.training for module in network.modules()]
    statistics = {name: buffer.clone() for name, buffer in network.named_buffers()}
    extract(network, batches(20))
    assert [module.training for module in network.modules()] == modes
    for name, buffer in network.named_buffers():
        torch.testing.assert_close(buffer, statistics[name], rtol=0, atol=0)


def test_hooks_are_removed_also_when_the_network_or_the_loader_fails(network):
    extract(network, batches(8), layers=["layer1"], maps=True)
    assert hooks(network) == 0

    def loader():
        yield images(4)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        extract(network, loader())
    with pytest.raises(RuntimeError):
        extract(network, [images(4), torch.randn(4, 2, 8, 8)])
    assert hooks(network) == 0
    assert network.training


def test_the_network_can_train_afterwards_with_what_it_has_cached():
    class Caches(Convolutional):
        cached = None

        def features(self, x):
            if self.cached is None:
                self.cached = torch.ones(1)
            return super().features(x) * self.cached

    network = Caches()
    extract(network, batches(8))
    network(images(4)).sum().backward()
    assert network.fc.weight.grad is not None


def test_no_gradients_are_left(network):
    extract(network, batches(8))
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize(
    "loader",
    [
        [{"data": x, "label": y, "index": y} for x, y in batches(20)],
        [{"image": x, "label": y} for x, y in batches(20)],
        [{"input": x, "target": y} for x, y in batches(20)],
        [(x, y, ["path"] * len(x)) for x, y in batches(20)],
        DataLoader(TensorDataset(images(20), labels(20)), batch_size=7),
        (batch for batch in batches(20)),
    ],
    ids=["openood", "image", "target", "triples", "loader", "generator"],
)
def test_every_kind_of_batch_gives_the_same_rows(network, loader):
    data = extract(network, loader)
    np.testing.assert_allclose(data.features, by_hand(network, images(20))[0], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(data.labels, labels(20).numpy())


@pytest.mark.parametrize("loader", [[images(5)], DataLoader(TensorDataset(images(5)))], ids=["tensors", "one of one"])
def test_loaders_without_labels_give_none(network, loader):
    data = extract(network, loader)
    assert data.labels is None
    assert len(data) == 5


def test_unpack_takes_any_batch_apart(network):
    loader = [{"left": x / 2, "right": x / 2, "class": y} for x, y in batches(20)]

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, left, *, right):
            return self.network(left + right)

    with pytest.raises(offspan.InputError, match="unpack="):
        extract(Sum(), loader)
    named = extract(Sum(), loader, unpack=lambda b: ({"left": b["left"], "right": b["right"]}, b["class"]))
    np.testing.assert_allclose(named.features, by_hand(network, images(20))[0], rtol=1e-5, atol=1e-6)
    assert named.labels is not None


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([], "no batches"),
        ([3], "expected the loader to yield"),
        ([(images(4), torch.rand(4))], "one whole number per row"),
        ([(images(4), torch.eye(4)[:, :3])], "one whole number per row"),
        ([(images(2), ["cat", "dog"])], "one whole number per row, got list"),
        ([(images(4), labels(4)), images(4)], "8 rows of features but 4 of labels"),
    ],
)
def test_loaders_that_do_not_fit_are_told(network, loader, message):
    with pytest.raises(offspan.InputError, match=message):
        extract(network, loader)


def test_half_precision_is_kept_on_request_and_refuses_what_it_cannot_hold(network):
    half = extract(network, batches(20), dtype="float16", layers=["layer1"])
    full = extract(network, batches(20), layers=["layer1"])
    assert half.features.dtype == half.layers["layer1"].dtype == np.float16
    assert half.logits.dtype == np.float32
    np.testing.assert_array_equal(half.features, full.features.astype(np.float16))
    with pytest.raises(offspan.InputError, match="65504"):
        extract(network, [images(4) * 1e7], dtype="float16")
    with pytest.raises(offspan.InputError, match="float32, float16"):
        extract(network, batches(4), dtype="int8")


@pytest.mark.parametrize(("kind", "error"), [(torch.bfloat16, 5e-2), (torch.float64, 1e-5)])
def test_networks_of_other_precision_take_inputs_of_theirs(kind, error):
    torch.manual_seed(3)
    network = Perceptron()
    x = torch.randn(9, 10)
    expected = extract(network, [x])
    data = extract(network.to(kind), [x])
    assert data.features.dtype == np.float32
    np.testing.assert_allclose(data.features, expected.features, rtol=error, atol=error)
    assert data.head[0].dtype == (np.float64 if kind == torch.float64 else np.float32)


def test_a_device_is_used_and_left(network):
    moves = []
    network.to = lambda device: moves.append(device)
    assert len(extract(network, batches(4), device="cpu:0")) == 4
    assert moves == ["cpu:0", torch.device("cpu")]
    moves.clear()
    extract(network, batches(4))
    assert moves == []


def test_linear_layers_before_the_head_and_auxiliary_ones_are_not_taken_for_it():
    torch.manual_seed(2)
    network = Perceptron().eval()
    x = torch.randn(11, 10)
    data = extract(network, [x])
    with torch.no_grad():
        expected = network.classifier[:5](x)
    np.testing.assert_allclose(data.features, expected.numpy(), rtol=1e-6)


def test_a_layer_is_kept_as_it_was_before_the_next_one_overwrote_it():
    torch.manual_seed(2)
    network = Perceptron().eval()
    x = torch.randn(11, 10)
    data = extract(network, [x], layer="classifier.0")
    with torch.no_grad():
        expected = network.classifier[0](x)
    np.testing.assert_allclose(data.features, expected.numpy(), rtol=1e-6)
    assert data.features.min() < 0  # what the rectifier in place would have removed


@pytest.mark.parametrize("how", ["avg", "max", lambda maps: maps[:, :, 0, 0]], ids=["avg", "max", "function"])
def test_layers_are_pooled(network, how):
    network.eval()
    data = extract(network, batches(20), layer="layer1", layers=["layer2"], pool=how)
    with torch.no_grad():
        first = network.layer1(images(20))
        second = network.layer2(first.clone())
    pooled = {"avg": lambda maps: maps.mean((2, 3)), "max": lambda maps: maps.amax((2, 3))}.get(how, how)
    np.testing.assert_allclose(data.features, pooled(first).numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(data.layers["layer2"], pooled(second).numpy(), rtol=1e-5, atol=1e-6)


def test_further_layers_by_name_or_module_are_extras(network):
    data = extract(network, batches(20), layers={"early": network.layer1, "late": "layer2"})
    np.testing.assert_allclose(data.layers["late"], data.features, rtol=1e-5, atol=1e-6)
    assert data.layers["early"].shape == (20, 6)
    assert set(data.extras) == {"early", "late"}
    assert "early [20, 6]" in repr(data)


def test_unpooled_layers_keep_their_shape(network):
    assert extract(network, batches(20), layers=["layer1"], pool="none").layers["layer1"].shape == (20, 6, 8, 8)
    with pytest.raises(offspan.InputError, match=r"features are \[rows, width\]"):
        extract(network, batches(20), layer="layer1", pool="none")


def test_tokens_are_pooled_by_their_first_or_their_mean():
    torch.manual_seed(4)
    network, x = Tokens().eval(), torch.randn(7, 3, 4)
    with torch.no_grad():
        tokens = network.blocks(network.embed(x)).numpy()
    first = extract(network, [x], layer="blocks", pool="cls")
    np.testing.assert_allclose(first.features, tokens[:, 0], rtol=1e-6)
    np.testing.assert_allclose(extract(network, [x], layer="blocks").features, tokens.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(extract(network, [x]).features, tokens[:, 0], rtol=1e-6)
    assert first.head is not None  # the first token is what enters the head


def test_the_head_comes_along_only_with_the_features_that_enter_it(network):
    assert extract(network, batches(20), layer="layer2").head is not None
    other = extract(network, batches(20), layer="layer1")
    assert other.head is None
    np.testing.assert_allclose(other.logits, by_hand(network, images(20))[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "layer9"}, "did you mean 'layer2', 'layer1'|did you mean 'layer1', 'layer2'"),
        ({"layer": nn.Linear(2, 2)}, "is no module of this Convolutional"),
        ({"layers": ["features"]}, "may not use the name 'features'"),
        ({"layers": "layer1"}, "takes several"),
        ({"pool": "sum"}, "pool must be one of avg, max, cls, none"),
        ({"layer": "layer1", "pool": "cls"}, r"first of \[rows, tokens, width\]"),
        ({"head": "layer1"}, "must be an nn.Linear"),
        ({"maps": "layer1"}, r"maps are \[rows, 12, height, width\], and layer 'layer1' gives \[16, 6, 8, 8\]"),
    ],
)
def test_wrong_arguments_are_told(network, options, message):
    with pytest.raises(offspan.InputError, match=message):
        extract(network, batches(20), **options)


def test_a_network_that_goes_on_after_its_head_takes_it_by_name():
    torch.manual_seed(5)
    network, x = Softmax().eval(), torch.randn(6, 10)
    with pytest.raises(offspan.InputError, match="found no linear head in Softmax"):
        extract(network, [x])
    data = extract(network, [x], head="last")
    with torch.no_grad():
        features = network.body(x).relu()
        logits = network.last(features)
    np.testing.assert_allclose(data.features, features.numpy(), rtol=1e-6)
    np.testing.assert_allclose(data.logits, logits.numpy(), rtol=1e-5, atol=1e-6)


def test_a_network_without_linear_head_gives_features_of_a_layer():
    network = ConvolutionalHead()
    with pytest.raises(offspan.InputError, match="found no linear head"):
        extract(network, batches(6))
    data = extract(network, batches(6), layer="features")
    assert (data.features.shape, data.logits, data.head) == ((6, 6), None, None)
    assert extract(network, batches(6), layer="features", logits=True).logits.shape == (6, CLASSES)


def test_an_encoder_gives_its_output():
    torch.manual_seed(6)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())
    data = extract(encoder, batches(6), layer=encoder)
    with torch.no_grad():
        np.testing.assert_allclose(data.features, encoder(images(6)).numpy(), rtol=1e-6)
    assert data.logits is None


def test_a_compiled_or_parallel_wrapper_is_looked_through(network):
    class Compiled(nn.Module):  # what torch.compile gives
        def __init__(self, inner):
            super().__init__()
            self._orig_mod = inner

    expected = extract(network, batches(10))
    for wrapper in (nn.DataParallel(network), Compiled(network)):
        np.testing.assert_array_equal(extract(wrapper, batches(10)).features, expected.features)


@pytest.mark.parametrize("kind", [Convolutional, RectifiedOutside])
def test_maps_are_those_whose_averages_are_the_features(kind):
    torch.manual_seed(7)
    network = kind()
    data = extract(network, batches(20), maps=True)
    assert data.maps.ndim == 4
    np.testing.assert_allclose(data.maps.mean((2, 3)), data.features, rtol=1e-5, atol=1e-6)
    assert data.maps.min() >= 0
    assert set(data.extras) == {"maps"}


def test_maps_of_a_chosen_layer_are_as_it_gave_them():
    torch.manual_seed(7)
    network = RectifiedOutside().eval()
    data = extract(network, batches(20), maps="layer2")
    with torch.no_grad():
        expected = network.layer2(network.layer1(images(20)))
    np.testing.assert_allclose(data.maps, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_features_that_are_no_averages_of_maps_are_told():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 6), nn.ReLU(), nn.Linear(6, 3))
    with pytest.raises(offspan.InputError, match="Layers that give maps: '0'"):
        extract(network, [images(4)], maps=True)


def test_rank_feat_scores_the_maps(network):
    data = extract(network, batches(60), maps=True)
    method = offspan.make("rank-feat", head=data.head)
    method.fit(data.features, data.logits, extras=data.extras, hold_out=0.0)
    scores = method.score(data.features, data.logits, extras=data.extras)
    left, values, right = np.linalg.svd(data.maps.reshape(60, 12, -1).astype(np.float64), full_matrices=False)
    rest = np.einsum("nik,nk,nkj->nij", left[:, :, 1:], values[:, 1:], right[:, 1:])
    logits = rest.mean(2) @ data.head[0].T.astype(np.float64) + data.head[1]
    expected = np.log(np.exp(logits).sum(1))
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def test_torchvision_maps():
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    for network in (models.resnet18(num_classes=CLASSES), models.densenet121(num_classes=CLASSES)):
        data = extract(network, [torch.randn(3, 3, 64, 64)], maps=True)
        np.testing.assert_allclose(data.maps.mean((2, 3)), data.features, rtol=1e-4, atol=1e-6)


def test_the_papers_layers_of_a_resnet():
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    network = models.resnet18(num_classes=CLASSES)
    data = extract(network, [torch.randn(3, 3, 64, 64)], layers=[f"layer{i}" for i in (1, 2, 3, 4)])
    assert [data.layers[f"layer{i}"].shape[1] for i in (1, 2, 3, 4)] == [64, 128, 256, 512]
    np.testing.assert_allclose(data.layers["layer4"], data.features, rtol=1e-5, atol=1e-6)


def test_progress_is_silent_where_there_is_no_terminal(network, capsys):
    extract(network, batches(20), progress=True)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
