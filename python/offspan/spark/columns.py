"""The columns of a Spark DataFrame, in types that Arrow can carry."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from .._cluster.tables import Columns, Names
from ..errors import InputError


def chosen(table: Any, features: Names, logits: Names | None, labels: str | None) -> Columns:
    """Check the names of columns on the driver."""
    if not hasattr(table, "mapInArrow"):
        raise InputError(f"table: expected a Spark DataFrame, got {type(table).__name__}")
    return Columns.chosen(table.columns, features, logits, labels)


def selected(table: Any, columns: Columns) -> Any:
    """Give the DataFrame with only the columns that are needed, vectors of pyspark.ml as arrays."""
    return table.select([numbers(table, name).alias(name) for name in columns.names])


def numbers(table: Any, names: str | tuple[str, ...]) -> Any:
    """Give a column with lists, also if it is one of vectors; several columns become one."""
    if not isinstance(names, str):
        return F.array([_column(name) for name in names])
    if type(table.schema[names].dataType).__name__ == "VectorUDT":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(_column(names))
    return _column(names)


def _column(name: str) -> Any:
    """Give a column by its name, in which there may be dots."""
    return F.col("`" + name.replace("`", "``") + "`")
