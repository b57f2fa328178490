"""Drift: whether the scores of a stream still come from where the calibration scores came from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _internal
from ._arrays import PathLike, Rows, as_numbers
from ._detector import Detector
from ._method import Method
from .errors import InputError


@dataclass(frozen=True)
class Alarm:
    """The first row, from 0, at which the evidence of one kind sufficed: ``"share"`` or ``"distribution"``."""

    kind: str
    row: int


@dataclass(frozen=True)
class Evidence:
    """Evidence against "nothing has changed": the wealth of a fair bet that began with 1.

    The chance that it ever reaches c without a change is at most 1/c.
    """

    #: The wealth after the batch, at most the largest finite number.
    wealth: float
    #: Its decimal logarithm, and the largest one so far in the stream.
    log10: float
    largest_log10: float
    #: The row, from 0, at which it sufficed for an alarm first.
    alarm_row: int | None


@dataclass(frozen=True)
class Lowest:
    """The row of a batch that is farthest from the calibration rows: its number in the stream, and its score."""

    row: int
    score: float


@dataclass(frozen=True)
class BatchReport:
    """A batch of a stream, and where the stream stands after it."""

    #: Rows in the batch, and in the stream with it.
    rows: int
    rows_so_far: int
    #: Rows of the batch below the threshold, and their share.
    flagged: int
    share_flagged: float
    #: The lowest score of the batch; None in an empty one.
    lowest: Lowest | None
    #: Evidence that OoD rows came into the stream.
    share: Evidence
    #: Evidence that the scores moved, up or down, or changed their spread.
    distribution: Evidence
    #: Alarms that this batch raised. Each kind is raised once in a stream.
    alarms: tuple[Alarm, ...]

    @property
    def alarmed(self) -> bool:
        """Whether an alarm was raised in this batch or before."""
        return self.share.alarm_row is not None or self.distribution.alarm_row is not None


class Monitor:
    """Watches a stream of rows, and raises an alarm when their scores are no longer those of in-distribution rows.

    Without a change, the chance that any alarm is *ever* raised, however long the stream and however often one looks,
    is at most ``false_alarm``. How the stream is cut into batches does not matter. Rows that depend on each other, such
    as frames of one video, are taken for drift. A monitor remembers every score, 8 bytes a row in its file.

    Parameters
    ----------
    detector
        A detector with a calibration, or a fitted method.
    false_alarm
        The chance that a stream without change ever raises an alarm.
    seed
        Of the random numbers that break ties.

    Examples
    --------
    >>> import numpy as np, offspan
    >>> draw = np.random.default_rng(0)
    >>> monitor = offspan.Monitor(offspan.make().fit(draw.normal(size=(2000, 8)) + 3))
    >>> monitor.update(draw.normal(size=(500, 8)) + 3).alarmed
    False
    >>> monitor.update(draw.normal(size=(500, 8))).alarmed
    True

    """

    def __init__(self, detector: Detector | Method, false_alarm: float = 0.01, seed: int = 0) -> None:
        known = _detector_of(detector)
        self._detector: Detector | None = known
        self._native = _internal.Monitor.of(known._native, false_alarm, seed)

    @classmethod
    def load(cls, path: PathLike, detector: Detector | Method | None = None) -> Monitor:
        """Load what :meth:`save` or the command line wrote; it goes on as if it had never stopped.

        The file does not hold the detector: without it, :meth:`update` takes scores only.
        """
        loaded = cls._of(_internal.Monitor.load(os.fspath(path)), None)
        if detector is not None:
            known = _detector_of(detector)
            options = loaded.options
            fresh = cls(known, options["false_alarm"], options["seed"])
            if not loaded._native.began_like(fresh._native):
                raise InputError(f"{os.fspath(path)} was saved by a monitor of another detector or calibration")
            loaded._detector = known
        return loaded

    @classmethod
    def _of(cls, native: _internal.Monitor, detector: Detector | None) -> Monitor:
        monitor = cls.__new__(cls)
        monitor._native, monitor._detector = native, detector
        return monitor

    def save(self, path: PathLike, *, force: bool = False) -> None:
        """Save the monitor. The file appears whole or not at all.

        A file of another kind, such as features, is replaced only with ``force=True``, and so is a state that somebody
        else has saved since this monitor was loaded from it or saved to it: rows of the stream would be lost. While
        another process saves or counts there, this is a ``BlockingIOError``.
        """
        self._native.save(os.fspath(path), force)

    def update(
        self,
        features: Rows | None = None,
        scores: npt.ArrayLike | None = None,
        logits: Rows | None = None,
        extras: Mapping[str, npt.ArrayLike] | None = None,
    ) -> BatchReport:
        """Take the next rows of the stream: features, which the detector scores, or the scores themselves.

        After an error nothing has changed.
        """
        if (features is None) == (scores is None):
            raise InputError("update: expected features or scores, and not both")
        if scores is not None:
            return _report(self._native.update(as_numbers(scores, "scores")))
        if self._detector is None:
            raise InputError(
                "update: a monitor that was loaded without its detector takes scores only; "
                "give it one with `Monitor.load(path, detector)`"
            )
        assert features is not None  # mypy does not follow the first test.
        return _report(self._native.update(self._detector.score(features, logits, extras)))

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms so far, in the order they were raised: at most one of each kind."""
        return tuple(Alarm(**alarm) for alarm in json.loads(self._native.alarms()))

    @property
    def rows(self) -> int:
        """Rows of the stream so far."""
        return self._native.rows

    @property
    def options(self) -> dict[str, Any]:
        """What it was made with: chance of a false alarm, share that the threshold keeps, threshold, seed."""
        options: dict[str, Any] = json.loads(self._native.options())
        # JSON has no infinities: they are texts there.
        return {**options, "threshold": float(options["threshold"])}

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_state, (*self._native.state(), self._detector)

    def __repr__(self) -> str:
        alarms = ", ".join(f"{alarm.kind} at row {alarm.row}" for alarm in self.alarms) or "none"
        return f"<offspan.Monitor after {self.rows} rows, alarms: {alarms}>"


def _detector_of(given: Detector | Method) -> Detector:
    if isinstance(given, Detector):
        return given
    if isinstance(given, Method):
        return given.detector
    # An estimator of scikit-learn has one, too.
    inside = getattr(given, "detector_", None)
    if isinstance(inside, Detector):
        return inside
    raise InputError(f"detector: expected a Detector or a fitted method, got {type(given).__name__}")


def _from_state(header: str, scores: npt.NDArray[np.float64], detector: Detector | None) -> Monitor:
    return Monitor._of(_internal.Monitor.from_state(header, scores), detector)


def _report(text: str) -> BatchReport:
    report = json.loads(text)
    lowest = report["lowest"]
    return BatchReport(
        **{
            **report,
            "lowest": None if lowest is None else Lowest(lowest["row"], float(lowest["score"])),
            "share": Evidence(**report["share"]),
            "distribution": Evidence(**report["distribution"]),
            "alarms": tuple(Alarm(**alarm) for alarm in report["alarms"]),
        }
    )
