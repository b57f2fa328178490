"""Guarded networks under ``torch.compile`` and ``torch.export``, which need a current PyTorch."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings

import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from parity_cases import FOLDERS, NOT_EXPORTABLE, OWN_TENSORS, TABLE, fitted, splits
from test_native import given
from torch_networks import Convolutional, batches, images

from offspan.torch import Decision, GuardedOutput, guard

if not hasattr(torch.compiler if hasattr(torch, "compiler") else None, "is_exporting"):
    pytest.skip(f"PyTorch {torch.__version__} is older than 2.7", allow_module_level=True)

METHODS = {
    "auto": {},
    "kpca-nys": {"landmarks": 64, "fuse": "energy-ratio"},
    "kpca-rff": {"features": 128},
    "vim": {},
    "knn": {},
}


def guarded_by(name):
    torch.manual_seed(1)
    network = Convolutional().eval()
    return guard(network, batches(400), name, calibrate=batches(300, seed=2), keep=0.9, **METHODS[name])


def close(found, expected):
    """Up to what the last bits of a small network's features do to its scores."""
    torch.testing.assert_close(found[0], expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[1], expected.score, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(found[2], expected.p_value, rtol=0, atol=0.02)
    assert (found[3] != expected.is_ood).sum() <= 1


@pytest.mark.parametrize("name", list(METHODS))
@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
def test_an_export_takes_any_number_of_rows(name, strict):
    guarded = guarded_by(name)
    rows = torch.export.Dim("rows", min=1, max=4096)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(guarded, (images(4),), dynamic_shapes=(({0: rows},),), strict=strict)
    for count in (1, 4, 33):
        close(exported.module()(images(count, seed=8)), guarded(images(count, seed=8)))


def test_an_exported_file_is_read_where_offspan_is_not(tmp_path):
    guarded = guarded_by("kpca-nys")
    exported = torch.export.export(guarded, (images(4),))
    torch.export.save(exported, tmp_path / "guarded.pt2")
    torch.save((images(4, seed=8), tuple(guarded(images(4, seed=8)))), tmp_path / "expected.pt")
    code = (
        "import sys, torch; sys.modules['offspan'] = None\n"
        "given, expected = torch.load('expected.pt')\n"
        "torch.testing.assert_close(torch.export.load('guarded.pt2').module()(given), expected)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", list(METHODS))
def test_a_compiler_reads_all_of_it(name):
    torch.compiler.reset()
    guarded = guarded_by(name)
    compiled = torch.compile(guarded, fullgraph=True)
    for count in (4, 9):
        found = compiled(images(count, seed=8))
        close(found, guarded(images(count, seed=8)))
        assert isinstance(found, GuardedOutput)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("title", ["auto", "kpca-nys, fused", "kpca-rff, structured", "knn", "ash-s", "vim"])
def test_a_compiled_detector_keeps_its_digits(folder, title):
    torch.compiler.reset()
    name, options = next((name, options) for one, name, options in TABLE if one == title)
    native = fitted(folder, name, options, double=False).to_torch()
    rows = given(native, splits(folder)[1][0])
    score = native(**rows).score
    assert (torch.compile(native, fullgraph=True)(**rows).score - score).abs().max() <= 1e-5 * score.abs().max()


class NotCompiled(Convolutional):
    """A network that a compiler does not read as a whole."""

    def __init__(self, all_of_it: bool) -> None:
        super().__init__()
        self.all_of_it = all_of_it

    def forward(self, x):
        if self.all_of_it:
            return self.eagerly(x)
        features = self.features(x)
        torch._dynamo.graph_break()
        return self.fc(features)

    @torch._dynamo.disable
    def eagerly(self, x):
        return self.fc(self.features(x))


@pytest.mark.parametrize("all_of_it", [False, True], ids=["a break", "no part"])
def test_networks_that_a_compiler_does_not_read_are_watched_all_the_same(all_of_it):
    torch.compiler.reset()
    torch.manual_seed(1)
    guarded = guard(NotCompiled(all_of_it).eval(), batches(400), "pca")
    compiled = torch.compile(guarded, backend="eager")
    for seed in range(3):
        torch.testing.assert_close(compiled(images(5 + seed, seed=seed)).score, guarded(images(5 + seed, seed=seed)).score)


def test_autocast_does_not_reach_a_compiled_detector():
    torch.compiler.reset()
    native = guarded_by("kpca-nys").detector
    rows = torch.rand(20, 12)
    compiled = torch.compile(native, fullgraph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = compiled(rows, rows[:, :5])
    torch.testing.assert_close(found.score, native(rows, rows[:, :5]).score, rtol=1e-4, atol=1e-4)


def test_a_compiler_is_told_to_see_evaluation_mode():
    torch.compiler.reset()
    guarded = guarded_by("vim").train()
    with pytest.raises(Exception, match=r"guarded\.eval\(\)"):
        torch.export.export(guarded, (images(4),))


@pytest.mark.parametrize(
    "folder, name, options",
    [
        pytest.param(folder, name, options, id=f"{folder}-{title}")
        for folder in FOLDERS
        for title, name, options in TABLE
        if name not in NOT_EXPORTABLE and not (folder == "fixture" and name in OWN_TENSORS)
    ],
)
def test_every_method_can_be_exported(folder, name, options):
    native = fitted(folder, name, options, double=False).to_torch()
    rows = given(native, splits(folder)[1][0])
    few = {key: value[:5] for key, value in rows.items()}
    dynamic = {key: {0: torch.export.Dim.AUTO} for key in rows}
    names = {key: few[key] for key in ("features", "logits") if key in few}
    extras = {key: value for key, value in few.items() if key not in names}
    shapes = {key: dynamic[key] for key in names}
    if extras:
        shapes["extras"] = {key: dynamic[key] for key in extras}
    exported = torch.export.export(native, (), {**names, **extras}, dynamic_shapes=shapes)
    stored = io.BytesIO()
    torch.export.save(exported, stored)
    stored.seek(0)
    found = Decision(*torch.export.load(stored).module()(**rows))
    torch.testing.assert_close(found.score, native(**rows).score, rtol=1e-4, atol=1e-5)
