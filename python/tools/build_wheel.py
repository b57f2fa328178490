"""Build the wheel into target/wheels.

python3 python/tools/build_wheel.py [--for-tests] [maturin options]

With --for-tests, into target/test-wheels by pip from the sources, as `pip install ./python` does it, but in the profile
of the tests and with what they have compiled already.
"""

from __future__ import annotations

import os
import sys

from environments import ROOT, TEST_WHEELS, WHEELS, environment, run

#: The profile of the tests, and the features that the library has when the whole workspace is built: with others it
#: would be compiled again.
FOR_TESTS = "--profile dev --features offspan/clap --locked"


def main() -> None:
    """Install what builds it where that is missing, and build."""
    words = sys.argv[1:]
    folder = TEST_WHEELS if "--for-tests" in words else WHEELS
    for old in folder.glob("offspan-*.whl"):
        old.unlink()
    if "--for-tests" in words:
        os.environ["MATURIN_PEP517_ARGS"] = FOR_TESTS
        os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
        python = environment(ROOT / "target" / "python" / "build")
        options = ("--disable-pip-version-check", "--no-deps", "--no-cache-dir", "--wheel-dir", folder)
        run(python, "-m", "pip", "wheel", *options, ROOT / "python")
    else:
        python = environment(ROOT / "target" / "python" / "build", "maturin>=1.9,<2")
        options = ("--release", "--locked", "--out", folder, "--manifest-path", ROOT / "python" / "Cargo.toml")
        run(python, "-m", "maturin", "build", *options, *words)


if __name__ == "__main__":
    main()
