"""pytorch-ood's KNN, ViM and Mahalanobis beside offspan's, on the same rows, labels and last layer."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .bars import Run
from .environment import say
from .machine import Driver
from .shapes import Shapes
from .turns import take_turns, timed
from .workspace import Workspace

CLASSES, BATCH = 100, 1024


def measure(run: Run, shapes: Shapes, work: Workspace, driver: Driver) -> None:
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("pytorch_ood")):
        run.notes.append("pytorch-ood was not measured: it, or torch for the CPU, is not there.")
        return
    width = shapes.widths[0]
    say(f"pytorch-ood: {shapes.train} × {width}")
    train, held = work.split(shapes.train, 2048, width)
    files, arrays = last_layer(work.folder, np.load(train))
    # A peer that changed its interface is worth a line in the report, not the loss of it.
    try:
        peers = fitted_peers(np.load(train), *arrays, run.threads)
    except Exception as error:
        run.notes.append(f"pytorch-ood was not measured: {type(error).__name__}: {error}")
        return
    options: dict[str, list[Any]] = {
        "knn": ["-k", 50],
        "vim": ["--head", f"{files['weight']},{files['bias']}", "--logits", files["logits"]],
        "mahalanobis": ["--labels", files["labels"]],
    }
    rows = np.load(held)[:BATCH]
    for method, peer in peers.items():
        detector = work.folder / f"torch-{method}.offspan"
        work.call("fit", train, "--method", method, *options[method], "--hold-out", 0, "-o", detector)
        contenders = {"offspan": driver.score(detector, held, BATCH), "pytorch-ood": timed(on_rows(peer, rows))}
        timings = take_turns(contenders, min(shapes.rounds, 5), shapes.turn)
        for name, timing in timings.items():
            cells = {"µs/row median": 1e6 * timing.median / BATCH, "µs/row best": 1e6 * timing.best / BATCH}
            ratio = timings["offspan"].times_faster_than(timing)
            run.row("pytorch-ood", case=f"{method}, {shapes.train} × {width}", contender=name, **cells, **{"offspan is": ratio})


def on_rows(peer: Callable[[Any], Any], rows: Any) -> Callable[[int], Any]:
    return lambda _: peer(rows)


def last_layer(folder: Path, train: Any) -> tuple[dict[str, Path], tuple[Any, Any, Any]]:
    """A last layer and labels: made up, since the time does not depend on them. Every class occurs."""
    draw = np.random.default_rng(0)
    weight = draw.normal(0.0, 0.1, (CLASSES, train.shape[1])).astype(np.float32)
    bias = draw.normal(0.0, 0.1, CLASSES).astype(np.float32)
    labels = np.arange(len(train)) % CLASSES
    files = {}
    for name, array in (("weight", weight), ("bias", bias), ("labels", labels), ("logits", train @ weight.T + bias)):
        files[name] = folder / f"torch-{name}.npy"
        np.save(files[name], array)
    return files, (weight, bias, labels)


def fitted_peers(train: Any, weight: Any, bias: Any, labels: Any, threads: int) -> dict[str, Any]:
    """Each as a function of NumPy rows; sharing the memory with a tensor costs nothing."""
    import torch
    from pytorch_ood.detector import KNN, Mahalanobis, ViM

    torch.set_num_threads(threads)
    z, y = torch.from_numpy(train), torch.from_numpy(labels)
    width = train.shape[1]
    # The published choice, which is offspan's default too.
    principal = 1000 if width >= 2048 else 512 if width >= 768 else width // 2
    detectors = {
        "knn": KNN(None, k=50),
        "vim": ViM(None, principal, torch.from_numpy(weight), torch.from_numpy(bias)),
        "mahalanobis": Mahalanobis(None),
    }
    peers = {}
    for name, detector in detectors.items():
        detector.fit_features(z, y)
        peers[name] = lambda rows, detector=detector: detector.predict_features(torch.from_numpy(rows))
    return peers
