"""Put the built package into fresh environments and run the tests: with scikit-learn, with PyTorch if possible.

python3 python/tools/run_tests.py [--only core|torch] [pytest options]
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from environments import ROOT, environment, install_built, run

FOLDER = ROOT / "target" / "python"
TESTS = ROOT / "python" / "tests"
#: What `torch_env.py` exits with when there is no torch to be had.
NO_TORCH = 3


def main() -> None:
    """Run both parts; the second one says why when it is left out."""
    words = sys.argv[1:]
    only = words[words.index("--only") + 1] if "--only" in words else None
    if only:
        del words[words.index("--only") : words.index("--only") + 2]
    if only in (None, "core"):
        core(words)
    if only in (None, "torch"):
        torch(words)


def core(words: list[str]) -> None:
    """Tests and examples in the documentation, with NumPy and scikit-learn."""
    folder = FOLDER / "test"
    shutil.rmtree(folder, ignore_errors=True)
    python = environment(folder, "numpy", "scikit-learn", "pandas", "pytest")
    # Optional everywhere: without them, their tests say that they were left out.
    for extra in ("pyarrow", "polars", "fsspec"):
        words_of_pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", extra]
        if subprocess.run(words_of_pip, check=False).returncode:
            print(f"{extra} cannot be installed here; tests that need it will be skipped.")
    installed = install_built(python)
    run(python, "-m", "pytest", TESTS, "--ignore", TESTS / "with_torch", "-p", "no:cacheprovider", *words)
    doctests = [path for path in sorted(installed.glob("*.py")) if path.stem not in ("pytorch_ood", "openood")]
    doctests += sorted((installed / "sklearn").glob("*.py"))
    run(python, "-m", "pytest", "--doctest-modules", "--import-mode=importlib", "-p", "no:cacheprovider", *doctests)


def torch(words: list[str]) -> None:
    """Tests and the complete example, with PyTorch for the CPU."""
    folder = FOLDER / "torch"
    code = subprocess.run([sys.executable, ROOT / "python" / "tools" / "torch_env.py", folder], check=False).returncode
    if code == NO_TORCH:
        print("The tests of offspan.torch were left out: PyTorch for the CPU cannot be had here (see above).")
        return
    if code:
        sys.exit(code)
    # Debian's torch was built for NumPy 1; what depends on torch would bring another one.
    ordinary = ("pytest", "numpy<2", "scikit-learn", "matplotlib", "safetensors", "huggingface-hub", "pyyaml")
    python = environment(folder, *ordinary)
    peers = ("pytorch-ood>=0.4", "timm==0.9.16")
    run(python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", *peers)
    install_built(python)
    run(python, "-m", "pytest", TESTS / "with_torch", TESTS / "test_docs.py", "-p", "no:cacheprovider", *words)
    run(python, ROOT / "python" / "examples" / "small_network.py", "--folder", FOLDER / "example")


if __name__ == "__main__":
    main()
