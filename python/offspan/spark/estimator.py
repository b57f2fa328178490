"""offspan as an estimator of pyspark.ml: in pipelines, saved and loaded like any other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter

import offspan

from .._arrays import as_head
from .._internal import CONFIDENCE, KEEP
from ..errors import FormatError, InputError
from .fitting import fit
from .scoring import transform


def _names(given: Any) -> Any:
    """One column by its name or pattern, or several by theirs."""
    return given if isinstance(given, str) else TypeConverters.toListString(given)


class _Columns(Params):
    """Columns that estimator and model read and write."""

    featuresCol: Param[Any] = Param(
        Params._dummy(),
        "featuresCol",
        "column of arrays or vectors, a list of columns, or all of f0, f1, … as 'f*'",
        _names,
    )
    logitsCol: Param[Any] = Param(Params._dummy(), "logitsCol", "where the logits are, in the same ways", _names)
    scoreCol: Param[str] = Param(
        Params._dummy(), "scoreCol", "column for scores, higher is more in-distribution", TypeConverters.toString
    )
    pValueCol: Param[str] = Param(
        Params._dummy(), "pValueCol", "column for p-values; empty for none", TypeConverters.toString
    )
    decisionCol: Param[str] = Param(
        Params._dummy(),
        "decisionCol",
        "column for decisions, true is in-distribution; empty for none",
        TypeConverters.toString,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(featuresCol="features", scoreCol="score", pValueCol="p_value", decisionCol="is_in")

    def _given(self, param: Param[Any]) -> Any:
        """The value of a parameter; None if there is none."""
        return self.getOrDefault(param) if self.isDefined(param) else None


class OffspanDetector(_Columns, Estimator["OffspanDetectorModel"], MLReadable["OffspanDetector"], MLWritable):
    """Any method that can be fitted from parts, as an estimator.

    >>> OffspanDetector(method="vim", head=(weight, bias)).fit(table).transform(table)          # doctest: +SKIP

    Parameters
    ----------
    method, options
        As in :func:`offspan.make`; ``options`` is a dict: ``{"explained_variance": 0.9}``.
    head
        The network's last layer, ``(weight, bias)``.
    featuresCol, logitsCol, labelCol
        Columns as in :func:`offspan.spark.fit`.
    scoreCol, pValueCol, decisionCol
        Names of the new columns; an empty name leaves a column out.
    holdOut, keep, confidence
        How the threshold is set: as ``hold_out``, ``keep`` and ``confidence`` of :class:`offspan.FitPlan`.

    """

    method: Param[str] = Param(Params._dummy(), "method", "the method's name", TypeConverters.toString)
    options: Param[Any] = Param(Params._dummy(), "options", "the method's parameters, a dict", dict)
    labelCol: Param[str] = Param(Params._dummy(), "labelCol", "column of whole numbers", TypeConverters.toString)
    holdOut: Param[float] = Param(
        Params._dummy(), "holdOut", "share of the rows to set the threshold with", TypeConverters.toFloat
    )
    keep: Param[float] = Param(
        Params._dummy(), "keep", "share of in-distribution rows that the threshold keeps", TypeConverters.toFloat
    )
    confidence: Param[float] = Param(
        Params._dummy(), "confidence", "share of all cases in which it does", TypeConverters.toFloat
    )

    @keyword_only  # type: ignore[untyped-decorator]
    def __init__(
        self,
        *,
        method: str = "auto",
        head: Any = None,
        options: Mapping[str, Any] | None = None,
        featuresCol: Any = "features",
        logitsCol: Any = None,
        labelCol: str | None = None,
        scoreCol: str = "score",
        pValueCol: str = "p_value",
        decisionCol: str = "is_in",
        holdOut: float | None = None,
        keep: float = KEEP,
        confidence: float = CONFIDENCE,
    ) -> None:
        super().__init__()
        self._setDefault(method="auto", options={}, keep=KEEP, confidence=CONFIDENCE)
        given = {name: value for name, value in self._input_kwargs.items() if value is not None and name != "head"}
        self._set(**given)
        self.head = as_head(head)

    def plan(self) -> offspan.FitPlan:
        """Make the plan of the fit; raises if parameters are wrong."""
        options = self.getOrDefault(self.options)
        return offspan.FitPlan(
            self.getOrDefault(self.method),
            head=self.head,
            hold_out=self._given(self.holdOut),
            keep=self.getOrDefault(self.keep),
            confidence=self.getOrDefault(self.confidence),
            **options,
        )

    def _fit(self, dataset: Any) -> OffspanDetectorModel:
        detector = fit(
            self.plan(),
            dataset,
            self._given(self.logitsCol),
            self._given(self.labelCol),
            features=self.getOrDefault(self.featuresCol),
        )
        model = OffspanDetectorModel(detector)
        model._resetUid(self.uid)
        return self._copyValues(model)

    def write(self) -> MLWriter:
        """Give the writer: parameters as JSON, the last layer as Parquet."""
        return _Writer(self, self._stored_head())

    def _stored_head(self) -> bytes:
        if self.head is None:
            return b""
        if isinstance(self.head, str):
            raise InputError("head: expected arrays to save with the estimator, got a path")
        weight, bias = self.head
        return json.dumps(weight.shape).encode() + b"\n" + weight.tobytes() + bias.tobytes()

    def _load(self, data: bytes) -> None:
        if data:
            shape, _, values = data.partition(b"\n")
            classes, width = json.loads(shape)
            numbers = np.frombuffer(values, dtype=np.float64)
            if len(numbers) != classes * (width + 1):
                raise FormatError(f"the saved head: expected {classes * (width + 1)} numbers, got {len(numbers)}")
            self.head = numbers[: classes * width].reshape(classes, width).copy(), numbers[classes * width :].copy()

    @classmethod
    def read(cls) -> MLReader[OffspanDetector]:
        """Give the reader."""
        return _Reader(cls)


class OffspanDetectorModel(_Columns, Model, MLReadable["OffspanDetectorModel"], MLWritable):
    """A fitted detector that adds score, p-value and decision to a DataFrame."""

    def __init__(self, detector: offspan.Detector | None = None) -> None:
        super().__init__()
        self._detector = detector

    @property
    def detector(self) -> offspan.Detector:
        """The detector, as anywhere else in offspan."""
        if self._detector is None:
            raise offspan.NotFittedError("the model has no detector; it comes from OffspanDetector.fit or load")
        return self._detector

    def _transform(self, dataset: Any) -> Any:
        return transform(
            self.detector,
            dataset,
            self._given(self.logitsCol),
            features=self.getOrDefault(self.featuresCol),
            score=self.getOrDefault(self.scoreCol),
            p_value=self.getOrDefault(self.pValueCol) or None,
            is_in=self.getOrDefault(self.decisionCol) or None,
        )

    def write(self) -> MLWriter:
        """Give the writer: parameters as JSON, the detector file as Parquet."""
        return _Writer(self, self.detector.to_bytes())

    def _load(self, data: bytes) -> None:
        self._detector = offspan.Detector.from_bytes(data)

    @classmethod
    def read(cls) -> MLReader[OffspanDetectorModel]:
        """Give the reader."""
        return _Reader(cls)


class _Writer(MLWriter):
    """Parameters and bytes, in a folder of any file system that Spark can write to."""

    def __init__(self, instance: Any, data: bytes) -> None:
        super().__init__()
        self._instance, self._data = instance, data

    def saveImpl(self, path: str) -> None:
        table = self.sparkSession.createDataFrame([(bytearray(self._data),)], "data binary")
        table.coalesce(1).write.parquet(f"{path}/data")
        # Last, since a folder without it cannot be loaded: nothing half-written is taken for a whole one.
        DefaultParamsWriter.saveMetadata(self._instance, path, self.sc)


class _Reader(MLReader[Any]):
    """What `_Writer` wrote."""

    def __init__(self, cls: Any) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> Any:
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        made = f"{self._cls.__module__}.{self._cls.__name__}"
        if metadata["class"] != made:
            raise FormatError(f"{path}: expected a saved {made}, got one of {metadata['class']}")
        (row,) = self.sparkSession.read.parquet(f"{path}/data").collect()
        instance = self._cls()
        instance._load(bytes(row["data"]))
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance
