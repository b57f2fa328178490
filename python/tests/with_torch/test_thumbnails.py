from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch import nn
from torch_networks import Convolutional, batches, images

import offspan
from offspan.torch import Extracted, extract, extract_pack
from offspan.torch._tensorfile import read_tensors


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Convolutional()


def stored(network, loader, folder, **options):
    path = folder / "split.safetensors"
    extract(network, loader, out=path, progress=False, **options)
    return read_tensors(path)


def grey_network(height, width):
    return nn.Sequential(nn.Flatten(), nn.Linear(height * width, 3))


def test_every_split_of_a_pack_has_a_picture_per_row(network, tmp_path):
    loaders = {"train": batches(40), "ood": {"noise": batches(9, seed=2)}}
    pack = extract_pack(network, loaders, tmp_path, thumbnails=4, progress=False)
    for name, rows in (("train", 40), ("ood/noise", 9)):
        pictures = read_tensors(pack / f"{name}.safetensors")["thumbnails"]
        assert (pictures.shape, pictures.dtype) == ((rows, 4, 4, 3), np.uint8)


def test_pictures_are_averages_from_black_to_white(network, tmp_path):
    pictures = stored(network, batches(20), tmp_path, thumbnails=4)["thumbnails"]
    small = images(20).double().numpy().reshape(20, 3, 4, 2, 4, 2).mean(axis=(3, 5)).transpose(0, 2, 3, 1)
    low, high = small.min(axis=(1, 2, 3), keepdims=True), small.max(axis=(1, 2, 3), keepdims=True)
    assert np.abs(pictures - 255 * (small - low) / (high - low)).max() <= 0.501
    assert (pictures.min(axis=(1, 2, 3)) == 0).all() and (pictures.max(axis=(1, 2, 3)) == 255).all()


@pytest.mark.parametrize(
    ("size", "longest", "expected"),
    [((8, 8), 32, (8, 8)), ((40, 20), 10, (10, 5)), ((20, 40), 10, (5, 10)), ((400, 1), 256, (256, 1))],
)
def test_pictures_keep_their_shape_and_are_never_enlarged(tmp_path, size, longest, expected):
    pictures = stored(grey_network(*size), [torch.rand(3, 1, *size)], tmp_path, thumbnails=longest)["thumbnails"]
    assert pictures.shape == (3, *expected)


@pytest.mark.parametrize("value", [0.0, -3.5, 1e30, float("nan")])
def test_a_picture_of_one_colour_is_black(tmp_path, value):
    pictures = stored(grey_network(4, 4), [torch.full((2, 1, 4, 4), value)], tmp_path, thumbnails=4)["thumbnails"]
    assert (np.asarray(pictures) == 0).all()


def test_bytes_and_halves_are_images_too(tmp_path):
    class Widening(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = grey_network(4, 4)

        def forward(self, x):
            return self.inner(x.float())

    given = torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4)
    for dtype in (torch.uint8, torch.float16, torch.bfloat16):
        pictures = stored(Widening(), [given.to(dtype)], tmp_path, thumbnails=4)["thumbnails"]
        np.testing.assert_array_equal(pictures[0].ravel(), np.arange(16) * 17)


def test_pictures_change_nothing_else(network, tmp_path):
    plain = stored(network, batches(20), tmp_path)
    path = tmp_path / "split.safetensors"
    extracted = extract(network, batches(20), out=path, thumbnails=8, progress=False)
    with_pictures = read_tensors(path)
    del with_pictures["thumbnails"]
    assert set(with_pictures) == set(plain)
    for name, array in plain.items():
        np.testing.assert_array_equal(with_pictures[name], array)
    assert extracted.extras == {} and extracted.layers == {}
    assert offspan.make("pca").fit(path, hold_out=0.0).score(path).shape == (20,)


def test_pictures_come_back_from_the_file_and_go_into_another(network, tmp_path):
    extracted = extract(network, batches(20), out=tmp_path / "split.safetensors", thumbnails=4, progress=False)
    assert (extracted.thumbnails.shape, extracted.thumbnails.dtype) == ((20, 4, 4, 3), np.uint8)
    assert "thumbnails [20, 4, 4, 3]" in repr(extracted)
    extracted.save(tmp_path / "copy.safetensors")
    copy = Extracted.load(tmp_path / "copy.safetensors")
    np.testing.assert_array_equal(copy.thumbnails, extracted.thumbnails)
    assert copy.layers == {}


def test_pictures_in_memory_are_those_of_the_file(network, tmp_path):
    in_memory = extract(network, batches(20), thumbnails=4, progress=False)
    in_file = stored(network, batches(20), tmp_path, thumbnails=4)
    np.testing.assert_array_equal(in_memory.thumbnails, in_file["thumbnails"])
    assert in_memory.layers == {}


def test_no_pictures_are_none(network, tmp_path):
    path = tmp_path / "split.safetensors"
    assert extract(network, batches(20), out=path, progress=False).thumbnails is None
    assert extract(network, batches(20), progress=False).thumbnails is None


def test_no_layer_may_be_called_thumbnails(network):
    with pytest.raises(offspan.InputError, match="may not use the name 'thumbnails'"):
        extract(network, batches(20), layers={"thumbnails": next(network.children())}, progress=False)


@pytest.mark.parametrize("batch", [torch.rand(5, 12), torch.rand(5, 2, 4, 4), torch.rand(5, 1, 1, 4, 4)])
def test_inputs_that_are_no_images_are_told(tmp_path, batch):
    network = nn.Sequential(nn.Flatten(), nn.Linear(batch[0].numel(), 3))
    with pytest.raises(offspan.InputError, match=r"thumbnails need images \[rows, 1 or 3, H, W\]"):
        stored(network, [batch], tmp_path, thumbnails=4)
    assert list(tmp_path.iterdir()) == []


def test_sizes_that_do_not_fit_are_told_before_the_work(network, tmp_path):
    def loader():
        raise AssertionError("the loader was asked")
        yield

    for size in (0, -1, 257):
        with pytest.raises(offspan.InputError, match=f"thumbnails: expected 1 to 256 pixels, got {size}"):
            stored(network, loader(), tmp_path, thumbnails=size)
