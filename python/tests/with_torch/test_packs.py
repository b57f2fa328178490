from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch_networks import Convolutional, ConvolutionalHead, batches, images

import offspan
from offspan.torch import Extracted, extract, extract_pack
from offspan.torch._tensorfile import TensorFileWriter, read_tensors, write_tensors

PACKS = Path(__file__).resolve().parents[4] / "shared" / "packs"


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Convolutional()


def same(a: Extracted, b: Extracted) -> None:
    for name in ("features", "logits", "labels", "maps"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
        if getattr(a, name) is not None:
            assert getattr(a, name).dtype == getattr(b, name).dtype
    assert set(a.layers) == set(b.layers)
    for name in a.layers:
        np.testing.assert_array_equal(a.layers[name], b.layers[name])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_streamed_split_is_the_one_in_memory(network, tmp_path, dtype):
    options = {"dtype": dtype, "layers": ["layer1"], "maps": True}
    memory = extract(network, batches(50), **options)
    streamed = extract(network, batches(50), out=tmp_path / "train.safetensors", **options)
    assert isinstance(streamed.features, np.memmap)
    same(streamed, memory)
    np.testing.assert_array_equal(streamed.head[0], memory.head[0])
    memory.save(tmp_path / "saved.safetensors")
    assert (tmp_path / "saved.safetensors").read_bytes() == (tmp_path / "train.safetensors").read_bytes()
    same(Extracted.load(tmp_path / "saved.safetensors"), memory)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved.safetensors", "train.safetensors"]


def test_a_failure_leaves_the_old_file_and_nothing_else(network, tmp_path):
    path = tmp_path / "train.safetensors"
    extract(network, batches(8), out=path)
    before = path.read_bytes()

    def loader():
        yield images(4)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        extract(network, loader(), out=path)
    with pytest.raises(offspan.InputError, match="no batches"):
        extract(network, [], out=path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written_are_told_before_the_work(network, tmp_path):
    def loader():
        raise AssertionError("the loader was asked")
        yield

    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(IsADirectoryError):
        extract(network, loader(), out=tmp_path / "folder.safetensors")
    with pytest.raises(offspan.InputError, match=r"expected a file name that ends in \.safetensors"):
        extract(network, loader(), out=tmp_path / "train.npy")
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        extract(network, loader(), out=tmp_path / "nowhere" / "train.safetensors")


def test_a_link_keeps_pointing_where_it_does(network, tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.safetensors"
    link.symlink_to(tmp_path / "real" / "data.safetensors")
    extract(network, batches(8), out=link)
    assert link.is_symlink()
    assert (tmp_path / "real" / "data.safetensors").is_file()


@pytest.mark.parametrize("method", ["vim", "kpca-nys", "mahalanobis", "energy", "knn"])
def test_a_pack_on_disk_fits_the_detector_of_its_arrays(network, tmp_path, method):
    loaders = {"train": batches(400), "test": batches(60, seed=1), "ood": {"noise": batches(60, seed=2)}}
    pack = extract_pack(network, loaders, tmp_path / "pack", progress=False)
    train, test = extract(network, batches(400)), extract(network, batches(60, seed=1))
    options = {"neighbours": 5} if method == "knn" else {"landmarks": 64} if method == "kpca-nys" else {}
    options |= {"components": 4} if method == "vim" else {}
    from_arrays = offspan.make(method, head=train.head, **options).fit(train.features, train.logits, train.labels)
    from_folder = offspan.make(method, **options).fit(pack)
    np.testing.assert_array_equal(
        from_folder.score(pack / "test.safetensors"), from_arrays.score(test.features, test.logits)
    )
    np.testing.assert_array_equal(
        from_folder.score(pack / "ood" / "noise.safetensors"),
        from_arrays.score(*(getattr(extract(network, batches(60, seed=2)), name) for name in ("features", "logits"))),
    )


def test_a_pack_has_the_files_and_tensors_of_the_format(network, tmp_path):
    pack = extract_pack(network, {"train": batches(20), "ood": {"v1.5": [images(6)]}}, tmp_path / "a" / "b", maps=True)
    files = {path.relative_to(pack).as_posix(): read_tensors(path) for path in pack.rglob("*.safetensors")}
    assert sorted(files) == ["head.safetensors", "ood/v1.5.safetensors", "train.safetensors"]
    shapes = {name: {key: list(array.shape) for key, array in tensors.items()} for name, tensors in files.items()}
    assert shapes["head.safetensors"] == {"weight": [5, 12], "bias": [5]}
    assert shapes["ood/v1.5.safetensors"] == {"features": [6, 12], "logits": [6, 5], "maps": [6, 12, 4, 4]}
    assert shapes["train.safetensors"]["labels"] == [20]
    assert offspan.make("rank-feat").fit(pack, hold_out=0.0).score(pack / "ood" / "v1.5.safetensors").shape == (6,)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"test": batches(4)}, "needs train"),
        ({"train": batches(4), "val": batches(4)}, "got train, val"),
        ({"train": batches(4), "ood": batches(4)}, "maps names to loaders"),
        ({"train": batches(4), "ood": {"../x": batches(4)}}, "cannot name a file"),
    ],
)
def test_splits_that_make_no_pack_are_told(network, tmp_path, splits, message):
    with pytest.raises(offspan.InputError, match=message):
        extract_pack(network, splits, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_head_of_another_network_is_not_left_beside_new_features(network, tmp_path):
    extract_pack(network, {"train": batches(8)}, tmp_path)
    with pytest.raises(offspan.InputError, match="from another network"):
        extract_pack(ConvolutionalHead(), {"train": batches(8)}, tmp_path, layer="features")


def test_the_safetensors_library_reads_what_is_written_and_the_other_way_round(tmp_path):
    library = pytest.importorskip("safetensors.numpy", reason="the safetensors library is not installed")
    draw = np.random.default_rng(0)
    tensors = {
        "features": draw.normal(size=(7, 3)).astype(np.float16),
        "logits": draw.normal(size=(7, 2)).astype(np.float32),
        "labels": np.arange(7),
        "empty": np.zeros((0, 4), np.float32),
        "ünïcode": np.arange(3, dtype=np.uint8),
    }
    write_tensors(tmp_path / "ours", tensors)
    library.save_file(tensors, tmp_path / "theirs")
    for read in (
        library.load_file(tmp_path / "ours"),
        read_tensors(tmp_path / "theirs"),
        read_tensors(tmp_path / "ours"),
    ):
        assert set(read) == set(tensors)
        for name, array in tensors.items():
            np.testing.assert_array_equal(read[name], array)
            assert read[name].dtype == array.dtype


def test_every_tensor_starts_at_a_multiple_of_its_items(tmp_path):
    odd = {
        "a": np.zeros(3, np.uint8),
        "b": np.zeros(5, np.float16),
        "c": np.zeros(7, np.float64),
        "d": np.ones(1, "f4"),
    }
    write_tensors(tmp_path / "x", odd)
    assert all(array.flags.aligned for array in read_tensors(tmp_path / "x").values())


def test_rows_of_another_shape_or_type_are_refused(tmp_path):
    for rows in (np.zeros((2, 4), np.float32), np.zeros((2, 3), np.float64)):
        with (
            pytest.raises(offspan.InputError, match="began as float32 rows"),
            TensorFileWriter(tmp_path / "x") as writer,
        ):
            writer.append("features", np.zeros((2, 3), np.float32))
            writer.append("features", rows)
    with pytest.raises(offspan.InputError, match="cannot store"), TensorFileWriter(tmp_path / "x") as writer:
        writer.append("features", np.zeros(2, complex))
    assert list(tmp_path.iterdir()) == []


def file_of(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        file_of({}, length=1 << 60),
        file_of({}, length=50),
        file_of(b"[1]"),
        file_of(b"\xff\xfe"),
        file_of({"features": 3}),
        file_of({"features": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}),
        file_of({"features": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234567"),
        file_of({"features": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"12345678"),
        file_of({"features": {"dtype": "F32", "shape": [-2], "data_offsets": [8, 0]}}, b"12345678"),
        file_of({"features": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}, b"12"),
        file_of({"features": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]}}, b"12345678"),
        file_of({"other": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}}, b"1234"),
    ],
)
def test_damaged_files_are_format_errors(tmp_path, data):
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(offspan.FormatError, match=r"x\.safetensors"):
        Extracted.load(path)


def test_bfloat16_is_widened(tmp_path):
    numbers = torch.tensor([[1.5, -2.25], [0.0, 3e38]], dtype=torch.bfloat16)
    raw = numbers.view(torch.int16).numpy().astype("<i2").tobytes()
    path = tmp_path / "x.safetensors"
    path.write_bytes(file_of({"features": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}, raw))
    np.testing.assert_array_equal(Extracted.load(path).features, numbers.float().numpy())


@pytest.mark.skipif(not PACKS.is_dir(), reason="the packs of real features are not beside the project")
def test_a_real_pack_opens_as_a_map():
    pack = PACKS / "cifar10-densenet"
    data = Extracted.load(
        pack / "test.safetensors", tuple(read_tensors(pack / "head.safetensors")[n] for n in ("weight", "bias"))
    )
    assert data.features.shape == (10_000, 342)
    method = offspan.make("energy", head=data.head).fit(data.features)
    np.testing.assert_array_equal(method.score(data.features), method.score(np.array(data.features)))
