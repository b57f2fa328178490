"""Virtual environments for building and testing, made once per interpreter and kept in the target folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "target" / "wheels"
#: Where cargo puts what it builds for tests.
BUILT = ROOT / "target" / "debug"


def run(*words: str | Path, folder: Path = ROOT, seconds: float | None = None) -> None:
    """Run a command in a folder and stop with its exit code if it fails, or if it takes more than so many seconds."""
    print("+", *words, flush=True)
    try:
        code = subprocess.run([str(word) for word in words], check=False, cwd=folder, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        sys.exit(f"it was stopped, since it took more than {seconds:.0f} s: {' '.join(map(str, words))}")
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


def wheel() -> Path:
    """Give the newest wheel that was built."""
    found = sorted(WHEELS.glob("offspan-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit("there is no wheel; build one with `make wheel`")
    return found[-1]


def install_built(python: Path) -> Path:
    """Put the package with the native module of the tests' build into an environment; where it is then."""
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    place = Path(packages) / "offspan"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "offspan", place, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(BUILT / "lib_internal.so", place / "_internal.abi3.so")
    return place
