"""The native module. What is meant for users is in the package itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

VERSION: str

def set_threads(count: int | None = None) -> None:
    """Set how many threads a call uses; None for all cores. Results do not depend on it."""

def threads() -> int:
    """Tell how many threads a call uses."""

def catalogue() -> str: ...
def uniform_rows(rows: int, count: int, seed: int) -> list[int]: ...
def evaluate(
    ind: npt.NDArray[np.float64],
    ood: npt.NDArray[np.float64],
    *,
    tpr: float,
    rule: str,
    interval: str | None,
    level: float,
    seed: int,
) -> str: ...

class Method:
    def __init__(
        self,
        name: str,
        options: list[tuple[str, str]],
        landmark_rows: list[int] | None = None,
        frequencies: tuple[Any, npt.NDArray[np.float64]] | None = None,
    ) -> None: ...
    def spec(self) -> str: ...
    def fit(
        self,
        features: Any,
        *,
        logits: Any = None,
        labels: Any = None,
        extras: dict[str, npt.NDArray[np.float32]] | None = None,
        head: Any = None,
        hold_out: float = 0.05,
        keep: float = 0.95,
        calibrate: tuple[Any, Any] | None = None,
        checkpoint: str | None = None,
        checkpoint_every: float = 30.0,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> Detector: ...

class Detector:
    @staticmethod
    def load(path: str) -> Detector: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Detector: ...
    def save(self, path: str) -> None: ...
    def to_bytes(self) -> bytes: ...
    def score(
        self, features: Any, logits: Any = None, extras: dict[str, npt.NDArray[np.float32]] | None = None
    ) -> npt.NDArray[np.float64]: ...
    def calibrated(
        self, features: Any, keep: float, logits: Any = None, extras: dict[str, npt.NDArray[np.float32]] | None = None
    ) -> Detector: ...
    def info(self) -> str: ...
    def eigenvalues(self) -> list[npt.NDArray[np.float64]]: ...
    @property
    def threshold(self) -> float | None: ...

class PartialFit:
    @staticmethod
    def of_width(method: Method, width: int) -> PartialFit: ...
    @staticmethod
    def with_landmarks(method: Method, landmarks: Any) -> PartialFit: ...
    @staticmethod
    def begin(method: Method, features: Any, logits: Any = None, head: Any = None) -> PartialFit: ...
    def update(self, features: Any, progress: Callable[[str, int, int], object] | None = None) -> None: ...
    def merge(self, other: PartialFit) -> None: ...
    def detector(self, head: Any = None) -> Detector: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> PartialFit: ...
    @property
    def rows(self) -> int: ...
    @property
    def width(self) -> int: ...

class FeatureMap:
    @staticmethod
    def random_fourier(
        width: int, features: int, *, kernel: str, gamma: float, draw: str, seed: int, precision: str
    ) -> FeatureMap: ...
    @staticmethod
    def nystrom(
        landmarks: Any,
        *,
        kernel: str,
        gamma: float,
        degree: int,
        coef0: float,
        rank_floor: float,
        precision: str,
    ) -> FeatureMap: ...
    def transform(self, rows: Any) -> npt.NDArray[Any]: ...
    @property
    def width(self) -> int: ...
    @property
    def output(self) -> int: ...
