"""What `auto` costs beside a single kernel PCA through as many landmarks, on packs of features.

    python3 bench/auto_cost.py PACK... [--rounds N] [--no-build]

Beside it stand `kpca-nys` with its defaults (plain residual, no logits), and with the parts that `auto` has in it. Fits are
those of `offspan eval`; scores are taken in turns by one process that holds all detectors (as in bench/run.py), on the test and
OoD rows of the pack with their logits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
OFFSPAN = ROOT / "target" / "release" / "offspan"
TURN = 0.5

from compare.machine import Driver  # noqa: E402
from compare.turns import take_turns  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packs", nargs="+", type=Path, metavar="PACK", help="folders with train, test and ood")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender [7]")
    parser.add_argument("--no-build", action="store_true", help="use the binaries in target/release as they are")
    options = parser.parse_args()
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "offspan-cli", "-p", "offspan-bench"], check=True, cwd=ROOT)
    for pack in options.packs:
        with tempfile.TemporaryDirectory() as folder, Driver(ROOT / "target" / "release" / "offspan-bench") as driver:
            compare(pack, Path(folder), driver, options.rounds)


def compare(pack: Path, folder: Path, driver: Driver, rounds: int) -> None:
    first = evaluate(pack, folder, ["auto"])
    landmarks = int(first["fit"]["found"]["landmarks"])
    single = ["kpca-nys", "--landmarks", str(landmarks)]
    contenders = {
        "auto": ["auto"],
        "kpca-nys": single,
        "kpca-nys with auto's parts": [*single, "--sampling", "uniform", "--residual", "complete", "--fuse", "energy"],
    }
    fits: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(3):
        for name, words in contenders.items():
            fits[name].append(evaluate(pack, folder, words)["fit"]["seconds"])
    calls = {}
    for number, (name, words) in enumerate(contenders.items()):
        detector = folder / f"{number}.offspan"
        run("fit", str(pack), "--method", *words, "-o", str(detector))
        calls[name] = driver.score_pack(detector, pack)
    timings = take_turns(calls, rounds, TURN)
    rows = first["score"]["rows"]
    print(f"{pack.name}, M = {landmarks}, {driver.threads} threads")
    for name, timing in timings.items():
        fit, auto = median(fits[name]), median(fits["auto"])
        times, best = timing.times_faster_than(timings["auto"]), timings["auto"].best / timing.best
        print(
            f"  {name:27} fit {fit:6.2f} s, auto {auto / fit:4.2f} ×; "
            f"score {1e6 * timing.median / rows:6.2f} µs a row, auto {times:4.2f} × (best {best:4.2f} ×)",
            flush=True,
        )


def evaluate(pack: Path, folder: Path, words: list[str]) -> dict[str, Any]:
    """What `eval` tells of one method."""
    path = folder / "eval.json"
    run("eval", str(pack), "--method", *words, "--json", str(path))
    result: dict[str, Any] = json.loads(path.read_text())["results"][0]
    return result


def run(*words: str) -> None:
    done = subprocess.run([str(OFFSPAN), *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)


if __name__ == "__main__":
    main()
