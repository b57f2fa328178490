"""How far a method is behind the best one of each pack.

    python regret.py --offspan target/release/offspan [--method auto] [--others OLD-PROGRAM] PACK-FOLDER...

A folder is a pack, or holds packs at any depth. Results are kept in `--keep`, by the hash of the program and the methods, so that
a new program is measured anew and an old one is not. With `--others` the other methods are those of another program, which need
not run again where only the method has changed; its own form of the method is shown beside.
Regret: AUROC of the best other method less the method's, and its FPR95 less the best one's, in points, averaged over the OoD sets;
below 0 where the method is ahead of all others.
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
    parser.add_argument("--others", type=Path, help="the program whose methods are compared with [default: the same]")
    parser.add_argument("--keep", type=Path, default=Path("quality-results"), help="folder of kept results")
    parser.add_argument("folders", nargs="+", type=Path)
    args = parser.parse_args()
    rows = []
    places: dict[str, list[int]] = {}
    print(f"{'pack':20} {args.method:>15} {'before':>15} {'best FPR95':>24} {'best AUROC':>24}   regret   rank")
    for pack in packs_in(args.folders):
        program = args.others or args.offspan
        others = everything(program.resolve(), pack, args.methods, args.keep)
        own = everything(args.offspan.resolve(), pack, args.method, args.keep)[args.method]
        before = others.pop(args.method)
        low, high = min(others, key=lambda name: others[name][0]), max(others, key=lambda name: others[name][1])
        regret = own[0] - others[low][0], others[high][1] - own[1]
        table = others | {args.method: own}
        for name, place in table.items():
            places.setdefault(name, []).append(1 + sum(other[1] > place[1] for other in table.values()))
        rank = places[args.method][-1]
        rows.append((*regret, rank, own[1] - before[1]))
        print(
            f"{pack.name:20} {own[0]:6.2f} / {own[1]:6.2f} {before[0]:6.2f} / {before[1]:6.2f} {low:>17} {others[low][0]:6.2f} "
            f"{high:>17} {others[high][1]:6.2f}   {regret[0]:5.2f} {regret[1]:5.2f}   {rank}/{len(table)}",
            flush=True,
        )
    fpr, auroc, ranks, gains = np.array(rows, float).T
    print(
        f"{len(rows)} packs: FPR95 regret {fpr.mean():.2f} (worst {fpr.max():.2f}), AUROC regret {auroc.mean():.2f} "
        f"(worst {auroc.max():.2f}), first on {int((ranks == 1).sum())}; against before {gains.mean():+.2f} (worst {gains.min():+.2f})"
    )
    everywhere = {name: sum(found) / len(found) for name, found in places.items() if len(found) == len(rows)}
    best = sorted(everywhere.items(), key=lambda item: item[1])[:5]
    print("mean rank by AUROC, of methods with a result on every pack: " + ", ".join(f"{name} {rank:.1f}" for name, rank in best))


if __name__ == "__main__":
    main()
