"""Install the package with pip from a clone into a clean environment, as docs/python.md says, and use it there.

    python3 python/tools/check_source_install.py [--profile dev]

What is installed are the files that git knows, in a folder of their own: nothing that only this checkout has can help.
Compiled dependencies are shared with this checkout, so that a profile that was built before costs little.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from environments import ROOT, environment, run

FOLDER = ROOT / "target" / "python" / "source-install"

#: A fit, a score and a decision, by the native module and far from any checkout.
USE = """
import numpy as np, offspan
rows = np.random.default_rng(0).normal(size=(500, 8)) + 2
method = offspan.make("pca").fit(rows)
assert method.score(rows).shape == (500,) and method.predict(rows).mean() > 0.8
print("offspan", offspan.__version__, "of", offspan.__file__)
"""


def main() -> None:
    """Build, install and use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", help="cargo's profile; by default pip's own way, which is release")
    profile = parser.parse_args().profile
    os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
    if profile is not None:
        os.environ["MATURIN_PEP517_ARGS"] = f"--profile {profile}"
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = environment(FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "offspan"
        copy_what_git_knows(clone)
        quiet = ("--disable-pip-version-check", "--no-cache-dir")
        run(python, "-m", "pip", "install", *quiet, "./python", folder=clone)
        run(python, "-c", USE, folder=Path(folder))


def copy_what_git_knows(clone: Path) -> None:
    """Copy every file of the checkout that is tracked or would be, as it is now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)


if __name__ == "__main__":
    main()
