"""Messages speak of keywords here, and of flags on the command line."""

from __future__ import annotations

import re
import subprocess
import warnings

import numpy as np
import pytest

import offspan


def message(call) -> str:
    """What a call says: its error, or its warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            call()
        except (ValueError, OSError) as error:
            return str(error)
    assert told, "it said nothing"
    return " ".join(str(warning.message) for warning in told)


PROVOKED = {
    "a misspelt option": lambda rows, path: offspan.make("knn", neighbors=5),
    "a misspelt flag that is off": lambda rows, path: offspan.make("pca", cosin=False),
    "an option of other methods": lambda rows, path: offspan.make("knn", explained_variance=0.5),
    "an option of other combinations": lambda rows, path: offspan.make("knn+react", gamma=0.5),
    "cosine where it means nothing": lambda rows, path: offspan.make("energy", cosine=False),
    "a text for a number": lambda rows, path: offspan.make("knn", neighbours="many"),
    "two that exclude each other": lambda rows, path: offspan.KPCA(components=3, explained_variance=0.9),
    "rows to choose and rows": lambda rows, path: offspan.KPCA(landmark_rows=[1, 2], landmarks=9),
    "no width of the kernel": lambda rows, path: offspan.KPCA(cosine=False).fit(rows),
    "a preset of other methods": lambda rows, path: offspan.make("knn", preset="imagenet-resnet50"),
    "no such preset": lambda rows, path: offspan.make("pca", preset="lenet"),
    "a share that is none": lambda rows, path: offspan.make("pca", explained_variance=2.0),
    "nothing to measure": lambda rows, path: offspan.make("pca", explained_variance=1.0).fit(rows),
    "a hold-out that is none": lambda rows, path: offspan.make("pca").fit(rows, hold_out=2.0),
    "landmarks held out": lambda rows, path: offspan.KPCA(landmark_rows=np.arange(500)).fit(rows, hold_out=0.5),
    "few rows": lambda rows, path: offspan.make("pca").fit(rows[:50]),
    "a row of zeros": lambda rows, path: offspan.make("pca").fit(rows * 0),
    "no logits": lambda rows, path: offspan.make("energy").fit(rows),
    "no logits for landmarks": lambda rows, path: offspan.make("kpca-nys").fit(rows),
    "no head": lambda rows, path: offspan.make("vim").fit(rows),
    "no head behind a cut": lambda rows, path: offspan.make("kpca-nys+react").fit(rows),
    "no labels": lambda rows, path: offspan.make("mahalanobis").fit(rows),
    "logits that no layer explains": lambda rows, path: offspan.make().fit(rows[:300], rows[:300, :4] ** 2, hold_out=0),
    "too large for float32": lambda rows, path: offspan.make("pca").fit(rows.astype(np.float64) * 1e300),
    "too large for products": lambda rows, path: offspan.make("pca", cosine=False, precision="f64").fit(
        rows.astype(np.float64) * 1e200
    ),
    "a file of another kind": lambda rows, path: offspan.make("pca").fit(path / "rows.bin"),
    "a folder of files without header": lambda rows, path: offspan.make("pca").fit(path / "cache"),
}


@pytest.fixture
def files(tmp_path, rows):
    rows.tofile(tmp_path / "rows.bin")
    (tmp_path / "cache").mkdir()
    for name in ("train_in", "val_in", "other_out"):
        rows.astype(np.float64).tofile(tmp_path / "cache" / f"{name}.mmap")
    return tmp_path


@pytest.mark.parametrize("case", PROVOKED)
def test_no_message_speaks_in_flags(case, rows, files):
    told = message(lambda: PROVOKED[case](rows, files)).replace(str(files), "FOLDER")
    assert "--" not in told
    assert not re.search(r"offspan (methods|fit|score|eval)\b", told)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("a misspelt option", "neighbors: there is no such option; did you mean neighbours?"),
        ("a misspelt flag that is off", "cosin: there is no such option; did you mean cosine?"),
        ("an option of other methods", "explained_variance has no meaning for knn; it takes neighbours, bank, seed"),
        ("two that exclude each other", "components: it cannot be given together with explained_variance"),
        ("no width of the kernel", "cosine=False needs gamma"),
        ("a share that is none", "explained_variance: expected a share in (0, 1], got 2"),
        ("a hold-out that is none", "hold_out: expected a share"),
        ("nothing to measure", 'or use residual="complete"'),
        ("landmarks held out", "(use hold_out=0 or calibrate=)"),
        ("few rows", "give calibrate=, a larger hold_out, or a smaller keep or confidence"),
        ("a row of zeros", "or fit with cosine=False"),
        ("no logits", "give them with logits=, or give the last layer's `weight` and `bias` with head="),
        ("no logits for landmarks", 'to do without, use sampling="uniform" and no fuse'),
        ("no head", "or with head="),
        ("no labels", "or give them with labels="),
        ("logits that no layer explains", "scores are better with the last layer itself (head.safetensors in a pack)"),
        ("too large for float32", 'use precision="f64"'),
    ],
)
def test_messages_name_what_a_program_writes(case, words, rows, files):
    assert words in message(lambda: PROVOKED[case](rows, files))


def test_the_catalogue_has_keywords_and_they_can_be_given():
    for method in offspan.methods():
        for parameter in method["parameters"]:
            assert set(parameter) == {"name", "default"}
            assert "--" not in parameter["name"] + parameter["default"]
            assert parameter["name"].isidentifier()
    names = {parameter["name"] for method in offspan.methods() for parameter in method["parameters"]}
    assert {"cosine", "explained_variance", "neighbours"} <= names and "no_cosine" not in names


def test_the_command_line_still_speaks_in_flags(command_line, rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows[:50])

    def told(*words):
        command = [command_line, "fit", tmp_path / "rows.npy", "-o", tmp_path / "out", *words]
        return subprocess.run(command, check=False, capture_output=True, text=True).stderr

    assert "--gamma has no meaning for knn; `offspan methods` tells" in told("-m", "knn", "--gamma", "1")
    assert "--no-cosine needs --gamma" in told("-m", "kpca-rff", "--no-cosine")
    assert "give --calibrate FILE, a larger --hold-out, or a smaller --keep or --confidence" in told("-m", "pca")
    assert "or with --head FILE" in told("-m", "vim")
