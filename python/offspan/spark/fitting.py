"""Fits: parts by `mapInArrow`, merged on executors."""

from __future__ import annotations

import os
import pickle
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Callable

import pyarrow as pa

import offspan

from .._cluster import driver, parts
from .._cluster.driver import FAN
from .._cluster.parts import Part, Place, Sealed
from .._cluster.tables import Columns, Names
from .._progress import Report
from ..errors import InputError
from . import columns as spark_columns

#: Seconds between two looks at how far a pass is.
_LOOK_EVERY = 0.5


def fit(
    plan: offspan.FitPlan,
    table: Any,
    logits: Names | None = None,
    labels: str | None = None,
    *,
    features: Names = "features",
    progress: bool | Report = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> offspan.Detector:
    """Fit to the rows of a Spark DataFrame.

    Parameters
    ----------
    plan
        The method with its parameters, its threshold and the last layer; it stays as it is.
    table
        A DataFrame, read once for each pass and once to count rows. If it is expensive to make, persist it.
    features, logits
        A column of arrays or of pyspark.ml's vectors, or columns with a number each: a list of names, or all of ``f0``,
        ``f1``, … as ``"f*"``.
    labels
        A column of whole numbers.
    progress
        True for a line on stderr, or a function that is told stage, partitions done and partitions in all.
    checkpoint
        A file on the driver that keeps what was found after each pass: a fit whose driver was lost goes on from there.

    """
    return driver.fit(plan, _Engine(table, spark_columns.chosen(table, features, logits, labels)), progress, checkpoint)


class _Engine:
    """Carries out passes with Spark."""

    def __init__(self, table: Any, columns: Columns) -> None:
        self._table = spark_columns.selected(table, columns)
        self._columns = columns
        try:
            self._context = table.sparkSession.sparkContext
        except Exception as error:  # Spark Connect has exceptions of its own for what it lacks.
            raise InputError(
                "a fit needs a classic Spark session, whose executors can merge parts (RDDs); this one is of Spark "
                "Connect. Scoring works with either."
            ) from error

    def count(self) -> list[int]:
        counted = self._table.mapInArrow(_count, "partition int, rows long").collect()
        rows = {int(row["partition"]): int(row["rows"]) for row in counted}
        return [rows.get(partition, 0) for partition in range(max(rows, default=-1) + 1)]

    def carry_out(self, plan: Sealed, places: Sequence[Place], done: Callable[[int], object]) -> Part:
        shared = self._context.broadcast((plan, tuple(places)))
        try:
            found = self._table.mapInArrow(_finder(shared, self._columns), "partition int, part binary")
            level = found.rdd.map(lambda row: (row[0], bytes(row[1])))
            for groups in parts.levels(len(places), FAN):
                level = level.map(_with_lane).partitionBy(len(groups), int).mapPartitionsWithIndex(_merge)
            with self._progress(len(places), done):
                (last,) = level.collect()
        finally:
            shared.destroy()
        part: Part = pickle.loads(last[1])
        return part

    @contextmanager
    def _progress(self, total: int, done: Callable[[int], object]) -> Iterator[None]:
        """Look at the stage that makes parts, from another thread."""
        group, over = f"offspan-{uuid.uuid4().hex}", threading.Event()
        tracker = self._context.statusTracker()

        def look() -> None:
            told = 0
            while not over.wait(_LOOK_EVERY):
                stages = [
                    stage
                    for job in tracker.getJobIdsForGroup(group)
                    for stage in getattr(tracker.getJobInfo(job), "stageIds", ())
                ]
                stage = tracker.getStageInfo(min(stages)) if stages else None
                if stage is not None and stage.numTasks == total and stage.numCompletedTasks != told:
                    told = stage.numCompletedTasks
                    done(told)

        names = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
        before = {name: self._context.getLocalProperty(name) for name in names}
        self._context.setJobGroup(group, "a pass of offspan")
        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            for name, value in before.items():
                self._context.setLocalProperty(name, value)
        done(total)


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict(
        {"partition": pa.array([_partition()], pa.int32()), "rows": pa.array([rows], pa.int64())}
    )


def _finder(shared: Any, columns: Columns) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _one_thread()
        plan, places = shared.value
        partition = _partition()
        # A partition that was not there when rows were counted has none of them.
        place = places[partition] if partition < len(places) else Place(partition, 0, 0)

        def blocks() -> Iterator[Any]:
            first_row = place.first_row
            for batch in batches:
                yield columns.block(batch, first_row)
                first_row += batch.num_rows

        part = parts.find(plan, place, blocks())
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([partition], pa.int32()),
                "part": pa.array([pickle.dumps(part, protocol=5)], pa.binary()),
            }
        )

    return find


def _with_lane(numbered: tuple[int, bytes]) -> tuple[int, tuple[int, bytes]]:
    """Say which merge takes a part, and keep its number, for one order of all merges."""
    number, data = numbered
    return number // FAN, (number, data)


def _merge(lane: int, given: Iterable[tuple[int, tuple[int, bytes]]]) -> Iterator[tuple[int, bytes]]:
    _one_thread()
    ordered = sorted((part for _, part in given), key=lambda part: part[0])
    merged = parts.merged(pickle.loads(data) for _, data in ordered)
    yield lane, pickle.dumps(merged, protocol=5)


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _one_thread() -> None:
    """Executors have a process of their own for Python, and a task for each core."""
    offspan.set_threads(1)
