from __future__ import annotations

import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch import nn
from torch_networks import CLASSES, Convolutional, ConvolutionalHead, Perceptron, Softmax, Tokens, hooks, images

import offspan
from offspan.torch import find_head


@pytest.mark.parametrize(
    ("network", "inputs", "name"),
    [
        (Convolutional(), images(2), "fc"),
        (Perceptron(), torch.randn(2, 10), "classifier.5"),
        (Tokens(), torch.randn(2, 3, 4), "head"),
        (nn.DataParallel(Convolutional()), images(2), "fc"),
        (nn.Linear(4, 3), torch.randn(2, 4), ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_head_is_the_linear_layer_whose_output_is_the_networks(network, inputs, name):
    found = find_head(network, inputs)
    assert found.name == name
    inner = network.module if isinstance(network, nn.DataParallel) else network
    assert found.module is inner.get_submodule(name)
    assert hooks(network) == 0


def test_of_layers_with_the_same_output_the_last_is_the_head():
    network = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
    nn.init.eye_(network[1].weight)
    nn.init.zeros_(network[1].bias)
    assert find_head(network, torch.randn(2, 4)).name == "1"


@pytest.mark.parametrize(
    ("network", "name"), [(Convolutional(), "fc"), (Perceptron(), "classifier.5"), (Tokens(), "head")]
)
def test_names_tell_the_head_without_inputs(network, name):
    assert find_head(network).name == name


def test_a_network_that_knows_its_classifier_is_asked():
    class Timm(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.out = nn.Linear(4, CLASSES)

        def get_classifier(self):
            return self.out

    network = Timm()
    assert find_head(network).name == "out"
    network.out = nn.Identity()  # timm, without classes
    with pytest.raises(offspan.InputError, match="cannot tell the head"):
        find_head(network)


def test_names_that_tell_nothing_are_an_error_that_lists_the_linear_layers():
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with pytest.raises(offspan.InputError, match="linear layers are '0', '1'"):
        find_head(network)


def test_a_convolutional_head_is_an_error_that_names_it():
    with pytest.raises(
        offspan.InputError, match=r"the convolution 'classifier\.0', and a head has to be an nn\.Linear"
    ):
        find_head(ConvolutionalHead(), images(2))
    with pytest.raises(offspan.InputError, match="cannot tell the head"):
        find_head(ConvolutionalHead())


def test_a_network_that_goes_on_after_its_last_layer_is_an_error_that_lists_candidates():
    with pytest.raises(offspan.InputError, match=r"Linear layers that ran: 'body', 'last'.*head="):
        find_head(Softmax(), torch.randn(2, 10))


def test_what_is_no_network_is_an_error():
    with pytest.raises(offspan.InputError, match=r"must be a torch\.nn\.Module, got function"):
        find_head(lambda x: x)
    with pytest.raises(offspan.InputError, match="TorchScript"):
        find_head(torch.jit.trace(Convolutional().eval(), images(1)))


def test_a_found_head_is_a_head_for_a_method():
    network = Convolutional()
    features = torch.randn(80, 12)
    by_layer = offspan.make("energy", head=find_head(network)).fit(features, hold_out=0.0).score(features)
    logits = network.fc(features)
    torch.testing.assert_close(torch.from_numpy(by_layer), logits.double().logsumexp(1), rtol=1e-5, atol=1e-5)


def _models():
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    return {
        "resnet18": (lambda: models.resnet18(num_classes=CLASSES), 64, "fc"),
        "densenet121": (lambda: models.densenet121(num_classes=CLASSES), 64, "classifier"),
        "mobilenet_v2": (lambda: models.mobilenet_v2(num_classes=CLASSES), 64, "classifier.1"),
        "efficientnet_b0": (lambda: models.efficientnet_b0(num_classes=CLASSES), 64, "classifier.1"),
        "shufflenet": (lambda: models.shufflenet_v2_x0_5(num_classes=CLASSES), 64, "fc"),
        "googlenet": (lambda: models.googlenet(num_classes=CLASSES, init_weights=False), 64, "fc"),
        "convnext": (lambda: models.convnext_tiny(num_classes=CLASSES), 64, "classifier.2"),
        "swin": (lambda: models.swin_t(num_classes=CLASSES), 64, "head"),
        "vit": (
            lambda: models.VisionTransformer(
                image_size=32, patch_size=16, num_layers=1, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=CLASSES
            ),
            32,
            "heads.head",
        ),
    }


@pytest.mark.parametrize(
    "model",
    [
        "resnet18",
        "densenet121",
        "mobilenet_v2",
        "efficientnet_b0",
        "shufflenet",
        "googlenet",
        "convnext",
        "swin",
        "vit",
    ],
)
def test_torchvision_networks_by_name_and_by_forward_pass(model):
    make, size, name = _models()[model]
    network = make()
    assert find_head(network).name == name
    assert find_head(network, torch.randn(2, 3, size, size)).name == name
    assert network.training


def test_squeezenet_has_no_linear_head():
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    with pytest.raises(offspan.InputError, match=r"the convolution 'classifier\.1'"):
        find_head(models.squeezenet1_1(num_classes=CLASSES), torch.randn(2, 3, 64, 64))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("resnet18", "fc"),
        ("densenet121", "classifier"),
        ("mobilenetv3_small_050", "classifier"),
        ("efficientnet_lite0", "classifier"),
        ("convnext_atto", "head.fc"),
        ("vit_tiny_patch16_224", "head"),
    ],
)
def test_timm_networks_by_their_own_word_and_by_forward_pass(model, name):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    network = timm.create_model(model, num_classes=CLASSES)
    size = 224 if "vit" in model else 64
    assert find_head(network).name == name
    assert find_head(network, torch.randn(1, 3, size, size)).name == name
