"""Fits and scores on Spark: `mapInArrow` on executors, parts merged there in a tree, and an estimator of pyspark.ml.

>>> from offspan.spark import OffspanDetector                                                   # doctest: +SKIP
>>> model = OffspanDetector(method="kpca-rff", options={"features": 512}).fit(table)            # doctest: +SKIP
>>> model.transform(table).select("score", "p_value", "is_in").show()                           # doctest: +SKIP

Every partition becomes one part on its executor. Executors merge parts in a tree, so the driver gets one part per pass.
Spark repeats the tasks of lost executors. Partitions must have the same rows whenever they are computed; if they do
not, the fit says so.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError("offspan.spark needs Spark 3.4 or newer and pyarrow: pip install pyspark pyarrow") from error

from .estimator import OffspanDetector, OffspanDetectorModel
from .fitting import fit
from .scoring import transform

__all__ = ["OffspanDetector", "OffspanDetectorModel", "fit", "transform"]
