"""Scores, p-values and decisions as columns of a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import offspan

from .._cluster import scoring
from .._cluster.parts import Sealed
from .._cluster.scoring import Answer
from .._cluster.tables import Columns, Names
from . import columns as spark_columns

#: Where the new columns are together, for a moment.
_TOGETHER = "__offspan__"


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
    """Add score, p-value and decision to a Spark DataFrame, lazily. A column that is None is left out.

    The detector is broadcast once; only features and logits leave the JVM, and only the new columns come back.
    """
    from pyspark.sql.functions import pandas_udf

    columns = spark_columns.chosen(table, features, logits, None)
    answer = Answer.checked(detector, list(table.columns), score, p_value, is_in)
    kinds = {answer.score: "double", answer.p_value: "double", answer.is_in: "boolean"}
    schema = ", ".join(f"`{name}` {kinds[name]}" for name in answer.names)
    shared = _broadcast(table, Sealed(detector.to_bytes()))
    given = [spark_columns.numbers(table, names) for names in (columns.features, columns.logits) if names is not None]

    # Spark reads from the hints how the function wants its data, so they have to be types, not text.
    def answers(batches):  # type: ignore[no-untyped-def]
        import pandas as pd

        offspan.set_threads(1)
        for given in batches:
            series = given if isinstance(given, tuple) else (given,)  # One column comes alone.
            names = ["features", "logits"][: len(series)]
            table = pa.table({name: pa.array(column) for name, column in zip(names, series)})
            found = scoring.answers(shared.value, answer, Columns(*names), table)
            yield pd.DataFrame(found)

    import pandas as pd

    answers.__annotations__ = {"batches": Iterator[tuple[pd.Series, ...]], "return": Iterator[pd.DataFrame]}
    added = table.withColumn(_TOGETHER, pandas_udf(answers, schema)(*given))
    news = [added[_TOGETHER][name].alias(name) for name in answer.names]
    return added.select(*[added[f"`{name}`"] for name in table.columns], *news)


class _Value:
    """A value that travels with the function, where there is no broadcast."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _broadcast(table: Any, value: Any) -> Any:
    try:
        return table.sparkSession.sparkContext.broadcast(value)
    except Exception:  # Spark Connect, which has exceptions of its own for what it lacks.
        return _Value(value)
