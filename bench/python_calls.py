"""What a call from Python costs over the same call from Rust, and how two Python threads share two cores.

    python3 bench/python_calls.py [--rounds N] [--no-build]

Needs the wheel (`make wheel`); it makes its own environment. Contenders take turns, as in bench/run.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "python" / "tools")]
INSIDE = "OFFSPAN_BENCH_PYTHON"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender [7]")
    parser.add_argument("--no-build", action="store_true", help="use the binaries in target/release as they are")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        enter(options.no_build)
    from compare.machine import Driver
    from compare.workspace import Workspace

    with tempfile.TemporaryDirectory() as folder, Driver(ROOT / "target" / "release" / "offspan-bench") as driver:
        work = Workspace(Path(folder), ROOT / "target" / "release" / "offspan", driver.threads)
        train, held = work.split(20_000, 10_000, 342)
        for kind, words in (("RFF 4096", work.fourier(4096)), ("Nyström 2048", work.nystrom(2048, 0.99))):
            overhead(kind, work.fit(train, words), held, driver, options.rounds)
        scaling(work.fit(train, work.nystrom(2048, 0.99)), held, options.rounds)


def enter(no_build: bool) -> None:
    """Go on inside an environment with the wheel."""
    from environments import environment, wheel

    if not no_build:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "offspan-cli", "-p", "offspan-bench"], check=True, cwd=ROOT)
    python = environment(ROOT / "target" / "python" / "bench", "numpy", "--force-reinstall", str(wheel()))
    os.execve(python, [str(python), *sys.argv], {**os.environ, INSIDE: "1"})


def overhead(kind: str, detector: Path, held: Path, driver, rounds: int) -> None:
    """Rust and Python in turns on the same rows."""
    import numpy as np
    import offspan
    from compare.turns import take_turns, timed

    rows, ours = np.load(held), offspan.Detector.load(detector)
    for batch, turn in ((10_000, 2.0), (1, 0.5)):
        parts = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        contenders = {
            "Rust": driver.score(detector, held, batch),
            "Python": timed(lambda number, parts=parts: ours.score(parts[number % len(parts)])),
        }
        timings = take_turns(contenders, rounds, turn)
        rust, python = timings["Rust"], timings["Python"]
        over = 1e6 * median(median(p) - median(r) for p, r in zip(python.rounds, rust.rounds, strict=True))
        share = 1.0 / python.times_faster_than(rust) - 1.0
        print(
            f"{kind}, batch {batch}: Rust {1e6 * rust.median:.1f} µs, Python {1e6 * python.median:.1f} µs a call; "
            f"over it {over:.1f} µs, {share:+.1%} (best calls: {1e6 * (python.best - rust.best):.1f} µs)",
            flush=True,
        )


def scaling(detector: Path, held: Path, rounds: int) -> None:
    """The same work from one Python thread and from two, with one thread in the core."""
    import numpy as np
    import offspan

    offspan.set_threads(1)
    ours, parts = offspan.Detector.load(detector), np.split(np.load(held), 10)
    ratios = []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            started = time.perf_counter()
            list(map(ours.score, parts))
            between = time.perf_counter()
            list(pool.map(ours.score, parts))
            ratios.append((between - started) / (time.perf_counter() - between))
    print(f"two Python threads, one in the core: {median(ratios):.2f} × one (best {max(ratios):.2f})")


if __name__ == "__main__":
    main()
