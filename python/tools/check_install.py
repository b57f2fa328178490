"""Install the package with pip from the sources into a clean environment, as docs/python.md says, and use it there.

The build has the profile of the tests, so that it shares most of what they have compiled.
"""

from __future__ import annotations

import os
import shutil
from tempfile import TemporaryDirectory

from environments import ROOT, environment, run

FOLDER = ROOT / "target" / "python" / "install"

#: A fit, a score and a decision, by the native module and far from the sources.
USE = """
import numpy as np, offspan
rows = np.random.default_rng(0).normal(size=(500, 8)) + 2
method = offspan.make("pca").fit(rows)
assert method.score(rows).shape == (500,) and method.predict(rows).mean() > 0.8
print("offspan", offspan.__version__, "of", offspan.__file__)
"""


def main() -> None:
    """Install and use."""
    os.environ["MATURIN_PEP517_ARGS"] = "--profile dev --locked"
    os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = environment(FOLDER)
    run(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", ROOT / "python")
    with TemporaryDirectory() as elsewhere:
        run(python, "-c", USE, folder=elsewhere)


if __name__ == "__main__":
    main()
