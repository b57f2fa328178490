"""Build all Rust tests in one go and run the test programs side by side.

python3 tools/rust_tests.py [--slow] [words for the test programs]

`cargo test` runs one test program after the other, so the last long test of each leaves the other cores idle. Here as
many programs run at once as there are cores, the ones that take longest first. With --slow, only the simulations that
are marked `ignore` because they take long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What is compiled: all but the benchmarks, which bring Criterion along.
PACKAGES = ("--workspace", "--exclude", "offspan-bench", "--locked")
#: All at once: a build without the tests would choose other features of shared dependencies, and compile them again.
TARGETS = ("--lib", "--bins", "--tests")
#: The programs that take longest, in order; the others follow as they come.
LONGEST = ("cli", "kill", "offspan", "parity", "determinism", "properties", "malformed")


@dataclass(frozen=True)
class Program:
    """A test program that cargo built."""

    name: str
    path: str
    #: The folder of its package, in which cargo would run it.
    folder: Path


def cargo(*words: str) -> list[str]:
    """The lines that a cargo command prints; its complaints go through."""
    done = subprocess.run(["cargo", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.splitlines()


def build() -> list[Program]:
    """Compile libraries, command line, native module and tests in one go, and find the test programs."""
    messages = map(json.loads, cargo("build", *PACKAGES, *TARGETS, "--message-format=json-render-diagnostics"))
    programs = [
        Program(message["target"]["name"], message["executable"], Path(message["manifest_path"]).parent)
        for message in messages
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]
    ]
    order = {name: place for place, name in enumerate(LONGEST)}
    return sorted(programs, key=lambda program: order.get(program.name, len(order)))


def run(program: Program, words: list[str]) -> bool:
    """Run one program and print what it said in one piece."""
    done = subprocess.run(
        [program.path, *words], cwd=program.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(f"\n{program.folder.name}: {program.name}\n{done.stdout}", end="", flush=True)
    if done.returncode:
        print(f"{program.name}: exit code {done.returncode}", flush=True)
    return done.returncode == 0


def main() -> None:
    """Build, run everything, and name what failed."""
    words = sys.argv[1:]
    slow = "--slow" in words
    words = [*(word for word in words if word != "--slow"), *(["--ignored"] if slow else [])]
    programs = build()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        fine = list(pool.map(lambda program: run(program, words), programs))
    if not slow:
        code = subprocess.run(["cargo", "test", *PACKAGES, "--doc", "--", *words], cwd=ROOT, check=False).returncode
        if code:
            sys.exit(code)
    if failed := [program.name for program, was_fine in zip(programs, fine) if not was_fine]:
        sys.exit(f"failed: {', '.join(failed)}")
    print(f"{len(programs)} test programs passed")


if __name__ == "__main__":
    main()
