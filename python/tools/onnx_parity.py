"""How closely exported detectors agree with the library on packs, as a table for docs/export.md.

python3 python/tools/onnx_parity.py PACK... [--method NAME,...] [--rows N] [--json]

Needs onnx, onnxruntime and NumPy (target/python/onnx has them after `run_tests.py --only onnx`), and a build of the
command line.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tests" / "with_onnx"))

from parity_table import Request  # noqa: E402
from runtime import gap, offspan, read, run, scores_of, session, wrong_decisions  # noqa: E402

METHODS = (
    "auto,kpca-rff,kpca-nys,kpca-ensemble,pca,energy,msp,gen,gradnorm,mahalanobis,mahalanobis-pp,ssd,knn,nnguide,she,"
    "vim,dml,gradorth,reg-pca,react,ash-s,scale,dice,ddcs,autoencoder"
)
#: Rows that ONNX Runtime gets at a time.
BATCH = 256


def main() -> None:
    """Print one line for each method and one column for each pack."""
    request = Request.of(sys.argv[1:], METHODS)
    command_line = os.environ.get("OFFSPAN_CLI", str(ROOT / "target" / "debug" / "offspan"))
    request.run(lambda pack, method: cell(command_line, pack, method, request.rows))


def cell(command_line: str, pack: Path, method: str, most: int | None) -> str:
    """The largest gap over all sets, and how many of the decisions differ."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        detector, exported = folder / "net.offspan", folder / "net.onnx"
        offspan(command_line, "fit", pack, "--method", method, "-o", detector)
        offspan(command_line, "export", detector, "-o", exported)
        model = session(exported)
        threshold = json.loads(offspan(command_line, "inspect", detector, "--json"))["info"]["threshold"]["value"]
        worst, differ, count = 0.0, 0, 0
        for path in [pack / "test.safetensors", *sorted((pack / "ood").glob("*.safetensors"))]:
            rows = {name: array[:most] for name, array in read(path).items()}
            expected = scores_of(command_line, detector, model, rows, folder)
            for start in range(0, len(expected), BATCH):
                part = {name: array[start : start + BATCH] for name, array in rows.items()}
                outputs = run(model, part)
                scores = expected[start : start + BATCH]
                # The bar is a share of the largest score of the set.
                worst = max(worst, gap(scores, outputs["score"]) * abs(scores).max() / abs(expected).max())
                differ += wrong_decisions(scores, threshold, outputs["is_ood"])
                count += len(scores)
        return f"{worst:.0e}" + (f" ({differ} of {count} decisions)" if differ else "")


if __name__ == "__main__":
    main()
