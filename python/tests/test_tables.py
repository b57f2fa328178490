"""Arrow data in memory, and Parquet and Arrow files, as rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import offspan
from offspan import InputError
from offspan._arrays import as_labels, as_rows

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow.parquet as pq  # noqa: E402

FILES = Path(__file__).resolve().parents[2] / "crates" / "offspan-arrow" / "tests" / "files"


def expected(width: int = 6) -> np.ndarray:
    """The rows that `tools/make_tables.py` puts into every good file."""
    i, j = np.indices((120, width))
    return ((i * 31 + j * 17 + i * j) % 101) / 8 - 5


def fixed(rows: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


class Stranger:
    """Arrow data of a library that nobody knows."""

    def __init__(self, data) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema=None):
        return self.data.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_chunk_of_lists_is_not_copied(rows, dtype):
    rows = rows.astype(dtype)
    offsets = pa.array(np.arange(len(rows) + 1) * rows.shape[1], pa.int32())
    of_lists = pa.ListArray.from_arrays(offsets, pa.array(rows.ravel()))
    array = fixed(rows)
    table = pa.table({"features": array})
    for given in (array, of_lists, table, Stranger(table), pa.chunked_array([array]), Stranger(table["features"])):
        got = as_rows(given, "features")
        assert got.dtype == dtype and np.array_equal(got, rows)
    for given in (array, table, Stranger(table), table.slice(0, 100)):
        address = as_rows(given, "features").ctypes.data
        assert address == rows.ctypes.data, "NumPy's own memory, through Arrow and back"
    assert as_rows(table.slice(7, 9), "features").ctypes.data == rows[7:].ctypes.data


def test_the_same_detector_from_arrays_tables_and_files(rows, tmp_path):
    logits = (rows @ np.random.default_rng(1).normal(size=(12, 4))).astype(np.float32)
    labels = np.arange(len(rows)) % 4
    plain = offspan.make("energy").fit(rows, logits, labels).detector
    table = pa.table({"id": ["x"] * len(rows), "features": fixed(rows), "logits": fixed(logits), "labels": labels})
    chunked = pa.concat_tables([table.slice(0, 500), table.slice(500)])
    pq.write_table(chunked, tmp_path / "t.parquet", row_group_size=100)
    (tmp_path / "parts").mkdir()
    for number in range(12):
        pq.write_table(table.slice(100 * number, 100), tmp_path / "parts" / f"part.{number}.parquet")
    (tmp_path / "parts" / "_SUCCESS").touch()
    for given in (table, chunked, table.to_batches()[0], tmp_path / "t.parquet", str(tmp_path / "parts")):
        assert offspan.make("energy").fit(given).detector == plain, type(given)
        assert np.array_equal(plain.score(given), plain.score(rows, logits))
        assert np.array_equal(plain.predict(given), plain.predict(rows, logits))
    again = offspan.make("energy").fit(rows, table, tmp_path / "t.parquet", calibrate=table)
    assert again.detector == offspan.make("energy").fit(rows, logits, labels, calibrate=(rows, logits)).detector
    assert plain.calibrated(table) == plain.calibrated(rows, logits)


def test_polars_frames_and_series(rows):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    series = pl.Series("features", rows)
    lists = pl.Series("features", rows.tolist(), dtype=pl.List(pl.Float32))
    numbered = pl.DataFrame({f"f{j}": rows[:, j] for j in range(12)} | {"label": np.arange(len(rows))})
    for given in (series, lists, pl.DataFrame(series), numbered):
        assert np.array_equal(as_rows(given, "features"), rows)
    assert np.array_equal(as_labels(numbered["label"]), np.arange(len(rows)))
    assert np.array_equal(offspan.read_table(numbered).labels, np.arange(len(rows)))


@pytest.mark.parametrize("path", sorted(FILES.glob("*.[paf]*")), ids=lambda path: path.name)
def test_files_of_other_programs(path):
    table = offspan.read_table(path)
    assert np.array_equal(table.features, expected())
    assert isinstance(table.features, np.memmap)
    if path.name not in ("pandas.parquet", "polars.parquet"):
        assert np.array_equal(table.logits, expected(3) / 2)
    if path.name != "pandas.parquet":
        assert np.array_equal(table.labels, np.arange(120) % 3)


def test_npz_files_are_read_without_pyarrow():
    plain = offspan.make("pca", components=3).fit(expected().astype(np.float32), hold_out=0).detector
    for name in ("openood.npz", "deflated.npz"):
        assert offspan.make("pca", components=3).fit(FILES / name, hold_out=0).detector == plain


def test_columns_are_chosen():
    path = FILES / "numbered.parquet"
    assert offspan.read_table(path, features="f1..f2").features.shape == (120, 2)
    assert np.array_equal(offspan.read_table(path, features="f5,f0").features, expected()[:, [5, 0]])
    table = offspan.read_table(path, features="logit_", logits="f")
    assert np.array_equal(table.logits, expected())
    with pytest.raises(InputError, match="no column `g`; it has `name`"):
        offspan.read_table(path, features="g")
    with pytest.raises(InputError, match="expected Arrow data or a path, got list"):
        offspan.read_table([1])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([[1.0, 2.0], None], "row 1: it is null"),
        ([[1.0, 2.0], [3.0, None]], "row 1: it is null"),
        ([[1.0, 2.0], [3.0]], "row 1: expected 2 numbers, got 1"),
        ([[], []], "row 0: its list is empty"),
        ([["a"], ["b"]], "expected"),
        ([], "expected at least 1 rows"),
    ],
)
def test_bad_lists_are_told_with_their_row(values, sentence):
    kind = pa.list_(pa.string() if values and values[0] == ["a"] else pa.float32())
    column = pa.array(values, kind)
    with pytest.raises(InputError, match=sentence):
        as_rows(pa.table({"features": column}), "features")
    with pytest.raises(InputError, match=sentence):
        as_rows(column, "features")


def test_bad_files_are_told_by_name(tmp_path):
    for name, sentence in {
        "null-row.parquet": "null-row.parquet.*row 2: it is null",
        "ragged.parquet": "ragged.parquet.*row 3: expected 6 numbers, got 5",
        "gap.parquet": "gap.parquet: no column of floats `f2`",
        "no-rows.parquet": "expected at least 1 rows, got 0",
        "null-label.parquet": "null-label.parquet.*row 1: it is null",
        "integers.parquet": "`features` is list<.*int64>; expected float16",
        "encrypted.parquet": "encrypted.parquet: not a Parquet or Arrow file",
    }.items():
        with pytest.raises(offspan.OffspanError, match=sentence):
            offspan.make("pca").fit(FILES / "bad" / name)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes((FILES / "plain.parquet").read_bytes()[:2000])
    with pytest.raises(offspan.FormatError, match=r"cut\.parquet: not a Parquet or Arrow file"):
        offspan.read_table(cut)
    with pytest.raises(FileNotFoundError):
        offspan.read_table(tmp_path / "missing.parquet")
    with pytest.raises(offspan.OffspanError, match=r"nan\.parquet: features, row 3, number 2 is nan"):
        offspan.make("pca").fit(FILES / "bad" / "nan.parquet")


def test_urls_go_through_fsspec(rows):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    for number, part in enumerate(np.array_split(rows, 11)):
        with memory.open(f"/bucket/train/part.{number}.parquet", "wb") as file:
            pq.write_table(pa.table({"features": fixed(part)}), file)
    plain = offspan.make("pca").fit(rows).detector
    assert offspan.make("pca").fit("memory://bucket/train").detector == plain

    class Web(fsspec.AbstractFileSystem):
        """A server whose files go by their whole addresses, also where they are listed."""

        protocol = "web"

        @classmethod
        def _strip_protocol(cls, path):
            return path

        def isdir(self, path):
            return path == "web://bucket/train"

        def ls(self, path, detail=True):
            return [f"web:/{file}" for file in memory.ls("/bucket/train", detail=False)]

        def open(self, path, mode="rb", **_):
            return memory.open(path.removeprefix("web:/"), mode)

    fsspec.register_implementation("web", Web, clobber=True)
    assert offspan.make("pca").fit("web://bucket/train").detector == plain
    single = offspan.read_table("memory://bucket/train/part.0.parquet")
    assert np.array_equal(single.features, np.array_split(rows, 11)[0])
    with pytest.raises(InputError, match=r"nonsense://x\.parquet"):
        offspan.read_table("nonsense://x.parquet")
    with pytest.raises(FileNotFoundError):
        offspan.read_table("memory://bucket/nothing.parquet")


@pytest.mark.parametrize("missing", ["pyarrow", "fsspec"])
def test_what_is_missing_is_named(missing, tmp_path):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; import offspan\n"
        "try:\n    offspan.read_table('memory://x.parquet')\n"
        "except offspan.InputError as error:\n    print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert f"pip install {missing}" in told.stdout


def test_python_and_the_command_line_agree(command_line, tmp_path):
    for name in ("list-zstd.parquet", "numbered.parquet"):
        shutil.copy(FILES / name, tmp_path / name)
        net = tmp_path / "net.offspan"
        subprocess.run(
            [command_line, "fit", name, "--method", "energy", "--hold-out", "0", "-o", net], check=True, cwd=tmp_path
        )
        assert offspan.load(net) == offspan.make("energy").fit(tmp_path / name, hold_out=0).detector
