"""Why rows have the scores they have."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import offspan


def test_the_terms_of_a_row_add_up_to_its_score(rows, ood_rows, head):
    method = offspan.make(head=head).fit(rows)
    new = np.vstack([rows[:200], ood_rows])
    why = method.detector.explain(new)
    assert isinstance(why, offspan.Explanation)
    assert list(why.weights) == list(why.p_values) and len(why.weights) > 1
    assert sum(why.weights.values()) == pytest.approx(1.0, rel=1e-12)
    p_values = np.array(list(why.p_values.values()))
    assert p_values.shape == (len(why.weights), 500) and p_values.dtype == np.float64
    assert (p_values >= 0).all() and (p_values <= 1).all()
    # What is too small for a number has lost its logarithm.
    known = (p_values > 1e-300).all(axis=0)
    assert known.sum() >= 200
    sums = np.array(list(why.weights.values())) @ np.log(p_values[:, known])
    np.testing.assert_allclose(sums, method.score(new)[known], rtol=1e-9, atol=1e-12)
    again = method.explain(new)
    assert again.weights == why.weights
    with pytest.raises(dataclasses.FrozenInstanceError):
        why.weights = {}


def test_logits_are_passed_on(rows, head):
    logits = np.tanh(rows @ head[0].T + head[1])  # No linear layer gives these.
    method = offspan.make().fit(rows, logits)
    if "energy" not in method.explain(rows[:5], logits[:5]).weights:
        pytest.skip("the energy does not count here")
    with pytest.raises(offspan.InputError, match="logits"):
        method.explain(rows[:5])


def test_the_table_has_one_line_per_row_and_one_column_per_term(rows, head):
    pandas = pytest.importorskip("pandas")
    why = offspan.make(head=head).fit(rows).explain(rows[:30])
    table = why.to_dataframe()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == list(why.p_values) and len(table) == 30
    name = next(iter(why.p_values))
    assert (table[name].to_numpy() == why.p_values[name]).all()


def test_a_score_without_parts_has_no_explanation(rows):
    detector = offspan.make("knn", neighbours=5).fit(rows).detector
    message = "explain: expected a detector whose score has terms, such as one of auto; this one is of knn"
    with pytest.raises(offspan.InputError, match=message):
        detector.explain(rows)
    with pytest.raises(offspan.NotFittedError):
        offspan.make().explain(rows)
