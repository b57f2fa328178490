"""Arrays, DataFrames, bags and lists of paths, on every scheduler of Dask."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import data
import numpy as np
import pieces
import pytest

import offspan

pytest.importorskip("dask", reason="Dask is not installed here")
import dask.array
import dask.bag
import dask.dataframe
import pandas as pd

import offspan.dask

RFF = next(case for case in data.CASES if str(case) == "kpca-rff-f64")
SHE = next(case for case in data.CASES if str(case) == "she")


@pytest.fixture(scope="module")
def expected(small):
    return RFF.on_one_machine(small)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_arrays_on_local_schedulers(small, expected, scheduler):
    rows = dask.array.from_array(small.rows, chunks=((700, 0, 800), 100))
    RFF.assert_same(expected, offspan.dask.fit(RFF.plan(small), rows, scheduler=scheduler), small)
    scores = offspan.dask.score(expected, rows)
    assert scores.shape == (1500,)
    np.testing.assert_array_equal(scores.compute(scheduler=scheduler), expected.score(small.rows))


def test_arrays_of_unknown_sizes(small, expected):
    rows = dask.array.from_array(small.rows, chunks=(400, -1))
    RFF.assert_same(expected, offspan.dask.fit(RFF.plan(small), rows[rows[:, 0] > -1]), small)


def test_logits_and_labels_beside_an_array(small):
    rows, logits = dask.array.from_array(small.rows, chunks=(400, -1)), dask.array.from_array(small.logits, chunks=500)
    labels = dask.array.from_array(small.labels, chunks=700)
    SHE.assert_same(SHE.on_one_machine(small), offspan.dask.fit(SHE.plan(small), rows, logits, labels), small)
    with pytest.raises(offspan.InputError, match="labels: expected 1500 rows as the features have, got 900"):
        offspan.dask.fit(SHE.plan(small), rows, logits, labels[:900])
    with pytest.raises(offspan.InputError, match="logits: expected a Dask array as the rows are, got ndarray"):
        offspan.dask.fit(SHE.plan(small), rows, small.logits)


def test_numbered_columns(small, expected):
    table = pd.DataFrame(small.rows, columns=[f"f{number}" for number in range(small.rows.shape[1])])
    lazy = dask.dataframe.from_pandas(table, npartitions=3)
    RFF.assert_same(expected, offspan.dask.fit(RFF.plan(small), lazy, features="f*"), small)
    scores = offspan.dask.score(expected, lazy, features="f*").compute()
    np.testing.assert_array_equal(scores.to_numpy(), expected.score(small.rows))


def test_bags_and_lists_of_paths(small, expected, tmp_path):
    paths = pieces.write(tmp_path, [700, 0, 500, 300], small.rows)
    for given in (paths, dask.bag.from_sequence(paths, npartitions=2)):
        RFF.assert_same(expected, offspan.dask.fit(RFF.plan(small), given), small)
    with pytest.raises(offspan.InputError, match="there is no column 'rows', but features"):
        offspan.dask.fit(RFF.plan(small), dask.bag.from_sequence(paths), features="rows")


def test_folders_and_bags_of_numbered_columns(small, expected, tmp_path):
    names = [f"f{number}" for number in range(small.rows.shape[1])]
    for number, piece in enumerate(data.pieces(small.rows, [700, 500, 300])):
        pd.DataFrame(piece, columns=names).to_parquet(tmp_path / f"part.{number + 8}.parquet")
    paths = [str(tmp_path / f"part.{number}.parquet") for number in (8, 9, 10)]
    for given in (tmp_path, [f"{tmp_path}/"], dask.bag.from_sequence(paths, npartitions=2)):
        detector = offspan.dask.fit(RFF.plan(small), given, features="f*", scheduler="threads")
        RFF.assert_same(expected, detector, small)


def test_two_fits_of_a_client_at_once(engine, small, expected):
    rows = dask.array.from_array(small.rows, chunks=(300, -1))
    together, told = threading.Barrier(2), ([], [])

    def fit(which):
        def progress(stage, done, total):
            if stage.startswith("pass") and not done:
                together.wait()
            told[which].append((done, total))

        return offspan.dask.fit(RFF.plan(small), rows, progress=progress)

    with ThreadPoolExecutor(2) as pool:
        for detector in pool.map(fit, range(2)):
            RFF.assert_same(expected, detector, small)
    for mine in told:
        assert max(mine) == (5, 5) and any(0 < done < 5 for done, _ in mine)


def test_addresses_go_through_fsspec(small, expected, tmp_path):
    import fsspec

    store = fsspec.filesystem("memory")
    addresses = []
    for path in pieces.write(tmp_path, [700, 800], small.rows):
        addresses.append(f"memory://features/{path[-11:]}")
        store.pipe(addresses[-1], open(path, "rb").read())
    RFF.assert_same(expected, offspan.dask.fit(RFF.plan(small), addresses, scheduler="threads"), small)
    store.pipe("memory://features/no", b"no Parquet file")
    with pytest.raises(offspan.InputError, match="memory://features/no: expected a Parquet file"):
        offspan.dask.fit(RFF.plan(small), ["memory://features/no"], scheduler="threads")


def test_lists_that_dask_made_text_of_are_explained(small):
    lazy = dask.dataframe.from_pandas(pd.DataFrame({"features": list(small.rows)}), npartitions=2)
    with pytest.raises(offspan.InputError, match="got a column of large_string; Dask makes text of lists"):
        offspan.dask.fit(RFF.plan(small), lazy, scheduler="threads")


def test_other_things_are_refused(small):
    with pytest.raises(offspan.InputError, match="expected a Dask array, DataFrame or bag"):
        offspan.dask.fit(RFF.plan(small), small.rows)
    with pytest.raises(offspan.InputError, match=r"plan: expected an offspan.FitPlan, got str"):
        offspan.dask.fit("pca", dask.array.from_array(small.rows))
    table = dask.dataframe.from_pandas(pd.DataFrame({"score": [1.0]}))
    with pytest.raises(offspan.InputError, match="there is a column 'score' already"):
        offspan.dask.transform(RFF.on_one_machine(small), table, features="score")
