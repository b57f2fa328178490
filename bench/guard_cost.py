"""What a guarded network costs over the network alone, and how much its file grows: a ResNet50 with random weights.

    python3 bench/guard_cost.py [--rounds N] [--batch N] [--rows N] [--methods NAMES] [--cpu-time] [--onnx]

Needs PyTorch and the package. Features for the fits are drawn (class means, noise, cut at zero), because what a score costs does
not depend on what the features mean. Network and guarded networks take turns in one process, and only their ratios count.
On a machine that others use, too, --cpu-time counts the time of the processor on one thread instead of the clock's.
With --onnx also ONNX Runtime, for the network and the file that `offspan export --attach` makes of it (needs onnx and
onnxruntime, and the command line in target/release or where OFFSPAN_CLI says).
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import offspan
from offspan.torch import Guarded

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from compare.turns import take_turns, timed  # noqa: E402

OFFSPAN = Path(os.environ.get("OFFSPAN_CLI", ROOT / "target" / "release" / "offspan"))
#: Seconds that each has in a round.
TURN = 1.0
WIDTH, CLASSES, SIDE = 2048, 1000, 224
METHODS = {
    "auto": {},
    "kpca-nys": {"landmarks": 2048},
    "kpca-rff": {"features": 4096},
    "vim": {},
    "mahalanobis": {},
    "knn": {"neighbours": 50},
}
#: What the guarded network may take of the time of the network alone, and its growth of the detector's own size.
MOST_TIME, MOST_GROWTH = 1.10, 1.05


class Block(nn.Module):
    """Three convolutions, the second one over 3 × 3 pixels, beside a shortcut."""

    def __init__(self, inside: int, middle: int, stride: int) -> None:
        super().__init__()
        outside = 4 * middle
        self.way = nn.Sequential(
            nn.Conv2d(inside, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, outside, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.way(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """The layers and sizes of ResNet50: 25.6 million weights, 4.1 billion products an image."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        ]  # fmt: skip
        inside = 64
        for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                layers.append(Block(inside, middle, stride if number == 0 else 1))
                inside = 4 * middle
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.body(x))


def drawn(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features around 100 class means, cut at zero, and their labels."""
    draw = np.random.default_rng(seed)
    means = np.random.default_rng(0).normal(0.3, 0.4, (100, WIDTH)).astype(np.float32)
    labels = draw.integers(0, 100, rows)
    return np.maximum(means[labels] + 0.4 * draw.standard_normal((rows, WIDTH), dtype=np.float32), 0), labels


def by_processor(work: Callable[[int], object]) -> Callable[[int], list[float]]:
    """Seconds of the processor, not of the clock."""

    def calls(count: int) -> list[float]:
        seconds = []
        for number in range(count):
            began = time.process_time()
            work(number)
            seconds.append(time.process_time() - began)
        return seconds

    return calls


def show(calls: dict[str, Callable[[], object]], rounds: int, cpu_time: bool) -> None:
    """Time all calls in turns, and print them beside the first."""
    watch = by_processor if cpu_time else timed
    contenders = {name: watch(lambda _number, call=call: call()) for name, call in calls.items()}
    timings = take_turns(contenders, rounds, TURN)
    alone = next(iter(timings.values()))
    for name, timing in timings.items():
        ratio, best = 1 / timing.times_faster_than(alone), timing.best / alone.best
        verdict = "" if timing is alone else "ok" if max(ratio, best) <= MOST_TIME else "OVER THE BAR"
        print(f"{name:28} {1e3 * timing.median:9.1f} ms   median {ratio:.3f}   best {best:.3f}   {verdict}")


def saved(module: nn.Module) -> int:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.tell()


def show_growth(name: str, detector: offspan.Detector, growth: int) -> None:
    own = len(detector.to_bytes())
    verdict = "ok" if growth <= MOST_GROWTH * own else "over the detector's own size and 5 %"
    print(f"{name:16} detector file {own / 1e6:8.2f} MB   growth {growth / 1e6:8.2f} MB   {growth / own:.2f}   {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rows", type=int, default=8000, help="training rows of the detectors [8000]")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cpu-time", action="store_true", help="time of the processor, on one thread")
    parser.add_argument("--onnx", action="store_true", help="ONNX Runtime, too")
    options = parser.parse_args()
    if options.cpu_time:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    network = ResNet50().eval()
    inputs = torch.randn(options.batch, 3, SIDE, SIDE)
    head = (network.fc.weight.detach().numpy(), network.fc.bias.detach().numpy())
    train, labels = drawn(options.rows, 1)
    detectors = {}
    for name in options.methods.split(","):
        detectors[name] = offspan.make(name, head=head, **METHODS[name]).fit(train, labels=labels).detector
    guarded = {name: Guarded(network, detector, inputs[:1]) for name, detector in detectors.items()}

    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, batch {options.batch}, {options.rounds} rounds")
    with torch.no_grad():
        calls: dict[str, Callable[[], object]] = {"network alone": lambda: network(inputs)}
        calls.update({f"guarded by {name}": (lambda one=one: one(inputs)) for name, one in guarded.items()})
        show(calls, options.rounds, options.cpu_time)

    base = saved(network)
    print(f"\nfile of the network: {base / 1e6:.1f} MB")
    for name, one in guarded.items():
        show_growth(name, detectors[name], saved(one) - base)
    if options.onnx:
        with tempfile.TemporaryDirectory() as folder:
            in_onnx(network, inputs, detectors, Path(folder), options.rounds, options.cpu_time)


def in_onnx(
    network: nn.Module,
    inputs: Tensor,
    detectors: dict[str, offspan.Detector],
    folder: Path,
    rounds: int,
    cpu_time: bool,
) -> None:
    import onnxruntime

    plain = folder / "network.onnx"
    axes = {"x": {0: "N"}}
    torch.onnx.export(network, (inputs,), str(plain), input_names=["x"], output_names=["logits"], dynamic_axes=axes, dynamo=False)
    calls: dict[str, Callable[[], object]] = {}
    given = {"x": inputs.numpy()}

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1 if cpu_time else 0

    def session(path: Path) -> Callable[[], object]:
        one = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        return lambda: one.run(None, given)

    calls["network alone"] = session(plain)
    sizes = {}
    for name, detector in detectors.items():
        detector.save(folder / f"{name}.offspan")
        path = folder / f"{name}.onnx"
        words = [OFFSPAN, "export", folder / f"{name}.offspan", "--attach", plain, "-o", path]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"offspan export: {done.stderr.strip()}")
        calls[f"guarded by {name}"] = session(path)
        sizes[name] = path.stat().st_size - plain.stat().st_size
    print(f"\nONNX Runtime {onnxruntime.__version__}")
    show(calls, rounds, cpu_time)
    for name, growth in sizes.items():
        show_growth(name, detectors[name], growth)


if __name__ == "__main__":
    main()
