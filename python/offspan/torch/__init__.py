"""Features from PyTorch networks, and detectors beside them.

>>> guarded = offspan.torch.guard(network, loader, calibrate=others)    # doctest: +SKIP
>>> logits, score, p_value, is_ood = guarded(images)                    # doctest: +SKIP

Step by step, which leaves room for other methods on the same features:

>>> data = offspan.torch.extract(network, loader)                       # doctest: +SKIP
>>> method = offspan.make("vim", head=data.head)                        # doctest: +SKIP
>>> method.fit(data.features, data.logits, data.labels)                 # doctest: +SKIP
>>> guarded = offspan.torch.OODModule(network, method)                  # doctest: +SKIP

``guard`` computes scores in PyTorch's own operations, so that they are traced, compiled and exported with the network;
``OODModule`` lets the library compute them, which takes every method.

``extract`` keeps what it takes in memory, or streams it into a file; ``extract_pack`` writes a pack folder that
the command line reads too. ``odin_scores`` is the one method that needs gradients, so it lives here.
"""

from __future__ import annotations

try:
    # Not `torch` alone: a folder of that name on the path would do for Python.
    import torch.nn as _nn  # noqa: F401
except ImportError as error:
    raise ImportError("offspan.torch needs PyTorch 1.13 or newer: pip install torch") from error

from .extract import extract
from .extracted import Extracted
from .guard import Guarded, GuardedOutput, guard
from .heads import HeadLayer, find_head
from .module import Assessment, OODModule
from .native import Decision, NativeDetector
from .odin import odin_perturb, odin_scores
from .pack import extract_pack

__all__ = [
    "Assessment",
    "Decision",
    "Extracted",
    "Guarded",
    "GuardedOutput",
    "HeadLayer",
    "NativeDetector",
    "OODModule",
    "extract",
    "extract_pack",
    "find_head",
    "guard",
    "odin_perturb",
    "odin_scores",
]
