"""How closely native PyTorch detectors agree with the library on packs, as a table for docs/deploy.md.

python3 python/tools/torch_parity.py PACK... [--method NAME,...] [--rows N] [--json]

Needs PyTorch and the package: target/python/torch has both after `run_tests.py --only torch`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from parity_table import Request

import offspan
from offspan.torch._tensorfile import read_tensors

METHODS = "auto,kpca-rff,kpca-nys,kpca-ensemble,pca,energy,mahalanobis,ssd,knn,she,vim,dml,react,ash-s"
#: Rows that PyTorch gets at a time.
BATCH = 256


def main() -> None:
    """Print one line for each method and one column for each pack."""
    request = Request.of(sys.argv[1:], METHODS)
    precise = {one["name"] for one in offspan.methods() if any(p["name"] == "precision" for p in one["parameters"])}

    def both(pack: Path, method: str) -> str:
        return ", ".join(cell(pack, method, double, method in precise, request.rows) for double in (False, True))

    request.run(both)


def cell(pack: Path, name: str, double: bool, has_precision: bool, most: int | None) -> str:
    """Give the largest difference over all sets as a share of the largest score, and how many decisions differ."""
    options = {"precision": "f64"} if double and has_precision else {}
    method = offspan.make(name, head=pack / "head.safetensors", **options).fit(pack)
    native = method.to_torch(torch.float64 if double else torch.float32)
    worst, differ, count = 0.0, 0, 0
    for path in [pack / "test.safetensors", *sorted((pack / "ood").glob("*.safetensors"))]:
        tensors = {key: array[:most] for key, array in read_tensors(path).items()}
        features = np.array(tensors["features"], np.float32)
        # A detector that keeps the last layer makes logits of its own there, and stored ones may be rounded.
        logits = np.array(tensors["logits"], np.float32) if "logits" in native.needs else None
        expected = method.score(features, logits)
        scale = np.abs(expected[np.isfinite(expected)]).max()
        for start in range(0, len(expected), BATCH):
            part = slice(start, start + BATCH)
            with torch.no_grad():
                rows = torch.tensor(features[part])
                found = native(rows, None if logits is None else torch.tensor(logits[part]))
            wanted = expected[part]
            same = wanted == found.score.double().numpy()
            gap = np.where(same, 0.0, np.abs(np.where(same, 0.0, wanted - found.score.double().numpy())))
            worst = max(worst, float(gap.max()) / scale)
            clear = np.abs(wanted - method.threshold) > 1e-4 * scale
            differ += int((found.is_ood.numpy() != (wanted < method.threshold))[clear].sum())
            count += len(wanted)
    return f"{worst:.0e}" + (f" ({differ} of {count} decisions)" if differ else "")


if __name__ == "__main__":
    main()
