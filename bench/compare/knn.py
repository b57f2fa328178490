"""Nearest neighbours: offspan's against faiss flat indexes, and kernel PCA against a bank as large as ImageNet's training set."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from .bars import Run
from .environment import say
from .machine import Driver
from .shapes import IMAGENET_ROWS, Shapes
from .turns import Calls, Timing, take_turns, timed
from .workspace import Workspace

NEIGHBOURS = 50
OURS = "offspan"


def measure(run: Run, shapes: Shapes, work: Workspace, driver: Driver) -> None:
    if importlib.util.find_spec("faiss") is None:
        run.notes.append("KNN was not measured: faiss-cpu is not there.")
        return
    against_faiss(run, shapes, work, driver)
    against_kpca(run, shapes, work, driver)


def against_faiss(run: Run, shapes: Shapes, work: Workspace, driver: Driver) -> None:
    bank, width, queries = shapes.knn
    say(f"knn: {bank} × {width}")
    train, held = work.split(bank, queries, width)
    detector = work.fit(train, ["--method", "knn", "-k", NEIGHBOURS, "--hold-out", 0])
    contenders = {OURS: driver.score(detector, held, queries)}
    contenders |= faiss_flat(np.load(train), np.load(held), run.threads)
    timings = take_turns(contenders, min(shapes.rounds, 5), shapes.turn)
    shape = f"{bank} × {width}, {queries} queries, k {NEIGHBOURS}"
    for name, timing in timings.items():
        cells = {"µs/query median": 1e6 * timing.median / queries, "µs/query best": 1e6 * timing.best / queries}
        run.row("KNN", case=shape, contender=name, **cells, **{"offspan is": timings[OURS].times_faster_than(timing)})
    peer = faster_peer(timings)
    run.record("knn", timings[OURS].times_faster_than(peer), peer.best / timings[OURS].best, shape)


def against_kpca(run: Run, shapes: Shapes, work: Workspace, driver: Driver) -> None:
    """A flat index looks at every row of its bank, so its time grows with the rows; we measure a part and scale."""
    bank, width = shapes.wide_knn
    queries = 1024
    say(f"kpca against knn: {bank} × {width}")
    train, held = work.split(shapes.train, 2048, width)
    fitted = work.kpca(train, work.nystrom(shapes.landmarks, shapes.ratios[0]))
    contenders = {OURS: driver.score(fitted.path, held, queries)}
    contenders |= faiss_flat(np.load(work.features(bank, width)), np.load(held)[:queries], run.threads)
    timings = take_turns(contenders, min(shapes.rounds, 5), shapes.turn)
    peer, scale = faster_peer(timings), IMAGENET_ROWS / bank
    shape = f"m {width}, faiss on {bank} rows, scaled × {scale:.1f}"
    for name, timing in timings.items():
        factor = 1.0 if name == OURS else scale
        cells: dict[str, Any] = {f"µs/query {which}": factor * 1e6 * value / queries
                                 for which, value in (("median", timing.median), ("best", timing.best))}
        ratio = factor * timings[OURS].times_faster_than(timing)
        run.row("KNN", case=f"{IMAGENET_ROWS} × {width} (scaled from {bank} rows)",
                contender="offspan Nyström" if name == OURS else name, **cells, **{"offspan is": ratio})
    run.record("kpca-knn", scale * timings[OURS].times_faster_than(peer), scale * peer.best / timings[OURS].best, shape)


def faster_peer(timings: dict[str, Timing]) -> Timing:
    return min((timing for name, timing in timings.items() if name != OURS), key=lambda timing: timing.median)


def faiss_flat(bank: Any, queries: Any, threads: int) -> dict[str, Calls]:
    """Both flat indexes over unit rows; making the queries unit rows is part of the work, as it is for offspan."""
    import faiss

    faiss.omp_set_num_threads(threads)
    faiss.normalize_L2(bank)
    peers = {}
    for kind in (faiss.IndexFlatIP, faiss.IndexFlatL2):
        index = kind(bank.shape[1])
        index.add(bank)

        def search(_: int, index: Any = index) -> None:
            rows = queries.copy()
            faiss.normalize_L2(rows)
            index.search(rows, NEIGHBOURS)

        peers[f"faiss {kind.__name__}"] = timed(search)
    return peers
