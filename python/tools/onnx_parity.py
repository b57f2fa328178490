"""How closely exported detectors agree with the library on packs, in ONNX Runtime and in rten.

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

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tests" / "with_onnx"))

from parity_table import Request  # noqa: E402
from runtime import gap, gap_of_rten, offspan, read, run, scores_of, session, wrong_decisions  # noqa: E402

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
    """The largest gap over all sets, in ONNX Runtime and in rten, and how many of the former's decisions differ."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        detector, exported = folder / "net.offspan", folder / "net.onnx"
        offspan(command_line, "fit", pack, "--method", method, "-o", detector)
        offspan(command_line, "export", detector, "-o", exported)
        model = session(exported)
        threshold = json.loads(offspan(command_line, "inspect", detector, "--json"))["info"]["threshold"]["value"]
        worst, differ, count = 0.0, 0, 0
        worst_of_rten: float | None = 0.0
        for path in [pack / "test.safetensors", *sorted((pack / "ood").glob("*.safetensors"))]:
            rows = {name: array[:most] for name, array in read(path).items()}
            expected = scores_of(command_line, detector, model, rows, folder)
            largest = abs(expected[np.isfinite(expected)]).max()
            for start in range(0, len(expected), BATCH):
                part = {name: array[start : start + BATCH] for name, array in rows.items()}
                outputs = run(model, part)
                scores = expected[start : start + BATCH]
                # The bar is a share of the largest score of the set; those that are not finite must be the same.
                finite = scores[np.isfinite(scores)]
                share = abs(finite).max(initial=0.0) / largest
                worst = max(worst, gap(scores, outputs["score"]) * share)
                differ += wrong_decisions(scores, threshold, outputs["is_ood"])
                count += len(scores)
            by_rten = gap_of_rten(command_line, exported, model, rows, expected, folder)
            worst_of_rten = None if by_rten is None or worst_of_rten is None else max(worst_of_rten, by_rten)
        other = "–" if worst_of_rten is None else f"{worst_of_rten:.0e}"
        return f"{worst:.0e}" + (f" ({differ} of {count} decisions)" if differ else "") + f", {other}"


if __name__ == "__main__":
    main()
