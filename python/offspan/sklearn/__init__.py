"""offspan in scikit-learn's form: a detector, and feature maps as transformers.

The estimators follow scikit-learn's rules (constructors only store, learned attributes end in ``_``),
so they work in pipelines, grid searches and everything else that does. They take features alone; for
logits, labels and the other methods use :func:`offspan.make`.
"""

from __future__ import annotations

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("offspan.sklearn needs scikit-learn 1.4 or newer: pip install 'scikit-learn>=1.4'") from error

from .detector import KPCADetector
from .transformers import Nystroem, RandomFourierFeatures

__all__ = ["KPCADetector", "Nystroem", "RandomFourierFeatures"]
