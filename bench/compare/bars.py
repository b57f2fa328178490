"""What the benchmark must show, and what a run has found."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bar:
    """``sense`` is +1 where more is better ("at least") and -1 where less is ("at most")."""

    key: str
    work: str
    sense: int
    limit: float
    unit: str = "×"

    @property
    def text(self) -> str:
        return f"{'≥' if self.sense > 0 else '≤'} {show(self.limit, self.unit)}"

    def margin(self, value: float) -> float:
        """1 is just met, more is better, whatever the sense."""
        return value / self.limit if self.sense > 0 else self.limit / value


BARS = [
    Bar("nystrom-f64", "Nyström scoring, batch 1024, against NumPy float64", 1, 5),
    Bar("nystrom-f32", "the same, against NumPy float32", 1, 2.2),
    Bar("nystrom-gemm", "the same, share of this run's best f32 GEMM rate", 1, 0.85, "%"),
    Bar("nystrom-copy", "one row, Nyström, over the time of copying its weights once", -1, 0.8),
    Bar("nystrom-wide-gemm", "Nyström scoring with ratio .9, batch 1024, share of the GEMM rate", 1, 0.8, "%"),
    Bar("nystrom-wide-copy", "one row of it, over the time of copying its weights once", -1, 0.8),
    Bar("fourier-f64", "RFF structured scoring, batch 1024, against NumPy float64", 1, 40),
    Bar("fourier-sklearn", "the same, against scikit-learn", 1, 6),
    Bar("fourier-one", "one row, RFF structured, against NumPy float64", 1, 20),
    Bar("knn", "KNN k = 50, against the faster faiss-cpu flat index", 1, 1.0),
    Bar("kpca-knn", "Nyström against KNN with 1,281,167 rows (faiss on a part, scaled by rows)", 1, 100),
    Bar("fit-fourier-time", "fit RFF, against NumPy float64 with eigh", 1, 5),
    Bar("fit-fourier-memory", "fit RFF, NumPy's peak memory over offspan's", 1, 8),
    Bar("fit-nystrom-time", "fit Nyström, against NumPy float64 with eigh", 1, 4),
    Bar("fit-nystrom-memory", "fit Nyström, NumPy's peak memory over offspan's", 1, 8),
    Bar("imagenet-memory", "fit 1,281,167 × 2048 from f16 on disk, peak resident", -1, 1.2, "GB"),
    Bar("imagenet-growth", "the same, time over twice the time of half the rows", -1, 1.1),
    Bar("file-nystrom", "detector file, Nyström", -1, 20, "MiB"),
    Bar("file-fourier", "detector file, RFF structured", -1, 8, "MiB"),
]


def show(value: float, unit: str) -> str:
    if unit == "%":
        return f"{100 * value:.0f} %"
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}" if unit != "×" else f"{value:.{digits}f}×"


@dataclass
class Run:
    """Everything that a run found. ``found`` maps a bar to its value by medians, its value by best times, and what was measured."""

    smaller: bool
    threads: int
    versions: dict[str, str]
    missing: list[str]
    found: dict[str, tuple[float, float | None, str]] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    others: float | None = None
    instructions: dict[str, str] = field(default_factory=dict)
    machine: str = field(default_factory=lambda: f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores")

    def record(self, key: str, value: float, best: float | None, shape: str) -> None:
        if key not in self.found:
            self.found[key] = (value, best, shape)

    def row(self, table: str, **cells: Any) -> None:
        self.tables.setdefault(table, []).append(cells)

    def raise_limit(self, name: str, value: float) -> None:
        self.limits[name] = max(value, self.limits.get(name, 0.0))

    def margin(self, bar: Bar) -> float:
        """By medians or by best times, whichever is worse for us.

        On a busy machine the two part: in runs with a core taken by others, the peers' medians rose far more over their best
        times than ours did, so medians alone would flatter us.
        """
        value, best, _ = self.found[bar.key]
        return min(bar.margin(value), bar.margin(value if best is None else best))

    def verdict(self, bar: Bar) -> str:
        if bar.key not in self.found:
            return "not measured"
        if self.margin(bar) >= 1.0:
            return "met"
        value, best, _ = self.found[bar.key]
        one_is_met = bar.margin(value) >= 1.0 or (best is not None and bar.margin(best) >= 1.0)
        return "not met (median and best disagree)" if one_is_met else "not met"
