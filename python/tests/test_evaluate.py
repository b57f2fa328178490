"""Methods compared on packs, the caller's own among them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import offspan
from offspan import _evaluate

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
    assert r"\begin{tabular}" in found.latex and found.csv.startswith("method")
    assert found.html.startswith("<!doctype html>")


def test_figures_are_those_of_the_command_line(command_line):
    found = offspan.evaluate(FIXTURE, {"mine": offspan.make("knn", neighbours=5), "vim": "vim"})
    command = [command_line, "eval", str(FIXTURE), "--method", "knn,vim", "-k", "5", "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for ours, theirs in zip(found.document["results"], told["results"]):
        assert (ours["sets"], ours["params"]) == (theirs["sets"], theirs["params"])
    assert found.document["provenance"]["rows"] == told["provenance"]["rows"]


def test_seeds_and_comparisons_are_those_of_the_command_line(command_line, tmp_path):
    pair = ("kpca-rff:features=64", "knn:neighbours=5")
    found = offspan.evaluate(FIXTURE, pair, seeds=3, compare=[pair])
    line = ["--method", "kpca-rff:features=64,knn:neighbours=5", "--seeds", "3", "--json"]
    line += ["--compare", "kpca-rff:features=64,knn:neighbours=5"]
    ran = subprocess.run([command_line, "eval", str(FIXTURE), *line], check=True, capture_output=True)
    told = json.loads(ran.stdout)
    for ours, theirs in zip(found.document["results"], told["results"]):
        assert (ours["average"], ours.get("seeds")) == (theirs["average"], theirs.get("seeds"))
    assert found.document["comparisons"] == told["comparisons"] and found.csv is None
    found.save(tmp_path / "result.json")
    again = [command_line, "eval", "--repeat", tmp_path / "result.json"]
    repeated = subprocess.run(again, capture_output=True, check=False)
    assert repeated.returncode == 0, repeated.stdout
    for result in (found, found.document, tmp_path / "result.json"):
        again = offspan.repeat(result)
        assert again.agrees and again.identical and again.other_rows == []
    told = subprocess.run(
        [command_line, "eval", "--repeat", tmp_path / "result.json", "--json"], check=True, capture_output=True
    )
    assert again.document["methods"] == json.loads(told.stdout)["methods"]
    assert again.document["comparisons"] == json.loads(told.stdout)["comparisons"]


def test_a_repetition_says_when_it_cannot_be(tmp_path):
    found = offspan.evaluate(FIXTURE, {"knn": "knn", "norm": lambda features: np.linalg.norm(features, axis=1)})
    again = offspan.repeat(found)
    by_name = {method["method"]: method for method in again.document["methods"]}
    assert not again.agrees and by_name["knn"]["largest"] == 0.0
    assert by_name["norm"]["reason"] == "it is no method of this program"
    pack = offspan.Pack.open(FIXTURE)
    splits = {name: pack.read(name) for name in pack.sets}
    ood = {name: splits[name] for name in pack.sets[2:]}
    arrays = offspan.Pack(splits["train"], splits["test"], ood, head=pack.head, name=pack.name)
    one = offspan.evaluate(arrays, ["knn"])
    assert offspan.repeat(one, arrays).identical
    with pytest.raises(offspan.InputError, match="not where the document says"):
        offspan.repeat(one)
    fewer = offspan.Pack(splits["train"], tuple(part[::2] for part in splits["test"][:2]), ood, head=pack.head)
    assert "test" in offspan.repeat(one, fewer).other_rows
    with pytest.raises(offspan.InputError, match="expected the schema"):
        offspan.repeat({})


def test_the_row_that_a_preset_reproduces_stands_beside(command_line):
    made = {"preset": "cifar10-resnet18", "features": 64}
    found = offspan.evaluate(FIXTURE, [offspan.make("kpca-rff", **made), "knn"])
    line = ["--method", "kpca-rff,knn", "--preset", "cifar10-resnet18", "--features", "64", "--json"]
    ran = subprocess.run([command_line, "eval", str(FIXTURE), *line], check=True, capture_output=True)
    assert found.document["published"] == json.loads(ran.stdout)["published"]
    assert found.document["published"]["rows"][0]["method"] == "kpca-rff"
    assert "theirs" in found.markdown and "theirs" in found.latex
    # Nothing stands beside settings of several networks, or beside a method that has others.
    for other in (offspan.make("pca", preset="imagenet-resnet50"), "pca"):
        assert "published" not in offspan.evaluate(FIXTURE, [offspan.make("kpca-rff", **made), other]).document
    assert "published" not in offspan.evaluate(FIXTURE, ["kpca-rff:features=64"]).document


def test_packs_may_be_arrays(command_line):
    folder = offspan.Pack.open(FIXTURE)
    assert folder.sets[:2] == ["train", "test"] and len(folder.sets) > 2
    splits = {name: folder.read(name) for name in folder.sets}
    assert splits["train"].features.dtype == np.float32 and splits["train"].labels.dtype == np.int64
    ood = {name: splits[name] for name in folder.sets[2:]}
    arrays = offspan.Pack(splits["train"], splits["test"], ood, head=folder.head, name=folder.name)
    methods = ["vim", "mahalanobis", "knn"]
    one, two = offspan.evaluate(folder, methods), offspan.evaluate(arrays, methods)
    for ours, theirs in zip(one.document["results"], two.document["results"]):
        assert ours["sets"] == theirs["sets"]
    assert "knn" in two.averages and repr(arrays).startswith("<Pack ")
    with pytest.raises(offspan.InputError, match="expected one of train, test"):
        folder.read("nothing")
    with pytest.raises(offspan.InputError, match="columns, as in train"):
        offspan.evaluate(offspan.Pack(np.ones((9, 3)), np.ones((9, 3)), {"far": np.ones((9, 4))}))
    with pytest.raises(offspan.InputError, match="at least one set"):
        offspan.Pack(np.ones((9, 3)), np.ones((9, 3)), {})


def test_functions_scores_and_score_files_are_methods(tmp_path):
    pack = offspan.Pack.open(FIXTURE)
    scores = {}
    for name in pack.sets[1:]:
        scores[name] = np.linalg.norm(pack.read(name).features.astype(float), axis=1)
        path = tmp_path / "norms" / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, scores[name])

    def norm(features):
        return np.linalg.norm(features.astype(float), axis=1)

    found = offspan.evaluate(pack, {"function": norm, "array": scores, "file": tmp_path / "norms", "knn": "knn"})
    figures = found.averages
    assert figures["function"] == figures["array"] == figures["file"] != figures["knn"]
    assert [result["fit"] is None for result in found.document["results"]] == [True, True, True, False]
    named = offspan.evaluate(pack, [norm, tmp_path / "norms"])
    assert list(named.averages) == ["norm", "norms"]
    short = {name: scores[name][1:] for name in scores}
    assert "one per row" in offspan.evaluate(pack, {"knn": "knn", "short": short}).without["short"]
    with pytest.raises(offspan.InputError, match="expected scores of"):
        offspan.evaluate(pack, {"some": {"test": scores["test"]}})


def test_registered_methods_are_known_by_name(tmp_path):
    @offspan.register("noise")
    class Noise:
        def __init__(self, seed=0):
            self.draw = np.random.default_rng(seed)

        def fit(self, features):
            pass

        def score(self, features):
            return self.draw.normal(size=len(features))

    try:
        assert "noise" in offspan.registered()
        found = offspan.evaluate(FIXTURE, ["noise", "knn"], seeds=3)
        runs = found.document["results"][0]["seeds"]["runs"]
        assert len({run["average"]["auroc"] for run in runs}) == 3
        assert found.averages["noise"]["auroc"] == pytest.approx(np.mean([run["average"]["auroc"] for run in runs]))
        # Each seed alone gives what it gives among several.
        for run in runs:
            alone = offspan.evaluate(FIXTURE, ["noise"], seed=run["seed"])
            assert alone.averages["noise"] == run["average"]
        report = offspan.evaluate(FIXTURE, ["noise"], report=tmp_path / "report").report
        assert report.name == "report.html" and "noise on" in report.read_text()
        with pytest.raises(offspan.InputError, match="the library does not have"):
            offspan.register("knn", Noise)
        with pytest.raises(offspan.InputError, match="makes such an object"):
            offspan.register("thing", 3)
        with pytest.raises(offspan.InputError, match="no meaning for this study"):
            offspan.study("sampling", FIXTURE, tmp_path / "study", ["noise"])
        with pytest.raises(offspan.InputError, match="expected one of kernels"):
            offspan.study("nothing", FIXTURE, tmp_path / "study")
    finally:
        offspan.unregister("noise")
    with pytest.raises(offspan.InputError, match="registered name"):
        offspan.unregister("noise")


def test_own_methods_are_ranked_with_the_others(command_line, tmp_path):
    pack = offspan.Pack.open(FIXTURE)
    splits = {name: pack.read(name) for name in pack.sets}
    ood = {name: splits[name] for name in pack.sets[2:]}
    fewer = tuple(None if part is None else part[::2] for part in splits["test"])
    half = offspan.Pack(splits["train"], fewer, ood, name="half")
    methods = {"knn": "knn", "mahalanobis": "mahalanobis", "norm": lambda features: np.linalg.norm(features, axis=1)}
    found = [offspan.evaluate(one, methods) for one in (pack, half)]
    ranking = offspan.rank(found, folder=tmp_path / "rank")
    assert set(ranking.mean_ranks) == set(methods) and "norm" in str(ranking)
    assert ranking.page.exists() and "tabular" in ranking.latex
    for number, one in enumerate(found):
        one.save(tmp_path / f"{number}.json")
    line = [command_line, "rank", tmp_path / "0.json", tmp_path / "1.json", "--json"]
    told = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)
    assert told["methods"] == ranking.document["methods"]
    with pytest.raises(offspan.InputError, match="over: expected packs or sets"):
        offspan.rank(found, over="rows")


def test_a_study_is_that_of_the_command_line(command_line, tmp_path):
    page = offspan.study("sampling", FIXTURE, tmp_path / "python", landmarks=32)
    assert page.name == "sampling.html"
    line = ["study", "sampling", str(FIXTURE), "--landmarks", "32", "-o", str(tmp_path / "cli")]
    subprocess.run([command_line, *line], check=True, capture_output=True)
    assert (tmp_path / "python/sampling.csv").read_text() == (tmp_path / "cli/sampling.csv").read_text()


def test_own_methods_stand_in_the_comparison_of_the_paper(tmp_path):
    draw = np.random.default_rng(3)
    means = draw.uniform(0.0, 3.0, (4, 12))
    (tmp_path / "pack/ood").mkdir(parents=True)
    for name, rows, shift in (("train", 300, 0.0), ("test", 100, 0.0), ("ood/far", 80, 2.0)):
        drawn = means[draw.integers(0, 4, rows)] + draw.normal(shift, 0.5, (rows, 12))
        np.save(tmp_path / "pack" / f"{name}.npy", drawn.astype(np.float32))

    class Norm:
        name = "my norm"

        def fit(self, features):
            self.mean = features.mean(axis=0)

        def score(self, features):
            return -np.linalg.norm(features - self.mean, axis=1)

    folder = tmp_path / "out"
    page = offspan.study("paper", tmp_path / "pack", folder, [Norm()], landmarks=32, features=32)
    assert "my norm" in page.read_text()
    found = json.loads((folder / "methods.json").read_text())
    ours = next(result for result in found["results"]["results"] if result["method"] == "my norm")
    assert ours["average"] == offspan.evaluate(tmp_path / "pack", [Norm()]).averages["my norm"]


def test_packs_are_converted_as_on_the_command_line(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    np.savez(tmp_path / "id.npz", feat_list=rows, label_list=np.arange(60) % 3)
    np.savez(tmp_path / "far.npz", feat_list=rows + 5, label_list=np.full(60, -1))
    pack = offspan.Pack.convert(
        tmp_path / "pack", train=tmp_path / "id.npz", test=tmp_path / "id.npz", ood={"far": tmp_path / "far.npz"}
    )
    assert pack.sets == ["train", "test", "far"]
    np.testing.assert_array_equal(pack.read("far").features, rows + 5)
    assert pack.read("far").labels is None
    with pytest.raises(offspan.FormatError, match="there already"):
        offspan.Pack.convert(tmp_path / "pack", train=tmp_path / "id.npz")


def test_what_an_own_method_raises_reaches_the_caller():
    class Broken(Energy):
        def score(self, features):
            raise ZeroDivisionError("of mine")

    with pytest.raises(ZeroDivisionError, match="of mine"):
        offspan.evaluate(FIXTURE, [Broken()])
    with pytest.raises(offspan.InputError, match="scores by set for int, got int"):
        offspan.evaluate(FIXTURE, [3])
    with pytest.raises(offspan.InputError, match="expected at least one, got none"):
        offspan.evaluate(FIXTURE, [])
    with pytest.raises(offspan.InputError, match="got knn twice"):
        offspan.evaluate(FIXTURE, ["knn", "knn"])
    with pytest.raises(offspan.InputError, match="a name that the library does not have, got knn"):
        offspan.evaluate(FIXTURE, {"all": "all", "knn": Energy()})
    with pytest.raises(offspan.InputError, match="compare: expected two of knn, got vim"):
        offspan.evaluate(FIXTURE, ["knn"], compare=[("knn", "vim")])
    with pytest.raises(offspan.InputError, match="a report shows the test rows alone"):
        offspan.evaluate(FIXTURE, ["knn"], full_spectrum=True, report="out")
    with pytest.raises(offspan.InputError, match=r"expected a folder or offspan\.Pack, got int"):
        offspan.evaluate(3)


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
    assert {"set", "fpr95", "auroc"} <= set(frame.columns)
    assert set(frame["over"]) == {"set", "average"}
    assert list(frame.loc[frame["over"] == "average", "set"]) == ["average"]


def test_what_cannot_be_compared_does_not_cost_the_figures():
    class Short(Energy):
        def score(self, features):
            return features[1:, 0]

    found = offspan.evaluate(FIXTURE, {"energy": "energy", "short": Short()}, compare=[("energy", "short")])
    assert list(found.averages) == ["energy"] and found.document["not_compared"][0]["second"] == "short"
    assert "energy and short are not compared: short has no result" in str(found)


def test_packs_of_arrays_have_groups_and_shifted_rows(tmp_path):
    draw = np.random.default_rng(5)
    rows = {
        name: draw.normal(shift, 1.0, (60, 4)).astype(np.float32)
        for name, shift in (("train", 0), ("test", 0), ("ood/near/a", 1), ("ood/far/b", 3), ("shifted/c", 0.5))
    }
    for name, part in rows.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / f"{name}.npy", part)
    ood = {"far/b": rows["ood/far/b"], "near/a": rows["ood/near/a"]}
    arrays = offspan.Pack(rows["train"], rows["test"], ood, shifted={"c": rows["shifted/c"]})
    for full in (False, True):
        ours, theirs = (offspan.evaluate(pack, ["knn", "pca"], full_spectrum=full) for pack in (arrays, tmp_path))
        assert [group["name"] for group in ours.document["groups"]] == ["near", "far"]
        assert ours.document["groups"] == theirs.document["groups"]
        for one, other in zip(ours.document["results"], theirs.document["results"]):
            assert (one["average"], one["groups"]) == (other["average"], other["groups"])
        assert offspan.repeat(ours, arrays).identical
    without = offspan.Pack(rows["train"], rows["test"], ood)
    with pytest.raises(offspan.InputError, match="expected a pack with shifted rows"):
        offspan.evaluate(without, ["knn"], full_spectrum=True)
    with pytest.raises(offspan.InputError, match="shifted: expected a name that no other set has, got near/a"):
        offspan.Pack(rows["train"], rows["test"], ood, shifted={"near/a": rows["shifted/c"]})


def test_all_brings_what_is_registered_once():
    offspan.register("mine", Energy)
    try:
        given = _evaluate.native_methods(["mine", "all"], 0)
        assert [name for name, _ in given] == ["mine", "all"]
        given = _evaluate.native_methods(["all", "mine"], 0)
        assert [name for name, _ in given] == ["all", "mine"]
    finally:
        offspan.unregister("mine")


def test_caches_without_a_header_are_read_as_on_the_command_line(command_line, tmp_path):
    draw = np.random.default_rng(7)
    for name, shift in (("train_in", 0.0), ("val_in", 0.0), ("svhn_out", 2.0)):
        draw.normal(shift, 1.0, (80, 6)).tofile(tmp_path / f"{name}.mmap")
    with pytest.raises(offspan.OffspanError):
        offspan.Pack.open(tmp_path)
    pack = offspan.Pack.open(tmp_path, raw="f64:6")
    assert pack.read("train").features.shape == (80, 6)
    found = offspan.evaluate(pack, ["knn", "pca"])
    line = [command_line, "eval", tmp_path, "--raw", "f64:6", "--method", "knn,pca", "--json"]
    told = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)
    assert found.document["provenance"]["read"] == told["provenance"]["read"] == {"raw": "f64:6"}
    for ours, theirs in zip(found.document["results"], told["results"]):
        assert ours["sets"] == theirs["sets"]
    assert offspan.repeat(found).identical and offspan.repeat(found, pack).identical
    converted = offspan.Pack.convert(tmp_path / "pack", tmp_path, raw="f64:6", dtype="f64")
    assert offspan.evaluate(converted, ["knn"]).averages["knn"] == found.averages["knn"]
