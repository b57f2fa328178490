"""Fits and scores on Ray: tasks with a merge tree for fits, Ray Data's `map_batches` for scores.

>>> import ray.data, offspan, offspan.ray                                                       # doctest: +SKIP
>>> rows = ray.data.read_parquet("s3://features/train/")                                        # doctest: +SKIP
>>> detector = offspan.ray.fit(offspan.FitPlan("kpca-rff", features=512), rows)                 # doctest: +SKIP
>>> offspan.ray.transform(detector, rows).write_parquet("s3://features/scored/")                # doctest: +SKIP

Every block or file becomes one part in a task of its own, and parts are merged by tasks in a tree: the driver gets one
part per pass. Ray repeats the tasks of lost workers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable

try:
    import ray
except ImportError as error:
    raise ImportError("offspan.ray needs Ray: pip install 'ray[data]'") from error

import offspan

from ._cluster import driver, parquet, parts, scoring
from ._cluster.driver import FAN
from ._cluster.parts import Part, Place, Sealed
from ._cluster.scoring import Answer
from ._cluster.tables import Columns, Names
from ._progress import Report
from .errors import InputError, OffspanError

__all__ = ["fit", "transform"]

#: A task whose worker was lost is run again, and gives the same part. Not for ever: rows that kill every worker (by the
#: memory that they take, say) must end in a sentence.
_RETRIES = 10


def fit(
    plan: offspan.FitPlan,
    rows: Any,
    logits: Names | None = None,
    labels: str | None = None,
    *,
    features: Names = "features",
    progress: bool | Report = False,
    checkpoint: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> offspan.Detector:
    """Fit to the rows of a dataset or of Parquet files.

    Parameters
    ----------
    plan
        The method with its parameters, its threshold and the last layer; it stays as it is.
    rows
        A Ray dataset, which is materialised in the object store once, or a path or a list of paths of Parquet files.
        Each file is a partition, also each in a folder of part files, and is read anew, bit by bit, in every pass.
        Addresses such as ``s3://…`` are read by fsspec.
    features, logits
        A column with lists of numbers (or tensors), or columns with a number each: a list of names, or all of ``f0``,
        ``f1``, … as ``"f*"``.
    labels
        A column of whole numbers.
    progress
        True for a line on stderr, or a function that is told stage, partitions done and partitions in all.
    checkpoint
        A file that keeps what was found after each pass: a fit whose driver was lost goes on from there.
    storage_options
        What fsspec needs to open addresses.

    """
    engine: driver.Engine
    if isinstance(rows, (list, tuple, str, os.PathLike)):
        storage = dict(storage_options or {})
        paths = parquet.as_paths(rows, storage)
        columns = Columns.chosen(parquet.column_names(paths[0], storage), features, logits, labels)
        engine = _Files(paths, columns, storage)
    elif isinstance(rows, ray.data.Dataset):
        columns = Columns.chosen(_columns_of(rows), features, logits, labels)
        engine = _Blocks(_in_order(rows.select_columns(columns.names)), columns)
    else:
        raise InputError(f"rows: expected a Ray dataset or a list of paths, got {type(rows).__name__}")
    return driver.fit(plan, engine, progress, checkpoint)


def transform(
    detector: offspan.Detector,
    rows: Any,
    logits: Names | None = None,
    *,
    features: Names = "features",
    score: str = "score",
    p_value: str | None = "p_value",
    is_in: str | None = "is_in",
    **options: Any,
) -> Any:
    """Add score, p-value and decision to a Ray dataset, lazily. A column that is None is left out.

    The detector is put into the object store once. Further options go to ``Dataset.map_batches``.
    """
    if not isinstance(rows, ray.data.Dataset):
        raise InputError(f"rows: expected a Ray dataset, got {type(rows).__name__}")
    there = _columns_of(rows)
    answer = Answer.checked(detector, there, score, p_value, is_in)
    columns = Columns.chosen(there, features, logits, None)
    sealed = ray.put(Sealed(detector.to_bytes()))
    given = {"detector": sealed, "answer": answer, "columns": columns}
    return rows.map_batches(_with_answers, fn_kwargs=given, batch_format="pyarrow", zero_copy_batch=True, **options)


def _with_answers(table: Any, detector: Any, answer: Answer, columns: Columns) -> Any:
    offspan.set_threads(1)
    opened = ray.get(detector) if isinstance(detector, ray.ObjectRef) else detector
    for name, values in scoring.answers(opened, answer, columns, table).items():
        table = table.append_column(name, [values])
    return table


def _in_order(rows: Any) -> Any:
    """Materialise a dataset with its blocks in their order, not in that in which they are done: rows are numbered."""
    options = rows.context.execution_options
    before = options.preserve_order
    options.preserve_order = True
    try:
        return rows.materialize()
    finally:
        options.preserve_order = before


def _columns_of(rows: Any) -> list[str]:
    names = rows.columns()
    if names is None:
        raise InputError("rows: expected a dataset with columns, got an empty one")
    return [str(name) for name in names]


class _Engine:
    """Carries out passes with Ray; what a partition is, its kinds say."""

    def _part(self, plan: Any, place: Place) -> Any:
        """Start the task of a partition."""
        raise NotImplementedError

    def carry_out(self, plan: Sealed, places: Sequence[Place], done: Callable[[int], object]) -> Part:
        shared = ray.put(plan)
        level = [self._part(shared, place) for place in places]
        first: list[Any] | None = None
        sizes: dict[Any, int] = {}
        for groups in parts.levels(len(level), FAN):
            # The tasks have the parts that they merge; Ray frees those as soon as they are merged.
            level = [_merge.remote(*(level[one] for one in group)) for group in groups]
            if first is None:
                first, sizes = list(level), dict(zip(level, map(len, groups)))
        finished = 0
        while first:
            # Parts stay where they are: the driver wants to know of them, and not to have them.
            ready, first = ray.wait(first, fetch_local=False)
            finished += sum(sizes.pop(reference) for reference in ready)
            done(finished)
        part: Part = _got(level[0])
        done(len(places))
        return part


class _Blocks(_Engine):
    """The blocks of a materialised dataset."""

    def __init__(self, rows: Any, columns: Columns) -> None:
        self._rows = rows  # Keeps the blocks in the object store.
        self._columns = columns
        self._blocks = rows.to_arrow_refs()

    def count(self) -> list[int]:
        return [int(rows) for rows in _got([_length.remote(block) for block in self._blocks])]

    def _part(self, plan: Any, place: Place) -> Any:
        return _part_of_table.remote(plan, place, self._columns, self._blocks[place.partition])


class _Files(_Engine):
    """Parquet files."""

    def __init__(self, paths: list[str], columns: Columns, storage: dict[str, Any]) -> None:
        self._paths, self._columns, self._storage = paths, columns, storage

    def count(self) -> list[int]:
        return [int(rows) for rows in _got([_rows_of.remote([path], self._storage) for path in self._paths])]

    def _part(self, plan: Any, place: Place) -> Any:
        return _part_of_file.remote(plan, place, self._columns, self._paths[place.partition], self._storage)


def _task(function: Callable[..., Any]) -> Any:
    return ray.remote(max_retries=_RETRIES)(function)


def _got(references: Any) -> Any:
    """Wait for what tasks give; say so if one of them has lost every worker that tried it."""
    try:
        return ray.get(references)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
        raise OffspanError(
            f"a task lost its worker {_RETRIES + 1} times, so the fit has stopped; where a partition takes more memory "
            f"than a worker has, smaller ones help: {error}"
        ) from error


def _count_rows(table: Any) -> int:
    return int(table.num_rows)


def _find_in_table(plan: Sealed, place: Place, columns: Columns, table: Any) -> Part:
    offspan.set_threads(1)
    return parts.find(plan, place, (columns.block(table, place.first_row) for _ in range(1)))


def _find_in_file(plan: Sealed, place: Place, columns: Columns, path: str, storage: dict[str, Any]) -> Part:
    offspan.set_threads(1)
    return parts.find(plan, place, parquet.blocks_of([path], columns, place.first_row, storage))


def _merge_parts(*given: Part) -> Part:
    offspan.set_threads(1)
    return parts.merged(given)


_length = _task(_count_rows)
_rows_of = _task(parquet.rows_of)
_part_of_table = _task(_find_in_table)
_part_of_file = _task(_find_in_file)
_merge = _task(_merge_parts)
