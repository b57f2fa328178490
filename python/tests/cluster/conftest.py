"""Starts the engine that `OFFSPAN_ENGINE` names, for all tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
# Workers find these modules, too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, str(HERE))

import data  # noqa: E402
import engines  # noqa: E402


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    name = os.environ.get("OFFSPAN_ENGINE")
    if name is None:
        pytest.skip("OFFSPAN_ENGINE names no engine; run `make test-cluster`")
    with engines.ENGINES[name].started() as started:
        yield started


@pytest.fixture(scope="session", params=data.NAMES)
def pack(request: pytest.FixtureRequest) -> data.Data:
    return data.load(request.param)


@pytest.fixture(scope="session")
def small() -> data.Data:
    return data.load(data.NAMES[0])
