"""The benchmark's own Python environment, and the release build it measures. Standard library only."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

# Distribution name -> module. Without NumPy there is nothing to compare with; every other peer may be missing.
PEERS = {"numpy": "numpy", "scipy": "scipy", "scikit-learn": "sklearn", "faiss-cpu": "faiss", "matplotlib": "matplotlib", "torch": "torch"}
TORCH_PEERS = {"torchvision": "torchvision", "pytorch-ood": "pytorch_ood"}
# The default wheels carry several gigabytes for GPUs that this comparison does not use.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"

# Every library that might start threads of its own, on both sides.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS")


def say(text: str) -> None:
    """Progress goes to stderr: stdout is for the table."""
    print(text, file=sys.stderr, flush=True)


def cores() -> int:
    """Those that we may use, which can be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def enter(venv: Path, with_torch: bool, threads: int) -> None:
    """Make the environment and run the same command again inside it; return at once if that has happened.

    The thread counts have to be in the environment before NumPy is loaded, which is one more reason for a fresh process.
    """
    if Path(sys.prefix).resolve() == venv.resolve() and os.environ.get("OFFSPAN_BENCH") == "ready":
        return
    python = venv / "bin" / "python"
    if not python.exists():
        say(f"making {venv}")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    for name, module in (PEERS | (TORCH_PEERS if with_torch else {})).items():
        install(python, name, module, ("--index-url", TORCH_INDEX) if name.startswith("torch") else ())
    if with_torch and not has(python, "torch"):
        # The usual wheel brings gigabytes for GPUs, so only whoever asks for torch gets it.
        install(python, "torch", "torch")
    if not has(python, "numpy"):
        sys.exit("NumPy could not be installed, and every comparison needs it")
    variables = {name: str(threads) for name in THREAD_VARIABLES} | {"OFFSPAN_BENCH": "ready"}
    sys.stdout.flush()
    os.execve(python, [str(python), *sys.argv], os.environ | variables)


def has(python: Path, module: str) -> bool:
    check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", check], check=False).returncode == 0


def install(python: Path, name: str, module: str, options: tuple[str, ...] = ()) -> None:
    """One package at a time, so that one that cannot be had does not take the others with it."""
    if has(python, module) or (name == "pytorch-ood" and not has(python, "torch")):
        return
    say(f"installing {name}")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *options, name]
    if subprocess.run(pip, check=False, stdout=sys.stderr).returncode != 0:
        say(f"{name} cannot be had; going on without it")


def missing(with_torch: bool) -> list[str]:
    """Peers that the report must name as left out."""
    wanted = PEERS | (TORCH_PEERS if with_torch else {})
    gone = [f"{name}: could not be installed" for name, module in wanted.items() if importlib.util.find_spec(module) is None]
    return gone if with_torch else [*gone, "pytorch-ood: not asked for (--with-torch)"]


def versions() -> dict[str, str]:
    found = {}
    for name in [*PEERS, *TORCH_PEERS]:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def build(root: Path, skip: bool) -> Path:
    """The folder of the release binaries, built unless told otherwise."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release"
    if not skip:
        say("building offspan")
        cargo = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "offspan-bench", "-p", "offspan-cli"]
        subprocess.run(cargo, cwd=root, check=True, stdout=sys.stderr)
    return target
