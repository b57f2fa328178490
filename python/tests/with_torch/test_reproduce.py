"""The blocks of docs/reproduce.md run as they are written, on made-up images with a small untrained ResNet."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")
pytest.importorskip("safetensors.torch", reason="the safetensors library is not installed")

import torch
import torchvision
from PIL import Image

import offspan
from offspan.torch._tensorfile import read_tensors

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reproduce.md"
SETS = {"iNaturalist": "iNaturalist", "SUN": "SUN", "Places": "Places", "Textures": "dtd/images"}


def make_images(folder: Path, classes: int, each: int) -> None:
    draw = np.random.default_rng(len(str(folder)))
    for number in range(classes):
        place = folder / f"class{number}"
        place.mkdir(parents=True)
        for image in range(each):
            Image.fromarray(draw.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(place / f"{image}.png")


def test_every_block_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_images(Path("imagenet/train"), classes=3, each=4)
    make_images(Path("imagenet/val"), classes=3, each=1)
    for folder in SETS.values():
        make_images(Path("ood") / folder, classes=2, each=1)
    cache = Path("cache/ImageNet/R50/ce")
    cache.mkdir(parents=True)
    torch.manual_seed(1)
    small = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=7)
    monkeypatch.setattr(torchvision.models, "resnet50", lambda weights: small)

    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.S | re.M)
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        block = block.replace("num_workers=4", "num_workers=0")  # Processes cost more than these few images.
        exec(compile(block, f"{PAGE.name}, block {number + 1}", "exec"), {"__name__": "page"})

    pack = Path("imagenet-resnet50")
    train = read_tensors(pack / "train.safetensors")
    assert {name: list(array.shape) for name, array in train.items()} == {"features": [12, 512], "labels": [12]}
    for name in SETS:
        assert set(read_tensors(pack / "ood" / f"{name}.safetensors")) == {"features"}
    by_extract, by_hand = (read_tensors(folder / "head.safetensors") for folder in (pack, cache))
    for name in ("weight", "bias"):
        np.testing.assert_array_equal(by_extract[name], by_hand[name])
    np.testing.assert_array_equal(np.load(cache / "train_labels.npy"), train["labels"])
    detector = offspan.make("kpca-nys", landmarks=6).fit(pack, hold_out=0.0)
    assert np.isfinite(detector.score(pack / "ood" / "SUN.safetensors")).all()
