"""Safetensors files as arrays, and scores from ONNX Runtime."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32}
#: How far scores and thresholds may be apart, as a share of the largest score.
BAR = 1e-4


def read(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a safetensors file."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    body = memoryview(raw)[8 + length :]
    found = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        found[name] = np.frombuffer(body[begin:end], TYPES[about["dtype"]]).reshape(about["shape"])
    return found


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as a safetensors file."""
    names = {kind: name for name, kind in TYPES.items()}
    header, body = {}, b""
    for name, array in arrays.items():
        numbers = np.ascontiguousarray(array).tobytes()
        kind = names[array.dtype.type]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(body), len(body) + len(numbers)]}
        body += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def offspan(command_line: str, *words: str | Path) -> str:
    """Run the command line; what it printed."""
    done = subprocess.run([command_line, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def refused(command_line: str, *words: str | Path) -> str:
    """Run the command line, which must refuse; what it said."""
    done = subprocess.run([command_line, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 2, f"{words}: {done.stdout}{done.stderr}"
    assert "panicked" not in done.stderr
    return done.stderr


def session(path: Path) -> onnxruntime.InferenceSession:
    """The model in ONNX Runtime, after ONNX's own checker has passed it."""
    model = onnx.load(str(path))
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run(model: onnxruntime.InferenceSession, rows: dict[str, np.ndarray], **more: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs for rows that carry what the model asks for."""
    asked = {value.name: rows[value.name].astype(np.float32) for value in model.get_inputs()}
    names = [value.name for value in model.get_outputs()]
    return dict(zip(names, model.run(names, {**asked, **more})))


def gap_of_rten(
    command_line: str,
    exported: Path,
    model: onnxruntime.InferenceSession,
    rows: dict[str, np.ndarray],
    expected: np.ndarray,
    folder: Path,
) -> float | None:
    """The gap of scores by rten, which the command line runs models by; None for a model with more than one input.

    A detector's score is one of its values, so `extract` takes it as features. It leaves out rows without a finite one.
    """
    asked = [value.name for value in model.get_inputs()]
    if len(asked) != 1:
        return None
    given, pack = folder / "rten.npy", folder / "rten"
    np.save(given, rows[asked[0]].astype(np.float32))
    shutil.rmtree(pack, ignore_errors=True)
    words = ("--feature-tensor", "score:none", "--batch", "256", "--on-error", "skip", "--json", "-o", pack)
    skipped = json.loads(offspan(command_line, "extract", exported, given, *words))["splits"][0]["skipped"]
    left_out = {int(row["path"].rpartition(", row ")[2]) for row in skipped}
    is_left_out = np.array([row in left_out for row in range(len(expected))])
    assert np.isinf(expected[is_left_out]).all(), "rten gives no finite score for a row that has one"
    return gap(expected[~is_left_out], read(pack / "train.safetensors")["features"][:, 0])


def scores_of(
    command_line: str, detector: Path, model: onnxruntime.InferenceSession, rows: dict[str, np.ndarray], folder: Path
) -> np.ndarray:
    """The library's scores of rows that carry what the model asks for, and nothing else.

    Stored logits would be taken before those that follow from the features, from which they differ by rounding.
    """
    asked = {value.name for value in model.get_inputs()} | {"features"}
    given, scores = folder / "given.safetensors", folder / "scores.npy"
    write(given, {name: array for name, array in rows.items() if name in asked})
    offspan(command_line, "score", detector, given, "-o", scores, "--force")
    return np.load(scores)


def gap(expected: np.ndarray, got: np.ndarray) -> float:
    """The largest difference as a share of the largest score; infinite scores must be the same."""
    finite = np.isfinite(expected)
    assert np.array_equal(expected[~finite], got[~finite]), "infinite scores differ"
    if not finite.any():
        return 0.0
    largest = np.abs(expected[finite]).max()
    return float(np.abs(expected[finite] - got[finite]).max() / max(largest, np.finfo(float).tiny))


def wrong_decisions(scores: np.ndarray, threshold: float, is_ood: np.ndarray) -> int:
    """Decisions that differ on rows that are not within the bar of the threshold."""
    largest = np.abs(scores[np.isfinite(scores)]).max()
    clear = ~(np.abs(scores - threshold) <= BAR * largest)
    return int(((scores < threshold) != is_ood)[clear].sum())
