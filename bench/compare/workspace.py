"""Feature files and detectors of one run, made by offspan itself and kept until the run ends."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# The defaults of the two maps.
GAMMA = {"nystrom": 1.0, "fourier": 2.0}


@dataclass(frozen=True)
class Fitted:
    """A detector file, and what the peers need to be of the same shape: width m, map features M, kept directions q."""

    path: Path
    map: str
    width: int
    dimensions: int
    components: int

    @property
    def projections(self) -> int:
        """Directions that the plan has to project on: those inside the subspace or those outside, whichever are fewer."""
        return min(self.components, self.dimensions - self.components)


class Workspace:
    def __init__(self, folder: Path, offspan: Path, threads: int) -> None:
        self.folder, self.offspan, self.threads = folder, offspan, threads

    def command(self, *words: Any) -> list[Any]:
        return [self.offspan, *words, "--threads", self.threads]

    def call(self, *words: Any) -> str:
        done = subprocess.run([str(word) for word in self.command(*words)], check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def features(self, rows: int, width: int, kind: str = "f32") -> Path:
        """Rows around class means, cut at zero as after a ReLU (`offspan synth`)."""
        path = self.folder / f"features-{rows}-{width}-{kind}.npy"
        if not path.exists():
            self.call("synth", "--rows", rows, "--width", width, "--type", kind, "-o", path)
        return path

    def split(self, train: int, held: int, width: int) -> tuple[Path, Path]:
        """Training rows and others of the same distribution."""
        paths = (self.folder / f"train-{train}-{held}-{width}.npy", self.folder / f"held-{train}-{held}-{width}.npy")
        if not paths[1].exists():
            whole = self.features(train + held, width)
            rows = np.load(whole, mmap_mode="r")
            np.save(paths[0], rows[:train])
            np.save(paths[1], rows[train:])
            whole.unlink()
        return paths

    @staticmethod
    def nystrom(landmarks: int, ratio: float) -> list[Any]:
        words: list[Any] = ["--method", "kpca-nys", "--landmarks", landmarks, "--sampling", "uniform"]
        return [*words, "--gamma", GAMMA["nystrom"], "--explained-variance", ratio, "--hold-out", 0]

    @staticmethod
    def fourier(features: int, ratio: float = 0.5) -> list[Any]:
        words: list[Any] = ["--method", "kpca-rff", "--features", features, "--draw", "structured"]
        return [*words, "--gamma", GAMMA["fourier"], "--explained-variance", ratio, "--hold-out", 0]

    def fit(self, rows: Path, options: list[Any]) -> Path:
        """The detector of these options, fitted once."""
        name = "-".join(str(option).strip("-") for option in options)
        path = self.folder / f"{rows.stem}-{name}.offspan"
        if not path.exists():
            self.call("fit", rows, *options, "-o", path)
        return path

    def kpca(self, rows: Path, options: list[Any]) -> Fitted:
        path = self.fit(rows, options)
        info = json.loads(self.call("inspect", path, "--json"))["info"]
        results = info["results"]
        return Fitted(path, info["spec"]["map"]["kind"], info["training"]["width"], results["dimensions"], results["components"])
