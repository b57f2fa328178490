"""Out-of-distribution detection by kernel PCA, and every method it is compared with.

A trained network gives features for its own data; they fill a subspace. offspan learns that subspace, in the feature
space of a kernel, and tells for every new sample how far it lies off that span. **Higher scores are more
in-distribution.**

>>> import numpy as np, offspan
>>> draw = np.random.default_rng(0)
>>> train = draw.normal(size=(2000, 8)).astype(np.float32) + 3
>>> detector = offspan.make().fit(train)         # better with logits=…, or make(head=…)
>>> ood_rows = draw.normal(size=(500, 8)).astype(np.float32)
>>> bool(detector.score(train).mean() > detector.score(ood_rows).mean())
True
>>> bool(detector.predict(ood_rows).mean() < 0.5 < detector.predict(train).mean())
True
"""

from __future__ import annotations

from . import errors, metrics
from ._calibration import FitCheck, adjusted_p_values, benjamini_hochberg, rows_needed
from ._detector import Detector
from ._evaluate import Comparison, Ranking, Repetition, evaluate, rank, repeat, study
from ._explanation import Explanation
from ._feature_map import FeatureMap, choose_landmarks
from ._internal import VERSION as __version__
from ._internal import set_threads, threads
from ._kpca import KPCA
from ._method import Method, make, methods
from ._moments import Moments
from ._monitor import BatchReport, Monitor
from ._own import OwnMethod, register, registered, unregister
from ._pack import Pack, Split, cosine_head, pseudo_labels
from ._plan import FitPlan
from ._tables import Table, read_table
from .errors import FormatError, InputError, NotFittedError, OffspanError

#: Load a detector file.
load = Detector.load

__all__ = [
    "KPCA",
    "BatchReport",
    "Comparison",
    "Detector",
    "Explanation",
    "FeatureMap",
    "FitCheck",
    "FitPlan",
    "FormatError",
    "InputError",
    "Method",
    "Moments",
    "Monitor",
    "NotFittedError",
    "OffspanError",
    "OwnMethod",
    "Pack",
    "Ranking",
    "Repetition",
    "Split",
    "Table",
    "__version__",
    "adjusted_p_values",
    "benjamini_hochberg",
    "choose_landmarks",
    "cosine_head",
    "errors",
    "evaluate",
    "load",
    "make",
    "methods",
    "metrics",
    "pseudo_labels",
    "rank",
    "read_table",
    "register",
    "registered",
    "repeat",
    "rows_needed",
    "set_threads",
    "study",
    "threads",
    "unregister",
]
