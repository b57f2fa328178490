"""Progress of long work as a line on stderr, or to a function of the user's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable

Report = Callable[[str, int, int], object]


@contextmanager
def reporter(progress: bool | Report) -> Iterator[Report | None]:
    """Give the function to report to, and end the line afterwards."""
    if callable(progress):
        yield progress
    elif progress:
        line = _Line()
        try:
            yield line
        finally:
            line.end()
    else:
        yield None


class _Line:
    """One line that is written over again and again."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        text = f"{stage}: {done / total:.0%}" if total else f"{stage} …"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def end(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
