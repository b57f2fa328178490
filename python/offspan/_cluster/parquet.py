"""Parquet files, local or of an object store, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import InputError
from .tables import Block, Columns

#: Rows that are read at once; `parts.py` joins them to blocks.
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
            Columns.chosen(file.schema_arrow.names, columns.features, columns.logits, columns.labels)
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns.names):
                yield columns.block(batch, first_row)
                first_row += batch.num_rows


def as_paths(given: Any) -> list[str]:
    """Check a list of paths, of which each is a partition."""
    paths = [str(path) for path in given]
    if not paths:
        raise InputError("paths: expected at least one Parquet file, got none")
    return paths


@contextmanager
def _opened(path: str, storage: Mapping[str, Any]) -> Iterator[Any]:
    """Open a file by its path, or by its address (``s3://…``) with fsspec."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    if "://" in path:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(f"{path}: addresses of object stores need fsspec: pip install fsspec") from error
        source = fsspec.open(path, "rb", **storage).open()
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
