"""The estimator of pyspark.ml: pipelines, vectors, numbered columns, saving and loading."""

from __future__ import annotations

import data
import numpy as np
import pieces
import pytest

import offspan

pytest.importorskip("pyspark", reason="Spark is not installed here")
import pandas as pd
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler

import offspan.spark
from offspan.spark import OffspanDetector, OffspanDetectorModel


@pytest.fixture(scope="module")
def numbered(engine, small):
    """Twelve numbered columns."""
    names = [f"f{number}" for number in range(12)]
    rows = pd.DataFrame(small.rows[:, :12] + 1.0, columns=names).astype("float64")
    return engine.session.createDataFrame(rows).coalesce(1).persist()


def test_a_pipeline_with_vectors_is_saved_and_loaded(numbered, small, tmp_path):
    rows = (small.rows[:, :12] + 1.0).astype(np.float64)
    gathered = VectorAssembler(inputCols=numbered.columns, outputCol="features")
    model = Pipeline(stages=[gathered, OffspanDetector(method="pca", keep=0.9)]).fit(numbered)
    answered = model.transform(numbered)
    assert answered.columns == [*numbered.columns, "features", "score", "p_value", "is_in"]
    found = answered.select("score", "is_in").toPandas()
    detector = offspan.make("pca").fit(rows, keep=0.9).detector
    np.testing.assert_allclose(found["score"], detector.score(rows), rtol=0, atol=data.SINGLE)
    model.write().overwrite().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model")).transform(numbered).select("score", "is_in").toPandas()
    pd.testing.assert_frame_equal(again, found)


def test_numbered_columns_and_own_names(numbered, small):
    estimator = OffspanDetector(method="pca", featuresCol="f*", scoreCol="how_far", pValueCol="", decisionCol="known")
    answered = estimator.fit(numbered).transform(numbered)
    assert answered.columns == [*numbered.columns, "how_far", "known"]


def test_estimator_and_model_are_saved_and_loaded(engine, small, tmp_path):
    estimator = OffspanDetector(
        method="kpca-nys", head=small.head, options={"landmarks": 64, "sampling": "low-energy"}, holdOut=0.2
    )
    estimator.save(str(tmp_path / "estimator"))
    again = OffspanDetector.load(str(tmp_path / "estimator"))
    assert again.uid == estimator.uid and again.plan().to_bytes() == estimator.plan().to_bytes()
    table = engine.table(pieces.write(tmp_path, [900, 600], small.rows))
    model = again.fit(table)
    model.save(str(tmp_path / "model"))
    assert OffspanDetectorModel.load(str(tmp_path / "model")).detector == model.detector
    with pytest.raises(offspan.FormatError, match=r"expected a saved .*OffspanDetectorModel"):
        OffspanDetectorModel.load(str(tmp_path / "estimator"))
    with pytest.raises(Exception, match=r"(?i)exists"):
        model.save(str(tmp_path / "model"))


def test_the_detector_is_evaluated_once_for_three_columns(engine, small, tmp_path, capsys):
    table = engine.table(pieces.write(tmp_path, [1500], small.rows))
    offspan.spark.transform(offspan.make("pca").fit(small.rows).detector, table).explain()
    assert capsys.readouterr().out.count("ArrowEvalPython") == 1


def test_wrong_parameters_are_refused_before_rows_are_read(engine, small):
    with pytest.raises(offspan.InputError, match="landmark"):
        OffspanDetector(method="kpca-nys", options={"landmarks": 0}).fit(engine.session.range(3))
    with pytest.raises(offspan.InputError, match="table: expected a Spark DataFrame, got ndarray"):
        offspan.spark.fit(offspan.FitPlan("pca"), small.rows)
    with pytest.raises(offspan.NotFittedError):
        OffspanDetectorModel().transform(engine.session.range(3))
