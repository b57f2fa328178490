"""What the host library can do on this processor."""

from __future__ import annotations

from pathlib import Path

import pytest
from host import why_not

#: The network of the tests itself: whether torch dies depends on shapes, too.
BFLOAT16_CONVOLUTIONS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from torch_networks import Convolutional, images
Convolutional().eval().bfloat16()(images(6).bfloat16())
"""


@pytest.fixture(scope="session")
def bfloat16_convolutions() -> None:
    """Skips where the installed torch cannot do them on this processor."""
    if reason := why_not(BFLOAT16_CONVOLUTIONS):
        pytest.skip(f"this torch cannot do bfloat16 convolutions on this processor: {reason}")
