"""What a fit on a cluster costs: rows, workers, the driver's memory, and the merge tree of a thousand workers.

python3 bench/cluster.py [--rows 150000] [--repeats 3] [--json FILE]

Needs the package with Dask: pip install './python[dask]'. Every fit runs in a process of its own with worker
processes of one thread each; times are the shortest of the repeats and compared within one run. The tree is carried
out here with recorded parts, one merge after the other, on one thread; what a thousand machines would take
follows from the rates, which are those of processor time, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WIDTH = 256
FEATURES = 1024
#: Rows of a partition, for fits on this machine.
PARTITION = 10_000
#: The cluster whose time is computed: its workers, and bytes per second between two of them (10 Gbit/s).
WORKERS = 1000
NETWORK = 1.25e9
ROWS = 10_000_000_000


def main() -> None:
    """Measure, and show what was found."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rows", type=int, default=150_000, help="rows of the smaller fit (default %(default)s)")
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("--json", type=Path)
    words.add_argument("--no-fits", action="store_true", help="only the tree and the arithmetic")
    words.add_argument("--one-fit", nargs=2, type=int, metavar=("WORKERS", "ROWS"), help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.one_fit:
        print(json.dumps(one_fit(*given.one_fit)))
        return
    found: dict[str, Any] = {
        "fits": [] if given.no_fits else fits(given.rows, given.repeats),
        "tree": [tree(features) for features in (256, 1024)],
    }
    found["large"] = [large(features) for features in (1024, 2048, 4096)]
    print(shown(found))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


def one_fit(workers: int, rows: int) -> dict[str, Any]:
    """Fit once, with so many worker processes."""
    import dask.array
    import numpy as np
    import offspan
    import offspan.dask
    from distributed import Client, LocalCluster

    def block(block_info: Any = None) -> Any:
        begin, end = block_info[None]["array-location"][0]
        return np.random.default_rng(begin).standard_normal((end - begin, WIDTH), dtype=np.float32) + 1

    def lazy(count: int) -> Any:
        sizes = (PARTITION,) * (count // PARTITION)
        return dask.array.map_blocks(block, chunks=(sizes, (WIDTH,)), dtype=np.float32, meta=np.empty((0, 0), "f4"))

    plan = offspan.FitPlan("kpca-rff", features=FEATURES, gamma=0.5)
    with LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        offspan.dask.fit(plan, lazy(2 * PARTITION))  # What is loaded once is not measured.
        begun = time.perf_counter()
        offspan.dask.fit(plan, lazy(rows))
        seconds = time.perf_counter() - begun
    return {"seconds": seconds, "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def fits(rows: int, repeats: int) -> list[dict[str, Any]]:
    """Fits with one and two workers, to rows and twice the rows."""
    found = []
    for workers, count in ((1, rows), (2, rows), (2, 2 * rows)):
        runs = []
        for _ in range(repeats):
            command = [sys.executable, __file__, "--one-fit", str(workers), str(count)]
            runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        found.append(
            {
                "workers": workers,
                "rows": count,
                "seconds": min(run["seconds"] for run in runs),
                "driver_mb": max(run["driver_mb"] for run in runs),
            }
        )
        print(found[-1], file=sys.stderr)
    return found


def at_the_moments(features: int, rows: int) -> Any:
    """A plan at its most expensive pass, and a function that gives rows."""
    import numpy as np
    import offspan

    def drawn(first: int, count: int) -> Any:
        return np.random.default_rng(first).standard_normal((count, WIDTH), dtype=np.float32) + 1

    plan = offspan.FitPlan("kpca-rff", features=features, gamma=0.5, hold_out=0)
    plan.advance(plan.partial(drawn(0, rows)))
    return plan, drawn


def tree(features: int) -> dict[str, Any]:
    """Merge the parts of a thousand workers, depth first, so that a few of them are in memory at once."""
    import offspan
    from offspan._cluster import parts
    from offspan._cluster.driver import FAN

    offspan.set_threads(1)
    each = 8
    plan, drawn = at_the_moments(features, WORKERS * each)
    merging = moved = 0.0
    made = iter(range(WORKERS))
    counts = [WORKERS, *(len(groups) for groups in parts.levels(WORKERS, FAN))]

    def part_of(level: int, number: int) -> bytes:
        nonlocal merging, moved
        if level == 0:
            first = next(made) * each
            return plan.partial(drawn(first, each), first_row=first)
        below = range(number * FAN, min((number + 1) * FAN, counts[level - 1]))
        joined = part_of(level - 1, below[0])
        moved += len(joined)
        for one in below[1:]:
            other = part_of(level - 1, one)
            moved += len(other)
            begun = time.process_time()
            joined = plan.merge(joined, other)
            merging += time.process_time() - begun
        return joined

    whole = part_of(len(counts) - 1, 0)
    plan.advance(whole)
    return {
        "features": features,
        "workers": WORKERS,
        "levels": len(counts) - 1,
        "merges": WORKERS - 1,
        "moved_bytes": int(moved),
        "part_bytes": len(whole),
        "merge_seconds": merging / (WORKERS - 1),
    }


def large(features: int) -> dict[str, Any]:
    """The arithmetic of a large fit, from the rates of this machine."""
    import offspan
    from offspan._cluster import parts
    from offspan._cluster.driver import FAN

    offspan.set_threads(1)
    count = 4 * features
    plan, drawn = at_the_moments(features, 2 * count)
    pieces = [drawn(0, count), drawn(count, count)]
    plan.partial(pieces[0][:64])
    begun = time.process_time()
    made = [plan.partial(piece, first_row=place * count) for place, piece in enumerate(pieces)]
    per_row = (time.process_time() - begun) / (2 * count)
    merges = []
    for _ in range(3):
        begun = time.process_time()
        plan.merge(*made)
        merges.append(time.process_time() - begun)
    depth = len(list(parts.levels(WORKERS, FAN)))
    size = len(made[0])
    climb = depth * ((FAN - 1) * min(merges) + FAN * size / NETWORK)
    return {
        "features": features,
        "part_mb": size / 1e6,
        "microseconds_per_row": per_row * 1e6,
        "merge_seconds": min(merges),
        "core_hours": ROWS * per_row / 3600,
        "pass_hours": ROWS * per_row / WORKERS / 3600,
        "tree_seconds": climb,
    }


def shown(found: dict[str, Any]) -> str:
    """What was found, as Markdown."""
    return "\n".join([*(shown_fits(found["fits"]) if found["fits"] else []), *shown_rates(found)])


def shown_fits(fits: list[dict[str, Any]]) -> list[str]:
    """Rows, workers and the driver's memory."""
    one, two, double = fits
    return [
        f"kpca-rff, {FEATURES} random features of {WIDTH} numbers, Dask, workers of one thread:",
        "",
        "| workers | rows | seconds | driver, MB |",
        "|---|---|---|---|",
        *(f"| {fit['workers']} | {fit['rows']:,} | {fit['seconds']:.1f} | {fit['driver_mb']:.0f} |" for fit in fits),
        "",
        f"Twice the rows: {double['seconds'] / two['seconds']:.2f} times the time, "
        f"{double['driver_mb'] - two['driver_mb']:+.0f} MB on the driver. "
        f"Two workers: {one['seconds'] / two['seconds']:.2f} times as fast as one.",
        "",
    ]


def shown_rates(found: dict[str, Any]) -> list[str]:
    """The tree and the arithmetic."""
    return [
        "| M | workers | levels | merges | moved, GB | a merge, ms |",
        "|---|---|---|---|---|---|",
        *(
            f"| {tree['features']} | {tree['workers']} | {tree['levels']} | {tree['merges']} | "
            f"{tree['moved_bytes'] / 1e9:.2f} | {tree['merge_seconds'] * 1e3:.1f} |"
            for tree in found["tree"]
        ),
        "",
        f"{ROWS:,} rows on {WORKERS} cores, one pass:",
        "",
        "| M | a part, MB | a row, µs | core hours | hours of the pass | seconds of the tree |",
        "|---|---|---|---|---|---|",
        *(
            f"| {fit['features']} | {fit['part_mb']:.1f} | {fit['microseconds_per_row']:.0f} | "
            f"{fit['core_hours']:.0f} | {fit['pass_hours']:.2f} | {fit['tree_seconds']:.1f} |"
            for fit in found["large"]
        ),
    ]


if __name__ == "__main__":
    main()
