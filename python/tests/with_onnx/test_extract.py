"""`offspan extract` against ONNX Runtime, on a network that is trained here."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")

ROWS = 300
CLASSES = 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small convolutional network, trained to tell four patterns apart, as ONNX, with inputs and labels."""
    folder = tmp_path_factory.mktemp("trained")
    random = np.random.default_rng(3)
    labels = random.integers(0, CLASSES, ROWS)
    waves = np.sin(np.arange(16)[:, None] * (1 + np.arange(CLASSES)) * 0.7)
    inputs = waves.T[labels][:, None, None, :] + 0.3 * random.standard_normal((ROWS, 3, 16, 16))
    inputs = inputs.astype(np.float32)
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(16, CLASSES),
    )
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(60):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(torch.from_numpy(inputs)), torch.from_numpy(labels))
        loss.backward()
        optimiser.step()
    network.eval()
    path = folder / "network.onnx"
    torch.onnx.export(
        network,
        (torch.from_numpy(inputs[:2]),),
        str(path),
        input_names=["input"],
        output_names=["logits"],
        dynamic_axes={"input": {0: "N"}, "logits": {0: "N"}},
        opset_version=17,
        dynamo=False,
    )
    return path, inputs, labels


def test_features_and_logits_are_those_of_onnx_runtime(trained, command_line, tmp_path):
    path, inputs, labels = trained
    np.save(tmp_path / "inputs.npy", inputs)
    np.save(tmp_path / "labels.npy", labels)
    words = ["extract", path, tmp_path / "inputs.npy", "--labels", tmp_path / "labels.npy", "--json"]
    words += ["-o", tmp_path / "pack"]
    ran = subprocess.run([command_line, *words], check=True, capture_output=True, text=True)
    document = json.loads(ran.stdout)
    source = document["packs"][0]["source"]
    assert document["splits"][0]["label_agreement"] > 0.9

    model = onnx.load(path)
    extra = onnx.helper.make_tensor_value_info(source["feature_tensor"], onnx.TensorProto.FLOAT, None)
    model.graph.output.append(extra)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    features, logits = session.run([source["feature_tensor"], source["logit_tensor"]], {"input": inputs})
    got = safetensors.load_file(tmp_path / "pack" / "train.safetensors")
    head = safetensors.load_file(tmp_path / "pack" / "head.safetensors")
    assert np.abs(got["features"] - features).max() <= 1e-4 * np.abs(features).max()
    assert np.abs(got["logits"] - logits).max() <= 1e-4 * np.abs(logits).max()
    linear = got["features"] @ head["weight"].T + head["bias"]
    assert np.abs(got["logits"] - linear).max() <= 1e-4 * np.abs(logits).max()
    assert (got["labels"] == labels).all()


def test_a_detector_from_a_model_scores_new_inputs_by_it(trained, command_line, tmp_path):
    path, inputs, _ = trained
    np.save(tmp_path / "inputs.npy", inputs)
    np.save(tmp_path / "noise.npy", 3 * np.random.default_rng(0).standard_normal((50, 3, 16, 16)).astype(np.float32))

    def run(*words):
        return subprocess.run([command_line, *words], check=True, capture_output=True, text=True).stdout

    run("fit", path, tmp_path / "inputs.npy", "-o", tmp_path / "net.offspan")
    scored = {}
    for name in ("inputs", "noise"):
        text = run("score", tmp_path / "net.offspan", tmp_path / f"{name}.npy", "--model", path, "--json")
        scored[name] = np.array(json.loads(text)["scores"], dtype=float)
    assert np.median(scored["inputs"]) > np.quantile(scored["noise"], 0.9)
