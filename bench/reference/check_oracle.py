"""Recompute every PCA and KPCA golden of an oracle folder with kpca_f64 and print how far the two are apart.

    python check_oracle.py ORACLE_DIR

ORACLE_DIR is searched for folders with a golden.json. The measure is max |score - golden| / max |golden| per set. Exit status: 0 if all
are within the tolerance and every q, AUROC and FPR95 agrees, 1 if not, 2 if there is nothing to check or a method is unknown.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import kpca_f64 as ref

TOLERANCE = 1e-9


def oracle_setting(name: str, params: dict[str, float]) -> ref.Setting:
    """The setting that a golden's name and parameters stand for (the convention strings of the oracle, in our terms)."""
    ratio, gamma = params.get("r"), params.get("gamma", params.get("g"))
    if name == "pca_residual":
        return ref.Setting(map="identity", cosine=False, ratio=ratio)
    if name == "cop":
        return ref.Setting(map="identity", ratio=ratio)
    if name in ("kpca_exact", "kpca_exact_prop2"):
        kind = "exact" if name == "kpca_exact" else "exact-prop2"
        return ref.Setting(map=kind, kernel="gaussian", gamma=gamma, q=int(params["q"]), residual=None)
    if name in ("kpca_rff", "kpca_rff_react_product"):
        fuse = "product" if name.endswith("product") else None
        return ref.Setting(map="rff", kernel="gaussian", gamma=gamma, ratio=ratio, react_percentile=params.get("pct"), fuse=fuse)
    if name.startswith("kpca_nys_"):
        words = name.removeprefix("kpca_nys_").split("_")
        kernel = next((k for k in ("linear", "laplacian", "polynomial") if k in words), "gaussian")
        return ref.Setting(
            map="nystrom",
            kernel=kernel,
            gamma=gamma,
            degree=int(params["d"]) if "d" in params else None,
            coef0=params.get("c"),
            landmarks=int(params["M"]),
            sampling="first" if "first" in words or kernel == "linear" else "low-energy",
            ratio=ratio,
            residual="complete" if "complete" in words else "plain",
            react_percentile=params.get("pct"),
            fuse=next((f for f in ("ratio", "product") if f in words), None),
        )
    raise ValueError(f"no setting is known for the golden {name!r}")


def check_pack(folder: Path) -> tuple[int, float, bool]:
    """Print one line per method and set; return how many vectors were compared, the worst difference, and whether every q and
    metric agrees."""
    methods = json.loads((folder / "golden.json").read_text())["methods"]
    golden = load_file(folder / "golden.safetensors")
    train = ref.load_split(folder / "train.safetensors")
    head = ref.load_head(folder / "head.safetensors")
    rff = ref.load_rff(folder / "rff.safetensors")
    sets = {"test": ref.load_split(folder / "test.safetensors")}
    sets |= {path.stem: ref.load_split(path) for path in sorted((folder / "ood").glob("*.safetensors"))}

    print(f"\n{folder.name}\n{'method':<32}{'q':>5}  {'q golden':>8}  max|diff|/max|golden| per set")
    compared, worst, agree = 0, 0.0, True
    for name, entry in methods.items():
        if name not in ("pca_residual", "cop") and not name.startswith("kpca_"):
            continue
        detector = ref.fit(oracle_setting(name, entry["params"]), train, head, rff)
        line, scores = [], {}
        for set_name, split in sets.items():
            expected = golden[f"{name}/{set_name}"]
            scores[set_name] = detector.score(split)
            difference = float(np.max(np.abs(scores[set_name] - expected)) / np.max(np.abs(expected)))
            worst = max(worst, difference)
            compared += 1
            line.append(f"{set_name} {difference:.1e}")
        agree &= detector.model.q == entry["fit"]["q"]
        for set_name, metrics in entry["metrics"].items():
            pair = scores["test"], scores[set_name]
            agree &= abs(100.0 * ref.auroc(*pair) - metrics["auroc"]) < 1e-9 and abs(100.0 * ref.fpr95(*pair) - metrics["fpr95"]) < 1e-9
        print(f"{name:<32}{detector.model.q:>5}  {entry['fit']['q']:>8}  {'  '.join(line)}")
    return compared, worst, agree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("oracle_dir", type=Path)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    args = parser.parse_args()

    folders = sorted(path.parent for path in args.oracle_dir.rglob("golden.json"))
    if not folders:
        print(f"no golden.json under {args.oracle_dir}", file=sys.stderr)
        return 2
    try:
        results = [check_pack(folder) for folder in folders]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    compared = sum(r[0] for r in results)
    worst = max(r[1] for r in results)
    agree = all(r[2] for r in results)
    print(f"\n{compared} vectors; worst difference {worst:.1e} (tolerance {args.tolerance:.0e})")
    print(f"every q, AUROC and FPR95 agrees: {'yes' if agree else 'NO'}")
    return 0 if worst <= args.tolerance and agree else 1


if __name__ == "__main__":
    sys.exit(main())
