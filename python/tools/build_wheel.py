"""Build the wheel into target/wheels."""

from __future__ import annotations

import sys

from environments import ROOT, WHEELS, environment, run


def main() -> None:
    """Install maturin where it is missing, and build."""
    python = environment(ROOT / "target" / "python" / "build", "maturin>=1.9,<2")
    for old in WHEELS.glob("offspan-*.whl"):
        old.unlink()
    options = ("--release", "--locked", "--out", WHEELS, "--manifest-path", ROOT / "python" / "Cargo.toml")
    run(python, "-m", "maturin", "build", *options, *sys.argv[1:])


if __name__ == "__main__":
    main()
