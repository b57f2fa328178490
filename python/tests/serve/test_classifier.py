"""A classifier beside its detector: inputs in place of features, with the scores of `offspan score --model`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import urllib.error

import numpy as np
import pytest
from serving import Serving, program

onnx = pytest.importorskip("onnx")


def write_network(path) -> None:
    """Six inputs, sixteen features, five classes."""
    helper, draw = onnx.helper, np.random.default_rng(0)
    weights = {"w1": draw.normal(size=(6, 16)), "w2": draw.normal(size=(5, 16)), "b": draw.normal(size=5)}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b"], ["y"], transB=1),
    ]
    tensor = helper.make_tensor_value_info
    kept = [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    ends = ([tensor("x", 1, ["N", 6])], [tensor("y", 1, ["N", 5])])
    graph = helper.make_graph(nodes, "network", *ends, kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))


def test_inputs_are_scored_as_the_command_line_scores_them(tmp_path):
    folder = tmp_path / "models" / "net" / "1"
    folder.mkdir(parents=True)
    network, detector = folder / "classifier.onnx", folder / "net.offspan"
    write_network(network)
    draw = np.random.default_rng(1)
    np.save(tmp_path / "train.npy", draw.normal(1, 1, (900, 6)).astype(np.float32))
    rows = draw.normal(1, 3, (100, 6)).astype(np.float32)
    np.save(tmp_path / "new.npy", rows)
    fit = [program(), "fit", network, tmp_path / "train.npy", "--method", "pca", "-o", detector]
    subprocess.run(fit, check=True, capture_output=True)
    score = [program(), "score", detector, tmp_path / "new.npy", "--model", network]
    lines = subprocess.run(score, check=True, capture_output=True, text=True).stdout
    expected = [float(line["score"]) for line in csv.DictReader(io.StringIO(lines))]
    with Serving(tmp_path / "models") as running:
        about = json.loads(running.get("/v2/models/net"))
        assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 6]}]
        assert ask(running, rows) == expected
        # A network may round another way for another number of rows.
        assert ask(running, rows[7:8]) == pytest.approx([expected[7]], rel=1e-4)
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(running, rows[:, :5])


def ask(running, rows: np.ndarray) -> list[float]:
    tensor = {"name": "x", "shape": rows.shape, "datatype": "FP32", "data": rows.astype(float).tolist()}
    answer = running.get("/v2/models/net/infer", json.dumps({"inputs": [tensor]}).encode())
    return json.loads(answer)["outputs"][0]["data"]
