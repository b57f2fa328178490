"""Write a small synthetic pack and its float64 golden scores.

    python make_fixture.py OUT_DIR
    python make_fixture.py --baselines OUT_DIR

The first is for kernel PCA, the second for the other methods (see "The pack of the baselines" below).

The pack of kernel PCA has the usual layout (train, test, ood/near, ood/far, head) and rff.safetensors (omega, u: Gaussian, gamma 2).
Golden scores are in golden.safetensors, one vector per ``<case>/<set>``; golden.json lists the cases. Five training rows occur twice, so
that landmark kernels are singular and energies tie; ties lie away from every landmark cut, and among equals the earlier row comes first.

No discrete decision of a case is fragile, and the script fails if one is: the explained share is not near the ratio, the eigengap at q
is open, the energies at the landmark cut differ, no landmark eigenvalue lies near the floor, and none of q, kept or the landmark set
changes when the features move by half a float32 unit or the kernel values k(x, landmarks) are rounded to float32.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

import baselines_f64 as baselines
import kpca_f64 as ref
import newer_f64 as newer
from baselines_f64 import Tensors
from kpca_f64 import Array, Setting

SEED = 20240229
CLASSES, DIMS, TRAIN, DUPLICATES, ROWS, RFF_FEATURES, RFF_GAMMA = 6, 24, 240, 5, 60, 96, 2.0
SIZE_LIMIT = 400_000
SHARE_MARGIN, EIGENGAP, ENERGY_GAP, SMALLEST_KEPT, LARGEST_DROPPED = 1e-6, 1e-4, 1e-5, 1e-7, 1e-14

F32 = NDArray[np.float32]


# --------------------------------------------------------------------------------------------------------------------------------------
# The pack


@dataclass(frozen=True)
class Pack:
    splits: dict[str, ref.Split]
    labels: dict[str, NDArray[np.int64]]
    head: ref.Head
    rff: ref.Rff
    twins: list[tuple[int, int]]


def heavy_noise(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Student's t with 4 degrees of freedom, from normals only."""
    chi2 = sum(rng.standard_normal(shape) ** 2 for _ in range(4))
    return rng.standard_normal(shape) / np.sqrt(chi2 / 4.0)


def relu_rows(rng: np.random.Generator, centres: Array, spread: float) -> Array:
    """max(0, centre * per-row gain + heavy noise), as float32 values."""
    gain = np.exp(0.25 * rng.standard_normal((len(centres), 1)))
    rows = np.maximum(centres * gain + spread * heavy_noise(rng, centres.shape), 0.0)
    return rows.astype(np.float32).astype(np.float64)


def make_pack(seed: int) -> Pack:
    rng = np.random.default_rng(seed)
    centres = np.maximum(rng.standard_normal((CLASSES, DIMS)) - 0.2, 0.0) * 1.6 + 0.1
    weight = 0.5 * (centres - centres.mean(axis=0)) + 0.05 * rng.standard_normal((CLASSES, DIMS))
    bias = 0.1 * rng.standard_normal(CLASSES)
    head = ref.Head(weight.astype(np.float32).astype(np.float64), bias.astype(np.float32).astype(np.float64))

    def logits(z: Array) -> Array:
        return (z @ head.weight.T + head.bias).astype(np.float32).astype(np.float64)

    labels = {name: rng.permutation(np.arange(n) % CLASSES).astype(np.int64) for name, n in (("train", TRAIN), ("test", ROWS))}
    train = relu_rows(rng, centres[labels["train"]], 0.35)

    # The last rows become copies of rows whose energies lie low, in the middle and high.
    originals = np.argsort(ref.energy(logits(train[:-DUPLICATES])), kind="stable")[[3, 11, 117, 160, 230]]
    copies = np.arange(TRAIN - DUPLICATES, TRAIN)
    train[copies], labels["train"][copies] = train[originals], labels["train"][originals]
    order = rng.permutation(TRAIN)
    place = np.argsort(order)
    train, labels["train"] = train[order], labels["train"][order]
    twins = [(int(place[a]), int(place[b])) for a, b in zip(originals, copies, strict=True)]

    mixed = rng.integers(0, CLASSES, (ROWS, 2))
    near = 0.5 * (centres[mixed[:, 0]] + np.roll(centres, 5, axis=1)[mixed[:, 1]])
    far = np.tile(np.abs(rng.standard_normal(DIMS)), (ROWS, 1))
    features = {
        "train": train,
        "test": relu_rows(rng, centres[labels["test"]], 0.35),
        "near": relu_rows(rng, near, 0.35),
        "far": relu_rows(rng, far, 0.6),
    }
    omega = np.sqrt(2.0 * RFF_GAMMA) * rng.standard_normal((RFF_FEATURES, DIMS))
    u = 2.0 * np.pi * rng.random(RFF_FEATURES)
    rff = ref.Rff(omega.astype(np.float32).astype(np.float64), u.astype(np.float32).astype(np.float64))
    return Pack({name: ref.Split(z, logits(z)) for name, z in features.items()}, labels, head, rff, twins)


def check_pack(pack: Pack) -> None:
    train = pack.splits["train"].features
    assert train.shape == (TRAIN, DIMS)
    assert len(np.unique(train, axis=0)) == TRAIN - DUPLICATES
    assert all(np.array_equal(train[a], train[b]) for a, b in pack.twins)
    assert all(np.all(s.features >= 0.0) and np.all(s.features.any(axis=1)) for s in pack.splits.values())
    accuracy = np.mean(ref.required(pack.splits["test"].logits, "logits").argmax(axis=1) == pack.labels["test"])
    assert accuracy > 0.8, accuracy


# --------------------------------------------------------------------------------------------------------------------------------------
# The cases

GAMMA = {("gaussian", True): 1.0, ("gaussian", False): 0.05, ("laplacian", True): 0.3, ("laplacian", False): 0.04}
METHOD = {"identity": "pca", "rff": "kpca-rff", "nystrom": "kpca-nys", "exact": "kpca-exact", "exact-prop2": "kpca-exact-prop2"}
KERNELS = ("linear", "gaussian", "laplacian", "polynomial")


def kernel_keys(kernel: str, cosine: bool) -> dict[str, Any]:
    polynomial = kernel == "polynomial"
    return {
        "kernel": kernel,
        "cosine": cosine,
        "gamma": GAMMA.get((kernel, cosine)),
        "degree": 2 if polynomial else None,
        "coef0": 1.0 if polynomial else None,
    }


def make_cases() -> dict[str, Setting]:
    cases = {
        "pca": Setting("identity", cosine=False, ratio=0.9),
        "pca_fixed_q": Setting("identity", cosine=False, q=7),
        "pca_cosine": Setting("identity", ratio=0.9),
        "pca_cosine_fixed_q": Setting("identity", q=5),
        "pca_cosine_react_value": Setting("identity", ratio=0.85, react_value=1.5),
        "pca_cosine_fuse_ratio": Setting("identity", ratio=0.9, fuse="ratio"),
    }
    rff = Setting("rff", kernel="gaussian", gamma=RFF_GAMMA)
    cases |= {
        "rff": replace(rff, ratio=0.8),
        "rff_fixed_q": replace(rff, q=20),
        "rff_fuse_product": replace(rff, ratio=0.8, fuse="product"),
        "rff_react_percentile_product": replace(rff, ratio=0.8, react_percentile=90.0, fuse="product"),
    }
    # 48 landmarks in 24 dimensions: with the linear kernel half of the landmark eigenvalues are 0 and the floor must act.
    for kernel in KERNELS:
        for cosine in (True, False):
            for residual in ("plain", "complete"):
                name = f"nys_{kernel}{'_cosine' if cosine else ''}_{residual}"
                cases[name] = Setting(
                    "nystrom", **kernel_keys(kernel, cosine), landmarks=48, sampling="low-energy", ratio=0.95, residual=residual
                )
    nys = cases["nys_gaussian_cosine_plain"]
    cases |= {
        "nys_fixed_q": replace(nys, ratio=None, q=16),
        "nys_high_energy_plain": replace(nys, sampling="high-energy"),
        "nys_high_energy_complete": replace(nys, sampling="high-energy", residual="complete"),
        "nys_first_plain": replace(nys, sampling="first", landmarks=32),
        "nys_first_complete": replace(nys, sampling="first", landmarks=32, residual="complete"),
        "nys_polynomial_degree_3": replace(nys, **kernel_keys("polynomial", True) | {"degree": 3, "coef0": 0.5}),
        "nys_react_value": replace(nys, react_value=1.25),
        "nys_react_value_ratio": replace(nys, react_value=1.25, fuse="ratio"),
        "nys_react_percentile": replace(nys, react_percentile=90.0),
        "nys_react_percentile_product": replace(nys, react_percentile=85.0, fuse="product"),
        "nys_fuse_ratio_complete": replace(nys, residual="complete", fuse="ratio"),
        "nys_fuse_product": replace(nys, fuse="product"),
    }
    for kernel in KERNELS:
        for form in ("exact", "exact-prop2"):
            keys = kernel_keys(kernel, True)
            cases[f"{form.replace('-', '_')}_{kernel}_cosine"] = Setting(form, **keys, q=10, residual=None)
    cases["exact_gaussian_ratio"] = Setting("exact", **kernel_keys("gaussian", False), ratio=0.9, residual=None)
    cases["exact_laplacian_ratio"] = Setting("exact", **kernel_keys("laplacian", False), ratio=0.7, residual=None)
    return cases


# --------------------------------------------------------------------------------------------------------------------------------------
# Fits, their margins and their sensitivity


class RoundedKernel(ref.Kernel):
    """k(x, landmarks) as float32 would hold it; the kernel matrix of one set with itself stays as it is."""

    def __call__(self, a: Array, b: Array) -> Array:
        k = super().__call__(a, b)
        return k if a is b else k.astype(np.float32).astype(np.float64)


def decisions(detector: ref.Detector) -> tuple[int, int | None, list[int] | None]:
    """q, kept and the sorted landmark rows."""
    rows = None if detector.landmark_rows is None else sorted(detector.landmark_rows.tolist())
    return detector.model.q, None if detector.nystrom is None else detector.nystrom.kept, rows


def fit_facts(name: str, detector: ref.Detector) -> dict[str, Any]:
    """What the fit decided; an error if a decision hangs by a thread."""
    setting, values = detector.setting, detector.model.eigenvalues
    q, kept, rows = decisions(detector)
    share = np.cumsum(values) / np.sum(values)
    assert q < len(values), name
    facts: dict[str, Any] = {
        "q": q,
        "kept": kept,
        "clip": detector.clip,
        "share_at_q": float(share[q - 1]),
        "share_before_q": float(share[q - 2]) if q > 1 else 0.0,
        "eigengap": float((values[q - 1] - values[q]) / values[q - 1]),
    }
    assert facts["eigengap"] > EIGENGAP, (name, facts)
    if setting.ratio is not None:
        assert min(facts["share_at_q"] - setting.ratio, setting.ratio - facts["share_before_q"]) > SHARE_MARGIN, (name, facts)

    if detector.nystrom is not None and kept is not None:
        spectrum, count = detector.nystrom.spectrum / detector.nystrom.spectrum[0], len(detector.nystrom.landmarks)
        facts |= {
            "smallest_kept": float(spectrum[kept - 1]),
            "largest_dropped": float(np.max(np.abs(spectrum[kept:]))) if kept < len(spectrum) else None,
            "landmark_rows": rows,
        }
        assert facts["smallest_kept"] > SMALLEST_KEPT, (name, facts)
        assert (facts["largest_dropped"] or 0.0) < LARGEST_DROPPED, (name, facts)
        if setting.sampling != "first":
            energies = ref.required(detector.train_energies, "training energies")
            ordered = np.sort(energies if setting.sampling == "low-energy" else -energies)
            facts["energy_gap"] = float(ordered[count] - ordered[count - 1])
            assert facts["energy_gap"] > ENERGY_GAP, (name, facts)
    return facts


def moved(pack: Pack, seed: int) -> Pack:
    """Every feature moved by up to half a float32 unit in the last place, alike in rows that are copies."""
    rng = np.random.default_rng(seed)
    splits = {}
    for name, split in pack.splits.items():
        ulp = np.spacing(split.features.astype(np.float32)).astype(np.float64)
        z = np.maximum(split.features + ulp * (rng.random(split.features.shape) - 0.5), 0.0)
        if name == "train":
            for a, b in pack.twins:
                z[b] = z[a]
        splits[name] = replace(split, features=z)
    return replace(pack, splits=splits)


def relative_change(scores: dict[str, Array], others: dict[str, Array]) -> float:
    return max(float(np.max(np.abs(others[s] - scores[s])) / np.max(np.abs(scores[s]))) for s in scores)


def run_case(name: str, setting: Setting, pack: Pack) -> tuple[dict[str, Any], dict[str, Array]]:
    def run(p: Pack, kernel: ref.Kernel | None = None) -> tuple[ref.Detector, dict[str, Array]]:
        detector = ref.fit(setting, p.splits["train"], p.head, p.rff, kernel)
        return detector, {s: detector.score(p.splits[s]) for s in ("test", "near", "far")}

    detector, scores = run(pack)
    facts = fit_facts(name, detector)
    assert all(np.all(np.isfinite(s)) for s in scores.values()), name

    variants = {"features_half_ulp_f32": run(moved(pack, SEED + 1))}
    if setting.map not in ("identity", "rff"):
        rounded = RoundedKernel(setting.kernel, setting.gamma, setting.degree, setting.coef0)
        variants["kernel_values_f32"] = run(pack, rounded)
    for variant, (other, _) in variants.items():
        assert decisions(other) == decisions(detector), (name, variant)

    react = None
    if setting.react_value is not None:
        react = {"value": setting.react_value}
    elif setting.react_percentile is not None:
        react = {"percentile": setting.react_percentile}
    case = {
        "name": name,
        "method": METHOD[setting.map],
        "params": {
            "map": setting.map,
            "kernel": setting.kernel,
            "cosine": setting.cosine,
            "gamma": setting.gamma,
            "degree": setting.degree,
            "coef0": setting.coef0,
            "landmarks": setting.landmarks,
            "sampling": setting.sampling,
            "ratio": setting.ratio,
            "q": setting.q,
            "residual": setting.residual,
            "react": react,
            "fuse": setting.fuse,
        },
        "fit": facts,
        "metrics": {
            s: {"fpr95": ref.fpr95(scores["test"], scores[s]), "auroc": ref.auroc(scores["test"], scores[s])} for s in ("near", "far")
        },
        "sensitivity": {variant: float(f"{relative_change(scores, s):.1e}") for variant, (_, s) in variants.items()},
    }
    return case, scores


# --------------------------------------------------------------------------------------------------------------------------------------
# Files

CONVENTIONS = [
    "Higher score = more in-distribution. Inputs are float32 on disk, widened to float64 before any arithmetic.",
    "Rows: min(z, c) if react is set, then z / ||z|| if cosine is set.",
    "react.percentile: c is that percentile (type 7) over all entries of the training features.",
    "Energies E = logsumexp of the stored logits; with react, of W min(z, c) + b, for the landmarks too.",
    "Landmarks of equal energy: the earlier row first.",
    "Nystrom: landmark eigenvalues at or under 1e-12 of the largest are dropped; fit.kept counts the rest.",
    "ratio: the smallest q whose cumulative eigenvalue share is >= ratio. Covariances divide by N, over all training rows.",
    "residual plain: e = ||(I - U_q U_q^T)(Phi - mu)||; complete: e^2 = max(k(x,x) - ||Phi||^2, 0) + plain^2; null for exact maps.",
    "exact: centred kernel matrix; exact-prop2: e = ||U_p^T k_x|| of the uncentred one.",
    "fuse null: -e; ratio: E / e; product: (1 - e) E.",
    "metrics: FPR95 with t = sort(test)[floor(0.05 n)], accept >= t; AUROC by mid-ranks; as fractions.",
    "sensitivity: the largest max |change| / max |golden| of a set when features move by up to half a float32 unit, "
    "and when k(x, .) is rounded to float32.",
]


def f32(x: Array) -> F32:
    narrow = x.astype(np.float32)
    assert np.array_equal(narrow.astype(np.float64), x)
    return np.ascontiguousarray(narrow)


def write(out: Path, pack: Pack, cases: list[dict[str, Any]], golden: dict[str, Array]) -> None:
    (out / "ood").mkdir(parents=True, exist_ok=True)
    for name, split in pack.splits.items():
        tensors: dict[str, Any] = {"features": f32(split.features), "logits": f32(ref.required(split.logits, "logits"))}
        if name in pack.labels:
            tensors["labels"] = pack.labels[name]
        ((out / "ood" if name in ("near", "far") else out) / f"{name}.safetensors").write_bytes(save(tensors))
    (out / "head.safetensors").write_bytes(save({"weight": f32(pack.head.weight), "bias": f32(pack.head.bias)}))
    (out / "rff.safetensors").write_bytes(save({"omega": f32(pack.rff.omega), "u": f32(pack.rff.u)}))
    write_golden(out, {"schema": "offspan.fixture/1", "conventions": CONVENTIONS, "duplicates": pack.twins}, cases, golden)


def write_golden(out: Path, document: dict[str, Any], cases: list[dict[str, Any]], golden: dict[str, Array]) -> None:
    (out / "golden.safetensors").write_bytes(save(golden))
    head = json.dumps(document, indent=1)[:-2]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (out / "golden.json").write_text(f'{head},\n "cases": [\n{lines}\n]}}\n')


def finish(out: Path, cases: int, limit: int) -> int:
    """Exit status 0, unless the folder has become too large."""
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert size < limit, size
    print(f"{cases} cases, {size / 1000:.0f} kB")
    return 0


# --------------------------------------------------------------------------------------------------------------------------------------
# The pack of the baselines
#
# A network's last block: maps = relu(scale (W x) + shift + shortcut), features = their mean over positions, logits = the head's. One
# channel is dead in training and test, so that covariances are singular, and alive in some OoD rows. The head's rows sum to zero over the
# classes, so that its last singular value is rounding noise. What specially trained networks would give is drawn independently.

B_CLASSES, B_DIMS, B_INPUTS, B_SIDE, B_DEAD, B_VIEWS, B_COPIES = 4, 20, 21, 2, 7, 3, 3
B_ROWS = {"train": 120, "test": 30, "near": 30}
B_SIZE_LIMIT, B_SENSITIVITY, B_EDGE = 350_000, 1e-6, 1e-5


def narrow(x: Array) -> Array:
    """The nearest float32 values."""
    return x.astype(np.float32).astype(np.float64)


def make_baseline_pack(seed: int) -> tuple[dict[str, Tensors], Tensors]:
    """The sets and the head."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal
    centres = 1.3 * np.maximum(normal((B_CLASSES, B_DIMS)), 0.0) + 0.3
    weight = 0.7 * centres + 0.1 * normal(centres.shape)
    bias = -0.35 * np.sum(np.square(centres + 0.15), axis=1) + 0.2 * normal(B_CLASSES)
    head = {
        "weight": narrow(weight - weight.mean(axis=0)),
        "bias": narrow(bias - bias.mean()),
        "block.weight": narrow(0.15 * normal((B_DIMS, B_INPUTS)) + 0.02),
        "block.scale": narrow(0.5 + rng.random(B_DIMS)),
        "block.shift": narrow(0.1 * normal(B_DIMS)),
    }
    focal, godin = 0.7 * np.eye(B_CLASSES), 4.0 * np.eye(B_CLASSES)
    centred, supcon, views = 2.0 * normal((B_CLASSES, 6)), normal((B_CLASSES, 8)), normal((B_CLASSES, B_VIEWS, 5))

    sets = {}
    for name, n in B_ROWS.items():
        inside = name != "near"
        labels = rng.permutation(np.arange(n) % B_CLASSES)
        # OoD rows lie between two classes, and everything about them is weaker.
        place = np.eye(B_CLASSES)[labels] if inside else 0.35 * (np.eye(B_CLASSES)[labels] + np.eye(B_CLASSES)[rng.permutation(labels)])
        block_input = narrow(np.maximum(normal((n, B_INPUTS, B_SIDE, B_SIDE)), 0.0))
        gain = np.exp(0.2 * normal((n, 1)))
        shortcut = (place @ centres * gain)[:, :, None, None] + 0.35 * normal((n, B_DIMS, B_SIDE, B_SIDE))
        dead = np.ones(n, dtype=bool) if inside else np.arange(n) % 3 > 0
        shortcut[dead, B_DEAD] -= 20.0
        shortcut = narrow(shortcut)
        product = np.einsum("mk,nkhw->nmhw", head["block.weight"], block_input)
        maps = product * head["block.scale"][:, None, None] + head["block.shift"][:, None, None] + shortcut
        maps = narrow(np.maximum(maps, 0.0))
        features = narrow(maps.mean(axis=(2, 3)))
        sets[name] = {
            "features": features,
            "logits": narrow(features @ head["weight"].T + head["bias"]),
            "labels": labels.astype(np.int64),
            "maps": maps,
            "block_input": block_input,
            "block_shortcut": shortcut,
            "focal_cosines": narrow(np.tanh(place @ focal + 0.15 * normal((n, B_CLASSES)))),
            "centre_features": narrow(place @ centred + 0.5 * normal((n, 6))),
            "godin_h": narrow(place @ godin + normal((n, B_CLASSES))),
            "supcon": narrow(place @ supcon + 0.4 * normal((n, 8))),
            "csi_features": narrow(np.einsum("nc,cvd->nvd", place, views) + 0.4 * normal((n, B_VIEWS, 5))),
            "csi_shift_logits": narrow(3.0 * place.sum(axis=1, keepdims=True) + normal((n, B_VIEWS))),
        }
    # Drawn last, so that everything else stays what it was.
    head["noise"] = narrow(normal((B_COPIES, B_CLASSES, B_DIMS)))
    return sets, head


def check_baseline_pack(sets: dict[str, Tensors], head: Tensors) -> None:
    for name, rows in sets.items():
        z = rows["features"]
        assert z.shape == (B_ROWS[name], B_DIMS) and np.all(z >= 0.0), name
        assert np.any(z[:, B_DEAD]) == (name == "near"), name
        if name != "near":
            accuracy = np.mean(rows["logits"].argmax(axis=1) == rows["labels"])
            assert accuracy > 0.8 and (accuracy < 1.0 or name != "train"), (name, accuracy)
    singular = np.linalg.svd(head["weight"], compute_uv=False)
    assert singular[-1] < 1e-7 * singular[0] and singular[-2] > 0.1 * singular[0], singular


METHODS = baselines.METHODS | newer.METHODS

# (name, method, parameters): parameters that are not the defaults wherever a method has some.
BASELINES: list[tuple[str, str, dict[str, float]]] = [
    ("msp", "msp", {}),
    ("maxlogit", "max-logit", {}),
    ("energy", "energy", {"T": 1.5}),
    ("odin_eps0", "odin", {"T": 10.0}),
    ("gen", "gen", {"gamma": 0.2, "M": 4}),
    ("gradnorm", "gradnorm", {}),
    ("mahalanobis", "mahalanobis", {}),
    ("mahalanobis_pp", "mahalanobis-pp", {}),
    ("ssd", "ssd", {}),
    ("knn", "knn", {"k": 6}),
    ("tnn", "tnn", {"k": 8, "d": 3}),
    ("nnguide", "nnguide", {"k": 7}),
    ("she", "she", {}),
    ("vim", "vim", {"D": 9}),
    ("dml", "dml", {"lam": 0.05}),
    ("gradorth", "gradorth", {"r": 0.95}),
    ("regpca", "reg-pca", {"q": 6}),
    ("lowdim_probe", "low-dim", {"lam": 0.02}),
    ("react", "react", {"pct": 80}),
    ("bats", "bats", {"lam": 1.25}),
    ("vra", "vra", {"lo": 0.3, "hi": 0.8}),
    ("ash_b", "ash-b", {"pct": 60}),
    # 20 * 62.5 / 100 = 12.5, which Python rounds to 12.
    ("ash_p", "ash-p", {"pct": 62.5}),
    ("ash_s", "ash-s", {"pct": 62.5}),
    ("scale", "scale", {"pct": 70}),
    ("dice", "dice", {"pct": 70}),
    ("line", "line", {"pa": 60, "pw": 60, "clip": 1.1}),
    ("ddcs", "ddcs", {"a": 0.7, "keep": 0.6, "lo": 15, "hi": 85}),
    ("dice_react", "dice+react", {"pct": 30, "clip_pct": 75}),
    ("gradnorm_react", "gradnorm+react", {"pct": 85}),
    ("nnguide_react", "nnguide+react", {"k": 5, "pct": 85}),
    ("regpca_react", "reg-pca+react", {"q": 5, "pct": 85}),
    ("regpca_react_rawfit", "reg-pca+react", {"q": 5, "pct": 85}),
    ("lowdim_react", "low-dim+react", {"lam": 0.05, "pct": 90}),
    ("rank_feat", "rank-feat", {}),
    ("rank_feat_weight", "rank-feat+rank-weight", {}),
    ("knn_plus", "knn-plus", {"k": 4}),
    ("ssd_plus", "ssd-plus", {}),
    ("mcf", "mcf", {}),
    ("mnc", "mnc", {}),
    ("dml_plus", "dml-plus", {}),
    ("godin", "godin", {}),
    ("csi", "csi", {}),
    ("entropy", "entropy", {}),
    ("renyi", "renyi", {"gamma": 0.3}),
    ("logit_gap", "logit-gap", {"N": 2}),
    ("joint_energy", "joint-energy", {}),
    ("klm", "klm", {}),
    ("temp_scale", "temp-scale", {}),
    ("openmax", "openmax", {"alpha": 3, "tail": 8}),
    ("residual", "residual", {"D": 7}),
    ("gen_residual", "gen-residual", {"gamma": 0.3, "M": 3, "D": 8}),
    ("fdbd", "fdbd", {}),
    ("fdbd_norm", "fdbd-norm", {}),
    ("nci", "nci", {"alpha": 0.01}),
    ("neco", "neco", {"d": 5}),
    ("neco_ratio", "neco-ratio", {"d": 4}),
    ("neco_evr", "neco-evr", {"r": 0.8}),
    ("neco_evr_ratio", "neco-evr-ratio", {"r": 0.85}),
    ("ctm_weight", "ctm-weight", {}),
    ("ctm_mean", "ctm-mean", {}),
    ("ora", "ora", {}),
    ("class_mean_pca", "class-mean-pca", {"r": 0.9}),
    ("pnml", "pnml", {}),
    ("actsub", "actsub", {"pct": 70, "lam": 1.5, "k": 4}),
    ("rmds", "rmds", {}),
    ("rmds_pp", "rmds-pp", {}),
    ("beta_energy", "beta-norm", {"beta": 0.7}),
    ("beta_mahalanobis", "beta-mahalanobis", {"beta": 0.3}),
    ("wdiscood", "wdiscood", {"N": 2, "alpha": 0.7}),
    ("wdiscood_unit", "wdiscood-unit", {"N": 2, "alpha": 0.3}),
    ("caref", "caref", {}),
    ("cadref", "cadref", {}),
    ("trust", "trust", {"alpha": 0.2, "k": 3}),
    ("dknn", "dknn", {"k": 9}),
    ("relation", "relation", {"t": 1.5, "thr": 0.2}),
    ("lid", "lid", {"k": 10}),
    ("opt_fs_e", "opt-fs", {"bins": 12}),
    ("opt_fs_v", "opt-fs-v", {"bins": 15}),
    ("bf_act", "bf-act", {"n": 3, "pct": 80}),
    ("lts", "lts", {"pct": 70}),
    ("nac", "nac", {"M": 20, "O": 12, "alpha": 1.5}),
    (
        "weiper_kld",
        "weiper-kld",
        {"r": 3, "delta": 1.2, "bins": 30, "lam1": 2.0, "lam2": 0.4, "s1": 3, "s2": 5, "eps1": 0.02, "eps2": 0.03},
    ),
    ("pca_nre", "pca-nre", {"q": 6, "pct": 85}),
    ("mme", "mme", {"T": 0.2, "match": 1.5}),
    ("feature_norm", "feature-norm", {}),
    ("davis_std", "davis-std", {"gamma": 0.8}),
    ("davis_max", "davis-max", {}),
]

BASELINE_CONVENTIONS = [
    "Higher score = more in-distribution. Inputs are float32 on disk, widened to float64 before any arithmetic.",
    "Each method is defined by the function of its name in bench/reference/baselines_f64.py or newer_f64.py.",
    "sensitivity: the largest max |change| / max |golden| of a set when every number of it moves by up to half a float32 unit.",
]


def moved_tensors(rows: Tensors, rng: np.random.Generator) -> Tensors:
    """Every number but labels and zeros moved by up to half a float32 unit in the last place."""

    def moved(x: Array) -> Array:
        ulp = np.where(x == 0.0, 0.0, np.spacing(np.abs(x).astype(np.float32)).astype(np.float64))
        return x + ulp * (rng.random(x.shape) - 0.5)

    return {name: x if name == "labels" else moved(x) for name, x in rows.items()}


def run_baseline(name: str, params: dict[str, float], sets: dict[str, Tensors], head: Tensors) -> dict[str, Array]:
    score = METHODS[name](sets["train"], head, **params)
    return {s: score(rows) for s, rows in sets.items() if s != "train"}


def make_baselines(out: Path) -> int:
    sets, head = make_baseline_pack(SEED + 2)
    check_baseline_pack(sets, head)
    rng = np.random.default_rng(SEED + 3)
    other = {name: moved_tensors(rows, rng) for name, rows in sets.items()}
    cases, golden = [], {}
    for name, method, params in BASELINES:
        scores = run_baseline(name, params, sets, head)
        assert all(np.all(np.isfinite(s)) for s in scores.values()), name
        # A sharp softmax is 1 for every row of the test set.
        assert any(np.ptp(s) > 1e-3 * np.max(np.abs(s)) for s in scores.values()), name
        # A discrete choice that hangs by a thread would change the scores by more than this.
        change = relative_change(scores, run_baseline(name, params, other, head))
        assert change < B_SENSITIVITY, (name, change)
        # Every parameter counts.
        for key, value in params.items():
            wrong = params | {key: value + 1 if isinstance(value, int) and key in ("k", "d", "q", "D") else 0.8 * value}
            assert relative_change(scores, run_baseline(name, wrong, sets, head)) > B_EDGE, (name, key)
        auroc = ref.auroc(scores["test"], scores["near"])
        print(f"{name:<24}{auroc:>7.3f}   {change:.0e}")
        cases.append({"name": name, "method": method, "params": params, "auroc": auroc, "sensitivity": float(f"{change:.1e}")})
        golden |= {f"{name}/{s}": v for s, v in scores.items()}

    for name, rows in sets.items():
        path = (out / "ood" if name == "near" else out) / f"{name}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(save({key: x if key == "labels" else f32(x) for key, x in rows.items()}))
    (out / "weiper.safetensors").write_bytes(save({"noise": f32(head.pop("noise"))}))
    (out / "head.safetensors").write_bytes(save({key: f32(x) for key, x in head.items()}))
    write_golden(out, {"schema": "offspan.fixture-baselines/1", "conventions": BASELINE_CONVENTIONS}, cases, golden)
    return finish(out, len(cases), B_SIZE_LIMIT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--baselines", action="store_true", help="the pack of the methods beside kernel PCA")
    args = parser.parse_args()
    if args.baselines:
        return make_baselines(args.out_dir)

    pack = make_pack(SEED)
    check_pack(pack)
    cases: list[dict[str, Any]] = []
    golden: dict[str, Array] = {}
    print(f"{'case':<34}{'q':>4}{'kept':>6}{'share':>9}{'gap':>9}{'least kept':>12}   near / far AUROC   sensitivity")
    for name, setting in make_cases().items():
        case, scores = run_case(name, setting, pack)
        cases.append(case)
        golden |= {f"{name}/{s}": v for s, v in scores.items()}
        fit, m = case["fit"], case["metrics"]
        least = f"{fit['smallest_kept']:.1e}" if fit["kept"] else "-"
        print(
            f"{name:<34}{fit['q']:>4}{fit['kept'] or '-':>6}{fit['share_at_q']:>9.4f}{fit['eigengap']:>9.1e}{least:>12}"
            f"   {m['near']['auroc']:.3f} / {m['far']['auroc']:.3f}      {' '.join(f'{v:.0e}' for v in case['sensitivity'].values())}"
        )
    write(args.out_dir, pack, cases, golden)
    return finish(args.out_dir, len(cases), SIZE_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
