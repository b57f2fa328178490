"""How far a method is behind the best one of each pack.

    python regret.py --offspan target/release/offspan [--method auto] [--jobs 1] PACK-FOLDER...

A folder is a pack, or holds packs at any depth. Every method runs on every pack once; results are kept beside the pack in
`.offspan-all-HASH.json`, where the hash is that of the program, so that a new program is measured anew and an old one is not.
Regret: AUROC of the best of all methods less the method's, and its FPR95 less the best one's, in points, averaged over the OoD sets.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np


def packs_in(folders: list[Path]) -> list[Path]:
    """Every folder that has training rows and OoD sets."""
    found = {train.parent for folder in folders for train in folder.rglob("train.safetensors") if (train.parent / "ood").is_dir()}
    return sorted(found)


def everything(binary: Path, pack: Path, methods: str, keep: Path) -> dict[str, tuple[float, float]]:
    """FPR95 and AUROC in percent, averaged over the OoD sets, by method."""
    digest = hashlib.sha256(binary.read_bytes()).hexdigest()[:12]
    kept = keep / f"{pack.parent.name}-{pack.name}-{digest}-{hashlib.sha256(methods.encode()).hexdigest()[:6]}.json"
    if not kept.exists():
        done = subprocess.run([binary, "eval", pack, "--method", methods, "--json"], capture_output=True, text=True, check=False)
        if not done.stdout:
            raise SystemExit(f"{pack}: {done.stderr}")
        keep.mkdir(parents=True, exist_ok=True)
        kept.write_text(done.stdout)
    document: dict[str, Any] = json.loads(kept.read_text())
    averages = {result["method"]: result["average"] for result in document["results"]}
    return {name: (100 * average["fpr95"], 100 * average["auroc"]) for name, average in averages.items()}


def main() -> None:
    """Print one line per pack and the averages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offspan", type=Path, required=True)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--methods", default="all", help="the methods to compare with")
    parser.add_argument("--keep", type=Path, default=Path("quality-results"), help="folder of kept results")
    parser.add_argument("folders", nargs="+", type=Path)
    args = parser.parse_args()
    lines = []
    print(f"{'pack':24} {args.method:>15} {'best FPR95':>24} {'best AUROC':>24}   regret   rank")
    for pack in packs_in(args.folders):
        table = everything(args.offspan.resolve(), pack, args.methods, args.keep)
        own = table[args.method]
        low, high = min(table, key=lambda name: table[name][0]), max(table, key=lambda name: table[name][1])
        regret = own[0] - table[low][0], table[high][1] - own[1]
        rank = 1 + sum(other[1] > own[1] for other in table.values())
        lines.append((*regret, rank, len(table)))
        print(
            f"{pack.name:24} {own[0]:6.2f} / {own[1]:6.2f} {low:>17} {table[low][0]:6.2f} {high:>17} {table[high][1]:6.2f}"
            f"   {regret[0]:5.2f} {regret[1]:5.2f}   {rank}/{len(table)}",
            flush=True,
        )
    fpr, auroc, ranks, _ = np.array(lines, float).T
    print(
        f"{len(lines)} packs: FPR95 regret {fpr.mean():.2f} (worst {fpr.max():.2f}), AUROC regret {auroc.mean():.2f} "
        f"(worst {auroc.max():.2f}), mean rank {ranks.mean():.1f}, first on {int((ranks == 1).sum())}"
    )


if __name__ == "__main__":
    main()
