"""``detector.to_torch()``: the library's scores in PyTorch's own operations."""

from __future__ import annotations

import copy
import io
import pickle
import re

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from parity_cases import FOLDERS, NOT_EXPORTABLE, OWN_TENSORS, SINGLE_PRECISION, TABLE, fitted, splits

import offspan
from offspan.torch import Decision, NativeDetector

#: Of the largest score.
SINGLE, DOUBLE = 1e-4, 1e-6

CASES = [
    pytest.param(folder, name, options, id=f"{folder}-{title}")
    for folder in FOLDERS
    for title, name, options in TABLE
    if name not in NOT_EXPORTABLE and not (folder == "fixture" and name in OWN_TENSORS)
]


def given(native: NativeDetector, split) -> dict[str, torch.Tensor]:
    """What a native detector needs of a split."""
    arrays = {"logits": split.logits, **split.extras}
    return {"features": torch.tensor(split.features), **{name: torch.tensor(arrays[name]) for name in native.needs}}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("folder, name, options", CASES)
def test_scores_and_decisions_are_the_librarys(folder, name, options, dtype, record_property):
    double = dtype == torch.float64
    detector = fitted(folder, name, options, double)
    native = detector.to_torch(dtype)
    tolerance = SINGLE if not double else 10 * DOUBLE if name in SINGLE_PRECISION else DOUBLE
    worst = 0.0
    for split in splits(folder)[1]:
        expected = detector.score(split.features, split.logits, split.extras or None)
        found = native(**given(native, split))
        score = found.score.double().numpy()
        scale = np.abs(expected).max()
        worst = max(worst, np.abs(score - expected).max() / scale)
        assert found.score.dtype == dtype
        assert worst <= tolerance, f"{worst:.1e}"
        band = 1e-4 * scale
        clear = np.abs(expected - detector.threshold) > band
        np.testing.assert_array_equal(found.is_ood.numpy()[clear], (expected < detector.threshold)[clear])
        p_value = found.p_value.double().numpy()
        assert (p_value >= detector.p_values_of(expected - band) - 1e-6).all()
        assert (p_value <= detector.p_values_of(expected + band) + 1e-6).all()
    record_property("largest difference", f"{worst:.1e}")


@pytest.mark.parametrize("name", sorted(NOT_EXPORTABLE))
def test_methods_that_cannot_be_exported_say_why(name):
    options = next(options for _, method, options in TABLE if method == name)
    with pytest.raises(offspan.InputError, match=re.escape(f"{name} cannot be exported: {NOT_EXPORTABLE[name]}")):
        fitted("fixture-baselines", name, options, double=False).to_torch()


@pytest.fixture(scope="module")
def detector() -> offspan.Detector:
    return fitted("fixture", "kpca-nys", {"landmarks": 48, "fuse": "energy-ratio"}, double=False)


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.tensor(splits("fixture")[1][0].features)


def test_the_numbers_are_buffers_and_nothing_is_learned(detector):
    native = detector.to_torch()
    assert not list(native.parameters())
    assert {buffer.dtype for buffer in native.buffers()} <= {torch.float32, torch.int64, torch.bool, torch.uint8}
    assert "kpca-nys" in repr(native)


def test_a_method_gives_the_module_of_its_detector(rows):
    method = offspan.make("energy").fit(rows.numpy(), rows.numpy()[:, :4])
    torch.testing.assert_close(method.to_torch()(rows, rows[:, :4]), method.detector.to_torch()(rows, rows[:, :4]))


def test_the_type_follows_double_and_float_but_never_half(detector, rows):
    native = detector.to_torch()
    expected = native(rows).score
    assert native.half()(rows.half()).score.dtype == torch.float32
    assert native.bfloat16().dtype == torch.float32
    torch.testing.assert_close(native(rows).score, expected, rtol=0, atol=0)
    assert native.double()(rows).score.dtype == torch.float64
    assert native.float()(rows).score.dtype == torch.float32
    with pytest.raises(offspan.InputError, match=r"expected torch.float32 or torch.float64, got torch.float16"):
        detector.to_torch(torch.float16)


def test_autocast_does_not_reach_it(detector, rows):
    native = detector.to_torch()
    expected = native(rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (rows @ rows.T).dtype == torch.bfloat16
        found = native(rows)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_rows_that_are_not_finite_are_out(detector, rows):
    native = detector.to_torch()
    expected = native(rows)
    broken = rows.clone()
    broken[3, 2], broken[5, 0] = float("nan"), float("inf")
    found = native(broken)
    others = [row for row in range(len(rows)) if row not in (3, 5)]
    torch.testing.assert_close(found.score[others], expected.score[others], rtol=0, atol=0)
    for row in (3, 5):
        assert found.score[row] == -float("inf") and found.is_ood[row]
        assert abs(float(found.p_value[row]) - 1 / (len(native.calibration_scores) + 1)) < 1e-6


def test_a_row_of_zeros_has_the_score_of_the_library(detector, rows):
    empty = torch.zeros(1, rows.shape[1])
    assert float(detector.to_torch()(empty).score) == float(detector.score(empty.numpy())[0])


def test_no_rows_have_no_scores(detector, rows):
    assert detector.to_torch()(rows[:0]).score.shape == (0,)


def test_what_does_not_fit_is_said(detector, rows):
    with pytest.raises(offspan.InputError, match=r"expected shape \[rows, 24\], got \[60, 23\]"):
        detector.to_torch()(rows[:, 1:])
    energy = offspan.make("energy").fit(rows.numpy(), rows.numpy()[:, :4]).to_torch()
    assert energy.needs == ["logits"]
    with pytest.raises(offspan.InputError, match="energy needs logits"):
        energy(rows)
    with pytest.raises(offspan.InputError, match=r"logits: expected shape \[60, …\], got \[59, 4\]"):
        energy(rows, rows[1:, :4])


def test_without_a_threshold_there_is_a_score_only(rows):
    method = offspan.make("pca").fit(rows.numpy(), hold_out=0.0)
    score, p_value, is_ood = method.to_torch()(rows)
    assert p_value is None and is_ood is None
    np.testing.assert_allclose(score.numpy(), method.score(rows.numpy()), rtol=1e-4, atol=1e-5)


def test_another_threshold_is_a_number_in_a_buffer(detector, rows):
    native = detector.to_torch()
    native.threshold.fill_(float(native(rows).score.median()))
    assert 0 < int(native(rows).is_ood.sum()) < len(rows)


def test_a_state_fills_a_module_of_the_same_structure(detector, rows):
    first = fitted("fixture", "pca", {"components": 5}, double=False).to_torch()
    train = splits("fixture")[0].features[::-1] * 2.0
    second = offspan.make("pca", components=5).fit(train, hold_out=0.0).detector
    second = second.calibrated(train[:60], keep=0.9, confidence=0.9).to_torch()
    assert not torch.equal(first(rows).p_value, second(rows).p_value)
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second.load_state_dict(torch.load(stored))
    torch.testing.assert_close(second(rows), first(rows), rtol=0, atol=0)
    with pytest.raises(offspan.FormatError, match="another detector than this kpca-nys"):
        detector.to_torch().load_state_dict(first.state_dict())


def test_a_state_makes_the_whole_module(detector, rows):
    native = detector.to_torch(torch.float64)
    state = {f"ood.{name}": value for name, value in native.state_dict().items()}
    again = NativeDetector.of_state(state, "ood.")
    torch.testing.assert_close(again(rows), native(rows), rtol=0, atol=0)
    with pytest.raises(offspan.FormatError, match=r"expected a state with 'none\.structure'"):
        NativeDetector.of_state(state, "none.")
    damaged = {**state, "ood.structure": state["ood.structure"][:-3]}
    with pytest.raises(offspan.FormatError, match="does not describe a detector"):
        NativeDetector.of_state(damaged, "ood.")


def test_copies_and_pickles_score_the_same(detector, rows):
    native = detector.to_torch()
    for other in (copy.deepcopy(native), pickle.loads(pickle.dumps(native))):
        torch.testing.assert_close(other(rows), native(rows), rtol=0, atol=0)


def test_a_trace_computes_scores_of_other_rows(detector, rows):
    native = detector.to_torch()
    traced = torch.jit.trace(native, (rows[:7],))
    stored = io.BytesIO()
    torch.jit.save(traced, stored)
    stored.seek(0)
    other = rows[10:50] * 1.5
    torch.testing.assert_close(Decision(*torch.jit.load(stored)(other)), native(other))


def test_scores_have_gradients_where_rows_want_them(detector, rows):
    wanted = rows.clone().requires_grad_()
    detector.to_torch()(wanted).score.sum().backward()
    assert torch.isfinite(wanted.grad).all() and wanted.grad.abs().sum() > 0
