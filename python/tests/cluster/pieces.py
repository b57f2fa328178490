"""Partitions as Parquet files, which workers read; one of them can take its worker down."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import data
import numpy as np
import pyarrow as pa
import pyarrow.parquet


def write(folder: Path, sizes: list[int], rows: np.ndarray, **beside: np.ndarray) -> list[str]:
    """Write one file for each partition; their paths."""
    paths = []
    columns = {"features": data.pieces(rows, sizes)}
    columns.update({name: data.pieces(array, sizes) for name, array in beside.items()})
    for number in range(len(sizes)):
        paths.append(str(folder / f"{number:03}.parquet"))
        pa.parquet.write_table(pa.table({name: _column(parts[number]) for name, parts in columns.items()}), paths[-1])
    return paths


def _column(values: np.ndarray) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))


def read(path: str) -> pa.Table:
    """Read a partition on a worker, which may not survive it."""
    die_if_told(path)
    return pa.parquet.read_table(path)


def kill_at(path: str, reading: int) -> Path:
    """Have a worker killed while it reads this partition for the so-manieth time; a file that is then gone."""
    told = Path(path + ".kill")
    told.write_text(str(reading))
    return told


def die_if_told(path: str) -> None:
    told = Path(path + ".kill")
    if told.exists():
        left = int(told.read_text()) - 1
        if left:
            told.write_text(str(left))
        else:
            told.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
