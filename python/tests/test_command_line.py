"""The command line and the package read each other's files and give the same scores to the bit."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

import offspan

SETTINGS = {
    "kpca-nys": {"landmarks": 256, "sampling": "uniform", "residual": "complete"},
    "kpca-rff": {"features": 1024},
    "pca": {},
    "knn": {"neighbours": 20},
    "vim": {},
}


def flags(options):
    return [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize("method", SETTINGS)
def test_scores_of_every_pack_are_those_of_the_command_line(method, packs, command_line, tmp_path):
    def run(*words):
        return subprocess.run([command_line, *map(str, words)], check=True, capture_output=True, text=True).stdout

    for pack in packs:
        theirs, ours = tmp_path / "cli.offspan", tmp_path / "python.offspan"
        run("fit", pack, "--method", method, *flags(SETTINGS[method]), "-o", theirs)
        if method == "vim" and not (pack / "head.safetensors").exists():
            continue
        offspan.make(method, **SETTINGS[method]).fit(pack).save(ours)
        assert ours.read_bytes() == theirs.read_bytes(), f"{pack.name}: the same fit, the same file"
        detector = offspan.Detector.load(theirs)
        for rows in [pack / "test.safetensors", *sorted((pack / "ood").glob("*.safetensors"))]:
            run("score", ours, rows, "-o", tmp_path / "scores.npy")
            np.testing.assert_array_equal(detector.score(rows), np.load(tmp_path / "scores.npy"), err_msg=str(rows))


def test_evaluation_is_that_of_the_command_line(packs, command_line):
    pack = packs[0]
    done = subprocess.run(
        [command_line, "eval", pack, "--method", "knn", "--json", "-"], check=True, capture_output=True
    )
    theirs = json.loads(done.stdout)["results"][0]["sets"]
    knn = offspan.make("knn").fit(pack, hold_out=0)
    ind = knn.score(pack / "test.safetensors")
    for rows in sorted((pack / "ood").glob("*.safetensors")):
        ours = offspan.metrics.evaluate(ind, knn.score(rows))
        assert ours.auroc == pytest.approx(theirs[rows.stem]["auroc"], abs=1e-12)
        assert ours.fpr95 == pytest.approx(theirs[rows.stem]["fpr95"], abs=1e-12)
