"""The programs of docs/deploy.md run as they are written, each where its host can be had. The C program is tested by
crates/offspan-capi/tests/c_program.rs, beside the library that it links."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import offspan

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "deploy.md"
#: Where `run_tests.py` puts what node needs.
NODE_MODULES = ROOT / "target" / "node" / "node_modules"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.S | re.M)
    assert found, language
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory, command_line) -> Path:
    """A folder in which the commands of the page have run."""
    folder = tmp_path_factory.mktemp("deploy")
    draw = np.random.default_rng(0)
    means = draw.normal(size=(20, 64))
    for name, rows, classes in (("train", 2000, 10), ("calibrate", 500, 10), ("new", 300, 20)):
        features = means[draw.integers(0, classes, rows)] + draw.normal(size=(rows, 64))
        np.save(folder / f"{name}.npy", np.maximum(features, 0).astype(np.float32))
    write_head(folder / "head.safetensors", means[:10])
    path = f"{Path(command_line).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks("sh"):
        if "cargo" in block:
            continue  # What it builds is built already.
        environment = {**os.environ, "PATH": path}
        done = subprocess.run(["sh", "-ec", block], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{block}\n{done.stderr}"
    return folder


def write_head(path: Path, weight: np.ndarray) -> None:
    arrays = {"weight": weight.astype(np.float32), "bias": (-0.5 * (weight**2).sum(1)).astype(np.float32)}
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def expected(place: Path, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    detector = offspan.Detector.load(place / "net.offspan")
    return detector.score(rows), detector.p_values(rows), ~detector.predict(rows)


def check_lines(output: str, place: Path) -> None:
    """Score, p-value and "in" or "out" of two rows of halves, as JavaScript and C++ print them."""
    score, p_value, is_ood = expected(place, np.full((2, 64), 0.5, np.float32))
    lines = [line.split() for line in output.splitlines()]
    np.testing.assert_allclose([float(line[0]) for line in lines], score, rtol=1e-4)
    np.testing.assert_allclose([float(line[1]) for line in lines], p_value, atol=2 / 501)
    assert [line[2] == "out" for line in lines] == is_ood.tolist()


def test_the_command_line_scores(place):
    lines = (place / "scores.csv").read_text().splitlines()
    assert len(lines) >= 300


def test_onnx_runtime_gives_the_librarys_scores(place, monkeypatch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed here")
    monkeypatch.chdir(place)
    names: dict[str, Any] = {}
    exec(compile(blocks("python")[0], f"{PAGE.name}, ONNX Runtime", "exec"), names)
    score, p_value, is_ood = expected(place, names["rows"])
    scale = np.abs(score).max()
    assert np.abs(names["score"] - score).max() <= 1e-4 * scale
    clear = np.abs(score - offspan.Detector.load("net.offspan").threshold) > 1e-4 * scale
    np.testing.assert_array_equal(names["is_ood"][clear], is_ood[clear])
    np.testing.assert_allclose(names["p_value"], p_value, atol=2 / 501)


def test_the_pytorch_blocks_run(place, monkeypatch):
    pytest.importorskip("torch.nn", reason="PyTorch is not installed here")
    monkeypatch.chdir(place)
    names: dict[str, Any] = {}
    with_torch = [block for block in blocks("python") if "onnxruntime" not in block]
    assert len(with_torch) == 2
    for number, block in enumerate(with_torch):
        exec(compile(block, f"{PAGE.name}, PyTorch block {number + 1}", "exec"), names)
    assert names["guarded"].detector.method == "auto"


def test_the_javascript_runs(place):
    if shutil.which("node") is None or not (NODE_MODULES / "onnxruntime-node").exists():
        pytest.skip("node or its package onnxruntime-node is not installed here")
    (block,) = blocks("js")
    (place / "program.js").write_text(block)
    environment = {**os.environ, "NODE_PATH": str(NODE_MODULES)}
    done = subprocess.run(["node", "program.js"], cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_lines(done.stdout, place)


def test_the_cpp_runs(place):
    home = os.environ.get("ONNXRUNTIME_HOME")
    if home is None or shutil.which("c++") is None:
        pytest.skip("ONNXRUNTIME_HOME names no ONNX Runtime for C++ (with include and lib), or there is no compiler")
    (block,) = blocks("cpp")
    (place / "program.cpp").write_text(block)
    words = ["c++", "-std=c++17", "program.cpp", f"-I{home}/include", f"-L{home}/lib", f"-Wl,-rpath,{home}/lib"]
    subprocess.run([*words, "-lonnxruntime", "-o", "program"], cwd=place, check=True)
    done = subprocess.run(["./program"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_lines(done.stdout, place)
