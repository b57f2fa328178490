"""What the host library can do on this processor."""

from __future__ import annotations

import pytest
from host import why_not

BFLOAT16_CONVOLUTION = """
import torch
with torch.no_grad():
    torch.nn.Conv2d(3, 8, 3).bfloat16()(torch.zeros(2, 3, 16, 16, dtype=torch.bfloat16))
"""


@pytest.fixture(scope="session")
def bfloat16_convolutions() -> None:
    """Skips where the installed torch cannot do them on this processor."""
    if reason := why_not(BFLOAT16_CONVOLUTION):
        pytest.skip(f"this torch cannot do bfloat16 convolutions on this processor: {reason}")
