"""Fits and scores on Dask: arrays, DataFrames and bags of Parquet paths, on a cluster or a local scheduler.

>>> import dask.array, numpy as np, offspan, offspan.dask                                       # doctest: +SKIP
>>> rows = dask.array.random.default_rng(0).normal(size=(10**6, 64), chunks=(10**5, 64))        # doctest: +SKIP
>>> detector = offspan.dask.fit(offspan.FitPlan("kpca-rff", features=512), rows)                # doctest: +SKIP
>>> scores = offspan.dask.score(detector, rows)                                                 # doctest: +SKIP

Every partition becomes one part on the worker where it is, and parts are merged by workers in a tree: the driver gets
one part per pass. What a lost worker had is made again by the others. Partitions must be the same rows whenever they
are computed; if they are not, the fit says so.
"""

from __future__ import annotations

import multiprocessing
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable

try:
    import dask
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise ImportError("offspan.dask needs Dask: pip install 'dask[array,dataframe]' distributed") from error

import numpy as np
import numpy.typing as npt

import offspan

from ._cluster import driver, parquet, parts, scoring
from ._cluster.driver import FAN
from ._cluster.parts import Part, Place, Sealed
from ._cluster.scoring import Answer
from ._cluster.tables import Block, Columns, Names
from ._progress import Report
from .errors import InputError

__all__ = ["fit", "score", "transform"]

#: How the names of tasks begin that make a part of a partition; progress counts them.
_PARTIAL = "offspan-part"


def fit(
    plan: offspan.FitPlan,
    rows: Any,
    logits: Any = None,
    labels: Any = None,
    *,
    features: Names = "features",
    scheduler: Any = None,
    progress: bool | Report = False,
    checkpoint: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> offspan.Detector:
    """Fit to the rows of all partitions.

    Parameters
    ----------
    plan
        The method with its parameters, its threshold and the last layer; it stays as it is.
    rows
        A Dask array [rows, width], a Dask DataFrame, or Parquet files: a bag of paths, of which each partition of the
        bag is one, or a path or a list of paths, of which each is one, and each file in a folder of part files.
        Addresses such as ``s3://…`` are read by fsspec.
    logits, labels
        What belongs to the same rows: Dask arrays beside an array, names of columns otherwise.
    features
        The column of tables with lists of numbers, or columns with a number each: a list of names, or all of ``f0``,
        ``f1``, … as ``"f*"``. Logits can be given in the same ways.
    scheduler
        As in ``dask.compute``: a ``distributed.Client``, ``"threads"``, ``"processes"``, ``"synchronous"``; by default
        the client that there is, or threads.
    progress
        True for a line on stderr, or a function that is told stage, partitions done and partitions in all.
    checkpoint
        A file that keeps what was found after each pass: a fit whose driver was lost goes on from there.
    storage_options
        What fsspec needs to open addresses.

    """
    partitions = _partitions(rows, features, logits, labels, dict(storage_options or {}))
    return driver.fit(plan, _Engine(partitions, scheduler), progress, checkpoint)


def score(
    detector: offspan.Detector, rows: Any, logits: Any = None, *, features: Names = "features", score: str = "score"
) -> Any:
    """Score the rows of a Dask array or DataFrame where they are; a lazy column comes back.

    Higher is more in-distribution. An array gives an array, a DataFrame a series of this name. Columns are named as in
    :func:`fit`.
    """
    if not hasattr(rows, "map_blocks"):
        return transform(detector, rows, logits, features=features, score=score, p_value=None, is_in=None)[score]
    whole = _whole_rows(rows, "rows")
    arrays = [whole] if logits is None else [whole, _beside(whole, logits, "logits")]
    return whole.map_blocks(
        _score_block,
        *arrays[1:],
        detector=_shared(Sealed(detector.to_bytes()), "offspan-detector"),
        dtype=np.float64,
        drop_axis=1,
        chunks=(whole.chunks[0],),
        meta=np.empty(0),
    )


def transform(
    detector: offspan.Detector,
    table: Any,
    logits: Names | None = None,
    *,
    features: Names = "features",
    score: str = "score",
    p_value: str | None = "p_value",
    is_in: str | None = "is_in",
) -> Any:
    """Add score, p-value and decision to a Dask DataFrame, lazily. A column that is None is left out."""
    if not hasattr(table, "map_partitions") or not hasattr(table, "columns"):
        raise InputError(f"table: expected a Dask DataFrame, got {type(table).__name__}")
    there = [str(name) for name in table.columns]
    answer = Answer.checked(detector, there, score, p_value, is_in)
    columns = Columns.chosen(there, features, logits, None)
    kinds = {answer.score: np.float64, answer.p_value: np.float64, answer.is_in: np.bool_}
    meta = table._meta.assign(**{name: np.empty(0, dtype=kinds[name]) for name in answer.names})
    sealed = _shared(Sealed(detector.to_bytes()), "offspan-detector")
    return table.map_partitions(_with_answers, sealed, answer, columns, meta=meta)


def _score_block(
    rows: npt.NDArray[Any], logits: npt.NDArray[Any] | None = None, *, detector: Sealed
) -> npt.NDArray[Any]:
    _one_thread()
    return scoring.scores(detector, Block(rows, logits, None))


def _with_answers(table: Any, detector: Sealed, answer: Answer, columns: Columns) -> Any:
    _one_thread()
    return table.assign(**scoring.answers(detector, answer, columns, table))


class _Arrays:
    """The blocks of Dask arrays."""

    def __init__(self, rows: Any, logits: Any, labels: Any) -> None:
        whole = _whole_rows(rows, "rows")
        given = [
            None if array is None else _beside(whole, array, what)
            for array, what in ((logits, "logits"), (labels, "labels"))
        ]
        self._sizes = whole.chunks[0]
        self._blocks = whole.to_delayed()[:, 0]
        self._beside = [[None] * len(self._blocks) if array is None else array.to_delayed().ravel() for array in given]

    def counts(self) -> list[int] | list[Delayed]:
        if not np.isnan(self._sizes).any():
            return [int(size) for size in self._sizes]
        return [delayed(len)(block) for block in self._blocks]

    def part(self, plan: Delayed, place: Place, topic: str) -> Delayed:
        given = [blocks[place.partition] for blocks in self._beside]
        return _named(_part_of_arrays, plan, place, topic, self._blocks[place.partition], *given)


class _Tables:
    """The partitions of a Dask DataFrame."""

    def __init__(self, table: Any, columns: Columns) -> None:
        self._columns = columns
        self._tables = table[columns.names].to_delayed()

    def counts(self) -> list[Delayed]:
        return [delayed(len)(table) for table in self._tables]

    def part(self, plan: Delayed, place: Place, topic: str) -> Delayed:
        return _named(_part_of_table, plan, place, topic, self._columns, self._tables[place.partition])


class _Files:
    """Parquet files: a list of paths for each partition, or a delayed one."""

    def __init__(self, paths: Sequence[Any], columns: Columns, storage: dict[str, Any]) -> None:
        self._paths, self._columns, self._storage = paths, columns, storage

    def counts(self) -> list[Delayed]:
        return [delayed(parquet.rows_of)(paths, self._storage) for paths in self._paths]

    def part(self, plan: Delayed, place: Place, topic: str) -> Delayed:
        return _named(_part_of_files, plan, place, topic, self._columns, self._paths[place.partition], self._storage)


def _partitions(rows: Any, features: Names, logits: Any, labels: Any, storage: dict[str, Any]) -> Any:
    if hasattr(rows, "map_blocks"):
        return _Arrays(rows, logits, labels)
    if hasattr(rows, "map_partitions") and hasattr(rows, "columns"):
        return _Tables(rows, Columns.chosen(rows.columns, features, logits, labels))
    if hasattr(rows, "to_delayed"):  # A bag. Its files are known to workers only, which check the names of columns.
        given = [names if names is None or isinstance(names, str) else tuple(names) for names in (features, logits)]
        return _Files(rows.to_delayed(), Columns(given[0], given[1], labels), storage)  # type: ignore[arg-type]
    if isinstance(rows, (list, tuple, str, os.PathLike)):
        paths = parquet.as_paths(rows, storage)
        columns = Columns.chosen(parquet.column_names(paths[0], storage), features, logits, labels)
        return _Files([[path] for path in paths], columns, storage)
    raise InputError(f"rows: expected a Dask array, DataFrame or bag, or a list of paths, got {type(rows).__name__}")


def _whole_rows(array: Any, what: str) -> Any:
    """Give an array each of whose blocks has rows in full width."""
    if array.ndim != 2:
        raise InputError(f"{what}: expected an array [rows, width], got one of {array.ndim} dimensions")
    return array if len(array.chunks[1]) == 1 else array.rechunk({1: -1})


def _beside(rows: Any, array: Any, what: str) -> Any:
    """Give an array whose blocks have the same rows as those of another."""
    if not hasattr(array, "map_blocks"):
        raise InputError(f"{what}: expected a Dask array as the rows are, got {type(array).__name__}")
    whole = _whole_rows(array, what) if array.ndim == 2 else array
    sizes, wanted = np.asarray(whole.chunks[0], dtype=float), np.asarray(rows.chunks[0], dtype=float)
    if np.isnan(sizes).any() or np.isnan(wanted).any():
        if len(sizes) != len(wanted):
            raise InputError(f"{what}: expected as many blocks as the rows have, {len(wanted)}, got {len(sizes)}")
        return whole
    if sizes.sum() != wanted.sum():
        raise InputError(f"{what}: expected {int(wanted.sum())} rows as the features have, got {int(sizes.sum())}")
    return whole.rechunk({0: rows.chunks[0]})


def _part_of_arrays(plan: Sealed, place: Place, topic: str, rows: Any, logits: Any, labels: Any) -> Part:
    return _find(plan, place, topic, iter([Block(rows, logits, labels)]))


def _part_of_table(plan: Sealed, place: Place, topic: str, columns: Columns, table: Any) -> Part:
    return _find(plan, place, topic, (columns.block(table, place.first_row) for _ in range(1)))


def _part_of_files(
    plan: Sealed, place: Place, topic: str, columns: Columns, paths: Sequence[str], storage: dict[str, Any]
) -> Part:
    return _find(plan, place, topic, parquet.blocks_of([*paths], columns, place.first_row, storage))


def _one_thread() -> None:
    """Compute on one thread in a worker process, since Dask runs a task for each core.

    In the user's own process nothing changes.
    """
    if multiprocessing.parent_process() is not None or _is_lone_worker():
        offspan.set_threads(1)


def _is_lone_worker() -> bool:
    """Tell whether this is a worker that has no nanny as its parent: there is a worker here, and no client."""
    try:
        from distributed import default_client, get_worker

        get_worker()
    except (ImportError, ValueError):
        return False
    try:
        default_client()
    except ValueError:
        return True
    return False


def _find(plan: Sealed, place: Place, topic: str, blocks: Iterator[Block]) -> Part:
    _one_thread()
    found = parts.find(plan, place, blocks)
    try:
        from distributed import get_worker

        get_worker().log_event(topic, place.partition)
    except (ImportError, ValueError):
        pass  # A local scheduler, which sees the task end.
    return found


def _named(function: Callable[..., Part], plan: Delayed, place: Place, topic: str, *words: Any) -> Delayed:
    """A task that progress can tell from the others, also from those of other fits of the same client."""
    name = f"{topic}-{place.partition}"
    return delayed(function, pure=False, traverse=False)(plan, place, topic, *words, dask_key_name=name)


def _shared(sealed: Sealed, name: str) -> Delayed:
    """Bytes that are in the graph once. Unlike scattered data, they survive the workers that hold them."""
    return delayed(sealed, name=f"{name}-{sealed.digest}", traverse=False)


class _Engine:
    """Carries out passes with Dask."""

    def __init__(self, partitions: Any, scheduler: Any) -> None:
        self._partitions, self._scheduler = partitions, scheduler

    def count(self) -> list[int]:
        return [int(rows) for rows in dask.compute(*self._partitions.counts(), scheduler=self._scheduler)]

    def carry_out(self, plan: Sealed, places: Sequence[Place], done: Callable[[int], object]) -> Part:
        shared = _shared(plan, "offspan-plan")
        topic = f"{_PARTIAL}-{uuid.uuid4().hex}"
        level = [self._partitions.part(shared, place, topic) for place in places]
        for groups in parts.levels(len(level), FAN):
            level = [delayed(parts.merged, pure=False)([level[one] for one in group]) for group in groups]
        with _progress(self._client(), topic, done), warnings.catch_warnings():
            # The plan is meant to be in the graph.
            warnings.filterwarnings("ignore", message="Sending large graph")
            return level[0].compute(scheduler=self._scheduler)

    def _client(self) -> Any:
        """The client that will compute; none if it is a local scheduler."""
        if self._scheduler is not None:
            return self._scheduler if hasattr(self._scheduler, "subscribe_topic") else None
        if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
            return None
        try:
            from distributed import default_client

            return default_client()
        except (ImportError, ValueError):
            return None


@contextmanager
def _progress(client: Any, topic: str, done: Callable[[int], object]) -> Iterator[None]:
    """Tell how many partitions are done."""
    finished: set[Any] = set()

    def one_more(which: Any) -> None:
        if which not in finished:  # A partition may be done again, after its worker was lost.
            finished.add(which)
            done(len(finished))

    if client is None:
        from dask.callbacks import Callback

        def after(key: Any, *_: Any) -> None:
            if str(key).startswith(topic):
                one_more(key)

        with Callback(posttask=after):
            yield
        return
    client.subscribe_topic(topic, lambda event: one_more(event[1]))
    try:
        yield
    finally:
        client.unsubscribe_topic(topic)
