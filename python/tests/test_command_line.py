"""The command line and the package read each other's files and give the same scores to the bit."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict

import numpy as np
import pytest

import offspan

SETTINGS = {
    "kpca-nys": {"landmarks": 256, "sampling": "uniform", "residual": "complete"},
    "kpca-rff": {"features": 1024},
    "pca": {},
    "knn": {"neighbours": 20, "bank": 0.05},
    "vim": {},
    "auto": {"landmarks": 256},
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


def test_p_values_and_decisions_are_those_of_the_command_line(packs, command_line, tmp_path):
    pack, path = packs[0], tmp_path / "pca.offspan"
    offspan.make("pca").fit(pack, keep=0.9, confidence=0.99).save(path)
    rows = sorted((pack / "ood").glob("*.safetensors"))[0]
    detector = offspan.load(path)
    for options, words in ({}, []), ({"fdr": 0.1}, ["--fdr", "0.1"]):
        done = subprocess.run(
            [command_line, "score", path, rows, "--json", *words], check=True, capture_output=True, text=True
        )
        theirs = json.loads(done.stdout)
        assert theirs["threshold"] == detector.info["threshold"]
        np.testing.assert_array_equal(detector.p_values(rows), theirs["p_values"])
        decisions = np.where(detector.predict(rows, **options), "in", "out")
        np.testing.assert_array_equal(decisions, theirs["decisions"])


def test_calibrations_and_checks_are_those_of_the_command_line(packs, command_line, tmp_path):
    pack, ours, theirs = packs[0], tmp_path / "python.offspan", tmp_path / "cli.offspan"
    test = pack / "test.safetensors"
    detector = offspan.make("pca").fit(pack).detector
    detector.save(ours)
    for rows, words in (test, [test]), (None, []):
        options = ["--keep", "0.9", "--confidence", "0.8", "-o", theirs]
        subprocess.run([command_line, "calibrate", ours, *words, *options], check=True, capture_output=True)
        assert theirs.read_bytes() == detector.calibrated(rows, keep=0.9, confidence=0.8).to_bytes()
    done = subprocess.run([command_line, "calibrate", ours, test, "--check", "--json"], capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["check"] == asdict(detector.check(test))
    assert done.returncode == (0 if found["fits"] else 1)


def test_monitors_are_those_of_the_command_line(packs, command_line, tmp_path):
    pack = packs[0]
    path, theirs, ours = tmp_path / "pca.offspan", tmp_path / "cli.monitor", tmp_path / "python.monitor"
    files = [pack / "test.safetensors", *sorted((pack / "ood").glob("*.safetensors"))]
    detector = offspan.make("pca").fit(pack, calibrate=files[0]).detector
    detector.save(path)
    words = ["--false-alarm", "0.02", "--seed", "5", "--batch", "700", "--state", theirs, "--json"]
    done = subprocess.run([command_line, "monitor", path, *files, *words], capture_output=True, text=True)
    said = json.loads(done.stdout)
    monitor = offspan.Monitor(detector, false_alarm=0.02, seed=5)
    batches = [scores[i : i + 700] for scores in map(detector.score, files) for i in range(0, len(scores), 700)]
    assert len(said["batches"]) == len(batches)
    for batch, scores in zip(said["batches"], batches):
        report = asdict(monitor.update(scores=scores))
        assert {**report, "alarms": list(report["alarms"])} == batch["report"]
    assert [asdict(alarm) for alarm in monitor.alarms] == said["alarms"]
    assert done.returncode == (1 if said["alarms"] else 0) and said["alarms"], "OoD rows raise an alarm"
    # The command line also keeps which batches it has seen; all else is the same.
    monitor.save(ours)
    inspected = [
        json.loads(subprocess.run([command_line, "inspect", state, "--json"], check=True, capture_output=True).stdout)
        for state in (ours, theirs)
    ]
    assert [len(state.pop("seen")) for state in inspected] == [0, len(files)]
    assert len({state.pop("checksum") for state in inspected}) == 2
    assert inspected[0] == inspected[1]
    resumed = offspan.Monitor.load(theirs, detector)
    assert resumed.rows == monitor.rows == said["rows"]
    assert resumed.update(scores=batches[0]) == monitor.update(scores=batches[0])


def test_evaluation_is_that_of_the_command_line(packs, command_line):
    pack = min(packs, key=lambda pack: (pack / "train.safetensors").stat().st_size)
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
