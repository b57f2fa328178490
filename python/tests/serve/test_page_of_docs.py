"""The examples of docs/serve.md run as they are written, at the addresses that they name."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest
from serving import Serving

PAGE = Path(__file__).resolve().parents[3] / "docs" / "serve.md"
EXAMPLES = re.findall(r"^<!-- test: (\w+) -->\n```\w+\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.S | re.M)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture(scope="module")
def at_home(place, rows):
    """A server at the ports of the page, or at others where these are taken."""
    rows[:3].tofile(place / "rows.f32")
    ports = {"8000": "0", "8001": "0"}
    if is_free(8000) and is_free(8001):
        ports = {port: port for port in ports}
    words = ("--http", f"127.0.0.1:{ports['8000']}", "--grpc", f"127.0.0.1:{ports['8001']}")
    with Serving(place / "models", *words) as running:
        yield running


def test_the_page_has_examples():
    assert sorted(kind for kind, _ in EXAMPLES) == ["curl", "curl", "python", "python"]


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_example(kind: str, text: str, at_home, place, expected):
    text = text.replace("127.0.0.1:8000", at_home.http).replace("127.0.0.1:8001", at_home.grpc)
    if kind == "python":
        known: dict = {}
        exec(text, known)
        assert np.isfinite(known.get("score", known.get("scores"))).all()
        return
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    done = subprocess.run(["sh", "-ec", text], cwd=place, check=True, capture_output=True, env=dict(os.environ))
    if "answer.bin" in text:
        answer = (place / "answer.bin").read_bytes()
        scores = np.frombuffer(answer[answer.index(b"]}") + 2 :][:24])
        np.testing.assert_array_equal(scores, expected["score"][:3])
    else:
        answer = json.loads(done.stdout)
        assert answer["id"] == "first"
        assert answer["outputs"][1]["data"] == [False, True]
