"""Methods compared on a pack, the caller's own among them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import offspan

FIXTURE = Path(__file__).parents[2] / "crates/offspan/tests/fixture-baselines"


class Energy:
    """The energy score, written as a user would."""

    name = "my energy"

    def fit(self, features, labels):
        assert labels.dtype.kind == "i" and len(labels) == len(features)

    def score(self, features, logits):
        assert features.dtype == np.float32 and len(features) == len(logits)
        return np.logaddexp.reduce(logits.astype(float), axis=1)


def test_an_own_method_has_the_figures_of_its_twin():
    found = offspan.evaluate(FIXTURE, ["knn", Energy(), offspan.make("energy")])
    assert list(found.averages) == ["knn", "my energy", "energy"]
    for metric, value in found.averages["energy"].items():
        assert found.averages["my energy"][metric] == pytest.approx(value, abs=1e-12)
    assert found.document["results"][1]["params"] == {"family": "own"}
    assert "my energy" in str(found) and "**" in str(found)


def test_figures_are_those_of_the_command_line(command_line):
    found = offspan.evaluate(FIXTURE, {"mine": offspan.make("knn", neighbours=5), "vim": "vim"})
    command = [command_line, "eval", str(FIXTURE), "--method", "knn,vim", "-k", "5", "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for ours, theirs in zip(found.document["results"], told["results"]):
        assert (ours["sets"], ours["params"]) == (theirs["sets"], theirs["params"])


def test_what_an_own_method_raises_reaches_the_caller():
    class Broken(Energy):
        def score(self, features):
            raise ZeroDivisionError("of mine")

    with pytest.raises(ZeroDivisionError, match="of mine"):
        offspan.evaluate(FIXTURE, [Broken()])
    with pytest.raises(offspan.InputError, match="an object with fit and score for int, got int"):
        offspan.evaluate(FIXTURE, [3])
    with pytest.raises(offspan.InputError, match="expected at least one, got none"):
        offspan.evaluate(FIXTURE, [])
    with pytest.raises(offspan.InputError, match="got knn twice"):
        offspan.evaluate(FIXTURE, ["knn", "knn"])


def test_a_method_without_results_says_why():
    class Short(Energy):
        def score(self, features):
            return features[1:, 0]

    found = offspan.evaluate(FIXTURE, {"energy": "energy", "short": Short()})
    assert "one per row" in found.without["short"]
    assert "short: no result: " in str(found)
    pandas = pytest.importorskip("pandas")
    frame = found.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and set(frame["method"]) == {"energy"}
