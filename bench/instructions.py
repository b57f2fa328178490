"""Counts the instructions of the hottest loops with callgrind and compares them with bench/instructions.json.

    python3 bench/instructions.py [--update] [--no-build]

Unlike a time, a count does not depend on what else the machine does. Each loop runs twice under callgrind, with different
numbers of rounds and nothing else different; the difference is what those rounds cost, without start, loading and first use.

Exit code: 0 as stored or fewer, 1 a loop takes more, 2 nothing could be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "bench" / "instructions.json"
UPDATE = "python3 bench/instructions.py --update"

TOLERANCE = 0.02
"""Share by which a count may differ from the stored one: other versions of the C library, other addresses."""

ROUNDS = (1, 3)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="instructions per row of the hottest loops, against the stored ones")
    parser.add_argument("--update", action="store_true", help="store the counts of this run")
    parser.add_argument("--no-build", action="store_true", help="count the binary in target/release as it is")
    return parser.parse_args()


def refuse(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        refuse(f"`{' '.join(command)}` ended with code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def build(skip: bool) -> Path:
    if not skip:
        print("building offspan-count", file=sys.stderr)
        run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "offspan-bench", "--bin", "offspan-count"])
    binary = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "offspan-count"
    if not binary.is_file():
        refuse(f"no {binary}; run without --no-build")
    return binary


def counted(command: list[str], folder: Path) -> tuple[int, dict[str, Any]]:
    """All instructions of a process, and what it says."""
    out = folder / "callgrind.out"
    answer = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *command])
    totals = [line.split()[1] for line in out.read_text().splitlines() if line.startswith("totals:")]
    if not totals:
        refuse(f"callgrind wrote no totals for `{' '.join(command)}`")
    return sum(map(int, totals)), json.loads(answer)


def measure(binary: Path) -> dict[str, Any]:
    per_row, target = {}, ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loops = {"moments update": ["moments"]}
        for map_, loop in (("nystrom", "Nyström scoring"), ("rff", "structured RFF scoring")):
            # Fitted outside of callgrind, where eigenvectors would take minutes.
            run([str(binary), "fit", map_, str(folder / map_)])
            loops[loop] = ["score", str(folder / map_)]
        for loop, command in loops.items():
            print(f"counting: {loop}", file=sys.stderr)
            runs = [counted([str(binary), *command, str(rounds)], folder) for rounds in ROUNDS]
            (few, said), (many, _) = runs
            per_row[loop] = round((many - few) / ((ROUNDS[1] - ROUNDS[0]) * said["rows_per_round"]), 1)
            target = said["target"]
    return {"target": target, "compiler": run(["rustc", "--version"]).strip(), "instructions_per_row": per_row}


def compare(got: dict[str, Any], stored: dict[str, Any]) -> bool:
    """Tells how each loop does; whether none takes more than stored."""
    worse = []
    for loop, count in got["instructions_per_row"].items():
        expected = stored["instructions_per_row"].get(loop)
        if expected is None:
            refuse(f"{STORED.name} has no count for {loop}; store one: {UPDATE}")
        change = count / expected - 1
        verdict = "as stored"
        if change > TOLERANCE:
            verdict = "MORE"
            worse.append(loop)
        elif change < -TOLERANCE:
            verdict = f"better: store it ({UPDATE})"
        print(f"{loop:<24} {count:>12,.1f} a row, expected {expected:>12,.1f}  {change:+7.1%}  {verdict}")
    if worse:
        print(f"\nfailed: {', '.join(worse)}: over {TOLERANCE:.0%} more instructions than stored.")
        if got["compiler"] != stored["compiler"]:
            print(f"The compiler differs, too: {got['compiler']}; stored with {stored['compiler']}.")
        print(f"If that is the price of something worth it, store the new counts: {UPDATE}")
    return not worse


def main() -> None:
    options = arguments()
    if shutil.which("valgrind") is None:
        refuse("valgrind is not installed, and counting instructions needs it (Debian, Ubuntu: sudo apt install valgrind)")
    if not options.update and not STORED.is_file():
        refuse(f"no {STORED} to compare with; store one: {UPDATE}")
    stored = json.loads(STORED.read_text()) if STORED.is_file() else None
    got = measure(build(options.no_build))
    if options.update:
        for loop, count in got["instructions_per_row"].items():
            before = stored["instructions_per_row"].get(loop) if stored and stored["target"] == got["target"] else None
            print(f"{loop:<24} {count:>12,.1f} a row" + (f", was {before:,.1f}  {count / before - 1:+.1%}" if before else ""))
        STORED.write_text(json.dumps(got, indent=2, ensure_ascii=False) + "\n")
        print(f"stored in {STORED.relative_to(ROOT)}")
    elif got["target"] != stored["target"]:
        refuse(
            f"these counts are for {got['target']}, the stored ones for {stored['target']}: different instructions, which "
            f"cannot be compared. Use such a machine, or store the counts of this one: {UPDATE}"
        )
    elif not compare(got, stored):
        sys.exit(1)


if __name__ == "__main__":
    main()
