"""What holds on each engine: the fits of one machine, whatever the partitions; lost workers; bad input."""

from __future__ import annotations

import functools

import data
import numpy as np
import pieces
import pytest

import offspan

CASES = {str(case): case for case in data.CASES}


@functools.cache
def on_one_machine(case: str, pack: str) -> offspan.Detector:
    return CASES[case].on_one_machine(data.load(pack))


def columns(case: data.Case) -> dict[str, str]:
    """Names of columns for `fit`."""
    return {name: name for name, is_used in (("logits", case.logits), ("labels", case.labels)) if is_used}


@pytest.mark.parametrize("name", CASES)
def test_a_fit_of_uneven_partitions_is_that_of_one_machine(engine, pack, name, tmp_path):
    """Seventeen partitions, of which one is empty; four where rows are wide and each partition takes seconds."""
    case = CASES[name]
    cut = "four" if pack.name == "imagenet-resnet50" else "seventeen"
    paths = pieces.write(tmp_path, data.cuts(len(pack.rows))[cut], pack.rows, **case.given(pack))
    detector = engine.fit(case.plan(pack), paths, **columns(case))
    case.assert_same(on_one_machine(name, pack.name), detector, pack)


@pytest.mark.parametrize("cut", ["one", "three"])
@pytest.mark.parametrize("name", ["kpca-rff-f64", "kpca-nys-low-energy-f64", "react", "vim"])
def test_other_partitions_give_the_same_detector(engine, small, name, cut, tmp_path):
    case = CASES[name]
    paths = pieces.write(tmp_path, data.cuts(len(small.rows))[cut], small.rows, **case.given(small))
    case.assert_same(on_one_machine(name, small.name), engine.fit(case.plan(small), paths, **columns(case)), small)


def test_a_fit_survives_a_worker_that_is_killed_in_the_middle_of_a_pass(engine, small, tmp_path):
    case = CASES["kpca-nys-uniform"]
    paths = pieces.write(tmp_path, data.cuts(len(small.rows))["seventeen"], small.rows)
    undisturbed = engine.fit(case.plan(small), paths)
    told = pieces.kill_at(paths[9], reading=3)  # Once it is counted, once it is read by the first pass.
    stages: list[tuple[str, int]] = []
    detector = engine.fit(case.plan(small), paths, progress=lambda stage, done, total: stages.append((stage, done)))
    assert not told.exists(), "nobody was killed"
    assert detector == undisturbed
    assert any(stage.startswith("pass 2") and done for stage, done in stages)


def test_the_same_partitions_give_the_same_bytes(engine, small, tmp_path):
    case = CASES["pca"]
    paths = pieces.write(tmp_path, data.cuts(len(small.rows))["seventeen"], small.rows)
    assert engine.fit(case.plan(small), paths) == engine.fit(case.plan(small), paths)


def test_scores_come_back_as_columns(engine, small, tmp_path):
    detector = on_one_machine("kpca-nys-uniform", small.name)
    sizes = data.cuts(len(small.rows))["seventeen"]
    paths = pieces.write(tmp_path, sizes, small.rows, labels=small.labels)
    answered = engine.transform(detector, paths)
    assert list(answered.columns) == ["features", "labels", "score", "p_value", "is_in"]
    scores = np.asarray(answered["score"], dtype=np.float64)
    np.testing.assert_array_equal(scores, detector.score(small.rows))
    np.testing.assert_array_equal(np.asarray(answered["p_value"], dtype=np.float64), detector.p_values_of(scores))
    np.testing.assert_array_equal(np.asarray(answered["is_in"], dtype=bool), detector.predict(small.rows))
    np.testing.assert_array_equal(np.asarray(answered["labels"], dtype=int), small.labels)


def test_scores_of_a_method_that_reads_logits(engine, small, tmp_path):
    detector = on_one_machine("she", small.name)
    paths = pieces.write(tmp_path, [700, 800], small.rows, logits=small.logits)
    answered = engine.transform(detector, paths, logits="logits", p_value=None, is_in=None)
    np.testing.assert_array_equal(
        np.asarray(answered["score"], dtype=np.float64), detector.score(small.rows, small.logits)
    )


def test_a_nan_is_named_with_its_row(engine, small, tmp_path):
    rows = small.rows.copy()
    rows[1234, 56] = np.nan
    paths = pieces.write(tmp_path, data.cuts(len(rows))["seventeen"], rows)
    with pytest.raises(offspan.InputError, match=r"partition \d+: .*row 1234, column 56"):
        engine.fit(CASES["pca"].plan(small), paths)


def test_partitions_of_different_widths_are_refused(engine, small, tmp_path):
    paths = pieces.write(tmp_path, [500, 500, 500], small.rows)
    (tmp_path / "other").mkdir()
    paths[2] = pieces.write(tmp_path / "other", [500], small.rows[1000:, :-1])[0]
    with pytest.raises(offspan.InputError, match=r"partition 2: .*342.*341|partition 2: .*341.*342"):
        engine.fit(CASES["pca"].plan(small), paths)


def test_a_missing_column_is_refused_on_the_driver(engine, small, tmp_path):
    paths = pieces.write(tmp_path, [1000, 500], small.rows)
    with pytest.raises(offspan.InputError, match="logits: there is no column 'logits', but features"):
        engine.fit(CASES["she"].plan(small), paths, logits="logits")
    with pytest.raises(offspan.InputError, match="features: expected columns f0, f1, …, got features"):
        engine.fit(CASES["pca"].plan(small), paths, features="f*")


def test_a_method_that_needs_its_rows_again_and_again_is_refused(engine, small, tmp_path):
    paths = pieces.write(tmp_path, [1000, 500], small.rows)
    with pytest.raises(offspan.InputError, match=r"knn .*cannot be fitted from parts"):
        engine.fit(offspan.FitPlan("knn"), paths)


def test_no_rows_at_all_are_refused(engine, small, tmp_path):
    paths = pieces.write(tmp_path, [0, 0], small.rows[:0])
    with pytest.raises(offspan.InputError, match="expected rows to fit to, got none in 2 partitions"):
        engine.fit(CASES["pca"].plan(small), paths)


def test_a_detector_without_a_threshold_gives_scores_only(engine, small, tmp_path):
    detector = offspan.make("pca").fit(small.rows, hold_out=0).detector
    paths = pieces.write(tmp_path, [1500], small.rows)
    with pytest.raises(offspan.InputError, match="the detector has no threshold"):
        engine.transform(detector, paths)
    answered = engine.transform(detector, paths, p_value=None, is_in=None)
    np.testing.assert_array_equal(np.asarray(answered["score"], dtype=np.float64), detector.score(small.rows))
