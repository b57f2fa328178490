"""Tables of other programs as arrays: Arrow data in memory, and Parquet and Arrow files, here or in an object store.

pyarrow reads them; it is imported when a table is given, and nothing here needs it otherwise.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _internal
from .errors import FormatError, InputError

_ENDINGS = (".parquet", ".arrow", ".feather")
#: Decoded numbers that are in memory at a time, about.
_BATCH_BYTES = 8 << 20


class Table(NamedTuple):
    """What a table holds; ``make().fit(*table)`` takes it all."""

    features: npt.NDArray[Any]
    logits: npt.NDArray[Any] | None
    labels: npt.NDArray[np.int64] | None


def read_table(
    source: Any, *, features: str | None = None, logits: str | None = None, labels: str | None = None
) -> Table:
    """Read features, logits and labels from Arrow data, or from a Parquet or Arrow file.

    Arrow data are anything with ``__arrow_c_array__`` or ``__arrow_c_stream__``: tables, record batches and arrays of
    pyarrow, frames and series of polars. A list column of one chunk (FixedSizeList, or lists of one length) is not
    copied; several chunks, and numbered columns, are copied together.

    A file is decoded into temporary files, from which its rows are then mapped, so it may be larger than memory. It is
    a path (``.parquet``, ``.arrow``, ``.feather``), a folder of part files, or the URL of one (``s3://…``), which
    fsspec opens.

    Parameters
    ----------
    source
        Arrow data, a path or a URL.
    features, logits
        A list column, a prefix of numbered columns, a range of them (``f0..f511``), or names and ranges separated by
        commas. By default ``features`` and ``logits``, or the only columns that could be features.
    labels
        A column of whole numbers; by default ``labels``, or ``label``.

    """
    chosen = (features, logits, labels)
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not is_table_path(path):
            raise InputError(f"{path}: expected a name that ends in {', '.join(_ENDINGS)}, or a folder of part files")
        return _read_files(path, chosen)
    if not is_arrow(source):
        raise InputError(f"read_table: expected Arrow data or a path, got {type(source).__name__}")
    data = _imported(source, "the table")
    if not hasattr(data, "column_names"):
        raise InputError("the table: expected columns, got a single array")
    found = _choose("the table", data.schema, *chosen)
    return Table(
        _numbers(data, found[0], "features"),
        None if found[1] is None else _numbers(data, found[1], "logits"),
        None
        if found[2] is None
        else _integers(data.column(found[2]), f"labels: column `{data.column_names[found[2]]}`"),
    )


def is_arrow(given: Any) -> bool:
    """Whether something gives Arrow data. NumPy takes what pandas gives without a copy, and needs no pyarrow for it."""
    gives = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    return gives and not type(given).__module__.startswith("pandas")


def is_table_path(path: str) -> bool:
    """Whether a path or URL leads to a table."""
    return "://" in path or (_internal.is_part_folder(path) if os.path.isdir(path) else path.lower().endswith(_ENDINGS))


def rows_of(given: Any, what: str) -> npt.NDArray[Any]:
    """Give the rows of a table or of an Arrow array: logits if that is what they are, features otherwise."""
    is_logits = "logits" in what
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        return _read_files(path, (None, None, None), only_logits=is_logits).features
    data = _imported(given, what)
    if hasattr(data, "column_names"):
        if is_logits:
            return _numbers(data, _internal.choose_logits(what, _fields(data.schema)), what)
        return _numbers(data, _choose(what, data.schema)[0], what)
    if _kind(data.type)[0] == "list":
        return _together([_lists(chunk, what, 0) for chunk in _chunks(data)])
    if _kind(data.type)[0] == "float":
        return _together([_floats(chunk, what, 0) for chunk in _chunks(data)])
    raise InputError(f"{what}: expected lists of float16, float32 or float64, got {data.type}")


def labels_of(given: Any) -> npt.NDArray[np.int64]:
    """Give the labels in a table or an Arrow array."""
    if isinstance(given, (str, os.PathLike)):
        return _read_labels(os.fspath(given))
    data = _imported(given, "labels")
    if hasattr(data, "column_names"):
        data = data.column(_internal.choose_labels("labels", _fields(data.schema)))
    return _integers(data, "labels")


def has_pyarrow() -> bool:
    """Whether pyarrow can be had."""
    return importlib.util.find_spec("pyarrow") is not None


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise InputError(f"{what}: tables are read by pyarrow, which is not installed (pip install pyarrow)") from None
    return pyarrow


def _imported(given: Any, what: str) -> Any:
    """Arrow data as pyarrow has them: a table, or an array in chunks. Nothing is copied."""
    pa = _pyarrow(what)
    if isinstance(given, (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)):
        data = given
    elif hasattr(given, "__arrow_c_stream__"):
        data = pa.chunked_array(given)
    else:
        data = pa.array(given)
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data
    if isinstance(data, pa.ExtensionArray):
        data = data.storage
    if pa.types.is_struct(data.type):
        return pa.Table.from_struct_array(data)
    return data


def _kind(data_type: Any) -> tuple[str, int]:
    """What a column holds, and the bytes of a float."""
    import pyarrow as pa

    types = pa.types
    data_type = getattr(data_type, "storage_type", data_type)
    name, item = "float", data_type
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        name, item = "list", data_type.value_type
    if types.is_floating(item):
        return name, item.bit_width // 8
    return ("integer", 0) if types.is_integer(data_type) else ("other", 0)


def _fields(schema: Any) -> list[tuple[str, str, int, str]]:
    return [(field.name, *_kind(field.type), str(field.type)) for field in schema]


def _choose(what: str, schema: Any, *chosen: str | None) -> Any:
    return _internal.choose_columns(what, _fields(schema), *chosen)


def _chunks(column: Any) -> list[Any]:
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    return [getattr(chunk, "storage", chunk) for chunk in chunks if len(chunk)]


def _together(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    if not parts:
        raise InputError("expected at least 1 rows, got 0")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _numbers(data: Any, columns: tuple[bool, list[int], int], what: str, before: int = 0) -> npt.NDArray[Any]:
    """The numbers of a table's columns; a list of one chunk is not copied. ``before`` rows of the file came before."""
    is_list, positions, size = columns
    names = data.column_names
    if is_list:
        name, parts, start = f"{what}: column `{names[positions[0]]}`", [], before
        for chunk in _chunks(data.column(positions[0])):
            parts.append(_lists(chunk, name, start))
            start += len(chunk)
        _check_widths(parts, name, before)
        return _together(parts)
    out = np.empty((len(data), len(positions)), dtype=f"f{size}")
    for place, position in enumerate(positions):
        start = 0
        for chunk in _chunks(data.column(position)):
            name = f"{what}: column `{names[position]}`"
            out[start : start + len(chunk), place] = _floats(chunk, name, before + start)
            start += len(chunk)
    return out


def _check_widths(parts: list[npt.NDArray[Any]], what: str, start: int) -> None:
    for part in parts:
        if part.shape[1] != parts[0].shape[1]:
            raise InputError(f"{what}, row {start}: expected {parts[0].shape[1]} numbers, got {part.shape[1]}")
        start += len(part)


def _no_nulls(array: Any, what: str, start: int, width: int = 1) -> None:
    if array.null_count:
        row = start + int(np.argmax(array.is_null().to_numpy(zero_copy_only=False))) // width
        raise InputError(f"{what}, row {row}: it is null; expected numbers in every row")


def _floats(array: Any, what: str, start: int) -> npt.NDArray[Any]:
    _no_nulls(array, what, start)
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=True)
    return numbers


def _lists(array: Any, what: str, start: int) -> npt.NDArray[Any]:
    """Lists of one length as rows, without a copy; ``start`` rows came before."""
    _no_nulls(array, what, start)
    if hasattr(array, "offsets"):
        lengths = np.diff(array.offsets.to_numpy())
        width, other = int(lengths[0]), np.flatnonzero(lengths != lengths[0])
        if len(other):
            row = int(other[0])
            raise InputError(f"{what}, row {start + row}: expected {width} numbers, got {int(lengths[row])}")
    else:
        width = array.type.list_size
    if width == 0:
        raise InputError(f"{what}, row {start}: its list is empty; expected at least one number")
    values = array.flatten()
    _no_nulls(values, what, start, width)
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=True).reshape(-1, width)
    return numbers


def _integers(column: Any, what: str, start: int = 0) -> npt.NDArray[np.int64]:
    parts = []
    for chunk in _chunks(column):
        _no_nulls(chunk, what, start)
        numbers = chunk.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind not in "iu" or (numbers.dtype == np.uint64 and (numbers >> np.uint64(63)).any()):
            raise InputError(f"{what}: expected whole numbers below 2^63, got {column.type}")
        parts.append(numbers.astype(np.int64, copy=False))
        start += len(chunk)
    return _together(parts)


class _Spill:
    """Rows written to a temporary file without a name, and mapped from it."""

    def __init__(self, dtype: str) -> None:
        self.file = tempfile.TemporaryFile()
        self.dtype = np.dtype(dtype)
        self.rows = 0
        self.width: int | None = None

    def append(self, rows: npt.NDArray[Any]) -> None:
        self.width = rows.shape[1]
        self.rows += len(rows)
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)

    def mapped(self, what: str) -> npt.NDArray[Any]:
        if self.width is None:
            raise InputError(f"{what}: expected at least 1 rows, got 0")
        self.file.flush()
        return np.memmap(self.file, dtype=self.dtype, mode="r", shape=(self.rows, self.width))


def _check_finite(rows: npt.NDArray[Any], file: str, start: int) -> None:
    """Look at features here, where a message can still name the part that has a bad row."""
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        value = rows[row, column]
        raise InputError(f"{file}: features, row {start + row}, number {column} is {value}; every value must be finite")


def _read_files(path: str, chosen: tuple[str | None, ...], only_logits: bool = False) -> Table:
    files, opener = _files(path)
    plans = []
    for file in files:
        with _Opened(file, opener) as table:
            if only_logits:
                plans.append((_internal.choose_logits(file, _fields(table.schema)), None, None))
            else:
                plans.append(_choose(file, table.schema, *chosen))
    first = plans[0]
    for file, plan in zip(files, plans):
        if [part is None for part in plan] != [part is None for part in first]:
            raise InputError(f"{file}: it does not have the same columns as {files[0]}")
    # The widest type that a part has holds all of them.
    features = _Spill(f"f{max(plan[0][2] for plan in plans)}")
    logits = None if first[1] is None else _Spill(f"f{max(plan[1][2] for plan in plans)}")
    labels: list[npt.NDArray[np.int64]] = []
    for file, plan in zip(files, plans):
        with _Opened(file, opener) as table:
            used = [*plan[0][1], *(plan[1][1] if plan[1] else []), *([] if plan[2] is None else [plan[2]])]
            start = 0
            for batch, positions in table.batches(sorted(set(used))):
                for spill, columns, what in ((features, plan[0], "features"), (logits, plan[1], "logits")):
                    if spill is None or columns is None:
                        continue
                    place = (columns[0], [positions[position] for position in columns[1]], columns[2])
                    rows = _numbers(batch, place, f"{file}: {what}", start)
                    if what == "features":
                        _check_finite(rows, file, start)
                    if spill.width not in (None, rows.shape[1]):
                        raise InputError(
                            f"{file}: {what}, row {start}: expected {spill.width} numbers, got {rows.shape[1]}"
                        )
                    spill.append(rows)
                if plan[2] is not None:
                    labels.append(_integers(batch.column(positions[plan[2]]), f"{file}: labels", start))
                start += len(batch)
    return Table(
        features.mapped(path),
        None if logits is None else logits.mapped(path),
        _together(labels) if labels else None,
    )


def _read_labels(path: str) -> npt.NDArray[np.int64]:
    files, opener = _files(path)
    labels = []
    for file in files:
        with _Opened(file, opener) as table:
            position = _internal.choose_labels(file, _fields(table.schema))
            start = 0
            for batch, positions in table.batches([position]):
                labels.append(_integers(batch.column(positions[position]), f"{file}: labels", start))
                start += len(batch)
    return _together(labels)


def _files(path: str) -> tuple[list[str], Callable[[str], Any]]:
    """The files of a table in order, and what opens one."""
    _pyarrow(path)
    if "://" not in path:
        if not os.path.isdir(path):
            return [path], lambda file: open(file, "rb")
        inside = [os.path.join(path, name) for name in os.listdir(path)]
        return _parts(path, inside), lambda file: open(file, "rb")
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{path}: URLs are opened by fsspec, which is not installed (pip install fsspec)") from None
    try:
        system, place = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:  # Such as s3fs, which fsspec names.
        raise InputError(f"{path}: {error}") from error
    files = _parts(path, system.ls(place, detail=False)) if system.isdir(place) else [place]
    return files, lambda file: system.open(file, "rb")


def part_files(inside: list[str]) -> list[str]:
    """The tables among paths, in the order of their rows."""
    # What comes back are paths of this system, in which an address would lose a slash.
    given = {os.fspath(Path(path)): path for path in inside}
    return [given[os.fspath(part)] for part in _internal.part_files(inside)]


def _parts(path: str, inside: list[str]) -> list[str]:
    files = part_files(inside)
    if not files:
        raise InputError(f"{path}: expected files that end in {', '.join(_ENDINGS)} in the folder, found none")
    return files


class _Opened:
    """An open Parquet or Arrow file."""

    def __init__(self, path: str, opener: Callable[[str], Any]) -> None:
        self.path, self.file = path, opener(path)

    def __enter__(self) -> _Opened:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet

        beginning = self.file.read(6)
        self.file.seek(0)
        try:
            if beginning.startswith(b"PAR1"):
                self.reader = pa.parquet.ParquetFile(self.file)
                self.schema = self.reader.schema_arrow
            elif beginning == b"ARROW1":
                self.reader = pa.ipc.open_file(self.file)
                self.schema = self.reader.schema
            else:
                self.reader = pa.ipc.open_stream(self.file)
                self.schema = self.reader.schema
        except (pa.ArrowException, OSError) as error:
            self.file.close()
            raise FormatError(f"{self.path}: not a Parquet or Arrow file: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def batches(self, positions: list[int]) -> Iterator[tuple[Any, dict[int, int]]]:
        """Batches of the columns at these positions, with where each of them is in the batch."""
        import pyarrow as pa

        try:
            if hasattr(self.reader, "iter_batches"):
                metadata = self.reader.metadata
                rows = max(metadata.num_rows, 1)
                bytes_per_row = (
                    sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)) // rows
                )
                size = min(max(_BATCH_BYTES // max(bytes_per_row, 1), 1), 8192)
                names = [self.schema.names[position] for position in positions]
                places = {position: place for place, position in enumerate(positions)}
                for batch in self.reader.iter_batches(batch_size=size, columns=names):
                    yield batch, places
            elif hasattr(self.reader, "num_record_batches"):
                for index in range(self.reader.num_record_batches):
                    yield self.reader.get_batch(index), {position: position for position in positions}
            else:
                for batch in self.reader:
                    yield batch, {position: position for position in positions}
        except (pa.ArrowException, OSError) as error:
            raise FormatError(f"{self.path}: it cannot be decoded: {error}") from error
