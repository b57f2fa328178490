"""One part of a pass for each partition, and how parts become one.

A fault in the data is a result like any other: it travels up the tree instead of raising in a worker. So engines do not
run a hopeless task again and again, and the driver always reports the fault of the first partition that has one.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Callable

import numpy as np

import offspan

from .. import errors
from ..errors import InputError, OffspanError
from .tables import Block

#: Batches are joined to blocks of about this size: each block costs a merge.
_BLOCK_BYTES = 1 << 27
#: Columns, spread over the width, that tell whether a partition has the rows of the pass before.
_MARKED_COLUMNS = 8
#: Bits of a mark for each of features, logits and labels.
_MARK_BITS = 32


@dataclass(frozen=True)
class Place:
    """Where a partition's rows are among all rows."""

    partition: int
    first_row: int
    rows: int


@dataclass(frozen=True)
class Fault:
    """What was wrong with the rows of a partition."""

    partition: int
    kind: str
    text: str

    def raised(self) -> OffspanError:
        """Give the exception to raise on the driver."""
        kind: type[OffspanError] = getattr(errors, self.kind, InputError)
        return kind(f"partition {self.partition}: {self.text}")


@dataclass(frozen=True)
class Part:
    """What a pass found on some partitions."""

    #: A part of the plan; none if no row was there.
    found: bytes | None = None
    #: A mark of each partition's rows.
    marks: tuple[tuple[int, int], ...] = ()
    fault: Fault | None = None


class Sealed:
    """A plan or detector as bytes, which a worker process opens once."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.digest = hashlib.blake2b(data, digest_size=16).hexdigest()

    def plan(self) -> Any:
        """Open a plan."""
        return self._opened(offspan.FitPlan.from_bytes)

    def detector(self) -> offspan.Detector:
        """Open a detector."""
        return self._opened(offspan.Detector.from_bytes)

    def _opened(self, opener: Callable[[bytes], Any]) -> Any:
        with _OPENING:  # The threads of a worker begin together, and need one plan for all.
            known = _OPENED.get(self.digest)
            if known is None:
                known = opener(self.data)
                while len(_OPENED) >= _MOST_OPENED:
                    _OPENED.pop(next(iter(_OPENED)))  # The oldest: a worker does not come back to earlier passes.
                _OPENED[self.digest] = known
            return known


_OPENED: dict[str, Any] = {}
_OPENING = threading.Lock()
_MOST_OPENED = 3


def find(plan: Sealed, place: Place, blocks: Iterable[Block]) -> Part:
    """Carry out the pass on the rows of one partition."""
    found: bytes | None = None
    seen, mark = 0, 0
    try:
        opened = plan.plan()
        for block in _joined(blocks):
            part = opened.partial(block.features, block.logits, block.labels, first_row=place.first_row + seen)
            found = part if found is None else opened.merge(found, part)
            seen += len(block.features)
            mark = _marked(block, mark)
        if seen != place.rows:
            raise InputError(f"expected {place.rows} rows as counted before, got {seen}; {UNSTEADY}")
    except OffspanError as error:
        return Part(fault=Fault(place.partition, type(error).__name__, str(error)))
    return Part(found, ((place.partition, mark),))


#: What to do about partitions that change.
UNSTEADY = "the partitions must be the same in every pass: write the rows to files, or persist them, and fit to those"


def merged(parts: Iterable[Part]) -> Part:
    """Merge parts, in any order."""
    return reduce(_merged, parts, Part())


def _merged(one: Part, other: Part) -> Part:
    faults = [part.fault for part in (one, other) if part.fault is not None]
    if faults:
        return Part(fault=min(faults, key=lambda fault: fault.partition))
    marks = (*one.marks, *other.marks)
    if one.found is None or other.found is None:
        return Part(one.found or other.found, marks)
    try:
        return Part(offspan.FitPlan.merge(one.found, other.found), marks)
    except OffspanError as error:
        # Neither of them alone is wrong: the later one differs from what came before.
        partition = max(min(partition for partition, _ in part.marks) for part in (one, other))
        return Part(fault=Fault(partition, type(error).__name__, str(error)))


def levels(parts: int, fan: int) -> Iterator[Sequence[range]]:
    """Tell which parts each level of the merge tree joins, until one is left."""
    while parts > 1:
        groups = [range(start, min(start + fan, parts)) for start in range(0, parts, fan)]
        yield groups
        parts = len(groups)


def _joined(blocks: Iterable[Block]) -> Iterator[Block]:
    """Join small blocks, leave out empty ones."""
    waiting: list[Block] = []
    size = 0
    for block in blocks:
        if not len(block.features):
            continue
        _check_widths(waiting, block)
        waiting.append(block)
        size += block.features.nbytes
        if size >= _BLOCK_BYTES:
            yield _concatenated(waiting)
            waiting, size = [], 0
    if waiting:
        yield _concatenated(waiting)


def _check_widths(before: list[Block], block: Block) -> None:
    """Fail unless a block can be joined to those that came before it."""
    for what in ("features", "logits") if before else ():
        one, other = getattr(before[0], what), getattr(block, what)
        if one is not None and one.shape[1:] != other.shape[1:]:
            raise InputError(f"{what}: expected rows of width {one.shape[1]} as before them, got {other.shape[1]}")


def _concatenated(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    logits = None if blocks[0].logits is None else np.concatenate([block.logits for block in blocks])
    labels = None if blocks[0].labels is None else np.concatenate([block.labels for block in blocks])
    return Block(np.concatenate([block.features for block in blocks]), logits, labels)


def _marked(block: Block, before: int) -> int:
    """Go on with the mark of a partition: it depends on its rows, what belongs to them and their order, not on how they
    come in blocks.
    """
    mark = 0
    for place, array in enumerate(block):
        if array is not None:
            rows = np.asarray(array).reshape(len(array), -1)
            step = max(1, rows.shape[1] // _MARKED_COLUMNS)
            known = before >> _MARK_BITS * place & (1 << _MARK_BITS) - 1
            mark |= zlib.crc32(np.ascontiguousarray(rows[:, ::step]).tobytes(), known) << _MARK_BITS * place
    return mark
