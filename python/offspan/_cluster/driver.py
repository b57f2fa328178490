"""The loop of a fit on the driver: number the rows, pass after pass, finish."""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Protocol

import offspan

from .. import _internal
from .._progress import Report, reporter
from ..errors import FormatError, InputError
from .parts import UNSTEADY, Part, Place, Sealed

#: How many parts a merge takes, and has in memory; the tree of a thousand partitions has five levels.
FAN = 4


class Engine(Protocol):
    """What a cluster engine does for a fit."""

    def count(self) -> list[int]:
        """Count the rows of each partition."""

    def carry_out(self, plan: Sealed, places: Sequence[Place], done: Callable[[int], object]) -> Part:
        """Carry out a pass, and give the merged part; call `done` with the number of finished partitions."""


def fit(
    plan: Any, engine: Engine, progress: bool | Report, checkpoint: str | os.PathLike[str] | None
) -> offspan.Detector:
    """Fit with an engine. The plan that is given stays as it is."""
    if not isinstance(plan, offspan.FitPlan):
        raise InputError(f"plan: expected an offspan.FitPlan, got {type(plan).__name__}")
    begun = plan.to_bytes()
    saved = None if checkpoint is None else _Checkpoint(Path(checkpoint), Sealed(begun).digest)
    with reporter(progress) as told:
        _teller(told, "counting rows", 0)(0)
        places = _placed(engine.count())
        data, marks = begun, None
        if saved is not None:
            data, marks = saved.read(begun, places)
        running = offspan.FitPlan.from_bytes(data)
        while running.has_pass():
            tell = _teller(told, f"pass {running.passes + 1}, {running.stage}", len(places))
            tell(0)
            part = engine.carry_out(Sealed(data), places, tell)
            marks = _checked(part, places, marks)
            assert part.found is not None  # There are rows.
            running.advance(part.found)
            data = running.to_bytes()
            if saved is not None:
                saved.write(data, places, marks)
        detector: offspan.Detector = running.finish()
    if saved is not None:
        saved.remove()
    return detector


def _teller(report: Report | None, stage: str, total: int) -> Callable[[int], object]:
    """Give the function that is told how many partitions are done."""
    return (lambda done: None) if report is None else (lambda done: report(stage, done, total))


def _placed(rows: Sequence[int]) -> list[Place]:
    places, first = [], 0
    for partition, count in enumerate(rows):
        places.append(Place(partition, first, count))
        first += count
    if not first:
        raise InputError(f"expected rows to fit to, got none in {len(places)} partitions")
    return places


def _checked(part: Part, places: Sequence[Place], before: dict[int, int] | None) -> dict[int, int]:
    """Give the marks of all partitions, or raise what went wrong."""
    if part.fault is not None:
        raise part.fault.raised()
    marks = dict(part.marks)
    if len(part.marks) != len(places) or len(marks) != len(places):
        raise InputError(f"expected one part of each of {len(places)} partitions, got {len(part.marks)}")
    for partition, mark in marks.items():
        if before is not None and before[partition] != mark:
            raise InputError(f"partition {partition}: its rows are not those of the pass before; {UNSTEADY}")
    return marks


class _Checkpoint:
    """The plan after each pass, in a file that appears whole or not at all."""

    _MAGIC = b"offspan cluster fit 1\n"

    def __init__(self, path: Path, plan: str) -> None:
        self._path = path
        self._plan = plan

    def read(self, begun: bytes, places: Sequence[Place]) -> tuple[bytes, dict[int, int] | None]:
        """Give the plan to go on with, and the marks of the rows; the given plan if there is no file yet."""
        try:
            stored = io.BytesIO(self._path.read_bytes())
        except FileNotFoundError:
            return begun, None
        if stored.read(len(self._MAGIC)) != self._MAGIC:
            raise FormatError(f"{self._path}: expected the checkpoint of a cluster fit, got a file of another kind")
        try:
            (size,) = struct.unpack("<Q", stored.read(8))
            about = json.loads(stored.read(size))
            plan, rows, marks = about["plan"], about["rows"], about["marks"]
        except (struct.error, ValueError, KeyError, TypeError, OverflowError) as error:
            raise FormatError(f"{self._path}: the checkpoint is damaged; remove it to begin again") from error
        if plan != self._plan:
            raise InputError(f"{self._path}: the checkpoint is of a fit with other settings; give another path")
        if rows != [place.rows for place in places]:
            raise InputError(f"{self._path}: the checkpoint is of a fit to other partitions; give another path")
        return stored.read(), {int(partition): mark for partition, mark in marks.items()}

    def write(self, plan: bytes, places: Sequence[Place], marks: dict[int, int]) -> None:
        """Replace what was there."""
        about = json.dumps({"plan": self._plan, "rows": [place.rows for place in places], "marks": marks}).encode()
        _internal.write_bytes(str(self._path), self._MAGIC + struct.pack("<Q", len(about)) + about + plan)

    def remove(self) -> None:
        """The fit is done."""
        self._path.unlink(missing_ok=True)
