"""Small networks for the tests, each with a trait that real ones have."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 5
SIZE = 8


class Convolutional(nn.Module):
    """Like a ResNet: maps, their averages, dropout, one linear layer. Batch normalisation and dropout tell modes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True))
        self.layer2 = nn.Sequential(nn.Conv2d(6, 12, 3, padding=1, stride=2), nn.BatchNorm2d(12), nn.ReLU(inplace=True))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(12, CLASSES)

    def features(self, x: Tensor) -> Tensor:
        return self.avgpool(self.layer2(self.layer1(x))).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.dropout(self.features(x)))


class RectifiedOutside(Convolutional):
    """Like a DenseNet: the last maps go through a ReLU that is no module, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer2 = nn.Sequential(nn.Conv2d(6, 12, 3, padding=1), nn.BatchNorm2d(12))

    def features(self, x: Tensor) -> Tensor:
        return self.avgpool(functional.relu(self.layer2(self.layer1(x)), inplace=True)).flatten(1)


class Perceptron(nn.Module):
    """Like the end of a VGG: several linear layers with rectifiers in place, and an auxiliary one that runs last."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Sequential(
            nn.Linear(10, 8), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(8, 7), nn.ReLU(inplace=True),
            nn.Linear(7, CLASSES),
        )  # fmt: skip
        self.auxiliary = nn.Linear(10, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.classifier(x)
        self.auxiliary(x)
        return logits


class Softmax(nn.Module):
    """Goes on after its last linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(10, 7)
        self.last = nn.Linear(7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x).relu()).log_softmax(1)


class ConvolutionalHead(nn.Module):
    """Like a SqueezeNet: the classes come from a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU())
        self.classifier = nn.Sequential(nn.Conv2d(6, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


class Tokens(nn.Module):
    """Like a vision transformer: tokens, of which the first goes to the head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 6)
        self.blocks = nn.Sequential(nn.Linear(6, 6), nn.GELU())
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(x))[:, 0])


class InOpenOOD(Convolutional):
    """With the methods that OpenOOD's networks have."""

    def forward(self, x: Tensor, return_feature: bool = False):
        features = self.features(x)
        logits = self.fc(features)
        return (logits, features) if return_feature else logits

    def get_fc(self):
        return self.fc.weight.detach().cpu().numpy(), self.fc.bias.detach().cpu().numpy()


def images(rows: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))


def labels(rows: int) -> Tensor:
    return torch.arange(rows) % CLASSES


def batches(rows: int, size: int = 16, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    return list(zip(images(rows, seed).split(size), labels(rows).split(size)))


def hooks(network: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules())
