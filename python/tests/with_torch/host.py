"""What the host library can do on this processor, tried in a process of its own: it may die there."""

from __future__ import annotations

import signal
import subprocess
import sys


def why_not(code: str) -> str | None:
    """The reason why the code fails in a process of its own; None if it runs."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"the process was ended by {signal.Signals(-done.returncode).name}"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
