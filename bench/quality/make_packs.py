"""Train small networks of many kinds on registry data and write their features as packs.

    python make_packs.py OUT [NAME...]       needs torch, numpy, safetensors, pillow, pyreadr; npm and apt-get

Half of the packs are for choosing constants, the other half for reporting; the halves are fixed in `PACKS` and were before any
constant was chosen. Each has near OoD rows (classes that the network did not see) and far ones (other data).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from data import Sources, fetch
from safetensors.numpy import save_file
from torch import Tensor, nn
from torch.nn import functional as F

CHOOSE, REPORT = "choose", "report"
MOST_TRAIN, MOST_TEST, MOST_OOD = 10_000, 2_500, 1_500
BATCH = 128


# ---- networks: everything up to the last layer ------------------------------------------------------------------------------------


def cnn(channels: int, width: int, inputs: int = 1) -> nn.Module:
    """Convolutions, ReLU, the mean over positions, a ReLU layer."""
    return nn.Sequential(
        nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * channels, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class Residual(nn.Module):
    """Two convolutions with batch normalisation and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if (inputs, stride) != (outputs, 1) else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.around(x))


def resnet(width: int) -> nn.Module:
    """A small residual network."""
    blocks = [Residual(1, width // 4, 2), Residual(width // 4, width // 2, 2), Residual(width // 2, width, 2)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Vit(nn.Module):
    """A small vision transformer; the features are the normalised class token."""

    def __init__(self, width: int, patch: int, shape: tuple[int, int], depth: int = 3) -> None:
        super().__init__()
        self.cut = nn.Conv2d(1, width, patch, patch)
        places = (shape[0] // patch) * (shape[1] // patch)
        self.token, self.place = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, places + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body, self.norm = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.place
        return self.norm(self.body(x)[:, 0])


def mlp(sizes: list[int], unit: Callable[[], nn.Module]) -> nn.Module:
    """Fully connected layers."""
    layers: list[nn.Module] = [nn.Flatten()]
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), unit()]
    return nn.Sequential(*layers)


class Letters(nn.Module):
    """Characters or bytes: an embedding, convolutions, the largest over positions."""

    def __init__(self, symbols: int, width: int, unit: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(symbols, 24)
        self.body = nn.Sequential(nn.Conv1d(24, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, width, 5, padding=2), unit())

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.embed(x.long()).transpose(1, 2)).amax(2)


class GeluNorm(nn.Module):
    """GELU, then a layer's rows normalised: signed features of constant length."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(F.gelu(x))


# ---- training ---------------------------------------------------------------------------------------------------------------------


@dataclass
class Training:
    """How a network learns."""

    epochs: int = 16
    rate: float = 4e-3
    smoothing: float = 0.0
    mixup: bool = False
    contrastive: bool = False
    outliers: np.ndarray | None = None
    decay: float = 1e-4


def supcon(features: Tensor, labels: Tensor, temperature: float = 0.1) -> Tensor:
    """The supervised contrastive loss."""
    z = F.normalize(features, dim=1)
    similarity = z @ z.T / temperature - 1e9 * torch.eye(len(z))
    same = (labels[:, None] == labels[None]).float() - torch.eye(len(z))
    log_p = similarity - similarity.logsumexp(1, keepdim=True)
    return -(same * log_p).sum(1).div(same.sum(1).clamp(min=1)).mean()


def train(body: nn.Module, head: nn.Linear, x: np.ndarray, y: np.ndarray, how: Training) -> None:
    """Minibatches with Adam and a rate that falls to 0."""
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    steps = how.epochs * (len(x) // BATCH)
    both = [*body.parameters(), *head.parameters()]
    optimiser = torch.optim.AdamW(both, how.rate, weight_decay=how.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, how.rate, max(steps, 1))
    for _ in range(how.epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            batch, target = inputs[rows], labels[rows]
            if how.contrastive:
                loss = supcon(body(batch), target)
            elif how.mixup:
                share, other = float(np.random.beta(0.4, 0.4)), torch.randperm(len(batch))
                out = head(body(share * batch + (1 - share) * batch[other]))
                loss = share * F.cross_entropy(out, target) + (1 - share) * F.cross_entropy(out, target[other])
            else:
                loss = F.cross_entropy(head(body(batch)), target, label_smoothing=how.smoothing)
            if how.outliers is not None:
                pick = np.random.randint(0, len(how.outliers), BATCH // 2)
                out = head(body(torch.from_numpy(how.outliers[pick])))
                loss = loss + 0.5 * (out.logsumexp(1) - out.mean(1)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    if how.contrastive:
        fit_head(head, torch.from_numpy(features_of(body, x)), labels)


def fit_head(head: nn.Linear, features: Tensor, labels: Tensor) -> None:
    """A linear classifier on features that no longer change."""
    optimiser = torch.optim.LBFGS(head.parameters(), max_iter=150, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(head(features), labels) + 1e-5 * head.weight.square().sum()
        value.backward()
        return value

    optimiser.step(loss)


@torch.no_grad()
def features_of(body: nn.Module, x: np.ndarray) -> np.ndarray:
    """Features of all rows."""
    body.eval()
    parts = [body(torch.from_numpy(x[i : i + 500])).numpy() for i in range(0, len(x), 500)]
    return np.ascontiguousarray(np.concatenate(parts), np.float32)


# ---- packs ------------------------------------------------------------------------------------------------------------------------


def encode(texts: list[str], length: int = 18) -> np.ndarray:
    """Letters as numbers; those beyond Latin-1 share one."""
    rows = np.zeros((len(texts), length), np.int64)
    for row, text in zip(rows, texts):
        codes = [min(ord(c), 255) for c in text[:length]]
        row[: len(codes)] = codes
    return rows


def images(data: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """With an axis for the channel."""
    return data[0][:, None], data[1]


def noise(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Uniform pixels, smoothed a little."""
    x = np.random.default_rng(seed).random(shape, np.float32)
    return (0.5 * x + 0.25 * np.roll(x, 1, -1) + 0.25 * np.roll(x, 1, -2)).astype(np.float32)


def permuted(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Columns of a table from different rows."""
    random = np.random.default_rng(seed)
    return np.stack([column[random.permutation(len(x))] for column in x.T], 1)


UPPER, LOWER, DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
MANY = UPPER + LOWER + DIGITS + "".join(map(chr, [*range(0x391, 0x3A2), *range(0x3A3, 0x3AA), *range(0x410, 0x450)])) + "!?&%$#@+=*"
COMMANDS = tuple("yes no up down left right stop go open close start end light dark water fire".split())
OTHERS = tuple("house tree book river window chair garden table music paper".split())
LANGUAGES = ("ngerman", "french", "italian", "spanish", "american-english", "dutch", "polish")
OTHER_LANGUAGES = ("portuguese", "danish", "swedish")
FILES, OTHER_FILES = ("py", "so", "h", "pyc", "json", "js"), ("ttf", "deb", "tgz")


@dataclass
class Made:
    """What a recipe gives: data, OoD data, a network, its training."""

    x: np.ndarray
    y: np.ndarray
    ood: dict[str, np.ndarray]
    body: nn.Module
    width: int
    how: Training
    held: tuple[int, ...] = ()
    logits: bool = True
    standardise: bool = False


def recipes(s: Sources) -> dict[str, tuple[str, Callable[[], Made]]]:
    """Every pack by name: its half, and how it is made."""
    fashion = lambda: images(s.fashion())  # noqa: E731
    mnist = lambda: images(s.mnist())  # noqa: E731
    glyphs = lambda text, per: images(s.glyphs(text, per))  # noqa: E731
    far = lambda: {"glyphs": glyphs(LOWER, 60)[0], "noise": noise((1000, 1, 28, 28))}  # noqa: E731
    digits = lambda: {"digits": mnist()[0][:2000]}  # noqa: E731
    clothes = lambda: {"clothes": fashion()[0][:2000]}  # noqa: E731
    speech = lambda: images(s.spoken(COMMANDS, 260, ("en", "en-us", "en-gb-scotland")))  # noqa: E731
    speech_ood = lambda: {  # noqa: E731
        "other_words": images(s.spoken(OTHERS, 70, ("en", "en-us", "en-gb-scotland"), 1))[0],
        "other_languages": images(s.spoken(OTHERS, 60, ("de", "fr", "pl"), 2))[0],
        "noise": np.random.default_rng(3).normal(size=(700, 1, 32, 40)).astype(np.float32),
    }
    words = lambda: s.words(LANGUAGES, 2000)  # noqa: E731

    def words_ood() -> dict[str, np.ndarray]:
        random = np.random.default_rng(5)
        shuffled = ["".join(random.permutation(list(text))) for text in words()[0][:1500]]
        return {"other_languages": encode(s.words(OTHER_LANGUAGES, 600)[0]), "shuffled": encode(shuffled)}

    def table(name: str, target: str, held: tuple[int, ...], sizes: list[int], unit: Callable[[], nn.Module], **how: int) -> Made:
        x, y = s.table(name, target)
        return Made(x, y, {"permuted": permuted(x[:2000])}, mlp([x.shape[1], *sizes], unit), sizes[-1], Training(**how), held)

    def made(data, ood, body, width, held=(), how=None, **more) -> Made:  # noqa: ANN001, ANN003
        return Made(*data, ood, body, width, how or Training(), held, **more)

    return {
        # images
        "mnist-cnn": (CHOOSE, lambda: made(mnist(), clothes() | far(), cnn(16, 64), 64, (3, 8))),
        "fashion-cnn": (REPORT, lambda: made(fashion(), digits() | far(), cnn(24, 96), 96, (2, 9))),
        "fashion-resnet": (CHOOSE, lambda: made(fashion(), digits() | far(), resnet(128), 128, (0, 7), Training(epochs=5))),
        "glyphs-resnet": (REPORT, lambda: made(glyphs(UPPER, 350), digits() | clothes(), resnet(96), 96, (5, 11, 17, 20, 25), Training(epochs=5))),
        "mnist-vit": (REPORT, lambda: made(mnist(), clothes() | far(), Vit(64, 7, (28, 28)), 64, (4, 7), Training(epochs=10, rate=1e-3))),
        "fashion-vit": (CHOOSE, lambda: made(fashion(), digits() | far(), Vit(96, 7, (28, 28)), 96, (6, 1), Training(epochs=8, rate=1e-3))),
        "fashion-supcon": (REPORT, lambda: made(fashion(), digits() | far(), cnn(24, 128), 128, (3, 5), Training(epochs=20, rate=2e-3, contrastive=True))),
        "glyphs-supcon": (CHOOSE, lambda: made(glyphs(UPPER, 350), digits() | clothes(), cnn(24, 128), 128, (1, 8, 14), Training(epochs=20, rate=2e-3, contrastive=True))),
        "fashion-outliers": (CHOOSE, lambda: made(fashion(), digits() | {"noise": noise((1000, 1, 28, 28))}, cnn(24, 96), 96, (4, 8), Training(outliers=glyphs(UPPER, 150)[0]))),
        "mnist-outliers": (REPORT, lambda: made(mnist(), clothes() | far(), cnn(16, 64), 64, (1, 5), Training(outliers=glyphs(UPPER, 150)[0]))),
        "many-glyphs": (REPORT, lambda: made(glyphs(MANY, 80), digits() | clothes(), cnn(32, 160), 160, tuple(range(100, 125)), Training(epochs=10))),
        "glyphs-mixup": (CHOOSE, lambda: made(glyphs(UPPER + DIGITS, 280), digits() | clothes(), cnn(24, 64), 64, (2, 9, 27, 30), Training(epochs=8, mixup=True))),
        "two-clothes": (REPORT, lambda: made(tuple(a[np.isin(s.fashion()[1], (1, 5))] for a in (fashion()[0], (s.fashion()[1] == 5).astype(np.int64))), digits() | {"other_clothes": fashion()[0][~np.isin(s.fashion()[1], (1, 5))][:2000]}, cnn(16, 48), 48)),
        "fashion-std": (CHOOSE, lambda: made(fashion(), digits() | far(), cnn(16, 64), 64, (2, 6), standardise=True)),
        "digits-gelu": (REPORT, lambda: made(mnist(), clothes() | far(), nn.Sequential(mlp([784, 256, 128], nn.GELU), GeluNorm(128)), 128, (0, 6), Training(smoothing=0.1))),
        "fashion-embedding": (CHOOSE, lambda: made(fashion(), digits() | far(), cnn(24, 96), 96, (0, 9), Training(epochs=20, rate=2e-3, contrastive=True), logits=False)),
        "glyphs-embedding": (REPORT, lambda: made(glyphs(UPPER, 300), digits() | clothes(), Vit(64, 7, (28, 28)), 64, (3, 12, 22), Training(epochs=8, rate=1e-3), logits=False)),
        # speech
        "speech-cnn": (REPORT, lambda: made(speech(), speech_ood(), cnn(24, 96), 96, (2, 9, 13))),
        "speech-tanh": (CHOOSE, lambda: made(speech(), speech_ood(), mlp([1280, 192, 96], nn.Tanh), 96, (0, 6, 11), Training(epochs=12))),
        # text
        "words-cnn": (CHOOSE, lambda: made((encode(words()[0]), words()[1]), words_ood(), Letters(256, 96, nn.ReLU), 96)),
        "words-tanh": (REPORT, lambda: made((encode(words()[0]), words()[1]), words_ood(), Letters(256, 64, nn.Tanh), 64, (5,), Training(smoothing=0.1))),
        # bytes
        "files-cnn": (REPORT, lambda: made(s.chunks(FILES, 1400), {"other_files": s.chunks(OTHER_FILES, 400)[0], "random": np.random.default_rng(1).integers(0, 256, (1000, 512), np.uint8)}, Letters(256, 64, nn.ReLU), 64, (), Training(epochs=4))),
        # tables
        "letter-tanh": (CHOOSE, lambda: table("LetterRecognition", "lettr", (1, 6, 12, 15, 23), [192, 96], nn.Tanh, epochs=15)),
        "letter-deep": (REPORT, lambda: table("LetterRecognition", "lettr", (0, 4, 9, 13, 18), [128, 128, 128, 64], nn.ReLU, epochs=15)),
        "satellite-mlp": (REPORT, lambda: table("Satellite", "classes", (1, 4), [128, 64], nn.ReLU, epochs=20)),
        "shuttle-mlp": (CHOOSE, lambda: table("Shuttle", "Class", (2, 4), [64, 48], nn.ReLU, epochs=3)),
        "vowel-mlp": (CHOOSE, lambda: table("Vowel", "Class", (3, 8), [64, 32], nn.ReLU, epochs=80)),
    }


def write(folder: Path, made: Made) -> str:
    """Train on the classes that are not held, and store what the network gives."""
    torch.manual_seed(0)
    np.random.seed(0)
    seen = ~np.isin(made.y, made.held)
    classes = np.unique(made.y[seen])
    x, y = made.x[seen], np.searchsorted(classes, made.y[seen]).astype(np.int64)
    test = min(MOST_TEST, len(x) // 5)
    splits = {"test": (x[:test], y[:test]), "train": (x[test:][:MOST_TRAIN], y[test:][:MOST_TRAIN])}
    head = nn.Linear(made.width, len(classes))
    train(made.body, head, *splits["train"], made.how)
    weight, bias = head.weight.detach().numpy().copy(), head.bias.detach().numpy().copy()
    rows = {name: features_of(made.body, part[0]) for name, part in splits.items()}
    ood = dict(made.ood)
    if made.held:
        ood["held_classes"] = made.x[~seen]
    rows |= {f"ood/{name}": features_of(made.body, part[:MOST_OOD]) for name, part in ood.items()}
    if made.standardise:
        mean, spread = rows["train"].mean(0), rows["train"].std(0) + 1e-9
        bias = bias + weight @ mean
        weight = weight * spread
        rows = {name: ((z - mean) / spread).astype(np.float32) for name, z in rows.items()}
    (folder / "ood").mkdir(parents=True, exist_ok=True)
    for name, z in rows.items():
        tensors = {"features": z}
        if made.logits:
            tensors["logits"] = (z @ weight.T + bias).astype(np.float32)
            if name in splits:
                tensors["labels"] = splits[name][1]
        save_file(tensors, folder / f"{name}.safetensors")
    if made.logits:
        save_file({"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}, folder / "head.safetensors")
    right = (rows["test"] @ weight.T + bias).argmax(1) == splits["test"][1]
    return f"{rows['train'].shape[0]} × {made.width}, {len(classes)} classes, accuracy {100 * right.mean():.1f} %"


def main() -> None:
    """Make the packs that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    fetch(args.out / "sources")
    for name, (half, make) in recipes(Sources(args.out / "sources")).items():
        folder = args.out / half / name
        if (args.names and name not in args.names) or (folder / "done").exists():
            continue
        started = time.monotonic()
        told = write(folder, make())
        (folder / "done").touch()
        print(f"{half:8} {name:18} {told}  ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
