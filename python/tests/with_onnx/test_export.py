"""Every method that can be exported gives its own scores in ONNX Runtime and in rten, on both fixtures."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from runtime import BAR, gap, gap_of_rten, offspan, read, refused, run, scores_of, session, wrong_decisions

FIXTURES = Path(__file__).resolve().parents[3] / "crates" / "offspan" / "tests"
#: Flags that make a method fit for few rows.
SMALL = {
    "kpca-rff": ("--features", "96"),
    "kpca-sketch": ("--features", "96"),
    "kpca-nys": ("--landmarks", "40"),
    "kpca-nys+react": ("--landmarks", "40"),
    "dkgp-nys": ("--landmarks", "40"),
    "kpca-ensemble": ("--features", "96", "--landmarks", "40"),
    "rff-opt": ("--features", "96"),
    "knn": ("--neighbours", "6"),
    "knn-plus": ("--neighbours", "6"),
    "autoencoder": ("--epochs", "3"),
}
#: Forms of kernel PCA besides those of the catalogue.
FORMS = {
    "kpca-rff": [
        ("--draw", "iid"),
        ("--draw", "orthogonal"),
        ("--kernel", "laplacian", "--gamma", "0.3", "--draw", "iid"),
        ("--fuse", "energy-product"),
    ],
    "kpca-nys": [
        ("--residual", "complete"),
        ("--kernel", "laplacian", "--gamma", "0.3"),
        ("--kernel", "polynomial"),
        ("--fuse", "energy-ratio"),
        ("--react", "p90"),
        ("--precision", "f64"),
    ],
    "kpca-exact": [("--kernel", "laplacian", "--gamma", "0.3"), ("--kernel", "polynomial")],
    "pca": [("--no-cosine",)],
    "knn": [],
}
#: Scores after steps, which the catalogue does not list.
COMBINED = ["ssd+scale", "she+line", "vim+bats+react", "mahalanobis+dice", "auto+react"]


def fitted(command_line: str, pack: Path, words: tuple[str, ...], folder: Path) -> Path | str:
    """A detector with a threshold, or why the pack does not have what the method needs."""
    detector = folder / "net.offspan"
    calibrate = ("--calibrate", str(pack / "train.safetensors"))
    command = [command_line, "fit", str(pack), "--method", *words, *calibrate, "-o", str(detector)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return detector if done.returncode == 0 else done.stderr


def compare(command_line: str, pack: Path, detector: Path, folder: Path) -> tuple[float, int]:
    """Export, run in ONNX Runtime and rten, compare on every set: the largest gap, and decisions that differ."""
    exported = folder / "net.onnx"
    offspan(command_line, "export", detector, "-o", exported)
    model = session(exported)
    info = json.loads(offspan(command_line, "inspect", detector, "--json"))
    threshold = float(info["info"]["threshold"]["value"])
    worst, differ = 0.0, 0
    for path in [pack / "test.safetensors", *sorted((pack / "ood").glob("*.safetensors"))]:
        rows = read(path)
        expected = scores_of(command_line, detector, model, rows, folder)
        outputs = run(model, rows)
        worst = max(worst, gap(expected, outputs["score"]))
        worst = max(worst, gap_of_rten(command_line, exported, model, rows, expected, folder) or 0.0)
        differ += wrong_decisions(expected, threshold, outputs["is_ood"])
        assert outputs["p_value"].min() > 0 and outputs["p_value"].max() <= 1
    return worst, differ


def catalogue(command_line: str) -> list[dict]:
    """Every method as `offspan methods` tells it."""
    return json.loads(offspan(command_line, "methods", "--json"))


@pytest.mark.parametrize("fixture", ["fixture", "fixture-baselines"])
def test_every_method_gives_its_scores_or_says_why_not(command_line: str, tmp_path: Path, fixture: str) -> None:
    pack = FIXTURES / fixture
    wrong, compared = [], 0
    cases = []
    for method in catalogue(command_line):
        name = method["name"]
        small = SMALL.get(name, ())
        cases += [(method, (name, *small, *form)) for form in [(), *FORMS.get(name, [])]]
    cases += [({"name": name}, (name,)) for name in COMBINED]
    for method, words in cases:
        detector = fitted(command_line, pack, words, tmp_path)
        if isinstance(detector, str):
            # One fixture has no tensors of specially trained networks; nothing else may be missing.
            assert fixture == "fixture" and " needs " in detector, f"{words}: {detector}"
            continue
        if "not_exportable" in method:
            message = refused(command_line, "export", detector, "-o", tmp_path / "no.onnx")
            assert method["not_exportable"] in message
            assert not (tmp_path / "no.onnx").exists()
            continue
        worst, differ = compare(command_line, pack, detector, tmp_path)
        compared += 1
        if worst > BAR or differ:
            wrong.append(f"{' '.join(words)}: scores {worst:.1e}, decisions {differ}")
    assert compared > 40
    assert not wrong, "\n".join(wrong)


def test_a_caller_may_give_a_threshold_and_any_number_of_rows(command_line: str, tmp_path: Path) -> None:
    pack = FIXTURES / "fixture"
    detector = fitted(command_line, pack, ("auto",), tmp_path)
    exported = tmp_path / "net.onnx"
    document = json.loads(offspan(command_line, "export", detector, "-o", exported, "--json"))
    assert document["schema"] == "offspan.export/1"
    assert document["outputs"] == ["score", "is_ood", "p_value"]
    assert document["bytes"] == exported.stat().st_size
    model = session(exported)
    rows = {"features": read(pack / "test.safetensors")["features"]}
    usual = run(model, rows)
    one = run(model, {"features": rows["features"][:1]})
    assert np.allclose(one["score"], usual["score"][:1], rtol=1e-4)
    all_out = run(model, rows, threshold=np.array(np.inf, np.float32))
    assert all_out["is_ood"].all() and not usual["is_ood"].all()


def test_the_file_says_what_it_is(command_line: str, tmp_path: Path) -> None:
    detector = fitted(command_line, FIXTURES / "fixture", ("kpca-nys", "--landmarks", "40"), tmp_path)
    exported = tmp_path / "net.onnx"
    offspan(command_line, "export", detector, "-o", exported)
    said = {entry.key: entry.value for entry in onnx.load(str(exported)).metadata_props}
    assert said["offspan.method"] == "kpca-nys"
    assert said["offspan.direction"] == "higher is more in-distribution"
    assert said["offspan.fingerprint"].startswith("xxh3:")
    assert "0.95" in said["offspan.promise"] and said["offspan.version"]


def test_nothing_of_another_kind_is_replaced(command_line: str, tmp_path: Path) -> None:
    detector = fitted(command_line, FIXTURES / "fixture", ("pca",), tmp_path)
    other = tmp_path / "picture.png"
    other.write_bytes(b"\x89PNG")
    assert "--force" in refused(command_line, "export", detector, "-o", other)
    assert "inputs" in refused(command_line, "export", detector, "-o", detector)
    assert other.read_bytes() == b"\x89PNG"
    exported = tmp_path / "net.onnx"
    offspan(command_line, "export", detector, "-o", exported)
    offspan(command_line, "export", detector, "-o", exported)
