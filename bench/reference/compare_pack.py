"""Evaluate a pack in float64 and, if asked, hold the offspan binary against it.

    python compare_pack.py PACK_DIR [--slow] [--cache FILE] [--json FILE] [--offspan BINARY]

Prints q and FPR95 / AUROC (percent) of every setting, per OoD set and averaged. With --offspan, runs ``offspan eval`` with the same
flags and prints the differences. Random draws differ between implementations, so random Fourier features are left out.

Exit status: 0 fine; 1 if an AUROC differs by more than 0.0005 or an FPR95 by more than 0.003 (fractions); 2 on an error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import kpca_f64 as ref
from kpca_f64 import Setting

AUROC_TOLERANCE, FPR95_TOLERANCE = 0.0005, 0.003
SAMPLING = "low-energy"


class OffspanError(Exception):
    """The binary failed or wrote something else than the JSON we agreed on."""


# --------------------------------------------------------------------------------------------------------------------------------------
# Settings


def settings(pack: str, landmarks: int, slow: bool) -> dict[str, Setting]:
    """The list to compare. Kernel widths and ratios follow the kind of network the pack's name tells of."""
    gamma = 0.15 if pack.startswith("imagenet") else 1.0
    cosine_ratio = 0.85 if pack.startswith("cifar") else 0.9
    nys = Setting("nystrom", kernel="gaussian", gamma=gamma, landmarks=landmarks, sampling=SAMPLING, ratio=0.99)
    chosen = {
        f"nys gaussian {gamma:g} plain": nys,
        f"nys gaussian {gamma:g} complete": replace(nys, residual="complete"),
        "nys polynomial d2 c1 plain": replace(nys, kernel="polynomial", gamma=None, degree=2, coef0=1.0),
        f"pca cosine {cosine_ratio:g}": Setting("identity", ratio=cosine_ratio),
        "pca 0.9": Setting("identity", cosine=False, ratio=0.9),
        "nys gaussian 0.3 complete E/e": replace(nys, gamma=0.3, residual="complete", fuse="ratio"),
    }
    if slow:
        chosen["nys laplacian 0.05 plain"] = replace(nys, kernel="laplacian", gamma=0.05)
    return chosen


def offspan_flags(s: Setting) -> list[str]:
    """The command line that asks offspan for the same setting."""
    if s.map == "identity":
        flags = ["--method", "pca"]
    else:
        flags = ["--method", "kpca-nys", "--kernel", s.kernel, "--landmarks", str(s.landmarks), "--sampling", str(s.sampling)]
        flags += ["--residual", str(s.residual)]
    if not s.cosine:
        flags += ["--no-cosine"]
    for flag, value in (("--gamma", s.gamma), ("--degree", s.degree), ("--coef0", s.coef0)):
        if value is not None:
            flags += [flag, f"{value:g}"]
    flags += ["--explained-variance", f"{s.ratio:g}"] if s.ratio is not None else ["--components", str(s.q)]
    if s.react_value is not None:
        flags += ["--react", f"{s.react_value:g}"]
    elif s.react_percentile is not None:
        flags += ["--react", f"p{s.react_percentile:g}"]
    if s.fuse is not None:
        flags += ["--fuse", f"energy-{s.fuse}"]
    return [*flags, "--seed", "0"]


# --------------------------------------------------------------------------------------------------------------------------------------
# float64 results


@dataclass
class Cache:
    """Results by (contents of the pack, setting), kept in a JSON file when a path is given."""

    path: Path | None
    entries: dict[str, Any]

    @staticmethod
    def open(path: Path | None) -> Cache:
        return Cache(path, json.loads(path.read_text()) if path and path.exists() else {})

    def put(self, key: str, value: dict[str, Any]) -> None:
        self.entries[key] = value
        if self.path:
            temporary = self.path.with_name(self.path.name + ".tmp")
            temporary.write_text(json.dumps(self.entries, indent=1) + "\n")
            os.replace(temporary, self.path)


def fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def average(sets: dict[str, dict[str, float]]) -> dict[str, float]:
    return {metric: float(np.mean([m[metric] for m in sets.values()])) for metric in ("fpr95", "auroc")}


class Evaluator:
    """Reads the pack once, when first needed; settings that differ only in residual or fusion share their fit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.splits: dict[str, ref.Split] = {}
        self.last_fit: tuple[Setting, ref.Detector] | None = None

    def load(self) -> None:
        if not self.splits:
            self.splits = {name: ref.load_split(self.folder / f"{name}.safetensors") for name in ("train", "test")}
            self.splits |= {f"ood/{p.stem}": ref.load_split(p) for p in sorted((self.folder / "ood").glob("*.safetensors"))}

    def fit(self, setting: Setting) -> ref.Detector:
        bare = replace(setting, residual=None, fuse=None)
        if self.last_fit is None or self.last_fit[0] != bare:
            self.last_fit = bare, ref.fit(setting, self.splits["train"])
        return replace(self.last_fit[1], setting=setting)

    def run(self, setting: Setting) -> dict[str, Any]:
        start = time.monotonic()
        self.load()
        detector = self.fit(setting)
        ind = detector.score(self.splits["test"])
        sets = {}
        for name, split in self.splits.items():
            if name.startswith("ood/"):
                ood = detector.score(split)
                sets[name.removeprefix("ood/")] = {"fpr95": ref.fpr95(ind, ood), "auroc": ref.auroc(ind, ood)}
        return {
            "pack": self.folder.name,
            "setting": asdict(setting),
            "fit": {"rows": len(self.splits["train"].features), "components": detector.model.q, **margins(detector)},
            "sets": sets,
            "average": average(sets),
            "seconds": round(time.monotonic() - start, 1),
        }


def margins(detector: ref.Detector) -> dict[str, Any]:
    """How firmly the fit's discrete decisions stand."""
    values, q = detector.model.eigenvalues, detector.model.q
    share = np.cumsum(values) / np.sum(values)
    facts: dict[str, Any] = {"share_at_q": float(share[q - 1]), "share_before_q": float(share[q - 2]) if q > 1 else 0.0}
    if detector.nystrom is not None:
        spectrum, kept, count = detector.nystrom.spectrum, detector.nystrom.kept, len(detector.nystrom.landmarks)
        facts |= {"kept": kept, "smallest_kept": float(spectrum[kept - 1] / spectrum[0])}
        ordered = np.sort(ref.required(detector.train_energies, "training energies"))
        if count < len(ordered):
            facts["energy_gap_at_cut"] = float(ordered[count] - ordered[count - 1])
    return facts


# --------------------------------------------------------------------------------------------------------------------------------------
# offspan


def run_offspan(binary: Path, folder: Path, setting: Setting) -> dict[str, Any]:
    """The one entry of ``results`` that offspan writes for this setting."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "eval.json"
        command = [str(binary), "eval", str(folder), *offspan_flags(setting), "--json", str(out)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise OffspanError(f"cannot run {binary}: {error}") from error
        if done.returncode != 0:
            raise OffspanError(f"{' '.join(command)}\nexit status {done.returncode}: {done.stderr.strip()}")
        try:
            document = json.loads(out.read_text())
        except (OSError, ValueError) as error:
            raise OffspanError(f"no readable JSON from {' '.join(command)}: {error}") from error
    if document.get("schema") != "offspan.eval/1" or len(document.get("results", [])) != 1:
        raise OffspanError(f"expected one result under schema offspan.eval/1, got {document.get('schema')!r}")
    return document["results"][0]


def print_differences(expected: dict[str, Any], got: dict[str, Any]) -> bool:
    """Print offspan minus float64, in points; return whether every difference is within the tolerances."""
    if set(got["sets"]) != set(expected["sets"]):
        raise OffspanError(f"sets differ: expected {sorted(expected['sets'])}, got {sorted(got['sets'])}")
    cells, within = [], True
    for name, want in [*expected["sets"].items(), ("average", expected["average"])]:
        have = got["average"] if name == "average" else got["sets"][name]
        d_fpr, d_auroc = have["fpr95"] - want["fpr95"], have["auroc"] - want["auroc"]
        within &= abs(d_fpr) <= FPR95_TOLERANCE and abs(d_auroc) <= AUROC_TOLERANCE
        cells.append(f"{name} {100 * d_fpr:+.3f} / {100 * d_auroc:+.4f}")
    q = got["fit"]["components"]
    print(f"    offspan q={q} ({q - expected['fit']['components']:+d})   {'   '.join(cells)}   {'ok' if within else 'TOO FAR'}")
    return within


# --------------------------------------------------------------------------------------------------------------------------------------


def percent(m: dict[str, float]) -> str:
    return f"{100 * m['fpr95']:.2f} / {100 * m['auroc']:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack_dir", type=Path)
    parser.add_argument("--landmarks", type=int, default=1024)
    parser.add_argument("--slow", action="store_true", help="add the Laplacian kernel (L1 distances take NumPy long)")
    parser.add_argument("--cache", type=Path, help="JSON file that keeps float64 results between runs")
    parser.add_argument("--json", type=Path, help="write this run's float64 results, and offspan's, to a JSON file")
    parser.add_argument("--offspan", type=Path, help="binary to compare with")
    args = parser.parse_args()

    folder = args.pack_dir.resolve()
    if not (folder / "train.safetensors").exists():
        print(f"error: {args.pack_dir} has no train.safetensors", file=sys.stderr)
        return 2
    cache, evaluator, mark = Cache.open(args.cache), Evaluator(folder), fingerprint(folder)
    report, fine = {}, True
    print(f"{folder.name}, {args.landmarks} landmarks, FPR95 / AUROC in percent")
    for name, setting in settings(folder.name, args.landmarks, args.slow).items():
        key = f"{mark} {json.dumps(asdict(setting), sort_keys=True)}"
        if key not in cache.entries:
            cache.put(key, evaluator.run(setting))
        result = cache.entries[key]
        per_set = "   ".join(f"{s} {percent(m)}" for s, m in result["sets"].items())
        print(f"{name:<32} q={result['fit']['components']:<5} average {percent(result['average'])}   {per_set}", flush=True)
        report[name] = {"float64": result}
        if args.offspan:
            try:
                got = run_offspan(args.offspan, folder, setting)
                fine &= print_differences(result, got)
            except OffspanError as error:
                print(f"error: {error}", file=sys.stderr)
                return 2
            report[name]["offspan"] = got
    if args.json:
        args.json.write_text(json.dumps({"pack": folder.name, "results": report}, indent=1) + "\n")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
