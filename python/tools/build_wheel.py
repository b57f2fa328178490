"""Build the wheel into target/wheels.

python3 python/tools/build_wheel.py [--for-tests] [maturin options]

With --for-tests, in the profile of the tests and with what they have compiled already, into target/test-wheels.
"""

from __future__ import annotations

import sys

from environments import ROOT, TEST_WHEELS, WHEELS, environment, run

#: The features that the library has when the whole workspace is built: with others it would be compiled again.
FEATURES_OF_THE_WORKSPACE = "offspan/clap"


def main() -> None:
    """Install maturin where it is missing, and build."""
    words = sys.argv[1:]
    for_tests = "--for-tests" in words
    words = [word for word in words if word != "--for-tests"]
    python = environment(ROOT / "target" / "python" / "build", "maturin>=1.9,<2")
    folder = TEST_WHEELS if for_tests else WHEELS
    for old in folder.glob("offspan-*.whl"):
        old.unlink()
    profile = ("--profile", "dev", "--features", FEATURES_OF_THE_WORKSPACE) if for_tests else ("--release",)
    options = (*profile, "--locked", "--out", folder, "--manifest-path", ROOT / "python" / "Cargo.toml")
    run(python, "-m", "maturin", "build", *options, *words)


if __name__ == "__main__":
    main()
