"""Progress on stderr, silent where that is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS_BETWEEN_LINES = 5.0


def with_progress(batches: Iterable[T], label: str, enabled: bool) -> Iterator[T]:
    """Yields the batches; shows a bar if tqdm is installed, else a line now and then."""
    if not enabled or not sys.stderr.isatty():
        yield from batches
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield from _with_lines(batches, label)
    else:
        yield from tqdm(batches, desc=label, total=_length(batches), unit="batch")


def _with_lines(batches: Iterable[T], label: str) -> Iterator[T]:
    total = _length(batches)
    of = "" if total is None else f" of {total}"
    last = time.monotonic()
    for done, batch in enumerate(batches, start=1):
        yield batch
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            print(f"{label}: {done}{of} batches", file=sys.stderr, flush=True)


def _length(batches: Any) -> int | None:
    # A loader over an iterable dataset has the method but no answer.
    try:
        return len(batches)
    except (TypeError, NotImplementedError):
        return None
