"""Scoring: offspan, the formula in NumPy float64 and float32 and in PyTorch, and scikit-learn, beside the machine's limits."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from .bars import Run
from .environment import say
from .formula import Array, Scorer, StandIn
from .machine import Driver
from .shapes import Shapes
from .turns import Calls, Timing, take_turns, timed
from .workspace import Fitted, Workspace

GEMM = 2048
GEMM_FLOPS = 2 * GEMM**3
ROWS = 2048
OURS, FLOAT64, FLOAT32, SKLEARN = "offspan", "NumPy float64", "NumPy float32", "scikit-learn"
TORCH = "PyTorch float32"
PEERS = (FLOAT64, FLOAT32, TORCH, SKLEARN)
FAER, NUMPY_GEMM, COPY = "faer GEMM", "NumPy GEMM", "copy of the weights"


def measure(run: Run, shapes: Shapes, work: Workspace, driver: Driver) -> None:
    if driver.threads != run.threads:
        raise RuntimeError(f"the driver has {driver.threads} threads, {run.threads} were asked for")
    bandwidth(run, shapes, driver)
    for width in shapes.widths:
        train, held = work.split(shapes.train, ROWS, width)
        ratios = shapes.ratios if width == shapes.widths[0] else shapes.ratios[:1]
        for ratio in ratios:
            case(run, shapes, driver, work.kpca(train, work.nystrom(shapes.landmarks, ratio)), ratio, train, held)
        case(run, shapes, driver, work.kpca(train, work.fourier(shapes.features)), 0.5, train, held)


def bandwidth(run: Run, shapes: Shapes, driver: Driver) -> None:
    size = 256 << 20
    copies = take_turns({COPY: driver.copy(size)}, shapes.rounds, shapes.turn)[COPY]
    run.raise_limit("copy GB/s (256 MiB; bytes copied, each read and written)", size / copies.best / 1e9)


def case(run: Run, shapes: Shapes, driver: Driver, fitted: Fitted, ratio: float, train: Path, held: Path) -> None:
    """One detector at every batch size."""
    name = f"{fitted.map} m {fitted.width}, M {fitted.dimensions}, ratio {ratio:g}, q {fitted.components}"
    say(f"scoring: {name}")
    peers = scorers(StandIn(fitted, np.load(train, mmap_mode="r")), np.load(held), run.threads)
    for batch in shapes.batches:
        contenders = {OURS: driver.score(fitted.path, held, batch)}
        contenders |= {peer: timed(batches(scorer, rows, batch)) for peer, (scorer, rows) in peers.items()}
        if batch == 1:
            contenders[COPY] = driver.copy(weight_bytes(fitted))
        if batch == shapes.batches[-1]:
            contenders |= gemms(driver)
        timings = take_turns(contenders, shapes.rounds, shapes.turn)
        tell(run, fitted, name, batch, ratio == shapes.ratios[0] or fitted.map != "nystrom", timings)


def scorers(weights: StandIn, rows: Array, threads: int) -> dict[str, tuple[Scorer, Array]]:
    """Each peer with rows in the type it works in: a conversion is not part of the formula."""
    wide, narrow = rows.astype(np.float64), rows.astype(np.float32)
    peers: dict[str, tuple[Scorer, Array]] = {
        FLOAT64: (weights.formula(np.float64), wide),
        FLOAT32: (weights.formula(np.float32), narrow),
    }
    if importlib.util.find_spec("sklearn"):
        from . import sklearn_peer

        peers[SKLEARN] = (sklearn_peer.scorer(weights), narrow)
    if importlib.util.find_spec("torch"):
        from . import torch_formula

        peers[TORCH] = (torch_formula.scorer(weights, threads), narrow)
    return peers


def batches(scorer: Scorer, rows: Array, batch: int) -> Any:
    starts = len(rows) // batch
    return lambda number: scorer(rows[number % starts * batch :][:batch])


def gemms(driver: Driver) -> dict[str, Calls]:
    a = np.random.default_rng(0).random((GEMM, GEMM), dtype=np.float32)
    out = np.empty_like(a)
    return {FAER: driver.gemm(GEMM), NUMPY_GEMM: timed(lambda _: np.matmul(a, a, out=out))}


def weight_bytes(fitted: Fitted) -> int:
    """What one row has to read at least, in f32: landmarks (random features are not stored) and projections."""
    landmarks = fitted.width * fitted.dimensions if fitted.map == "nystrom" else 0
    return 4 * (landmarks + fitted.projections * fitted.dimensions)


def multiply_adds(fitted: Fitted) -> int:
    """Per row, of the plan's own products; a Walsh–Hadamard transform only adds and is not counted."""
    return weight_bytes(fitted) // 4


def tell(run: Run, fitted: Fitted, name: str, batch: int, first: bool, timings: dict[str, Timing]) -> None:
    """``first`` says that the ratio is the one that most bars are about."""
    ours, exact = timings[OURS], timings[FLOAT64]
    faster, faster_best = ours.times_faster_than(exact), exact.best / ours.best
    share = copies = None
    if FAER in timings:
        share = gemm_share(run, fitted, batch, timings)
    if COPY in timings:
        copies = (1.0 / ours.times_faster_than(timings[COPY]), ours.best / timings[COPY].best)
    for peer in (OURS, *PEERS):
        if peer not in timings:
            continue
        timing = timings[peer]
        cells: dict[str, Any] = {"µs/row median": 1e6 * timing.median / batch, "µs/row best": 1e6 * timing.best / batch}
        cells |= {"× NumPy float64": timing.times_faster_than(exact)}
        cells |= {"GEMM share": share[0] if share and peer == OURS else None, "× copy": copies[0] if copies and peer == OURS else None}
        run.row("Scoring", case=name, batch=batch, contender=peer, **cells)
    shape = f"m {fitted.width}, M {fitted.dimensions}, q {fitted.components}"
    if batch == 1024 and first:
        run.record(f"{fitted.map}-f64", faster, faster_best, shape)
        for peer, key in ((FLOAT32, "f32"), (SKLEARN, "sklearn"), (TORCH, "torch")):
            if peer in timings:
                run.record(f"{fitted.map}-{key}", ours.times_faster_than(timings[peer]), timings[peer].best / ours.best, shape)
    if batch == 1 and fitted.map == "fourier":
        run.record("fourier-one", faster, faster_best, shape)
    kind = "nystrom" if first else "nystrom-wide"
    if fitted.map == "nystrom" and share:
        run.record(f"{kind}-gemm", *share, shape)
    if fitted.map == "nystrom" and copies:
        run.record(f"{kind}-copy", *copies, f"{shape}, {weight_bytes(fitted) / 2**20:.1f} MiB")


def gemm_share(run: Run, fitted: Fitted, batch: int, timings: dict[str, Timing]) -> tuple[float, float]:
    """Our rate over the GEMM rate: against the faster library in the same rounds, and best against the best of the run so far."""
    for name in (FAER, NUMPY_GEMM):
        run.raise_limit(f"{name} f32 GFLOPS", GEMM_FLOPS / timings[name].best / 1e9)
    top = max(rate for name, rate in run.limits.items() if name.endswith("GFLOPS"))
    flops = 2 * multiply_adds(fitted) * batch
    library = min((timings[FAER], timings[NUMPY_GEMM]), key=lambda timing: timing.median)
    paired = timings[OURS].times_faster_than(library) * flops / GEMM_FLOPS
    return paired, flops / timings[OURS].best / 1e9 / top
