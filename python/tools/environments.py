"""Virtual environments for building and testing, made once per interpreter and kept in the target folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "target" / "wheels"
#: Wheels in the profile of the tests, which are slower and check more.
TEST_WHEELS = ROOT / "target" / "test-wheels"


def run(*words: str | Path, folder: Path = ROOT) -> None:
    """Run a command in a folder and stop with its exit code if it fails."""
    print("+", *words, flush=True)
    code = subprocess.run([str(word) for word in words], check=False, cwd=folder).returncode
    if code:
        sys.exit(code)


def environment(folder: Path, *packages: str, python: str = sys.executable) -> Path:
    """Make a virtual environment with these packages; its interpreter."""
    interpreter = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not interpreter.exists():
        run(python, "-m", "venv", folder)
    if packages:
        run(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return interpreter


def wheel(folder: Path = WHEELS) -> Path:
    """Give the newest wheel that was built."""
    found = sorted(folder.glob("offspan-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit(f"there is no wheel in {folder}; `make wheel` builds one, `make test-python` the one of the tests")
    return found[-1]
