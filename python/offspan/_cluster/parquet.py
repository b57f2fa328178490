"""Parquet files, local or of an object store, bit by bit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .._tables import part_files
from ..errors import InputError
from .tables import Block, Columns

#: Bytes and rows that are read at once, at most; `parts.py` joins them to blocks.
_BATCH_BYTES = 1 << 25
_BATCH_ROWS = 8192


def rows_of(paths: Sequence[str], storage: Mapping[str, Any]) -> int:
    """Count the rows of some files, by their footers alone."""
    total = 0
    for path in paths:
        with _opened(path, storage) as file:
            total += file.metadata.num_rows
    return total


def column_names(path: str, storage: Mapping[str, Any]) -> list[str]:
    """List the columns of a file."""
    with _opened(path, storage) as file:
        return list(file.schema_arrow.names)


def blocks_of(paths: Sequence[str], columns: Columns, first_row: int, storage: Mapping[str, Any]) -> Iterator[Block]:
    """Read some files one after the other."""
    for path in paths:
        with _opened(path, storage) as file:
            # A bag's files are seen here first.
            found = Columns.chosen(file.schema_arrow.names, columns.features, columns.logits, columns.labels)
            for batch in _batches(path, file, found.names):
                yield found.block(batch, first_row)
                first_row += batch.num_rows


def _batches(path: str, file: Any, names: list[str]) -> Iterator[Any]:
    """Read a file bit by bit; what cannot be decoded is wrong for every worker that tries."""
    import pyarrow as pa

    size = sum(file.metadata.row_group(number).total_byte_size for number in range(file.metadata.num_row_groups))
    rows = _BATCH_BYTES * file.metadata.num_rows // max(size, 1)
    try:
        yield from file.iter_batches(min(max(rows, 1), _BATCH_ROWS), columns=names)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # Of the system; pyarrow's own have no number. Another try may do better.
        raise InputError(f"{path}: it cannot be decoded: {error}") from error


def as_paths(given: Any, storage: Mapping[str, Any]) -> list[str]:
    """Check a path or a list of paths, of which each is a partition; a folder stands for the files in it."""
    paths = [os.fspath(path) for path in ([given] if isinstance(given, (str, os.PathLike)) else given)]
    if not paths:
        raise InputError("paths: expected at least one Parquet file, got none")
    # To ask an object store for each of many files takes long.
    return [file for path in paths for file in _files(path, storage, look=len(paths) == 1)]


def _files(path: str, storage: Mapping[str, Any], look: bool) -> list[str]:
    """The files that a path stands for: itself, or those in the folder, in the order of their rows."""
    if "://" not in path:
        if not os.path.isdir(path):
            return [path]
        found = [os.path.join(path, name) for name in os.listdir(path)]
    elif "::" in path or not (look or not path.endswith(".parquet")):
        return [path]
    else:
        system, place = _file_system(path).url_to_fs(path, **storage)
        if not system.isdir(place):
            return [path]
        found = [system.unstrip_protocol(file) for file in system.ls(place, detail=False)]
    files = [file for file in part_files(found) if file.endswith(".parquet")]
    if not files:
        raise InputError(f"{path}: expected files that end in .parquet in the folder, found none")
    return files


def _file_system(path: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"{path}: addresses of object stores need fsspec: pip install fsspec") from error
    return fsspec.core


@contextmanager
def _opened(path: str, storage: Mapping[str, Any]) -> Iterator[Any]:
    """Open a file by its path, or by its address (``s3://…``) with fsspec."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    if "://" in path:
        source = _file_system(path).open(path, "rb", **storage).open()
    else:
        source = open(path, "rb")
    try:
        try:
            file = ParquetFile(source)
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: expected a Parquet file: {error}") from error
        yield file
    finally:
        source.close()
