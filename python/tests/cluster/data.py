"""Features of real networks, methods that are fitted from parts, and ways to cut rows into partitions."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import offspan

ROOT = Path(__file__).resolve().parents[3]
PACKS = ROOT.parent / "shared" / "packs"
NAMES = ("cifar10-densenet", "clinc150-minilm", "imagenet-resnet50")
#: Stands in where the packs are not beside the project.
FIXTURE = ROOT / "crates" / "offspan" / "tests" / "fixture-baselines"
#: Training rows that are taken of each pack.
ROWS = 1500


@dataclass(frozen=True)
class Data:
    """Training rows with what belongs to them, and rows to score."""

    name: str
    rows: np.ndarray
    logits: np.ndarray
    labels: np.ndarray
    head: tuple[np.ndarray, np.ndarray]
    test: np.ndarray
    test_logits: np.ndarray


@dataclass(frozen=True)
class Case:
    """A method, and what it is fitted with."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    head: bool = False
    logits: bool = False
    labels: bool = False
    #: How far scores may be apart, relative to the largest: sums in float64 differ in their last bits only, and scores
    #: that are computed in float32 pass that on as a rounding in float32.
    tolerance: float = 1e-9

    def __str__(self) -> str:
        return "-".join([self.name, *(str(value) for value in self.options.values() if isinstance(value, str))])

    def plan(self, data: Data) -> offspan.FitPlan:
        return offspan.FitPlan(self.name, head=data.head if self.head else None, **self.options)

    def given(self, data: Data) -> dict[str, np.ndarray]:
        """Arrays for `fit`."""
        chosen = {"logits": data.logits if self.logits else None, "labels": data.labels if self.labels else None}
        return {name: array for name, array in chosen.items() if array is not None}

    def on_one_machine(self, data: Data) -> offspan.Detector:
        method = offspan.make(self.name, head=data.head if self.head else None, **self.options)
        return method.fit(data.rows, **self.given(data)).detector

    def scores(self, detector: offspan.Detector, data: Data) -> np.ndarray:
        return detector.score(data.test, data.test_logits if self.logits and not self.head else None)

    def assert_same(self, one: offspan.Detector, other: offspan.Detector, data: Data) -> None:
        """Scores, threshold and the scores of held-out rows agree; landmarks and rows held out are the same."""
        # The fingerprint is of every row of the fit with its number, so it tells of those that are held out, too.
        assert one.info["training"] == other.info["training"]
        assert one.info["threshold"]["rows"] == other.info["threshold"]["rows"]
        assert landmarks(one) == landmarks(other)
        assert bool(landmarks(one)) == (self.name in ("auto", "kpca-nys"))
        pairs = [
            (self.scores(one, data), self.scores(other, data)),
            (one.calibration_scores, other.calibration_scores),
            (np.array([one.threshold]), np.array([other.threshold])),
        ]
        for first, second in pairs:
            scale = max(1.0, np.abs(first[np.isfinite(first)]).max())
            np.testing.assert_allclose(second, first, rtol=0, atol=self.tolerance * scale)


#: In float32, what is fitted is rounded to it for scoring.
SINGLE = 1e-6
CASES = (
    Case("auto", head=True),
    Case("kpca-rff", {"features": 256, "explained_variance": 0.9}, tolerance=SINGLE),
    Case("kpca-rff", {"features": 256, "explained_variance": 0.9, "precision": "f64"}),
    Case("kpca-nys", {"landmarks": 128, "sampling": "uniform"}, tolerance=SINGLE),
    Case("kpca-nys", {"landmarks": 128, "sampling": "low-energy", "precision": "f64"}, head=True),
    Case("pca", tolerance=SINGLE),
    Case("ssd"),
    Case("mahalanobis", labels=True, tolerance=SINGLE),
    Case("vim", head=True),
    Case("she", logits=True, labels=True),
    Case("dice", head=True),
    Case("react", head=True),
    Case("gradorth", head=True),
)


def cuts(rows: int) -> dict[str, list[int]]:
    """Sizes of partitions: one, three, four of which one is empty, seventeen uneven ones of which one is empty."""
    seventeen = np.random.default_rng(17).dirichlet(np.full(16, 0.7)) * (rows - 16)
    sizes = [int(size) + 1 for size in seventeen]
    sizes[0] += rows - sum(sizes)
    sizes.insert(5, 0)
    three = [rows // 2, rows // 3, rows - rows // 2 - rows // 3]
    return {"one": [rows], "three": three, "four": [three[0], 0, *three[1:]], "seventeen": sizes}


def pieces(array: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(array, np.cumsum(sizes)[:-1])


def load(name: str) -> Data:
    """A pack, or rows of the project's own fixture under its name."""
    folder = PACKS / name if (PACKS / name).exists() else FIXTURE
    train, test, head = (tensors(folder / f"{part}.safetensors") for part in ("train", "test", "head"))
    taken = np.sort(np.random.default_rng(NAMES.index(name)).permutation(len(train["features"]))[:ROWS])
    rows, logits = (train[part][taken].astype(np.float32) for part in ("features", "logits"))
    weight, bias = head["weight"].astype(np.float64), head["bias"].astype(np.float64)
    scored = test["features"][:300].astype(np.float32)
    labels = np.unique(train["labels"][taken], return_inverse=True)[1].astype(np.int64)
    return Data(name, rows, logits, labels, (weight, bias), scored, (scored @ weight.T + bias).astype(np.float32))


def landmarks(detector: offspan.Detector) -> dict[str, bytes]:
    """The landmarks that a detector keeps: each is a training row as it was, or scaled by its own length."""
    found = tensors_of(detector.to_bytes())
    return {name: array.tobytes() for name, array in found.items() if name.endswith("landmarks")}


def tensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file."""
    return tensors_of(path.read_bytes())


def tensors_of(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file that was read."""
    kinds = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64}
    (size,) = struct.unpack("<Q", data[:8])
    described, stored = json.loads(data[8 : 8 + size]), data[8 + size :]
    described.pop("__metadata__", None)
    return {
        name: np.frombuffer(stored[slice(*about["data_offsets"])], kinds[about["dtype"]]).reshape(about["shape"])
        for name, about in described.items()
    }
