"""From a network to a detector: train, extract, fit, evaluate, plot. Needs PyTorch; draws its own data.

A small network learns four shapes. Then every method has to tell new drawings of those shapes from things that the
network has never seen: other shapes, stripes and specks.

    python small_network.py [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import offspan
import offspan.torch

SIZE = 16
SHAPES = ("disc", "square", "triangle", "cross")
METHODS: dict[str, dict[str, Any]] = {
    "msp": {},
    "energy": {},
    "mahalanobis": {},
    "knn": {"neighbours": 20},
    "vim": {},
    "kpca-rff": {"features": 1024},
    "kpca-nys": {"landmarks": 512, "sampling": "uniform", "residual": "complete"},
}


def draw(shape: str, draw_from: np.random.Generator) -> npt.NDArray[np.float64]:
    """One grey image: a shape of random size, place and brightness on a noisy ground."""
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float64)
    radius = draw_from.uniform(3.5, 6.0)
    x, y = x - draw_from.uniform(radius, SIZE - 1 - radius), y - draw_from.uniform(radius, SIZE - 1 - radius)
    disc = x**2 + y**2 < radius**2
    wave = np.sin((x * np.cos(radius) + y * np.sin(radius)) * 1.6)
    inside = {
        "disc": disc,
        "square": np.maximum(abs(x), abs(y)) < 0.8 * radius,
        "triangle": (y < 0.8 * radius) & (y > 2 * abs(x) - radius),
        "cross": (np.minimum(abs(x), abs(y)) < 0.3 * radius) & (np.maximum(abs(x), abs(y)) < radius),
        "ring": abs(np.hypot(x, y) - 0.8 * radius) < 1.0,
        "diagonals": (abs(abs(x) - abs(y)) < 1.2) & (np.maximum(abs(x), abs(y)) < radius),
        "stripes": disc & (wave > 0),
        "specks": disc & (draw_from.random((SIZE, SIZE)) > 0.5),
    }[shape]
    return inside * draw_from.uniform(0.6, 1.0) + draw_from.normal(0, 0.1, (SIZE, SIZE))


def drawings(shapes: tuple[str, ...], rows: int, seed: int) -> TensorDataset:
    """``rows`` images, the shapes taking turns, with the number of the shape as label."""
    draw_from = np.random.default_rng(seed)
    labels = np.arange(rows) % len(shapes)
    images = np.stack([draw(shapes[label], draw_from) for label in labels]).astype(np.float32)
    return TensorDataset(torch.from_numpy(images)[:, None], torch.from_numpy(labels))


class SmallNetwork(nn.Module):
    """Three convolutions, their average, one linear layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1, stride=2), nn.BatchNorm2d(64), nn.ReLU(),
        )  # fmt: skip
        self.fc = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images."""
        return self.fc(self.body(x).mean((2, 3)))


def train(network: nn.Module, data: TensorDataset, epochs: int) -> None:
    """Plain cross-entropy."""
    loader = DataLoader(data, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    network.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            functional.cross_entropy(network(images), labels).backward()
            optimizer.step()


def plot(folder: Path, ind: npt.NDArray[np.float64], ood_rows: dict[str, npt.NDArray[np.float64]], method: str) -> str:
    """Histograms of the scores; says which file they are in."""
    try:
        import matplotlib
    except ImportError:
        return "matplotlib is not installed: no plot"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5), layout="constrained")
    # The OoD rows' tail would press everything else together.
    lowest = min(np.quantile(scores, 0.05) for scores in ood_rows.values())
    bins = np.linspace(lowest, ind.max(), 60)
    axes.hist(ind, bins, density=True, alpha=0.6, label="known shapes")
    for name, scores in ood_rows.items():
        axes.hist(scores, bins, density=True, histtype="step", linewidth=1.5, label=name)
    axes.set(xlabel=f"{method}: higher is more in-distribution", yticks=[])
    axes.legend(frameon=False)
    figure.savefig(folder / "scores.png", dpi=150)
    return f"histograms of {method}: {folder / 'scores.png'}"


def print_row(name: str, aurocs: list[float]) -> None:
    """A line of the table, with the average at its end."""
    print(f"{name:12}" + "".join(f"{100 * auroc:10.2f}" for auroc in [*aurocs, sum(aurocs) / len(aurocs)]))


def main() -> None:
    """Run the example."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--folder", type=Path, default=Path("small_network"), help="where to write pack and plot")
    folder = arguments.parse_args().folder
    torch.manual_seed(0)
    started = time.perf_counter()

    known = {"train": drawings(SHAPES, 4000, seed=1), "test": drawings(SHAPES, 1000, seed=2)}
    strange = {
        "shapes": drawings(("ring", "diagonals"), 1000, seed=3),
        "stripes": drawings(("stripes",), 1000, seed=4),
        "specks": drawings(("specks",), 1000, seed=5),
    }
    network = SmallNetwork(len(SHAPES))
    train(network, known["train"], epochs=5)

    # One folder with everything that a method may need; `offspan eval FOLDER/pack` reads it too.
    loaders = {name: DataLoader(data, batch_size=256) for name, data in {**known, **strange}.items()}
    ood_rows = {name: loaders[name] for name in strange}
    splits = {"train": loaders["train"], "test": loaders["test"], "ood": ood_rows}
    pack = offspan.torch.extract_pack(network, splits, folder / "pack")
    test = offspan.torch.Extracted.load(pack / "test.safetensors")
    assert test.logits is not None
    accuracy = float((test.logits.argmax(1) == test.labels).mean())
    print(f"trained and extracted in {time.perf_counter() - started:.1f} s; accuracy {accuracy:.1%}\n")

    print(f"{'AUROC, %':12}" + "".join(f"{name:>10}" for name in [*strange, "average"]))
    for name, options in METHODS.items():
        method = offspan.make(name, **options).fit(pack)
        ind = method.score(pack / "test.safetensors")
        scores = {name: method.score(pack / "ood" / f"{name}.safetensors") for name in strange}
        print_row(name, [offspan.metrics.evaluate(ind, ood).auroc for ood in scores.values()])
    odin = {name: offspan.torch.odin_scores(network, loaders[name]) for name in ("test", *strange)}
    print_row("odin", [offspan.metrics.evaluate(odin["test"], odin[name]).auroc for name in strange])

    # The last method, beside the network: one call gives classes and decisions.
    guarded = offspan.torch.OODModule(network.eval(), method)
    print("\nkept as in-distribution:")
    for title, data in {"known shapes": known["test"], **strange}.items():
        with torch.no_grad():
            _, is_in = guarded.predict(data.tensors[0])
        print(f"  {title:14} {float(is_in.float().mean()):6.1%}")

    print(f"\n{plot(folder, ind, scores, method.name)}")
    print(f"done in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
