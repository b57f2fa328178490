"""Every method that can be exported, with parameters that suit the small fixtures, and where they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import offspan
from offspan.torch._tensorfile import read_tensors

FIXTURES = Path(__file__).resolve().parents[3] / "crates" / "offspan" / "tests"
#: Kernel PCA's fixture, and that of the other methods, which has the tensors that a few of them ask for.
FOLDERS = ("fixture", "fixture-baselines")

_NYSTROM = {"landmarks": 48}
_FOURIER = {"features": 96}

#: Name for the test, method, options.
TABLE: list[tuple[str, str, dict[str, Any]]] = [
    ("auto", "auto", {}),
    ("pca", "pca", {}),
    ("pca, no cosine", "pca", {"cosine": False}),
    ("kpca-nys", "kpca-nys", _NYSTROM),
    ("kpca-nys, complete", "kpca-nys", {**_NYSTROM, "residual": "complete"}),
    ("kpca-nys, laplacian", "kpca-nys", {**_NYSTROM, "kernel": "laplacian"}),
    ("kpca-nys, polynomial", "kpca-nys", {**_NYSTROM, "kernel": "polynomial"}),
    ("kpca-nys, linear", "kpca-nys", {**_NYSTROM, "kernel": "linear"}),
    ("kpca-nys, no cosine", "kpca-nys", {**_NYSTROM, "cosine": False, "gamma": 0.01}),
    ("kpca-nys, fused", "kpca-nys", {**_NYSTROM, "fuse": "energy-ratio"}),
    ("kpca-nys, product", "kpca-nys", {**_NYSTROM, "fuse": "energy-product", "residual": "complete"}),
    ("kpca-rff, iid", "kpca-rff", {**_FOURIER, "draw": "iid"}),
    ("kpca-rff, orthogonal", "kpca-rff", {**_FOURIER, "draw": "orthogonal"}),
    ("kpca-rff, structured", "kpca-rff", {**_FOURIER, "draw": "structured"}),
    ("kpca-rff, laplacian", "kpca-rff", {**_FOURIER, "kernel": "laplacian", "draw": "iid"}),
    ("kpca-rff, fused", "kpca-rff", {**_FOURIER, "fuse": "energy-ratio"}),
    ("kpca-sketch", "kpca-sketch", _FOURIER),
    ("kpca-exact", "kpca-exact", {}),
    ("kpca-exact-prop2", "kpca-exact-prop2", {}),
    ("kpca-ensemble", "kpca-ensemble", {**_NYSTROM, **_FOURIER}),
    ("kpca-nys+react", "kpca-nys+react", _NYSTROM),
    ("kpca-rff+react", "kpca-rff+react", _FOURIER),
    ("msp", "msp", {}),
    ("max-logit", "max-logit", {}),
    ("energy", "energy", {}),
    ("odin", "odin", {}),
    ("gen", "gen", {}),
    ("gradnorm", "gradnorm", {}),
    ("mahalanobis", "mahalanobis", {}),
    ("mahalanobis-pp", "mahalanobis-pp", {}),
    ("ssd", "ssd", {}),
    ("knn", "knn", {"neighbours": 5}),
    ("tnn", "tnn", {}),
    ("nnguide", "nnguide", {"neighbours": 5}),
    ("she", "she", {}),
    ("vim", "vim", {}),
    ("dml", "dml", {}),
    ("gradorth", "gradorth", {}),
    ("reg-pca", "reg-pca", {}),
    ("low-dim", "low-dim", {}),
    ("react", "react", {}),
    ("bats", "bats", {}),
    ("vra", "vra", {}),
    ("ash-b", "ash-b", {}),
    ("ash-p", "ash-p", {}),
    ("ash-s", "ash-s", {}),
    ("scale", "scale", {}),
    ("dice", "dice", {}),
    ("line", "line", {}),
    ("ddcs", "ddcs", {}),
    ("dice+react", "dice+react", {}),
    ("gradnorm+react", "gradnorm+react", {}),
    ("nnguide+react", "nnguide+react", {"neighbours": 5}),
    ("reg-pca+react", "reg-pca+react", {}),
    ("low-dim+react", "low-dim+react", {}),
    ("knn+react", "knn+react", {"neighbours": 5}),
    ("rank-feat", "rank-feat", {}),
    ("rank-feat+rank-weight", "rank-feat+rank-weight", {}),
    ("knn-plus", "knn-plus", {"neighbours": 5}),
    ("ssd-plus", "ssd-plus", {}),
    ("mcf", "mcf", {}),
    ("mnc", "mnc", {}),
    ("dml-plus", "dml-plus", {}),
    ("godin", "godin", {}),
    ("csi", "csi", {}),
    ("autoencoder", "autoencoder", {"epochs": 5}),
    ("rff-opt", "rff-opt", {**_FOURIER}),
    ("dkgp-rff", "dkgp-rff", {**_FOURIER, "inducing": 16, "steps": 20}),
    ("dkgp-nys", "dkgp-nys", {**_NYSTROM, "inducing": 16, "steps": 20}),
]

#: Options that suit the fixtures, for methods whose defaults do not.
_SMALL: dict[str, dict[str, Any]] = {"openmax": {"tail": 5}}

# All others, with their defaults.
TABLE += [
    (method["name"], method["name"], _SMALL.get(method["name"], {}))
    for method in offspan.methods()
    if method["name"] not in {name for _, name, _ in TABLE}
]

#: Methods that read tensors which only the second fixture has.
OWN_TENSORS = {
    "rank-feat", "rank-feat+rank-weight", "knn-plus", "ssd-plus", "mcf", "mnc", "dml-plus", "godin", "csi",
    "feature-norm", "davis-std", "davis-max",
}  # fmt: skip

#: Methods that cannot be exported, and why.
NOT_EXPORTABLE = {
    method["name"]: method["not_exportable"] for method in offspan.methods() if method.get("not_exportable")
}

#: Methods that keep their training rows in single precision, whatever is asked for.
SINGLE_PRECISION = {
    "knn", "knn-plus", "tnn", "nnguide", "nnguide+react", "knn+react", "csi",
    "relation", "lid", "dknn", "trust", "actsub",
}  # fmt: skip

#: Methods that can be asked for double precision.
PRECISE = {
    method["name"] for method in offspan.methods() if any(one["name"] == "precision" for one in method["parameters"])
}


@dataclass
class Split:
    """The arrays of a split file."""

    features: np.ndarray
    logits: np.ndarray | None = None
    labels: np.ndarray | None = None
    extras: dict[str, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Split:
        tensors = {name: np.array(array) for name, array in read_tensors(path).items()}
        own = {name: tensors.pop(name) for name in ("features", "logits", "labels") if name in tensors}
        return Split(**own, extras=tensors)


def splits(folder: str) -> tuple[Split, list[Split]]:
    """The training rows, and the sets to score."""
    place = FIXTURES / folder
    scored = [place / "test.safetensors", *sorted((place / "ood").glob("*.safetensors"))]
    return Split.read(place / "train.safetensors"), [Split.read(path) for path in scored]


def fitted(folder: str, name: str, options: dict[str, Any], double: bool) -> offspan.Detector:
    """A detector of this method, with a threshold."""
    precise = {"precision": "f64"} if double and name in PRECISE else {}
    train, (test, *_) = splits(folder)
    method = offspan.make(name, head=FIXTURES / folder / "head.safetensors", **options, **precise)
    method.fit(train.features, train.logits, train.labels, extras=train.extras or None, hold_out=0.0)
    return method.detector.calibrated(test.features, test.logits, test.extras or None, keep=0.9, confidence=0.9)
