"""Side-by-side benchmark: offspan and what people use today, on the same arrays, in one run.

    python3 bench/run.py [--short] [--only scoring,knn,fit,files] [--threads N] [--imagenet] [--with-torch]

Contenders take turns, because only ratios within a run mean something on a machine that others use too. Peers are installed
into bench/.venv; one that cannot be had is named and left out. Writes bench/results/<date>.md, .json, .png and .svg, and adds a line
to bench/results/history.jsonl, which `make bench-compare` sets side by side.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from compare import environment  # noqa: E402  (standard library only: it makes the environment that the rest needs)

SECTIONS = ("scoring", "knn", "fit", "files")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="offspan against its peers, in one run")
    parser.add_argument("--short", action="store_true", help="small shapes, about two minutes: for every change")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections, comma-separated [{','.join(SECTIONS)}]")
    parser.add_argument("--threads", type=int, default=environment.cores(), help="threads of every contender [all cores]")
    parser.add_argument("--rounds", type=int, help="turns of each contender [7; short 5]")
    parser.add_argument("--widths", help="feature widths of the scoring part [2048,768,512,342; short 512]")
    parser.add_argument("--imagenet", action="store_true", help="also fit 1,281,167 x 2048 rows from disk (needs 12 GB free)")
    parser.add_argument("--with-torch", action="store_true", help="also install torch (CPU) and pytorch-ood")
    parser.add_argument("--no-build", action="store_true", help="use the binaries in target/release as they are")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where reports go [bench/results]")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(SECTIONS):
        parser.error(f"no section named {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    return options


def main() -> None:
    options = arguments()
    environment.enter(HERE / ".venv", options.with_torch, options.threads)
    # From here on we run inside the environment, with the thread counts set before NumPy is loaded.
    from compare import fits, history, instructions, knn, report, scoring, torch_peer
    from compare.bars import Run
    from compare.machine import Driver
    from compare.noise import Noise
    from compare.shapes import Shapes
    from compare.workspace import Workspace

    binaries = environment.build(HERE.parent, options.no_build)
    shapes = Shapes.chosen(options.short, options.rounds, options.widths)
    run = Run(shapes.are_smaller, options.threads, environment.versions(), environment.missing(options.with_torch))
    noise = Noise()
    options.results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.results) as folder, Driver(binaries / "offspan-bench") as driver:
        run.instructions = instructions.of_all(driver)
        work = Workspace(Path(folder), binaries / "offspan", options.threads)
        if "scoring" in options.only:
            scoring.measure(run, shapes, work, driver)
        if "knn" in options.only:
            knn.measure(run, shapes, work, driver)
        if "fit" in options.only:
            fits.measure(run, shapes, work)
        if "files" in options.only:
            fits.sizes(run, shapes, work)
        if options.with_torch:
            torch_peer.measure(run, shapes, work, driver)
        if options.imagenet:
            fits.imagenet(run, work)
    run.others = noise.others()
    stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    print(report.write(run, options.results / stamp))
    history.add(run, stamp, options.results / history.NAME)


if __name__ == "__main__":
    main()
