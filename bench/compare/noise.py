"""How much of the machine others used during a run: the measure of how far its numbers can be trusted."""

from __future__ import annotations

import os
import time


def busy_seconds() -> float | None:
    """Processor seconds that everything on the machine has used since it started; None where the system does not tell."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            user, nice, system, _idle, _wait, irq, soft, steal = map(int, stat.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


class Noise:
    """From its making to ``others``. Children count as ours once they have ended."""

    def __init__(self) -> None:
        self.started, self.own, self.all = time.monotonic(), own_seconds(), busy_seconds()

    def others(self) -> float | None:
        """Cores that others kept busy, on average."""
        now = busy_seconds()
        if self.all is None or now is None:
            return None
        return max(0.0, now - self.all - (own_seconds() - self.own)) / (time.monotonic() - self.started)


def own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
