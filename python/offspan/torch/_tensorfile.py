"""safetensors files: written row by row before the number of rows is known, and read without loading them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from offspan import FormatError, InputError

from ._arrays import Array

TYPES = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8",
    "I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "|b1",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in TYPES.items()}

#: What the format allows for a header.
LONGEST_HEADER = 100_000_000


class _Part:
    """The rows of one tensor so far, in a file of their own."""

    def __init__(self, path: Path, array: Array) -> None:
        self.path = path
        self.file: BinaryIO = path.open("wb")
        self.dtype = array.dtype
        self.row = array.shape[1:]
        self.rows = 0


class TensorFileWriter:
    """Tensors that grow along their first axis. The file appears whole when the ``with`` block ends well, else not.

    Rows wait in one temporary file per tensor beside the target, so memory holds a batch at most.

    >>> with TensorFileWriter("split.safetensors") as writer:       # doctest: +SKIP
    ...     writer.append("features", np.zeros((4, 8), np.float32))
    ...     writer.append("features", np.ones((2, 8), np.float32))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # A link keeps pointing where it does: what it points to is replaced.
        self.path = Path(os.path.realpath(path))
        self._parts: dict[str, _Part] = {}
        self._folder: Path | None = None

    def __enter__(self) -> TensorFileWriter:
        # Said before the long work, not after it.
        if self.path.is_dir():
            raise IsADirectoryError(f"cannot write {self.path}: it is a folder")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"cannot write {self.path}: its folder does not exist")
        self._folder = Path(tempfile.mkdtemp(prefix=".offspan-", suffix=".partial", dir=self.path.parent))
        return self

    def append(self, name: str, rows: Array) -> None:
        if self._folder is None:
            raise ValueError("the writer is not open: use it in a `with` block")
        if rows.ndim == 0 or rows.dtype.newbyteorder("<") not in NAMES:
            raise InputError(f"cannot store `{name}`: {rows.dtype} of shape {list(rows.shape)}")
        rows = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = _Part(self._folder / str(len(self._parts)), rows)
        if (rows.dtype, rows.shape[1:]) != (part.dtype, part.row):
            raise InputError(
                f"`{name}` began as {part.dtype} rows of shape {list(part.row)}, "
                f"and now come {rows.dtype} rows of shape {list(rows.shape[1:])}"
            )
        part.file.write(rows.data)
        part.rows += len(rows)

    def rows(self) -> dict[str, int]:
        """How many rows each tensor has so far."""
        return {name: part.rows for name, part in self._parts.items()}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        folder, self._folder = self._folder, None
        assert folder is not None
        try:
            for part in self._parts.values():
                part.file.close()
            if kind is None:
                whole = folder / "whole"
                self._assemble(whole)
                os.replace(whole, self.path)
                _sync_folder(self.path.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _assemble(self, path: Path) -> None:
        # Wide numbers first: then every tensor starts at a multiple of its item's size.
        order = sorted(self._parts, key=lambda name: (-self._parts[name].dtype.itemsize, name))
        header: dict[str, Any] = {}
        end = 0
        for name in order:
            part = self._parts[name]
            shape = [part.rows, *part.row]
            start, end = end, end + part.dtype.itemsize * prod(shape)
            header[name] = {"dtype": NAMES[part.dtype], "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with path.open("wb") as whole:
            whole.write(struct.pack("<Q", len(text)) + text)
            for name in order:
                with self._parts[name].path.open("rb") as part_file:
                    shutil.copyfileobj(part_file, whole, 1 << 20)
                # One at a time, so that the disk holds little more than the data twice.
                self._parts[name].path.unlink()
            whole.flush()
            os.fsync(whole.fileno())


def _sync_folder(folder: Path) -> None:
    """Puts a new name on the disk, where the system can sync folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems have nothing to do there, and say so.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Array]) -> None:
    """Writes arrays as a safetensors file that appears whole or not at all."""
    with TensorFileWriter(path) as writer:
        for name, array in tensors.items():
            writer.append(name, array)


def read_tensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The tensors of a safetensors file, memory-mapped; bfloat16 ones are read and widened."""
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise FormatError(f"{path} is no safetensors file: it has {size} bytes, and a header takes 8 or more")
        (length,) = struct.unpack("<Q", start)
        if length > min(size - 8, LONGEST_HEADER):
            raise FormatError(f"{path} is no safetensors file: it declares a header of {length} bytes and has {size}")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            entries = {name: _Entry.of(entry) for name, entry in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError(f"{path} is no safetensors file: its header is malformed ({error})") from error
    return {name: _read_tensor(path, size, 8 + length, name, entry) for name, entry in entries.items()}


class _Entry(NamedTuple):
    """What the header says of a tensor."""

    kind: str
    shape: tuple[int, ...]
    start: int
    end: int

    @staticmethod
    def of(entry: Mapping[str, Any]) -> _Entry:
        start, end = entry["data_offsets"]
        return _Entry(str(entry["dtype"]), tuple(map(int, entry["shape"])), int(start), int(end))


def _read_tensor(path: Path, size: int, data: int, name: str, entry: _Entry) -> Array:
    code = "<u2" if entry.kind == "BF16" else TYPES.get(entry.kind)
    if code is None:
        raise FormatError(f"{path} `{name}`: expected one of {', '.join([*TYPES, 'BF16'])}, got {entry.kind}")
    dtype = np.dtype(code)
    # In Python's integers, which do not overflow.
    needed = prod(entry.shape) * dtype.itemsize
    fits = 0 <= entry.start and entry.end - entry.start == needed and data + entry.end <= size
    if not fits or any(length < 0 for length in entry.shape):
        raise FormatError(
            f"{path} `{name}`: {entry.kind} {list(entry.shape)} takes {needed} bytes, "
            f"and its place is {entry.start} to {entry.end} of {size - data}"
        )
    if needed == 0:
        return np.zeros(entry.shape, dtype)
    mapped = np.memmap(path, dtype, "r", offset=data + entry.start, shape=entry.shape)
    if entry.kind != "BF16":
        return mapped
    # The upper half of a float32.
    return (mapped.astype(np.uint32) << 16).view(np.float32)
