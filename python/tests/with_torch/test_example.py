from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.nn", reason="the example needs PyTorch, which is not installed")

PYTHON = Path(__file__).resolve().parents[2]


def test_the_example_trains_fits_and_prints_a_table(tmp_path):
    script = PYTHON / "examples" / "small_network.py"
    done = subprocess.run([sys.executable, script, "--folder", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = {
        line.split()[0]: line.split()[1:]
        for line in done.stdout.splitlines()
        if line and line.split()[-1][-1].isdigit()
    }
    assert {"msp", "energy", "mahalanobis", "knn", "vim", "kpca-rff", "kpca-nys", "odin"} <= set(rows), done.stdout
    for method in ("knn", "kpca-rff", "kpca-nys"):
        assert float(rows[method][-1]) > 85.0, done.stdout
    assert (tmp_path / "pack" / "ood").is_dir()
    drawn = list(tmp_path.glob("scores.*"))
    assert drawn or "no plot" in done.stdout


def test_the_environment_tool_reuses_an_environment_that_has_torch():
    if sys.prefix == sys.base_prefix:
        pytest.skip("not run from a virtual environment")
    tool = PYTHON / "tools" / "torch_env.py"
    done = subprocess.run([sys.executable, tool, sys.prefix], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert "already there" in done.stdout
