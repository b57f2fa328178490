"""Hold offspan against an independent reimplementation of Nyström kernel PCA with low-energy landmarks.

    python compare_port.py kernel_pca_port.py PACK --offspan BINARY [--gamma 1] [--landmarks 512] [--ratio 0.99]

The first file is ``x9_imagenet/kernel_pca_port.py`` of github.com/cesar-claros/ood_systematic (MIT), of which offspan
carries nothing: fetch it yourself. It needs torch and loguru, this script NumPy and safetensors. The port runs in
float64; offspan in the precision that --precision says, and without the pack's stored logits, which are rounded: both
then take their energies from the same last layer.

Exit status: 0 if every score agrees to 1e-4 (relative to the largest of its set), 1 if not, 2 on an error.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

TOLERANCE = 1e-4


def load_port(path: Path) -> Any:
    """The class of the port, from a file that the user has."""
    spec = importlib.util.spec_from_file_location("kernel_pca_port", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.KernelPCAPort


def features(path: Path) -> np.ndarray:
    """The rows of a split."""
    return load_file(path)["features"].astype(np.float64)


def scores_of_port(port: Any, pack: Path, sets: dict[str, Path], args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Scores of each set by the port, in float64."""
    import torch

    head = {name: torch.from_numpy(array.astype(np.float64)) for name, array in load_file(pack / "head.safetensors").items()}
    detector = port(head["weight"], head["bias"], len(head["bias"]))
    train = torch.from_numpy(features(pack / "train.safetensors"))
    detector.compute_params(train, n_landmarks=args.landmarks, explained_variance=args.ratio, gamma=args.gamma)
    print(f"port: {detector.u_q.shape[1]} directions of {args.landmarks}")
    return {name: detector.get_scores(torch.from_numpy(features(path))).numpy() for name, path in sets.items()}


def scores_of_offspan(pack: Path, sets: dict[str, Path], args: argparse.Namespace) -> dict[str, np.ndarray]:
    """The same by the binary."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        train = load_file(pack / "train.safetensors")
        save_file({"features": train["features"]}, folder / "train.safetensors")
        flags = ["--method", "kpca-nys", "--sampling", "low-energy", "--residual", "plain"]
        flags += ["--gamma", f"{args.gamma:g}"]
        flags += ["--landmarks", str(args.landmarks), "--explained-variance", f"{args.ratio:g}", "--hold-out", "0"]
        flags += ["--precision", args.precision, "--head", str(pack / "head.safetensors")]
        run(args.offspan, "fit", folder / "train.safetensors", *flags, "-o", folder / "net.offspan")
        found = {}
        for name, path in sets.items():
            save_file({"features": load_file(path)["features"]}, folder / "rows.safetensors")
            run(args.offspan, "score", folder / "net.offspan", folder / "rows.safetensors", "-o", folder / "scores.npy")
            found[name] = np.load(folder / "scores.npy")
    return found


def run(*words: str | Path) -> None:
    """Run a command; what it complains about ends this script, too."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        sys.exit(2)


def main() -> int:
    """Compare, and say how far the scores are apart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=Path, help="kernel_pca_port.py")
    parser.add_argument("pack", type=Path, help="a pack with a last layer")
    parser.add_argument("--offspan", type=Path, required=True, help="the binary")
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--landmarks", type=int, default=512)
    parser.add_argument("--ratio", type=float, default=0.99, help="share of the variance that is kept")
    parser.add_argument("--precision", choices=["f32", "f64"], default="f32")
    args = parser.parse_args()
    args.offspan = args.offspan.resolve()
    sets = {"test": args.pack / "test.safetensors"}
    sets |= {path.stem: path for path in sorted((args.pack / "ood").rglob("*.safetensors"))}
    theirs = scores_of_port(load_port(args.port), args.pack, sets, args)
    ours = scores_of_offspan(args.pack, sets, args)
    worst = 0.0
    for name in sets:
        apart = np.abs(ours[name] - theirs[name])
        relative = apart.max() / np.abs(theirs[name]).max()
        each = (apart / np.abs(theirs[name])).max()
        worst = max(worst, relative)
        print(f"{name:20} {len(apart):6} rows, largest difference {apart.max():.2e}; ", end="")
        print(f"relative to the set's largest score {relative:.2e}, to each row's own {each:.2e}")
    print(f"{'agree' if worst <= TOLERANCE else 'DISAGREE'}: {worst:.2e}, at most {TOLERANCE:g} expected")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
