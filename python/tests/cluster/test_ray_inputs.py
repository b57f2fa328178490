"""Datasets of Ray: lists, tensors, numbered columns."""

from __future__ import annotations

import data
import numpy as np
import pandas as pd
import pytest

import offspan

pytest.importorskip("ray", reason="Ray is not installed here")
import ray.data

import offspan.ray

RFF = next(case for case in data.CASES if str(case) == "kpca-rff-f64")


@pytest.fixture(scope="module")
def expected(engine, small):
    return RFF.on_one_machine(small)


def test_datasets_of_tensors(small, expected):
    rows = ray.data.from_numpy(data.pieces(small.rows, [700, 500, 300])).rename_columns({"data": "features"})
    RFF.assert_same(expected, offspan.ray.fit(RFF.plan(small), rows), small)
    answered = offspan.ray.transform(expected, rows, batch_size=128).to_pandas()
    np.testing.assert_array_equal(np.sort(answered["score"]), np.sort(expected.score(small.rows)))


def test_datasets_of_numbered_columns(small, expected):
    names = [f"f{number}" for number in range(small.rows.shape[1])]
    tables = [pd.DataFrame(piece, columns=names) for piece in data.pieces(small.rows, [700, 800])]
    RFF.assert_same(expected, offspan.ray.fit(RFF.plan(small), ray.data.from_pandas(tables), features="f*"), small)


def test_merged_parts_stay_where_they_are_until_the_last(small, expected, monkeypatch):
    class Watched:
        """Ray, whose waiting is told of."""

        def __getattr__(self, name):
            return getattr(ray, name)

        def wait(self, references, **options):
            fetched.append(options.get("fetch_local", True))
            return ray.wait(references, **options)

    fetched = []
    monkeypatch.setattr(offspan.ray, "ray", Watched())
    rows = ray.data.from_numpy(data.pieces(small.rows, [300] * 5)).rename_columns({"data": "features"})
    RFF.assert_same(expected, offspan.ray.fit(RFF.plan(small), rows), small)
    assert fetched and not any(fetched)


def test_the_order_of_blocks_is_kept_as_the_user_wants_it(small, expected):
    rows = ray.data.from_numpy([small.rows]).rename_columns({"data": "features"})
    before = rows.context.execution_options.preserve_order
    offspan.ray.fit(RFF.plan(small), rows)
    assert rows.context.execution_options.preserve_order == before


def test_other_things_are_refused(engine, small, expected):
    with pytest.raises(offspan.InputError, match="rows: expected a Ray dataset or a list of paths, got ndarray"):
        offspan.ray.fit(RFF.plan(small), small.rows)
    with pytest.raises(offspan.InputError, match="rows: expected a Ray dataset, got ndarray"):
        offspan.ray.transform(expected, small.rows)
