"""The three engines behind one interface, for tests that hold for each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pieces


class Dask:
    """Two worker processes."""

    name = "dask"

    @staticmethod
    @contextmanager
    def started() -> Iterator[Dask]:
        from distributed import Client, LocalCluster

        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
            yield Dask()

    def fit(self, plan: Any, paths: list[str], **columns: Any) -> Any:
        import offspan.dask

        return offspan.dask.fit(plan, self._table(paths), **columns)

    def transform(self, detector: Any, paths: list[str], **columns: Any) -> Any:
        import offspan.dask

        return offspan.dask.transform(detector, self._table(paths), **columns).compute()

    def _table(self, paths: list[str]) -> Any:
        import dask.dataframe

        meta = _pandas(pieces.pa.parquet.read_table(paths[0]).slice(0, 0))
        return dask.dataframe.from_map(lambda path: _pandas(pieces.read(path)), paths, meta=meta)


def _pandas(table: Any) -> Any:
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


class Spark:
    """Two threads of one JVM, with Python workers of their own; a task is tried four times."""

    name = "spark"

    def __init__(self, session: Any) -> None:
        self.session = session

    @staticmethod
    @contextmanager
    def started() -> Iterator[Spark]:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            yield Spark(session)
        finally:
            session.stop()

    def fit(self, plan: Any, paths: list[str], **columns: Any) -> Any:
        import offspan.spark

        return offspan.spark.fit(plan, self.table(paths), **columns)

    def transform(self, detector: Any, paths: list[str], **columns: Any) -> Any:
        import offspan.spark

        return offspan.spark.transform(detector, self.table(paths), **columns).toPandas()

    def table(self, paths: list[str]) -> Any:
        """Give a DataFrame with a partition for each file."""
        kinds = {"features": "array<float>", "logits": "array<float>", "labels": "long"}
        names = pieces.pa.parquet.read_schema(paths[0]).names
        schema = ", ".join(f"{name} {kinds[name]}" for name in names)

        def load(batches: Any) -> Any:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from pieces.read(paths[number]).to_batches()

        return self.session.range(0, len(paths), 1, len(paths)).mapInArrow(load, schema)


class Ray:
    """Two workers."""

    name = "ray"

    @staticmethod
    @contextmanager
    def started() -> Iterator[Ray]:
        import ray

        hook = {"worker_process_setup_hook": "engines.serve_deadly_files"}
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=hook)
        serve_deadly_files()
        try:
            yield Ray()
        finally:
            ray.shutdown()

    def fit(self, plan: Any, paths: list[str], **columns: Any) -> Any:
        import offspan.ray

        return offspan.ray.fit(plan, [f"deadly://{path}" for path in paths], **columns)

    def transform(self, detector: Any, paths: list[str], **columns: Any) -> Any:
        import ray.data

        import offspan.ray

        tables = [pieces.read(path) for path in paths]
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        return offspan.ray.transform(detector, ray.data.from_arrow(tables), **columns).to_pandas()


def serve_deadly_files() -> None:
    """Files by fsspec that may take the worker down which reads them."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    class Deadly(LocalFileSystem):
        protocol = "deadly"

        def open(self, path: str, *words: Any, **options: Any) -> Any:
            pieces.die_if_told(self._strip_protocol(path))
            return super().open(path, *words, **options)

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path.removeprefix("deadly://")

    fsspec.register_implementation("deadly", Deadly, clobber=True)


ENGINES = {"dask": Dask, "spark": Spark, "ray": Ray}
