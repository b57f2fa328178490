"""The Rust side, and processes measured from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .turns import Calls


class Driver:
    """Talks to `offspan-bench`: one JSON command per line, answered by the seconds of each repeat."""

    def __init__(self, binary: Path) -> None:
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.threads = self.ask(op="copy", bytes=1, repeat=1)["threads"]

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver ended at {command}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the driver refused {command}: {answer['error']}")
        return answer

    def instructions(self) -> dict[str, Any]:
        """Those that our loops use, and all that the processor has."""
        return self.ask(op="instructions")

    def score(self, detector: Path, rows: Path, batch: int) -> Calls:
        return lambda count: self.ask(op="score", detector=str(detector), rows=str(rows), batch=batch, repeat=count)["seconds"]

    def score_pack(self, detector: Path, pack: Path) -> Calls:
        return lambda count: self.ask(op="score-pack", detector=str(detector), pack=str(pack), repeat=count)["seconds"]

    def gemm(self, size: int) -> Calls:
        return lambda count: self.ask(op="gemm", size=size, repeat=count)["seconds"]

    def copy(self, size: int) -> Calls:
        # The first copy of a fresh target also pays for its pages.
        return lambda count: self.ask(op="copy", bytes=size, repeat=count + 1)["seconds"][1:]


@dataclass(frozen=True)
class Usage:
    seconds: float
    peak_bytes: int


def run_measured(command: list[Any]) -> Usage:
    """Wall time and peak resident memory of a command.

    It is started by a small process of its own (see launch.py): a child counts the memory of whoever started it towards its
    peak, and we hold large arrays.
    """
    launcher = [sys.executable, "-S", str(Path(__file__).with_name("launch.py")), *map(str, command)]
    done = subprocess.run(launcher, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"failed: {' '.join(map(str, command))}")
    answer = json.loads(done.stdout)
    return Usage(answer["seconds"], answer["peak_bytes"])
