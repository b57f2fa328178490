"""A virtual environment with PyTorch for the CPU, by the lightest way that works here.

    python torch_env.py FOLDER [--python INTERPRETER]

Prints in one line which way that was: torch was already there, it is the interpreter's own, the CPU wheel of the
PyTorch project, or Debian's packages. Exits with 3 and a reason if none works, so that callers can report a skip.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
DEBIAN_PYTHON = "/usr/bin/python3"
DEBIAN_PACKAGES = ("python3-torch", "python3-torchvision", "python3-venv")
NO_WAY = 3


class NotHere(Exception):
    """This way does not work here; the message says why."""


def run(*command: str | Path, seconds: float = 1800) -> str:
    """Run a command and give its output; what it complains about becomes the reason."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotHere(str(error)) from error
    if done.returncode != 0:
        complaints = (done.stderr or done.stdout).strip().splitlines()
        raise NotHere(complaints[-1] if complaints else f"{command[0]} failed with {done.returncode}")
    return done.stdout.strip()


def torch_of(python: str | Path) -> tuple[str, Path]:
    """The version of an interpreter's torch, and the folder that it is in."""
    output = run(python, "-c", "import torch; print(torch.__version__); print(torch.__file__)")
    version, place = output.splitlines()[-2:]
    return version, Path(place).parent.parent


def python_in(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make(folder: Path, python: str, *, with_its_packages: bool) -> Path:
    """A new virtual environment in place of one that may be there."""
    run(python, "-m", "venv", "--clear", *(["--system-site-packages"] if with_its_packages else []), folder)
    return python_in(folder)


def own(folder: Path, python: str) -> str:
    """The interpreter has torch already."""
    version, packages = torch_of(python)
    inside = make(folder, python, with_its_packages=True)
    try:
        torch_of(inside)
    except NotHere:
        # The interpreter is itself in a virtual environment, whose packages a new one does not see.
        purelib = run(inside, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
        (Path(purelib) / "torch_of_the_parent.pth").write_text(f"{packages}\n")
    return f"torch {version}: the interpreter's own"


def wheel(folder: Path, python: str) -> str:
    """The CPU wheel of the PyTorch project: without the gigabytes for GPUs that the usual one brings."""
    inside = make(folder, python, with_its_packages=False)
    once = ("--timeout", "10", "--retries", "0", "--disable-pip-version-check", "--quiet")
    run(inside, "-m", "pip", "install", *once, "--index-url", CPU_WHEELS, "torch", "torchvision", "numpy")
    return f"torch {torch_of(inside)[0]}: the PyTorch project's CPU wheel"


def debian(folder: Path, _python: str) -> str:
    """The distribution's packages, for its own interpreter."""
    if not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        raise NotHere("this is not Debian or Ubuntu")
    if os.geteuid() != 0:
        raise NotHere("installing packages takes root")
    install = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", *DEBIAN_PACKAGES)
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    try:
        run(*install)
    except NotHere:
        run("apt-get", "update", "-qq")
        run(*install)
    inside = make(folder, DEBIAN_PYTHON, with_its_packages=True)
    return f"torch {torch_of(inside)[0]}: Debian's packages"


WAYS: dict[str, Callable[[Path, str], str]] = {
    "the interpreter's own torch": own,
    "the CPU wheel": wheel,
    "Debian's packages": debian,
}


def main() -> int:
    """Try the ways in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the virtual environment; made, or used again if it has torch")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to start from")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        print(f"{folder} is not empty and no virtual environment", file=sys.stderr)
        return 2
    try:
        print(f"torch {torch_of(python_in(folder))[0]}: already there")
        return 0
    except NotHere:
        pass
    was_there = folder.exists()
    reasons = []
    for name, way in WAYS.items():
        try:
            print(way(folder, arguments.python))
            return 0
        except NotHere as reason:
            reasons.append(f"{name}: {reason}")
    if not was_there:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"no PyTorch for the CPU here. {'; '.join(reasons)}", file=sys.stderr)
    return NO_WAY


if __name__ == "__main__":
    sys.exit(main())
