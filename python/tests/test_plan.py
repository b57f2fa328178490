"""Fits from parts of the rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import offspan

draw = np.random.default_rng(3)
CENTRES = draw.normal(size=(5, 12))
LABELS = draw.integers(0, 5, size=700)
ROWS = (CENTRES[LABELS] + 0.3 * draw.normal(size=(700, 12)) + 3).astype(np.float32)
WEIGHT = draw.normal(size=(5, 12))
LOGITS = (ROWS @ WEIGHT.T).astype(np.float32)


def fit_from_parts(method: str, bounds: list[int], **options: object) -> offspan.Detector:
    plan = offspan.FitPlan(method, head=(WEIGHT, np.zeros(5)), hold_out=0.2, **options)
    while plan.has_pass():
        sent = pickle.dumps(plan)
        parts = []
        for start, end in zip(bounds, bounds[1:]):
            here = pickle.loads(sent)
            rows = slice(start, end)
            parts.append(here.partial(ROWS[rows], logits=LOGITS[rows], labels=LABELS[rows], first_row=start))
        plan.advance(plan.merge_all(reversed(parts)))
    return plan.finish()


@pytest.mark.parametrize("method", ["auto", "kpca-rff", "pca", "mahalanobis", "vim", "react", "dice"])
def test_parts_give_the_detector_of_the_whole(method: str) -> None:
    whole = offspan.make(method, head=(WEIGHT, np.zeros(5))).fit(ROWS, LOGITS, LABELS, hold_out=0.2)
    for bounds in ([0, 700], [0, 10, 10, 300, 700]):
        detector = fit_from_parts(method, bounds)
        expected = whole.score(ROWS)
        np.testing.assert_allclose(detector.score(ROWS), expected, rtol=0, atol=1e-5 * abs(expected).max())
        assert detector.threshold == pytest.approx(whole.detector.threshold, rel=1e-5)


def test_the_same_rows_give_the_same_bytes() -> None:
    plan = offspan.FitPlan("pca")
    part = plan.partial(ROWS)
    assert part == offspan.FitPlan.from_bytes(plan.to_bytes()).partial(ROWS)
    assert plan.rows_of(part) == 700
    assert repr(plan) == "FitPlan(0 passes done, next: number and width of the rows)"


def test_bad_parts_are_refused_with_a_sentence() -> None:
    plan = offspan.FitPlan("pca")
    part = plan.partial(ROWS[:300])
    with pytest.raises(offspan.InputError, match="rows 100 to 299 are in two parts"):
        plan.merge(part, plan.partial(ROWS[100:], first_row=100))
    with pytest.raises(offspan.InputError, match=r"12 features.*got 7 features"):
        plan.merge(part, plan.partial(ROWS[300:, :7], first_row=300))
    with pytest.raises(offspan.InputError, match="belongs to another plan"):
        plan.merge(part, offspan.FitPlan("kpca-rff").partial(ROWS[300:], first_row=300))
    with pytest.raises(offspan.InputError, match="first_row: expected a row number from 0 on, got -1"):
        plan.partial(ROWS, first_row=-1)
    with pytest.raises(offspan.OffspanError):
        plan.advance(part[:-5])
    with pytest.raises(offspan.InputError, match="the fit is not done"):
        plan.finish()
    plan.advance(part)
    bad = ROWS[:300].copy()
    bad[200, 4] = np.nan
    with pytest.raises(offspan.InputError, match="row 200, column 4"):
        plan.partial(bad)
    neighbours = offspan.FitPlan("knn")
    with pytest.raises(offspan.InputError, match="cannot be fitted from parts"):
        neighbours.advance(neighbours.partial(ROWS))


@pytest.mark.parametrize("method", ["she", "mahalanobis"])
def test_a_table_brings_its_logits_and_labels_along(method: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    lists = {name: pa.array(list(array)) for name, array in (("features", ROWS), ("logits", LOGITS))}
    table = pa.table({**lists, "labels": LABELS})
    plan = offspan.FitPlan(method)
    while plan.has_pass():
        part = plan.partial(table)
        assert part == plan.partial(ROWS, LOGITS, LABELS)
        plan.advance(part)
    other = offspan.FitPlan(method)
    assert other.partial(table, LOGITS[:, :3]) != other.partial(table), "logits that are given count"


def test_missing_labels_are_asked_for_by_their_name() -> None:
    plan = offspan.FitPlan("mahalanobis")
    with pytest.raises(offspan.InputError, match=r"needs labels: .*every part of the rows must have them \(labels=\)$"):
        plan.advance(plan.partial(ROWS))


def test_a_part_without_rows_changes_nothing() -> None:
    plan = offspan.FitPlan("pca")
    while plan.has_pass():
        part = plan.merge(plan.partial(ROWS[:0], first_row=0), plan.partial(ROWS))
        plan.advance(plan.merge(part, plan.partial(ROWS[:0], first_row=700)))
    assert np.isfinite(plan.finish().score(ROWS)).all()


def test_a_plan_can_be_asked_while_it_goes_on() -> None:
    plan = offspan.FitPlan("kpca-nys", landmarks=32, sampling="uniform")
    seen = []
    while plan.has_pass():
        part = plan.partial(ROWS)
        before = plan.passes
        plan.advance(part, progress=lambda *_, before=before: seen.append(plan.passes - before))
    assert seen and set(seen) == {0}, "it goes on when all is done"


def test_a_pass_is_taken_once() -> None:
    plan = offspan.FitPlan("kpca-nys", landmarks=32, sampling="uniform")
    plan.advance(plan.partial(ROWS))
    part, went_on = plan.partial(ROWS), []

    def go_on(*_: object) -> None:
        if not went_on:
            went_on.append(True)
            plan.advance(part)

    with pytest.raises(offspan.InputError, match="the plan went on meanwhile"):
        plan.advance(part, progress=go_on)
    assert plan.passes == 2


def test_parts_of_the_same_plan_for_other_rows_are_refused() -> None:
    plans = [offspan.FitPlan("kpca-nys", landmarks=32, sampling="uniform") for _ in range(2)]
    for plan, rows in zip(plans, (ROWS, ROWS[::-1])):
        for _ in range(2):
            plan.advance(plan.partial(rows))
    with pytest.raises(offspan.InputError, match=r"another fit with the same method and options: .* first 2 passes"):
        plans[0].merge(plans[0].partial(ROWS[:300]), plans[1].partial(ROWS[300:], first_row=300))
