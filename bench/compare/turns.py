"""Taking turns: every contender works in every round, so a slow spell of the machine hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

# Libraries may keep their threads spinning for a while after a call; the next contender must not pay for that.
PAUSE = 0.15
MOST_CALLS = 400

Calls = Callable[[int], list[float]]


@dataclass
class Timing:
    """Seconds of every call, round by round."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(median(calls) for calls in self.rounds)

    @property
    def best(self) -> float:
        return min(min(calls) for calls in self.rounds)

    def times_faster_than(self, other: Timing) -> float:
        """How many of our calls fit into one of the other's: per round, then the median over rounds, so that drift cancels."""
        return median(median(theirs) / median(ours) for ours, theirs in zip(self.rounds, other.rounds, strict=True))


def timed(work: Callable[[int], object]) -> Calls:
    """A Python callable as a contender; it gets the number of the call, to take other rows each time."""

    def calls(count: int) -> list[float]:
        seconds = []
        for number in range(count):
            started = time.perf_counter()
            work(number)
            seconds.append(time.perf_counter() - started)
        return seconds

    return calls


def take_turns(contenders: dict[str, Calls], rounds: int, turn: float) -> dict[str, Timing]:
    """Time all contenders. A turn is as many calls as fit into ``turn`` seconds.

    The first call of a turn brings weights back into the caches and is not counted, unless one call fills the turn anyway.
    Who begins changes from round to round.
    """
    counts = {}
    for name, calls in contenders.items():
        time.sleep(PAUSE)
        once = min(calls(2))
        counts[name] = max(1, min(MOST_CALLS, int(turn / once)))
    timings = {name: Timing() for name in contenders}
    names = list(contenders)
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            time.sleep(PAUSE)
            count = counts[name]
            seconds = contenders[name](count + 1)[1:] if count > 1 else contenders[name](1)
            timings[name].rounds.append(seconds)
    return timings
