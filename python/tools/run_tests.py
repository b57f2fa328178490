"""Put the built package into fresh environments and run the tests: with scikit-learn, with PyTorch if possible.

python3 python/tools/run_tests.py [--only core|torch|torch-current|onnx|serve|cluster|dask|spark|ray] [pytest options]

Compilers and exporters of PyTorch need a current one, which is 6 GB: they are tested when they are asked for
(`torch-current`), with the torch of the interpreter that OFFSPAN_TORCH_PYTHON names, or the newest that pip finds.

The engines of clusters are heavy: a few tests of Dask are run with the others, and all of them when they are asked for.
`cluster` is all three engines, and fails unless Dask and Spark were really tested.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from environments import ROOT, environment, install_built, run

FOLDER = ROOT / "target" / "python"
TESTS = ROOT / "python" / "tests"
#: What `torch_env.py` exits with when there is no torch to be had.
NO_TORCH = 3
#: What each engine is installed with.
ENGINES = {
    "dask": ("dask[array,dataframe]", "distributed", "pyarrow", "fsspec"),
    "spark": ("pyspark", "pandas<3", "pyarrow", "fsspec"),
    "ray": ("ray[data]", "pandas", "pyarrow", "fsspec"),
}
#: Without these, the tests of clusters have shown too little.
REQUIRED = ("dask", "spark")
#: The oldest Java that Spark runs on.
JAVA = 17
#: The tests of Dask that are run with the others, and the seconds that they may take: a cluster that hangs must fail.
FEW = "nan_is_named or missing_column or (uneven_partitions and cifar10-densenet and (kpca-rff-f64 or ssd or react))"
FEW_SECONDS = 600.0
#: Modules whose examples need what is not installed for the core.
HOSTED = ("pytorch_ood", "openood", "dask", "ray")


def main() -> None:
    """Run all parts; one that is left out says why."""
    words = sys.argv[1:]
    only = words[words.index("--only") + 1] if "--only" in words else None
    if only:
        del words[words.index("--only") : words.index("--only") + 2]
    if only in (None, "core"):
        core(words)
    if only in (None, "torch"):
        torch(words)
    if only == "torch-current":
        torch_current(words)
    elif only is None:
        print("The tests of torch.compile and torch.export were left out: `make test-torch-current` runs them.")
    if only in (None, "onnx"):
        onnx(words)
    if only in (None, "serve"):
        serve(words)
    if only is None:
        cluster("dask", words, few=True)
        print("Most tests of offspan.dask, offspan.spark and offspan.ray were left out: `make test-cluster` runs them.")
    tested = [engine for engine in ENGINES if only in ("cluster", engine) and cluster(engine, words)]
    untested = [engine for engine in REQUIRED if only == "cluster" and engine not in tested]
    if untested:
        sys.exit(f"The tests of clusters have failed: {' and '.join(untested)} must be tested, see above.")


def core(words: list[str]) -> None:
    """Tests and examples in the documentation, with NumPy and scikit-learn."""
    folder = FOLDER / "test"
    shutil.rmtree(folder, ignore_errors=True)
    python = environment(folder, "numpy", "scikit-learn", "pandas", "pytest", "pytest-xdist")
    # Optional everywhere: without them, their tests say that they were left out.
    for extra in ("pyarrow", "polars", "fsspec", "jsonschema"):
        words_of_pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", extra]
        if subprocess.run(words_of_pip, check=False).returncode:
            print(f"{extra} cannot be installed here; tests that need it will be skipped.")
    installed = install_built(python)
    run(
        python,
        "-m",
        "pytest",
        TESTS,
        "--ignore",
        TESTS / "with_torch",
        "--ignore",
        TESTS / "with_onnx",
        "--ignore",
        TESTS / "cluster",
        "--ignore",
        TESTS / "serve",
        "-p",
        "no:cacheprovider",
        # Most of a test is Python on one core.
        "--numprocesses",
        str(os.cpu_count() or 1),
        *words,
    )
    doctests = [path for path in sorted(installed.glob("*.py")) if path.stem not in HOSTED]
    doctests += sorted((installed / "sklearn").glob("*.py"))
    run(python, "-m", "pytest", "--doctest-modules", "--import-mode=importlib", "-p", "no:cacheprovider", *doctests)


def javascript() -> None:
    """Install ONNX Runtime for node, once, where there is npm."""
    folder = ROOT / "target" / "node"
    if (folder / "node_modules" / "onnxruntime-node").exists():
        return
    npm = shutil.which("npm")
    # Its own script would fetch a runtime for GPUs from elsewhere.
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--silent")
    words = ["install", "--prefix", str(folder), *quiet, "onnxruntime-node"]
    if npm is None or subprocess.run([npm, *words], check=False).returncode:
        print("onnxruntime-node cannot be installed here; the JavaScript of docs/deploy.md will be skipped.")


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
    pages = [TESTS / "test_docs.py", TESTS / "test_deploy.py"]
    run(python, "-m", "pytest", TESTS / "with_torch", *pages, "-p", "no:cacheprovider", *words)
    run(python, ROOT / "python" / "examples" / "small_network.py", "--folder", FOLDER / "example")


def torch_current(words: list[str]) -> None:
    """Native modules with the newest PyTorch: compiled and exported, too."""
    folder = FOLDER / "torch-current"
    given = os.environ.get("OFFSPAN_TORCH_PYTHON")
    if given:
        run(sys.executable, ROOT / "python" / "tools" / "torch_env.py", folder, "--python", given)
        python = environment(folder, "pytest")
    else:
        python = environment(folder, "torch", "numpy", "pytest")
    install_built(python)
    tests = [TESTS / "with_torch" / f"test_{name}.py" for name in ("native", "guard", "compilers", "module")]
    run(python, "-m", "pytest", *tests, "-p", "no:cacheprovider", *words)


def onnx(words: list[str]) -> None:
    """Exported detectors in ONNX Runtime, after ONNX's own checker has passed them, and the page of deployment."""
    python = environment(FOLDER / "onnx")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, "pytest", "numpy", "onnx", "onnxruntime"], check=False).returncode:
        print("The tests of exported detectors were left out: pip could not install onnx and onnxruntime.")
        return
    javascript()
    install_built(python)
    run(python, "-m", "pytest", TESTS / "with_onnx", TESTS / "test_deploy.py", "-p", "no:cacheprovider", *words)


def serve(words: list[str]) -> None:
    """`offspan serve` with the clients of Triton, and the page of serving."""
    python = environment(FOLDER / "serve")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, "pytest", "numpy", "onnx", "tritonclient[http,grpc]"], check=False).returncode:
        print(
            "The tests of offspan serve with other clients were left out: pip could not install tritonclient and onnx."
        )
        return
    run(python, "-m", "pytest", TESTS / "serve", "-p", "no:cacheprovider", *words)


def cluster(engine: str, words: list[str], few: bool = False) -> bool:
    """Tests of one engine, all with its example in the documentation or a few; tell whether there were any."""
    why = missing(engine)
    if why is not None:
        print(f"The tests of offspan.{engine} were left out: {why}.")
        return False
    python = interpreter(engine)
    install_built(python)
    os.environ["OFFSPAN_ENGINE"] = engine
    pytest = (python, "-m", "pytest", "--show-capture=no", "-p", "no:cacheprovider")
    if few:
        run(*pytest, TESTS / "cluster" / "test_every_engine.py", *words, "-k", FEW, seconds=FEW_SECONDS)
        return True
    own = {"dask": "test_dask_inputs.py", "spark": "test_spark_ml.py", "ray": "test_ray_inputs.py"}[engine]
    tests = [TESTS / "cluster" / name for name in ("test_every_engine.py", "test_page.py", own)]
    run(*pytest, *tests, *words)
    return True


def interpreter(engine: str) -> Path:
    """Where an engine's environment has its Python."""
    return environment(FOLDER / engine)


def missing(engine: str) -> str | None:
    """Install an engine; tell why it cannot be had."""
    if engine == "spark":
        why = no_java()
        if why is not None:
            return why
    python = interpreter(engine)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, "pytest", "numpy", *ENGINES[engine]], check=False)
    return f"pip could not install {', '.join(ENGINES[engine])}" if done.returncode else None


def no_java() -> str | None:
    """Tell why Spark has no Java that it runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if home is None else shutil.which(str(Path(home) / "bin" / "java"))
    if java is None:
        where = "" if home is None else f" in JAVA_HOME, {home}"
        return f"Spark needs Java {JAVA} or later, and there is none{where}"
    said = subprocess.run([java, "-version"], check=False, capture_output=True, text=True)
    # Up to Java 8 they were called 1.8 and so on.
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if version is None:
        return f"Spark needs Java {JAVA} or later, and {java} does not tell its version"
    if int(version[1]) < JAVA:
        return f"Spark needs Java {JAVA} or later, and {java} is Java {version[1]}"
    return None


if __name__ == "__main__":
    main()
