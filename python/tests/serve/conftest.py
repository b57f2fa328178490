"""A detector, the rows it was made with, and a server that has it."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from serving import Serving, program  # noqa: E402

WIDTH = 4


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """A folder with `models/net/1/net.offspan`, fitted by the command line, and rows to score."""
    folder = tmp_path_factory.mktemp("serve")
    draw = np.random.default_rng(3)
    np.save(folder / "train.npy", draw.normal(1, 1, (900, WIDTH)).astype(np.float32))
    near = draw.normal(1, 1, (300, WIDTH))
    np.save(folder / "new.npy", np.vstack([near, draw.normal(-9, 2, (100, WIDTH))]).astype(np.float32))
    detector = folder / "models" / "net" / "1" / "net.offspan"
    detector.parent.mkdir(parents=True)
    words = ["fit", folder / "train.npy", "--method", "kpca-rff", "-o", detector]
    subprocess.run([program(), *words], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def server(place: Path):
    """One server for all tests that change nothing."""
    with Serving(place / "models") as running:
        yield running
    assert running.process.returncode == 0


@pytest.fixture(scope="session")
def rows(place: Path) -> np.ndarray:
    """Rows near the training rows and far from them."""
    return np.load(place / "new.npy")


@pytest.fixture(scope="session")
def expected(place: Path) -> dict[str, np.ndarray]:
    """What `offspan score` says of the rows; scores are written with all their digits."""
    detector = place / "models" / "net" / "1" / "net.offspan"
    done = subprocess.run([program(), "score", detector, place / "new.npy"], check=True, capture_output=True, text=True)
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    return {
        "score": np.array([float(line["score"]) for line in lines]),
        "p_value": np.array([float(line["p_value"]) for line in lines]),
        "is_ood": np.array([line["decision"] == "out" for line in lines]),
    }
