"""A host library that dies on a processor costs one skipped test, not the run."""

from __future__ import annotations

from host import why_not


def test_a_process_that_dies_of_a_signal_is_a_reason():
    assert why_not("import os, signal; os.kill(os.getpid(), signal.SIGILL)") == "the process was ended by SIGILL"
    assert why_not("raise ValueError('no such thing')") == "ValueError: no such thing"
    assert why_not("raise SystemExit(3)") == "exit code 3"
    assert why_not("pass") is None
