"""What the command line prints with --json is what docs/schemas says."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

jsonschema = pytest.importorskip("jsonschema")

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def message(*fields: tuple[int, object]) -> bytes:
    """A message of protocol buffers from numbers of fields and their values."""

    def varint(value: int) -> bytes:
        low = bytes([value & 0x7F | (0x80 if value > 0x7F else 0)])
        return low + varint(value >> 7) if value > 0x7F else low

    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(raw)) + raw
    return out


def classifier() -> bytes:
    """An ONNX file: twelve numbers, cut at zero, then a last layer of four classes."""
    draw = np.random.default_rng(5)

    def tensor(name: str, *shape: int) -> bytes:
        numbers = draw.normal(size=shape).astype(np.float32).tobytes()
        return message(*((1, size) for size in shape), (2, 1), (8, name), (9, numbers))

    def value(name: str, width: int) -> bytes:
        shape = message((1, message((2, "N"))), (1, message((1, width))))
        return message((1, name), (2, message((1, message((1, 1), (2, shape))))))

    graph = message(
        (1, message((1, "x"), (2, "features"), (4, "Relu"))),
        (1, message((1, "features"), (1, "weight"), (1, "bias"), (2, "logits"), (4, "Gemm"))),
        (2, "classifier"),
        (5, tensor("weight", 12, 4)),
        (5, tensor("bias", 4)),
        (11, value("x", 12)),
        (12, value("logits", 4)),
    )
    return message((1, 8), (7, graph), (8, message((1, ""), (2, 17))))


@pytest.fixture(scope="module")
def documents(command_line, tmp_path_factory) -> list[dict]:
    """One document of every command that prints one, from a small pack."""
    folder = tmp_path_factory.mktemp("schemas")
    draw = np.random.default_rng(4)
    means = draw.uniform(0.0, 3.0, (4, 12))
    (folder / "pack" / "ood").mkdir(parents=True)
    for name, rows, shift in (("train", 600, 0.0), ("test", 300, 0.0), ("ood/other", 200, 2.0)):
        drawn = means[draw.integers(0, 4, rows)] + draw.normal(shift, 0.5, (rows, 12))
        np.save(folder / "pack" / f"{name}.npy", drawn.astype(np.float32))

    (folder / "net.onnx").write_bytes(classifier())

    def run(*words: str) -> str:
        done = subprocess.run([command_line, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    commands = [
        "fit pack -m auto --json -o a.offspan",
        "fit pack -m knn --hold-out 0 --json -o without.offspan",
        "score a.offspan pack/test.npy --json",
        "score without.offspan pack/test.npy --json",
        "calibrate a.offspan pack/test.npy -o b.offspan --json",
        "calibrate --check b.offspan pack/ood/other.npy --json",
        "monitor b.offspan pack/ood/other.npy --state s.state --json",
        "extract net.onnx pack/train.npy -o extracted --json",
        "inspect b.offspan --json",
        "inspect s.state --json",
        "export b.offspan -o b.onnx --json",
        "eval pack -m knn,pca --json",
        "eval pack -m pca --ci delong --json",
        "tune pack -m pca --try components=3,5 --json",
        "fit pack -m knn --dry-run --json",
        "eval --repeat result.json --json",
        "rank pack pack -m knn,pca --json",
        "convert --train pack/train.npy --test pack/test.npy --ood other=pack/ood/other.npy -o converted --json",
        "convert --scores --test scores/test.npy --ood other=scores/other.npy -o other-scores --json",
    ]
    run("eval", "pack", "-m", "knn,pca", "--compare", "knn,pca", "--json=result.json")
    (folder / "scores").mkdir()
    for name in ("test", "other"):
        np.save(folder / "scores" / f"{name}.npy", draw.normal(size=200))
    found = [json.loads(run(*command.split())) for command in commands]
    run("study", "sampling", "pack", "-o", "study")
    return [*found, json.loads((folder / "study" / "sampling.json").read_text())]


def schema_of(document: dict) -> dict:
    name, version = document["schema"].removeprefix("offspan.").split("/")
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    assert schema["title"] == f"offspan.{name}/{version}"
    return schema


def test_every_document_is_of_its_schema(documents):
    for document in documents:
        schema = schema_of(document)
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(document)


def test_every_schema_has_a_document(documents):
    named = {document["schema"].removeprefix("offspan.").split("/")[0] for document in documents}
    assert named == {path.stem for path in SCHEMAS.glob("*.json")}


def test_a_field_that_is_gone_would_be_noticed(documents):
    for document in documents:
        schema = schema_of(document)
        for field in schema["required"]:
            less = copy.deepcopy(document)
            del less[field]
            assert not jsonschema.Draft202012Validator(schema).is_valid(less), (schema["title"], field)
