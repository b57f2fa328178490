"""Data that several tests use."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def packs() -> list[Path]:
    """Packs of real features beside the project."""
    folder = ROOT.parent / "shared" / "packs"
    found = sorted(path for path in folder.glob("*") if (path / "train.safetensors").exists())
    if not found:
        pytest.skip("the packs of real features are not beside the project")
    return found


@pytest.fixture(scope="session")
def command_line() -> str:
    """The command line tool: OFFSPAN_CLI, a build of this project, or the path."""
    given = os.environ.get("OFFSPAN_CLI")
    built = [ROOT / "target" / profile / "offspan" for profile in ("debug", "release")]
    for candidate in [given, *map(str, built), shutil.which("offspan")]:
        if candidate and Path(candidate).exists():
            return str(candidate)
    pytest.fail("there is no offspan command line; build it with `cargo build`, or set OFFSPAN_CLI")


@pytest.fixture(autouse=True)
def forgets() -> Iterator[None]:
    """Methods that a test registers are gone after it: examples in the documentation keep theirs."""
    yield
    # Not every environment has the package: clients of the server go without.
    offspan = sys.modules.get("offspan")
    for name in offspan.registered() if offspan else ():
        offspan.unregister(name)


@pytest.fixture
def rows() -> np.ndarray:
    """1200 rows of width 12 around four class means, positive as after a ReLU."""
    draw = np.random.default_rng(7)
    means = draw.uniform(0.0, 3.0, (4, 12))
    return np.maximum(means[draw.integers(0, 4, 1200)] + draw.normal(0.0, 0.5, (1200, 12)), 0.0).astype(np.float32)


@pytest.fixture
def ood_rows() -> np.ndarray:
    """300 rows of the same width from elsewhere."""
    return np.abs(np.random.default_rng(8).normal(0.0, 2.0, (300, 12))).astype(np.float32)


@pytest.fixture
def head() -> tuple[np.ndarray, np.ndarray]:
    """A last layer for them."""
    draw = np.random.default_rng(9)
    return draw.normal(size=(4, 12)), draw.normal(size=4)
