"""offspan in scikit-learn's form: detectors, and feature maps as transformers.

``OODDetector`` takes any method by its name, ``KPCADetector`` spells out the parameters of kernel PCA. The
estimators follow scikit-learn's rules (constructors only store, learned attributes end in ``_``), so they
work in pipelines, grid searches and everything else that does.
"""

from __future__ import annotations

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("offspan.sklearn needs scikit-learn 1.4 or newer: pip install 'scikit-learn>=1.4'") from error

from .detector import KPCADetector
from .ood_detector import OODDetector
from .transformers import Nystroem, RandomFourierFeatures

__all__ = ["KPCADetector", "Nystroem", "OODDetector", "RandomFourierFeatures"]
