"""Columns of pandas and Arrow tables, as the arrays that a fit and a score take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from ..errors import InputError

#: One column with a list of numbers per row; several columns with a number each; or all of ``f0``, ``f1``, … as ``f*``.
Names = Union[str, Sequence[str]]


class Block(NamedTuple):
    """Some rows, with what belongs to them."""

    features: npt.NDArray[Any]
    logits: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None


@dataclass(frozen=True)
class Columns:
    """The columns of a table in which features, logits and labels are."""

    features: str | tuple[str, ...]
    logits: str | tuple[str, ...] | None = None
    labels: str | None = None

    @classmethod
    def chosen(cls, there: Iterable[str], features: Names, logits: Names | None, labels: str | None) -> Columns:
        """Check the names against those that a table has, and spell patterns out."""
        names = [str(name) for name in there]
        return cls(
            _spelled_out(names, features, "features"),
            None if logits is None else _spelled_out(names, logits, "logits"),
            None if labels is None else _one(names, labels, "labels"),
        )

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        wanted: list[str] = []
        for given in (self.features, self.logits, self.labels):
            wanted += [] if given is None else [given] if isinstance(given, str) else given
        return list(dict.fromkeys(wanted))

    def block(self, table: Any, first_row: int = 0) -> Block:
        """Read the arrays out of a pandas or Arrow table whose first row has this number."""
        column = _arrow_column if hasattr(table, "schema") else _pandas_column
        logits = None if self.logits is None else _matrix(column, table, self.logits, "logits", first_row)
        labels = None if self.labels is None else _labels(column(table, self.labels), first_row)
        return Block(_matrix(column, table, self.features, "features", first_row), logits, labels)


def _spelled_out(there: list[str], given: Names, what: str) -> str | tuple[str, ...]:
    if isinstance(given, str):
        if not given.endswith("*"):
            return _one(there, given, what)
        prefix = given[:-1]
        numbered = [name for name in there if name.startswith(prefix) and name[len(prefix) :].isdecimal()]
        if not numbered:
            raise InputError(f"{what}: expected columns {prefix}0, {prefix}1, …, got {_listed(there)}")
        return tuple(sorted(numbered, key=lambda name: int(name[len(prefix) :])))
    names = tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what}: expected the name of a column, or several, got {given!r}")
    return tuple(_one(there, name, what) for name in names)


def _one(there: list[str], name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise InputError(f"{what}: expected the name of a column, got {type(name).__name__}")
    if name not in there:
        raise InputError(f"{what}: there is no column {name!r}, but {_listed(there)}")
    return name


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8]) if names else "no column at all"
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _pandas_column(table: Any, name: str) -> Any:
    column = table[name]
    return column.array.__arrow_array__() if hasattr(column.array, "__arrow_array__") else column.to_numpy()


def _arrow_column(table: Any, name: str) -> Any:
    return table.column(name)


def _matrix(column: Any, table: Any, names: str | tuple[str, ...], what: str, first_row: int) -> npt.NDArray[Any]:
    if isinstance(names, str):
        return _lists(column(table, names), what, first_row)
    numbers = [_numbers(column(table, name), what) for name in names]
    joined = np.empty((len(numbers[0]), len(numbers)), dtype=np.result_type(*numbers))
    for place, values in enumerate(numbers):
        joined[:, place] = values
    return joined


def _numbers(column: Any, what: str) -> npt.NDArray[Any]:
    values = column if isinstance(column, np.ndarray) else _to_numpy(column)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{what}: expected columns of numbers, got one of {values.dtype}")
    return values


def _lists(column: Any, what: str, first_row: int) -> npt.NDArray[Any]:
    """One list of numbers per row, as a matrix."""
    if isinstance(column, np.ndarray):
        return _python_lists(column, what, first_row)
    matrices: list[npt.NDArray[Any]] = []
    for chunk in getattr(column, "chunks", [column]):
        if len(chunk):
            matrices.append(_arrow_lists(chunk, what, first_row))
            got, expected = matrices[-1].shape[1], matrices[0].shape[1]
            if got != expected:
                raise InputError(f"{what}: expected {expected} numbers in every row, got {got} in row {first_row}")
            first_row += len(chunk)
    if not matrices:
        return np.empty((0, 0), dtype=np.float32)
    return matrices[0] if len(matrices) == 1 else np.concatenate(matrices)


def _arrow_lists(chunk: Any, what: str, first_row: int) -> npt.NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(chunk, pa.ExtensionArray):  # Tensors of Ray: lists with a shape.
        chunk = chunk.storage
    kind = chunk.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        why = ""
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            why = (
                "; Dask makes text of lists of Python: use Arrow's lists (read Parquet files, or "
                "astype(pandas.ArrowDtype(pyarrow.list_(pyarrow.float32())))), or set dataframe.convert-string to False"
            )
        raise InputError(f"{what}: expected a list of numbers in every row, got a column of {kind}{why}")
    if chunk.null_count:
        missing = first_row + int(np.argmax(chunk.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{what}: expected a list of numbers in every row, got none in row {missing}")
    lengths = pc.list_value_length(chunk).to_numpy(zero_copy_only=False)
    _check_lengths(lengths, what, first_row)
    values = _to_numpy(chunk.flatten())
    if values.dtype.kind not in "biuf":
        raise InputError(f"{what}: expected lists of numbers, got lists of {kind.value_type}")
    return values.reshape(len(chunk), -1) if values.size else np.empty((len(chunk), 0), dtype=np.float32)


def _python_lists(column: npt.NDArray[Any], what: str, first_row: int) -> npt.NDArray[Any]:
    if not len(column):
        return np.empty((0, 0), dtype=np.float32)
    rows = [np.asarray(row) for row in column]
    for number, row in enumerate(rows, first_row):
        if row.ndim != 1 or row.dtype.kind not in "biuf":
            got = f"{column[number - first_row]!r:.40} in row {number}"
            raise InputError(f"{what}: expected a list of numbers in every row, got {got}")
    _check_lengths(np.array([len(row) for row in rows]), what, first_row)
    return np.stack(rows)


def _check_lengths(lengths: npt.NDArray[Any], what: str, first_row: int) -> None:
    other = np.flatnonzero(lengths != lengths[0])
    if len(other):
        raise InputError(
            f"{what}: expected {int(lengths[0])} numbers in every row as in row {first_row}, "
            f"got {int(lengths[other[0]])} in row {first_row + int(other[0])}"
        )


def _labels(column: Any, first_row: int) -> npt.NDArray[Any]:
    if not isinstance(column, np.ndarray):
        if column.null_count:
            missing = np.concatenate([part.is_null().to_numpy(False) for part in getattr(column, "chunks", [column])])
            raise InputError(f"labels: expected a label in every row, got none in row {first_row + np.argmax(missing)}")
        column = _to_numpy(column)
    return column


def _to_numpy(column: Any) -> npt.NDArray[Any]:
    """The values of an Arrow array, without a copy where there is no gap; gaps become NaN."""
    chunked = hasattr(column, "chunks")
    values = column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False)
    return np.asarray(values)
