"""The loop of a cluster fit, with an engine that runs here: numbering, faults, changed rows, checkpoints."""

from __future__ import annotations

import dataclasses
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import offspan
from offspan._cluster import driver, parquet, parts
from offspan._cluster.tables import Block, Columns

ROWS = np.random.default_rng(3).normal(size=(900, 6)).astype(np.float32) + 2
PLAN = offspan.FitPlan("kpca-rff", features=64, precision="f64")


class Here:
    """Carries out passes in this process, on arrays."""

    def __init__(self, pieces):
        self.pieces = pieces
        self.passes = 0

    def count(self):
        return [len(piece) for piece in self.pieces]

    def carry_out(self, plan, places, done):
        self.passes += 1
        level = [parts.find(plan, place, self.blocks(place)) for place in places]
        for groups in parts.levels(len(level), 2):
            level = [parts.merged(level[one] for one in group) for group in groups]
        done(len(places))
        return level[0]

    def blocks(self, place):
        yield Block(self.pieces[place.partition], None, None)


def fit(engine, plan=PLAN, checkpoint=None, progress=False):
    return driver.fit(plan, engine, progress, checkpoint)


def test_a_tree_of_parts_is_the_fit_of_one_machine():
    one = offspan.make("kpca-rff", features=64, precision="f64").fit(ROWS).detector
    detector = fit(Here(np.split(ROWS, [1, 1, 400, 750])))
    np.testing.assert_allclose(detector.score(ROWS), one.score(ROWS), rtol=0, atol=1e-9)
    assert detector.info["training"] == one.info["training"]
    assert PLAN.passes == 0, "the plan that is given stays as it is"


def test_a_partition_in_batches_is_the_partition(monkeypatch):
    class Batches(Here):
        def blocks(self, place):
            for batch in np.array_split(self.pieces[place.partition], 5):
                yield Block(batch, None, None)

    pieces = np.split(ROWS, [300])
    whole, joined = fit(Here(pieces)), fit(Batches(pieces))
    assert joined == whole
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 1)
    np.testing.assert_allclose(fit(Batches(pieces)).score(ROWS), whole.score(ROWS), rtol=0, atol=1e-9)


def test_the_fault_of_the_first_partition_is_told():
    bad = ROWS.copy()
    bad[[450, 850], 2] = np.nan
    with pytest.raises(offspan.InputError, match=r"^partition 2: .*row 450, column 2"):
        fit(Here(np.split(bad, [100, 400, 800])))


def test_rows_that_change_between_passes_are_noticed():
    class Shuffled(Here):
        def blocks(self, place):
            piece = self.pieces[place.partition]
            yield Block(piece if self.passes < 2 or place.partition != 1 else piece[::-1], None, None)

    with pytest.raises(offspan.InputError, match=r"partition 1: its rows are not those of the pass before; .*persist"):
        fit(Shuffled(np.split(ROWS, [300])))

    class Fewer(Here):
        def blocks(self, place):
            yield Block(self.pieces[place.partition][:-1], None, None)

    with pytest.raises(offspan.InputError, match="partition 0: expected 300 rows as counted before, got 299"):
        fit(Fewer(np.split(ROWS, [300])))


def test_labels_and_logits_that_change_between_passes_are_noticed():
    labels, logits = np.arange(900) % 3, ROWS[:, :3]
    plan = offspan.FitPlan("rmds")

    class Relabelled(Here):
        def __init__(self, *words, changed):
            super().__init__(*words)
            self.changed = changed

        def blocks(self, place):
            rows = slice(place.first_row, place.first_row + place.rows)
            given = {"labels": labels[rows], "logits": logits[rows]}
            if self.passes > 2 and place.partition == 1:
                given[self.changed] = given[self.changed][::-1]
            for part in range(2):  # However they come.
                half = slice(part * place.rows // 2, (part + 1) * place.rows // 2)
                yield Block(ROWS[rows][half], given["logits"][half], given["labels"][half])

    for changed in ("labels", "logits"):
        with pytest.raises(offspan.InputError, match="partition 1: its rows are not those of the pass before"):
            fit(Relabelled(np.split(ROWS, [300]), changed=changed), plan)


@pytest.mark.parametrize("what", ["features", "logits"])
def test_batches_of_different_widths_are_a_sentence(what):
    class Narrower(Here):
        def blocks(self, place):
            for part, rows in enumerate(np.split(self.pieces[place.partition], [100])):
                narrow = slice(None, None if part == 0 or place.partition == 0 else 5)
                yield Block(rows[:, narrow if what == "features" else slice(None)], rows[:, narrow], None)

    with pytest.raises(offspan.InputError, match=f"^partition 1: {what}: expected rows of width 6 .*, got 5"):
        fit(Narrower(np.split(ROWS, [300])))


def test_threads_of_a_worker_share_one_plan(monkeypatch):
    monkeypatch.setattr(parts, "_OPENED", {})
    sealed = parts.Sealed(PLAN.to_bytes())
    opened, begun = [], threading.Barrier(4)

    def opener(data):
        opened.append(data)
        for _ in range(200):  # The others run meanwhile.
            plan = offspan.FitPlan.from_bytes(data)
        return plan

    def work(_):
        begun.wait()
        return sealed._opened(opener)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(map(id, pool.map(work, range(4))))) == 1
    assert len(opened) == 1


def test_a_part_of_another_plan_is_refused():
    class Mixed(Here):
        def carry_out(self, plan, places, done):
            other = parts.Sealed(offspan.FitPlan("pca").to_bytes())
            return parts.merged(
                parts.find(other if place.partition else plan, place, self.blocks(place)) for place in places
            )

    with pytest.raises(offspan.InputError, match=r"partition 1: .*plan"):
        fit(Mixed(np.split(ROWS, [300])))


def of_version(data, version):
    """The same bytes with another version in their header, which is looked at before their checksum."""
    altered, count = re.subn(rb'(\\"version\\":)\d+', rb"\g<1>%d" % version, data, count=1)
    assert count == 1 and len(altered) == len(data)
    return altered


def test_a_plan_of_another_version_is_a_sentence_on_the_driver():
    class Newer(Here):
        def carry_out(self, plan, places, done):
            other = parts.Sealed(of_version(plan.data, 9))
            return parts.merged(
                parts.find(other if place.partition else plan, place, self.blocks(place)) for place in places
            )

    with pytest.raises(offspan.OffspanError, match=r"^partition 1: .*a plan of a fit of version 9; this program reads"):
        fit(Newer(np.split(ROWS, [300, 600])))


def test_a_part_of_another_version_is_a_sentence_on_the_driver():
    class Newer(Here):
        def carry_out(self, plan, places, done):
            level = [parts.find(plan, place, self.blocks(place)) for place in places]
            level[1] = dataclasses.replace(level[1], found=of_version(level[1].found, 9))
            return parts.merged(level)

    with pytest.raises(offspan.OffspanError, match=r"^partition 1: .*a part of a fit of version 9; this program reads"):
        fit(Newer(np.split(ROWS, [300, 600])))


def test_a_lost_part_is_noticed():
    class Lossy(Here):
        def carry_out(self, plan, places, done):
            return super().carry_out(plan, places[:-1], done)

    with pytest.raises(offspan.InputError, match="expected one part of each of 3 partitions, got 2"):
        fit(Lossy(np.split(ROWS, [300, 500])))


def test_a_fit_whose_driver_was_lost_goes_on(tmp_path):
    class Lost(Exception):
        pass

    class Failing(Here):
        def carry_out(self, plan, places, done):
            if self.passes == 2:
                raise Lost
            return super().carry_out(plan, places, done)

    pieces, checkpoint = np.split(ROWS, [300, 500]), tmp_path / "fit.checkpoint"
    with pytest.raises(Lost):
        fit(Failing(pieces), checkpoint=checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.checkpoint"]
    with pytest.raises(offspan.InputError, match="other settings"):
        fit(Here(pieces), plan=offspan.FitPlan("pca"), checkpoint=checkpoint)
    with pytest.raises(offspan.InputError, match="other partitions"):
        fit(Here(pieces[:2]), checkpoint=checkpoint)
    again, whole = Here(pieces), Here(pieces)
    assert fit(again, checkpoint=checkpoint) == fit(whole)
    assert again.passes == whole.passes - 2
    assert not list(tmp_path.iterdir())
    checkpoint.write_text("something else")
    with pytest.raises(offspan.FormatError, match="a file of another kind"):
        fit(Here(pieces), checkpoint=checkpoint)
    assert checkpoint.read_text() == "something else"
    about = b'{"plan": "a"}'
    for damaged in (b"\x05\x00", len(about).to_bytes(8, "little") + about, (1).to_bytes(8, "little") + b"3"):
        checkpoint.write_bytes(b"offspan cluster fit 1\n" + damaged)
        with pytest.raises(offspan.FormatError, match="damaged"):
            fit(Here(pieces), checkpoint=checkpoint)


def test_progress_tells_stage_and_partitions():
    told = []
    fit(Here(np.split(ROWS, [300])), progress=lambda *words: told.append(words))
    assert told[0] == ("counting rows", 0, 0)
    assert ("pass 1, number and width of the rows", 2, 2) in told


def test_columns_are_checked_and_spelled_out():
    names = ["id", "f10", "f2", "f", "fx"]
    assert Columns.chosen(names, "f*", None, None).features == ("f2", "f10")
    assert Columns.chosen(names, ["f", "id"], "fx", "id").names == ["f", "id", "fx"]
    with pytest.raises(offspan.InputError, match="labels: there is no column 'y', but id, f10"):
        Columns.chosen(names, "f", None, "y")
    with pytest.raises(offspan.InputError, match="expected the name of a column, or several"):
        Columns.chosen(names, [], None, None)


def test_lists_of_pandas_become_rows():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"features": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1], "a": [1, 2], "b": [0.5, 1.5]})
    block = Columns("features", ("a", "b"), "y").block(table)
    np.testing.assert_array_equal(block.features, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(block.logits, [[1, 0.5], [2, 1.5]])
    np.testing.assert_array_equal(block.labels, [0, 1])
    table.at[1, "features"] = [3.0]
    with pytest.raises(offspan.InputError, match="expected 2 numbers in every row as in row 10, got 1 in row 11"):
        Columns("features").block(table, first_row=10)
    table.at[1, "features"] = "none"
    with pytest.raises(offspan.InputError, match="expected a list of numbers in every row, got 'none' in row 11"):
        Columns("features").block(table, first_row=10)


def test_chunks_of_different_widths_are_told_with_their_row():
    pa = pytest.importorskip("pyarrow")
    table = pa.concat_tables([pa.table({"features": rows}) for rows in ([[1.0, 2.0]], [[3.0], [4.0]])])
    with pytest.raises(offspan.InputError, match="features: expected 2 numbers in every row, got 1 in row 11"):
        Columns("features").block(table, first_row=10)


class Files(Here):
    """Partitions in files, of which a worker is told the path."""

    def __init__(self, paths, columns, storage=None):
        super().__init__(parquet.as_paths(paths, storage or {}))
        self.columns, self.storage = columns, storage or {}

    def count(self):
        return [parquet.rows_of([path], self.storage) for path in self.pieces]

    def blocks(self, place):
        return parquet.blocks_of([self.pieces[place.partition]], self.columns, place.first_row, self.storage)


def written(folder, pieces):
    """Files of numbered columns, whose names sort in another way than their numbers."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    folder.mkdir()
    for number, piece in enumerate(pieces):
        table = pa.table({f"f{column}": piece[:, column] for column in range(piece.shape[1])})
        pyarrow.parquet.write_table(table, folder / f"part-{number}.parquet", compression="none")
    (folder / "_SUCCESS").touch()
    return folder


def test_a_folder_is_its_files_in_the_order_of_their_numbers(tmp_path):
    pieces = np.split(ROWS, list(range(75, 900, 75)))
    folder = written(tmp_path / "train.parquet", pieces)
    expected = fit(Here(pieces))
    assert fit(Files(folder, Columns("f*"))) == expected
    assert fit(Files([str(folder)], Columns("f*"))) == expected
    memory = pytest.importorskip("fsspec").filesystem("memory")
    for path in folder.iterdir():
        memory.pipe(f"/bucket/train.parquet/{path.name}", path.read_bytes())
    assert fit(Files("memory://bucket/train.parquet", Columns("f*"))) == expected
    (tmp_path / "empty").mkdir()
    with pytest.raises(offspan.InputError, match=r"empty: expected files that end in .parquet in the folder"):
        parquet.as_paths([tmp_path / "empty"], {})


def test_a_file_that_cannot_be_decoded_is_named(tmp_path):
    folder = written(tmp_path / "train", np.split(ROWS, [300]))
    path = folder / "part-1.parquet"
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    with pytest.raises(offspan.InputError, match=r"^partition 1: .*part-1.parquet: it cannot be decoded"):
        fit(Files(folder, Columns("f*")))


def test_wide_rows_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    folder = written(tmp_path / "train", [ROWS])
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 2400)
    read = list(parquet.blocks_of([str(folder / "part-0.parquet")], Columns("f*"), 0, {}))
    assert max(block.features.nbytes for block in read) <= 2400 and len(read) >= 9
    np.testing.assert_array_equal(np.concatenate([block.features for block in read]), ROWS)


@pytest.mark.parametrize("engine", ["dask", "spark", "ray"])
def test_a_missing_engine_is_named(engine, monkeypatch):
    for module in ("dask", "pyspark", "ray"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"offspan.{engine}", raising=False)
    with pytest.raises(ImportError, match=rf"offspan.{engine} needs .*: pip install"):
        __import__(f"offspan.{engine}")
