"""Fits as whole processes: wall time and peak resident memory, reading the rows and the eigendecomposition included."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from statistics import median
from typing import Any

from .bars import Run
from .environment import say
from .machine import Usage, run_measured
from .shapes import IMAGENET_ROWS, Shapes
from .workspace import GAMMA, Workspace

NUMPY_FIT = Path(__file__).with_name("fit_numpy.py")


def measure(run: Run, shapes: Shapes, work: Workspace) -> None:
    rows, width = shapes.fit
    train = work.features(rows, width)
    fit(run, shapes, work, train, "fourier", shapes.fit_features, 0.5, work.fourier(shapes.fit_features))
    fit(run, shapes, work, train, "nystrom", shapes.fit_landmarks, 0.995, work.nystrom(shapes.fit_landmarks, 0.995))


def fit(run: Run, shapes: Shapes, work: Workspace, train: Path, kind: str, size: int, ratio: float, options: list[Any]) -> None:
    shape = f"{shapes.fit[0]} × {shapes.fit[1]} → {size}"
    output = work.folder / f"timed-{kind}.offspan"
    ours, theirs = [], []
    for number in range(shapes.fit_rounds):
        say(f"fit {kind} {shape}, round {number + 1}")
        ours.append(run_measured(work.command("fit", train, *options, "-o", output)))
        theirs.append(run_measured([sys.executable, NUMPY_FIT, kind, train, size, GAMMA[kind], ratio]))
    for name, usages in (("offspan", ours), ("NumPy float64", theirs)):
        cells = {"s median": median(usage.seconds for usage in usages), "s best": min(usage.seconds for usage in usages)}
        run.row("Fits", case=f"{kind} {shape}", contender=name, **cells, **{"peak MB": peak(usages) / 1e6})
    times = median(theirs_once.seconds / ours_once.seconds for ours_once, theirs_once in zip(ours, theirs, strict=True))
    best = min(usage.seconds for usage in theirs) / min(usage.seconds for usage in ours)
    run.record(f"fit-{kind}-time", times, best, shape)
    run.record(f"fit-{kind}-memory", peak(theirs) / peak(ours), None, f"{shape}, {peak(theirs) / 1e6:.0f} / {peak(ours) / 1e6:.0f} MB")


def peak(usages: list[Usage]) -> float:
    return max(usage.peak_bytes for usage in usages)


def sizes(run: Run, shapes: Shapes, work: Workspace) -> None:
    """Of the detectors that the scoring part uses at its first width."""
    train, _ = work.split(shapes.train, 2048, shapes.widths[0])
    for kind, options in (("nystrom", work.nystrom(shapes.landmarks, shapes.ratios[0])), ("fourier", work.fourier(shapes.features))):
        fitted = work.kpca(train, options)
        shape = f"m {fitted.width}, M {fitted.dimensions}, q {fitted.components}"
        size = fitted.path.stat().st_size / 2**20
        run.row("Detector files", case=f"{kind} {shape}", MiB=size)
        run.record(f"file-{kind}", size, None, shape)


def imagenet(run: Run, work: Workspace) -> None:
    """All rows and half of them: a time that grows faster than the rows would show."""
    free = shutil.disk_usage(work.folder).free / 1e9
    if free < 12.0:
        run.notes.append(f"The fit of {IMAGENET_ROWS:,} rows was left out: {free:.1f} GB of disk are free, 12 are needed.")
        return
    used = {}
    for rows in (IMAGENET_ROWS // 2, IMAGENET_ROWS):
        say(f"fit fourier {rows} × 2048 from f16")
        train = work.features(rows, 2048, "f16")
        used[rows] = run_measured(work.command("fit", train, *work.fourier(4096), "-o", work.folder / "imagenet.offspan"))
        train.unlink()
        cells = {"s median": used[rows].seconds, "s best": used[rows].seconds, "peak MB": used[rows].peak_bytes / 1e6}
        run.row("Fits", case=f"fourier {rows} × 2048 (f16 on disk) → 4096", contender="offspan", **cells)
    half, whole = used[IMAGENET_ROWS // 2], used[IMAGENET_ROWS]
    run.record("imagenet-memory", whole.peak_bytes / 1e9, None, f"RFF 4096, {whole.seconds:.0f} s")
    run.record("imagenet-growth", whole.seconds / (2.0 * half.seconds), None, f"{half.seconds:.0f} s for half of the rows")
