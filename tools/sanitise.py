"""Run ThreadSanitizer over what threads share, and Miri over what is unsafe, as far as the compilers here have them.

python3 tools/sanitise.py

ThreadSanitizer needs the standard library's source (`rustup +nightly component add rust-src`) to instrument it, Miri its component
(`rustup +nightly component add miri`). What is missing is named, and left out; where both are, nothing was looked at, and
that is a failure.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRIPLE = "x86_64-unknown-linux-gnu"
#: Where threads share something: locks of files, writers of one file, and the order of parallel work.
THREADED = ("never_two_at_once", "many_writers_of_one_file", "memory_is_used_again")
#: Unsafe code that Miri can follow: views of arrays for faer, and what C hands over.
INTERPRETED = (("offspan-linalg", ("views_show",)), ("offspan-capi", ("rows::", "a_message_is_seen")))


def has(toolchain: str, what: str) -> bool:
    """Whether a toolchain has a component."""
    if shutil.which("rustup") is None:
        return False
    listed = subprocess.run(
        ["rustup", "component", "list", "--installed", "--toolchain", toolchain],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return any(line.startswith(what) for line in listed.stdout.splitlines())


def run(words: list[str], environment: dict[str, str]) -> bool:
    """Run a command; tell if it failed."""
    print(" ".join(words), flush=True)
    return subprocess.run(words, cwd=ROOT, env=os.environ | environment, check=False).returncode == 0


def main() -> None:
    """Run what can be run."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    fine, ran = True, 0
    if has("nightly", "rust-src"):
        flags = {"RUSTFLAGS": "-Zsanitizer=thread", "CARGO_TARGET_DIR": str(ROOT / "target" / "thread-sanitizer")}
        words = ["cargo", "+nightly", "test", "-Zbuild-std", "--target", TRIPLE, "-p", "offspan", "--lib", "--", *THREADED]
        fine &= run(words, flags)
        ran += 1
    else:
        print("ThreadSanitizer is left out: the nightly toolchain has no rust-src")
    if has("nightly", "miri"):
        for package, tests in INTERPRETED:
            flags = {"MIRIFLAGS": "-Zmiri-disable-isolation", "CARGO_TARGET_DIR": str(ROOT / "target" / "miri")}
            fine &= run(["cargo", "+nightly", "miri", "test", "-p", package, "--lib", "--", *tests], flags)
        ran += 1
    else:
        print("Miri is left out: the nightly toolchain has none")
    if not fine:
        sys.exit("a sanitiser has found something")
    if ran == 0:
        sys.exit("neither ThreadSanitizer nor Miri could run: `rustup toolchain install nightly --component rust-src,miri`")


if __name__ == "__main__":
    main()
