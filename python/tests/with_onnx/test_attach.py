"""A detector behind a classifier: the model's own outputs, and which rows to trust."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from runtime import gap, offspan, refused, run, session, write

WIDTH, INPUTS, CLASSES = 12, 9, 4


def network(draw: np.random.Generator) -> dict[str, np.ndarray]:
    """A hidden layer and a last one."""
    return {
        "hidden": draw.normal(size=(INPUTS, WIDTH)).astype(np.float32),
        "hidden_bias": draw.uniform(0.0, 1.0, WIDTH).astype(np.float32),
        "last": draw.normal(size=(CLASSES, WIDTH)).astype(np.float32),
        "last_bias": draw.normal(size=CLASSES).astype(np.float32),
    }


def features_of(weights: dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """What enters the last layer."""
    return np.maximum(images @ weights["hidden"] + weights["hidden_bias"], 0.0)


def model(
    weights: dict[str, np.ndarray], form: str, opset: int, outputs: tuple[str, ...] = ("logits",)
) -> onnx.ModelProto:
    """The network as a model whose last layer is written in one of several forms."""
    initial = [
        numpy_helper.from_array(weights["hidden"], "hidden"),
        numpy_helper.from_array(weights["hidden_bias"], "hb"),
    ]
    nodes = [
        helper.make_node("MatMul", ["images", "hidden"], ["a"]),
        helper.make_node("Add", ["a", "hb"], ["b"]),
        helper.make_node("Relu", ["b"], ["pooled"]),
    ]
    bias = numpy_helper.from_array(weights["last_bias"], "lb")
    if form == "gemm":
        nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], axis=1))
        nodes.append(helper.make_node("Gemm", ["flat", "last", "lb"], ["logits"], transB=1))
        initial += [numpy_helper.from_array(weights["last"], "last"), bias]
    else:
        nodes.append(
            helper.make_node("Constant", [], ["last"], value=numpy_helper.from_array(weights["last"].T.copy(), "x"))
        )
        nodes.append(helper.make_node("Identity", ["pooled"], ["same"]))
        nodes.append(helper.make_node("MatMul", ["same", "last"], ["product"]))
        nodes.append(helper.make_node("Add", ["product", "lb"], ["logits"]))
        initial.append(bias)
    made = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])]
    if "score" in outputs:
        nodes.append(helper.make_node("Softmax", ["logits"], ["score"], axis=1))
        made.append(helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", CLASSES]))
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", INPUTS])]
    graph = helper.make_graph(nodes, "net", inputs, made, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return network(np.random.default_rng(3))


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(4).normal(size=(400, INPUTS)).astype(np.float32)


def detector_of(
    command_line: str, folder: Path, weights: dict[str, np.ndarray], images: np.ndarray, method: str
) -> Path:
    pack = folder / "pack"
    (pack / "ood").mkdir(parents=True, exist_ok=True)
    rows = features_of(weights, images)
    logits = rows @ weights["last"].T + weights["last_bias"]
    write(pack / "train.safetensors", {"features": rows, "logits": logits, "labels": logits.argmax(1).astype(np.int64)})
    if method != "energy":
        write(pack / "head.safetensors", {"weight": weights["last"], "bias": weights["last_bias"]})
    detector = folder / f"{method}.offspan"
    calibrate = ("--calibrate", pack / "train.safetensors")
    offspan(command_line, "fit", pack, "--method", method, *calibrate, "-o", detector)
    write(folder / "rows.safetensors", {"features": rows, "logits": logits})
    return detector


@pytest.mark.parametrize("opset", [11, 12, 13, 17, 18, 21])
@pytest.mark.parametrize("form", ["gemm", "matmul"])
def test_the_guarded_model_keeps_its_outputs_and_adds_three(
    command_line: str, tmp_path: Path, weights: dict[str, np.ndarray], images: np.ndarray, form: str, opset: int
) -> None:
    original = tmp_path / "model.onnx"
    onnx.save(model(weights, form, opset), str(original))
    for method in ("auto", "vim", "ash-b", "energy"):
        detector = detector_of(command_line, tmp_path, weights, images, method)
        guarded = tmp_path / "guarded.onnx"
        text = offspan(command_line, "export", detector, "--attach", original, "-o", guarded, "--json")
        assert json.loads(text)["added"] == ["score", "is_ood", "p_value"]
        running = session(guarded)
        assert [value.name for value in running.get_inputs()] == ["images"]
        outputs = run(running, {"images": images})
        own = onnxruntime.InferenceSession(str(original), providers=["CPUExecutionProvider"])
        assert np.allclose(outputs["logits"], own.run(None, {"images": images})[0], rtol=1e-5, atol=1e-5)
        scores = tmp_path / "scores.npy"
        offspan(command_line, "score", detector, tmp_path / "rows.safetensors", "-o", scores, "--force")
        assert gap(np.load(scores), outputs["score"]) < 1e-4, method
        grown = guarded.stat().st_size - original.stat().st_size
        assert grown < 1.05 * detector.stat().st_size + 64_000


def test_names_that_the_model_has_get_a_prefix(
    command_line: str, tmp_path: Path, weights: dict[str, np.ndarray], images: np.ndarray
) -> None:
    original = tmp_path / "model.onnx"
    onnx.save(model(weights, "gemm", 17, ("logits", "score")), str(original))
    detector = detector_of(command_line, tmp_path, weights, images, "auto")
    guarded = tmp_path / "guarded.onnx"
    offspan(command_line, "export", detector, "--attach", original, "-o", guarded)
    outputs = run(session(guarded), {"images": images})
    assert outputs["score"].shape == (400, CLASSES) and outputs["offspan_score"].shape == (400,)
    # A guarded model can be guarded again.
    offspan(
        command_line, "export", detector, "--attach", guarded, "-o", tmp_path / "twice.onnx", "--feature-tensor", "flat"
    )
    assert "offspan_offspan_score" in run(session(tmp_path / "twice.onnx"), {"images": images})


def test_weights_in_another_file_are_taken_along(
    command_line: str, tmp_path: Path, weights: dict[str, np.ndarray], images: np.ndarray
) -> None:
    original = tmp_path / "model.onnx"
    onnx.save(
        model(weights, "gemm", 17), str(original), save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    detector = detector_of(command_line, tmp_path, weights, images, "vim")
    other = tmp_path / "other"
    other.mkdir()
    offspan(command_line, "export", detector, "--attach", original, "-o", other / "guarded.onnx")
    assert np.isfinite(run(session(other / "guarded.onnx"), {"images": images})["score"]).all()


def test_what_does_not_fit_is_refused_with_words(
    command_line: str, tmp_path: Path, weights: dict[str, np.ndarray], images: np.ndarray
) -> None:
    original = tmp_path / "model.onnx"
    onnx.save(model(weights, "gemm", 17), str(original))
    narrow = tmp_path / "narrow.npy"
    np.save(narrow, np.abs(images))
    detector = tmp_path / "narrow.offspan"
    offspan(command_line, "fit", narrow, "--method", "pca", "-o", detector)
    target = tmp_path / "x.onnx"
    said = refused(command_line, "export", detector, "--attach", original, "-o", target)
    assert f"features of width {INPUTS}" in said and f"takes {WIDTH}" in said
    words = ("--attach", original, "-o", target, "--feature-tensor")
    assert "no value `nothing`" in refused(command_line, "export", detector, *words, "nothing")
    assert f"[rows, {INPUTS}]" in refused(command_line, "export", detector, *words, "logits")
    # The images themselves are as wide as these rows.
    offspan(command_line, "export", detector, *words, "images")
    assert run(session(target), {"images": np.abs(images)})["score"].shape == (400,)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(original.read_bytes()[:-40])
    assert "truncated" in refused(command_line, "export", detector, "--attach", broken, "-o", tmp_path / "y.onnx")
    assert not (tmp_path / "y.onnx").exists()


def maps_network(draw: np.random.Generator, opset: int) -> onnx.ModelProto:
    """A convolution, its maps, their average and a last layer, without stated shapes inside."""
    first = draw.normal(size=(WIDTH, 3, 3, 3)).astype(np.float32)
    last = draw.normal(size=(CLASSES, WIDTH)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["images", "first"], ["sums"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["sums"], ["maps"]),
        helper.make_node("GlobalAveragePool", ["maps"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"], axis=1),
        helper.make_node("Gemm", ["flat", "last"], ["logits"], transB=1),
    ]
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])]
    initial = [numpy_helper.from_array(first, "first"), numpy_helper.from_array(last, "last")]
    graph = helper.make_graph(nodes, "net", inputs, outputs, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [11, 17, 18])
@pytest.mark.parametrize("tensor", [None, "maps", "maps:max", "maps:none"])
def test_a_detector_of_a_model_goes_on_the_value_that_it_was_fitted_with(
    command_line: str, tmp_path: Path, tensor: str | None, opset: int
) -> None:
    draw = np.random.default_rng(5)
    original, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    onnx.save(maps_network(draw, opset), str(original))
    onnx.save(maps_network(draw, opset), str(other))
    rows, new = tmp_path / "rows.npy", tmp_path / "new.npy"
    np.save(rows, draw.normal(size=(300, 3, 8, 8)).astype(np.float32))
    images = draw.normal(size=(60, 3, 8, 8)).astype(np.float32)
    np.save(new, images)
    detector, guarded = tmp_path / "net.offspan", tmp_path / "guarded.onnx"
    chosen = () if tensor is None else ("--feature-tensor", tensor)
    offspan(command_line, "fit", original, rows, "--method", "pca", *chosen, "-o", detector)

    said = refused(command_line, "export", detector, "--attach", other, "-o", guarded)
    assert said.count("xxh3-128:") == 2 and "--any-model" in said
    assert not guarded.exists()
    offspan(command_line, "export", detector, "--attach", other, "--any-model", "-o", tmp_path / "any.onnx")
    session(tmp_path / "any.onnx")

    offspan(command_line, "export", detector, "--attach", original, "-o", guarded)
    scores = tmp_path / "scores.npy"
    offspan(command_line, "score", detector, new, "--model", original, "-o", scores)
    assert gap(np.load(scores), run(session(guarded), {"images": images})["score"]) < 1e-4
    about = {entry.key: entry.value for entry in onnx.load(str(guarded)).metadata_props}
    name, _, pool = (tensor or "flat").partition(":")
    assert about["offspan.feature_tensor"] == name and about["offspan.pool"] == (pool or "avg")
    assert about["offspan.model_hash"].startswith("xxh3-128:")


@pytest.mark.parametrize("opset", [11, 17])
def test_rows_that_are_not_finite_are_out(
    command_line: str, tmp_path: Path, weights: dict[str, np.ndarray], images: np.ndarray, opset: int
) -> None:
    original, rows = tmp_path / "model.onnx", tmp_path / "rows.npy"
    onnx.save(model(weights, "gemm", opset), str(original))
    np.save(rows, np.abs(images))
    new = np.abs(images[:20])
    new[:3, -1] = np.nan, np.inf, -np.inf
    small = {"kpca-rff": ("--features", "96"), "kpca-nys": ("--landmarks", "40", "--sampling", "uniform")}
    for method in ("kpca-rff", "kpca-nys", "pca", "knn"):
        detector, guarded = tmp_path / f"{method}.offspan", tmp_path / f"{method}.onnx"
        words = ("--method", method, *small.get(method, ()), "--calibrate", rows)
        offspan(command_line, "fit", rows, *words, "-o", detector)
        offspan(command_line, "export", detector, "--attach", original, "--feature-tensor", "images", "-o", guarded)
        found = run(session(guarded), {"images": new})
        assert np.isneginf(found["score"][:3]).all(), method
        assert found["is_ood"][:3].all(), method
        assert np.allclose(found["p_value"][:3], 1 / (len(images) + 1)), method
        assert not np.isnan(found["score"]).any() and not found["is_ood"][3:].all(), method
