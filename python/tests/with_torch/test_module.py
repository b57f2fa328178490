from __future__ import annotations

import copy
import io
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.torch needs PyTorch, which is not installed")

import torch
from torch_networks import Convolutional, ConvolutionalHead, Softmax, batches, hooks, images, labels

import offspan
from offspan.torch import OODModule, extract
from offspan.torch import _tracing as tracing
from offspan.torch._arrays import to_numpy

METHODS = {"kpca-nys": {"landmarks": 64}, "vim": {"components": 4}, "energy": {}, "knn": {"neighbours": 5}}


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Convolutional().eval()


@pytest.fixture
def train(network):
    return extract(network, batches(600))


def fitted(train, name):
    method = offspan.make(name, head=train.head, **METHODS[name])
    return method.fit(train.features, train.logits, train.labels)


@pytest.mark.parametrize("name", list(METHODS))
def test_logits_and_scores_are_those_of_network_and_detector(network, train, name):
    method = fitted(train, name)
    logits, score = OODModule(network, method)(images(40, seed=3))
    data = extract(network, [images(40, seed=3)])
    torch.testing.assert_close(logits, network(images(40, seed=3)))
    assert (score.dtype, score.shape, score.device) == (torch.float32, (40,), logits.device)
    np.testing.assert_array_equal(score.numpy(), method.score(data.features, data.logits).astype(np.float32))
    assert hooks(network) == 0


def test_decisions_are_the_detectors_to_the_bit(network, train):
    method = fitted(train, "kpca-nys")
    guarded = OODModule(network, method.detector)
    assert guarded.threshold == method.threshold
    data = extract(network, [images(200, seed=4)])
    _, is_in = guarded.predict(images(200, seed=4))
    assert is_in.dtype == torch.bool
    np.testing.assert_array_equal(is_in.numpy(), method.predict(data.features, data.logits))
    # A threshold between a score and its float32: rounding first would decide otherwise.
    scores = method.score(data.features, data.logits)
    guarded.threshold = float(scores[0])
    assert bool(guarded.predict(images(200, seed=4))[1][0])
    guarded.threshold = float(np.nextafter(scores[0], np.inf))
    assert not bool(guarded.predict(images(200, seed=4))[1][0])


def test_without_threshold_or_detector_it_says_so(network, train):
    guarded = OODModule(network, offspan.make("energy", head=train.head).fit(train.features, hold_out=0.0))
    assert guarded.threshold is None
    with pytest.raises(offspan.NotFittedError, match="no threshold"):
        guarded.predict(images(2))
    with pytest.raises(offspan.NotFittedError, match="no detector yet"):
        OODModule(network, None)(images(2))
    with pytest.raises(offspan.NotFittedError):
        OODModule(network, offspan.make("energy"))


def test_logits_keep_their_gradient_and_scores_have_none(network, train):
    logits, score = OODModule(network, fitted(train, "energy"))(images(4))
    assert not score.requires_grad
    logits.sum().backward()
    assert network.fc.weight.grad is not None


def test_the_first_look_leaves_batch_statistics_alone(network, train):
    once, twice = copy.deepcopy(network).train(), copy.deepcopy(network).train()
    torch.manual_seed(5)
    guarded = OODModule(once, fitted(train, "energy")).train()
    guarded(images(8))
    twice(images(8))
    torch.testing.assert_close(once.layer1[1].running_mean, twice.layer1[1].running_mean, rtol=0, atol=0)
    assert all(module.training for module in guarded.modules())


def test_a_copy_and_a_pickle_score_the_same_on_their_own(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"), layer=network.layer2)
    expected = guarded(images(10))
    for other in (copy.deepcopy(guarded), pickle.loads(pickle.dumps(guarded))):
        torch.testing.assert_close(other(images(10)), expected, rtol=0, atol=0)
        with torch.no_grad():
            other.model.layer1[0].weight.zero_()
        assert not torch.equal(other(images(10))[1], expected[1])
    torch.testing.assert_close(guarded(images(10)), expected, rtol=0, atol=0)


def test_the_state_carries_the_detector(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    guarded.threshold = -0.25
    expected = guarded(images(10))
    stored = io.BytesIO()
    torch.save(guarded.state_dict(), stored)
    stored.seek(0)
    torch.manual_seed(99)
    other = OODModule(Convolutional().eval(), None)
    other.load_state_dict(torch.load(stored))
    torch.testing.assert_close(other(images(10)), expected, rtol=0, atol=0)
    assert other.threshold == -0.25
    assert other.detector == guarded.detector


def test_the_state_loads_as_weights_only(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    stored = io.BytesIO()
    torch.save(guarded.state_dict(), stored)
    stored.seek(0)
    assert "_extra_state" in torch.load(stored, weights_only=True)


def test_the_module_moves_like_any_other(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    expected = guarded(images(6))
    torch.testing.assert_close(guarded.to("cpu")(images(6)), expected)
    double = guarded.double()(images(6).double())
    assert double[0].dtype == torch.float64
    torch.testing.assert_close(double[1], expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("bfloat16_convolutions")
def test_the_module_works_in_bfloat16(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    expected = guarded(images(6))
    narrow = guarded.bfloat16()(images(6).bfloat16())
    assert (narrow[0].dtype, narrow[1].dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(narrow[1], expected[1], rtol=5e-2, atol=5e-2)


def test_bfloat16_tensors_are_scored_without_bfloat16_arithmetic(train):
    """Our part of the above, on every processor: conversion of what the network gives."""
    narrow = torch.from_numpy(np.array(train.features[:6])).bfloat16()
    method = fitted(train, "knn")
    np.testing.assert_array_equal(method.score(to_numpy(narrow)), method.score(narrow.float().numpy()))


def test_a_detector_file_is_enough(network, train, tmp_path):
    method = fitted(train, "vim")
    method.save(tmp_path / "vim.offspan")
    torch.testing.assert_close(
        OODModule(network, tmp_path / "vim.offspan")(images(6)), OODModule(network, method)(images(6)), rtol=0, atol=0
    )


def test_maps_reach_detectors_that_need_them(network):
    train = extract(network, batches(60), maps=True)
    method = offspan.make("rank-feat", head=train.head)
    method.fit(train.features, train.logits, extras=train.extras, hold_out=0.0)
    _, score = OODModule(network, method, maps=True)(images(60))
    expected = method.score(train.features, train.logits, extras=train.extras)
    np.testing.assert_allclose(score.numpy(), expected, rtol=1e-5)
    with pytest.raises(offspan.InputError, match="maps"):
        OODModule(network, method)(images(6))


def test_a_network_without_linear_head_works_by_its_layer_and_output():
    network = ConvolutionalHead().eval()
    train = extract(network, batches(200), layer="features", logits=True)
    method = offspan.make("energy").fit(train.features, train.logits, hold_out=0.0)
    logits, score = OODModule(network, method, layer="features")(images(6))
    torch.testing.assert_close(score, logits.logsumexp(1).detach(), rtol=1e-5, atol=1e-5)
    with pytest.raises(offspan.InputError, match="found no linear head"):
        OODModule(network, method)(images(6))


def test_a_network_that_goes_on_after_its_head_is_scored_by_the_heads_logits():
    torch.manual_seed(2)
    network, x = Softmax().eval(), torch.randn(100, 10)
    train = extract(network, [x], head="last")
    method = offspan.make("energy").fit(train.features, train.logits, hold_out=0.0)
    output, score = OODModule(network, method, head="last")(x)
    torch.testing.assert_close(output, network(x))
    np.testing.assert_allclose(score.numpy(), method.score(train.features, train.logits), rtol=1e-5)


def test_threads_that_share_a_network_get_their_own_rows(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    inputs = [images(16, seed=seed) for seed in range(8)]
    with torch.no_grad():
        expected = [guarded(x)[1] for x in inputs]
        with ThreadPoolExecutor(4) as pool:
            scores = list(pool.map(lambda x: [guarded(x)[1] for _ in range(10)], inputs))
    for wanted, got in zip(expected, scores):
        for score in got:
            torch.testing.assert_close(score, wanted)
    assert hooks(network) == 0


# --- tracers and compilers -----------------------------------------------------------------------

WHAT_TO_DO = "export the network alone, with its features as an output, and score those afterwards"


@pytest.fixture
def guarded(network, train):
    return OODModule(network, fitted(train, "energy"))


class Around(torch.nn.Module):
    """A network that has a module with a detector inside."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[1]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside another"])
def test_tracing_scripting_and_onnx_are_refused_with_what_to_do(guarded, inside, tmp_path):
    module = Around(guarded) if inside else guarded
    guarded(images(2))
    predict, assess = (lambda x: guarded.predict(x)[1]), (lambda x: guarded.assess(x).score)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Newer versions call these deprecated.
        for traced in (module, predict, assess):
            with pytest.raises(offspan.InputError, match=WHAT_TO_DO):
                torch.jit.trace(traced, images(2))
        with pytest.raises(offspan.InputError, match=WHAT_TO_DO):
            torch.jit.script(module)
        legacy = {} if torch.__version__.startswith("1.") else {"dynamo": False}
        with pytest.raises(offspan.InputError, match=WHAT_TO_DO):
            torch.onnx.export(module, images(2), str(tmp_path / "net.onnx"), **legacy)
    assert guarded(images(2))[1].shape == (2,)


def test_what_a_compiler_says_of_itself_is_heeded(guarded, monkeypatch):
    """For versions without a compiler: what the next test does is left to this one."""
    monkeypatch.setattr(tracing, "_is_compiling", lambda: True)
    for call in (guarded, guarded.predict, guarded.assess):
        with pytest.raises(offspan.InputError, match=WHAT_TO_DO):
            call(images(2))
    # Compilers run a function that is marked so, and pass its error on.
    assert tracing.refuse._dynamo_marked_constant


@pytest.mark.skipif(not hasattr(torch, "export"), reason="this PyTorch has no torch.export")
@pytest.mark.parametrize("how", ["compile", "whole graph", "export", "strict export"])
def test_compilers_and_exporters_are_refused_with_what_to_do(guarded, how):
    x = images(2)
    ways = {
        "compile": lambda: torch.compile(guarded, backend="eager")(x),
        "whole graph": lambda: torch.compile(guarded, backend="eager", fullgraph=True)(x),
        "export": lambda: torch.export.export(guarded, (x,)),
        "strict export": lambda: torch.export.export(guarded, (x,), strict=True),
    }
    torch._dynamo.reset()
    # The compiler wraps errors in one of its own.
    with pytest.raises((offspan.InputError, RuntimeError), match=WHAT_TO_DO):
        ways[how]()


# --- modes, and rows that cannot be scored -------------------------------------------------------


def test_scores_are_those_of_evaluation_mode_in_every_mode(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    _, expected = guarded(images(40))
    reference = copy.deepcopy(network).train()
    guarded.train()
    network.layer2.eval()  # One of them in training mode is enough.
    reference.layer2.eval()
    torch.manual_seed(3)
    logits, score = guarded(images(40))
    torch.testing.assert_close(score, expected, rtol=0, atol=0)
    torch.manual_seed(3)
    torch.testing.assert_close(logits, reference(images(40)), rtol=0, atol=0)
    # The pass for the logits moves the batch statistics, the one for the scores does not, nor does it change modes.
    mean = network.layer1[1].running_mean
    torch.testing.assert_close(mean, reference.layer1[1].running_mean, rtol=0, atol=0)
    assert [module.training for module in network.modules()] == [module.training for module in reference.modules()]
    logits.sum().backward()
    assert network.fc.weight.grad is not None


def broken_images(rows=8, at=(2, 5)):
    x = images(rows)
    x[at[0], 0, 0, 0] = float("nan")
    x[at[1], 1, 2, 3] = float("inf")
    return x


def test_a_row_that_is_not_finite_is_the_worst_and_harms_no_other(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    expected = guarded.assess(images(8))
    assert expected.is_finite.all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # The flag is in the answer: nothing to warn of.
        got = guarded.assess(broken_images())
    fine = torch.tensor([0, 1, 3, 4, 6, 7])
    assert got.is_finite.tolist() == [row in fine for row in range(8)]
    for name in ("logits", "score", "p_value", "is_in"):
        torch.testing.assert_close(getattr(got, name)[fine], getattr(expected, name)[fine])
    for row in (2, 5):
        assert got.score[row] == -torch.inf and not got.is_in[row]
        assert got.p_value[row] == 1 / (1 + len(guarded.detector.calibration_scores))
    # Not even a threshold that lets everything in lets it in.
    guarded.threshold = -float("inf")
    assert guarded.assess(broken_images()).is_in.tolist() == got.is_finite.tolist()


def test_the_first_row_that_is_not_finite_brings_one_warning(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    with pytest.warns(UserWarning, match=r"NaN or infinities for 2 of 8 rows \(row 2, 5\)"):
        _, score = guarded(broken_images())
    assert torch.isneginf(score).tolist() == [row in (2, 5) for row in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, is_in = guarded.predict(broken_images())
    assert not is_in[2] and not is_in[5]
    _, all_broken = guarded(torch.full((3, 3, 8, 8), float("nan")))
    assert torch.isneginf(all_broken).all()


def test_a_strict_module_refuses_rows_that_are_not_finite(network, train):
    guarded = OODModule(network, fitted(train, "energy"), strict=True)
    for call in (guarded, guarded.predict, guarded.assess):
        with pytest.raises(offspan.InputError, match=r"infinities for 2 of 8 rows \(row 2, 5\); with strict=False"):
            call(broken_images())
    assert guarded(images(3))[1].shape == (3,)


def test_an_assessment_has_none_where_the_detector_knows_nothing(network, train):
    bare = offspan.make("energy", head=train.head).fit(train.features, hold_out=0.0)
    answer = OODModule(network, bare).assess(images(5))
    assert answer.p_value is None and answer.is_in is None
    assert answer.score.shape == answer.is_finite.shape == (5,)
    known = OODModule(network, fitted(train, "energy"))
    data = extract(network, [images(5)])
    expected = known.detector.p_values(data.features, data.logits)
    np.testing.assert_array_equal(known.assess(images(5)).p_value.numpy(), expected)


# --- one call from a network to a guarded one, and back from files -------------------------------


def test_one_call_fits_what_the_steps_do(network, train):
    guarded = OODModule.fit(network, batches(600), "kpca-nys", keep=0.9, progress=False, landmarks=64)
    steps = offspan.make("kpca-nys", head=train.head, landmarks=64)
    steps.fit(train.features, train.logits, train.labels, keep=0.9)
    assert guarded.detector == steps.detector
    torch.testing.assert_close(guarded(images(9)), OODModule(network, steps)(images(9)), rtol=0, atol=0)
    assert OODModule.fit(network, batches(600), progress=False).detector.method == "auto"


def test_a_loader_of_other_rows_calibrates(network, train):
    others = extract(network, batches(200, seed=5))
    guarded = OODModule.fit(network, batches(600), "vim", calibrate=batches(200, seed=5), keep=0.8, confidence=0.9)
    steps = offspan.make("vim", head=train.head).fit(train.features, train.logits, train.labels, hold_out=0.0)
    expected = steps.detector.calibrated(others.features, others.logits, keep=0.8, confidence=0.9)
    assert guarded.detector == expected
    assert guarded.detector.info["threshold"]["source"] == "given"
    with pytest.raises(offspan.InputError, match="hold_out: expected none beside calibrate"):
        OODModule.fit(network, batches(600), calibrate=batches(200), hold_out=0.1)


def test_labels_maps_and_layers_reach_the_fit(network):
    labelled = OODModule.fit(network, batches(600), "mahalanobis", layer="layer2", progress=False)
    assert labelled(images(3))[1].shape == (3,)
    with pytest.raises(offspan.InputError, match="labels"):
        OODModule.fit(network, [images(200)], "mahalanobis", progress=False)
    mapped = OODModule.fit(network, batches(200), "rank-feat", maps=True, calibrate=batches(100, seed=3))
    assert mapped(images(3))[1].shape == (3,) and mapped.threshold is not None
    with pytest.raises(offspan.InputError, match="did you mean neighbours"):
        OODModule.fit(network, iter(()), "knn", neighbors=3)


def test_what_a_loader_yields_can_be_taken_apart(network):
    odd = [{"picture": x, "of": labels(len(x))} for x, _ in batches(300)]
    guarded = OODModule.fit(network, odd, "knn", unpack=lambda batch: (batch["picture"], batch["of"]))
    assert guarded.detector == OODModule.fit(network, batches(300), "knn").detector


def other_network():
    torch.manual_seed(99)
    return Convolutional().eval()


def test_a_saved_state_comes_back_in_one_call(network, tmp_path):
    guarded = OODModule.fit(network, batches(300), "knn", layer="layer2", pool="max", neighbours=3)
    guarded.threshold = -0.25
    torch.save(guarded.state_dict(), tmp_path / "net.pt")
    loaded = OODModule.load(tmp_path / "net.pt", other_network())
    torch.testing.assert_close(loaded(images(10)), guarded(images(10)), rtol=0, atol=0)
    assert (loaded.detector, loaded.threshold) == (guarded.detector, -0.25)
    # The same without a file, and without a dummy in place of the detector.
    again = OODModule(other_network())
    again.load_state_dict(guarded.state_dict())
    torch.testing.assert_close(again(images(10)), guarded(images(10)), rtol=0, atol=0)


def test_a_state_before_it_knew_layers_still_loads(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    state = guarded.state_dict()
    del state["_extra_state"]["taken"]
    other = OODModule(other_network())
    other.load_state_dict(state)
    torch.testing.assert_close(other(images(4)), guarded(images(4)), rtol=0, atol=0)


def test_a_pool_of_ones_own_is_given_again(network, tmp_path):
    def largest(x):
        return x.flatten(2).amax(2)

    guarded = OODModule.fit(network, batches(300), "knn", layer="layer2", pool=largest)
    torch.save(guarded.state_dict(), tmp_path / "net.pt")
    loaded = OODModule.load(tmp_path / "net.pt", other_network(), "layer2", pool=largest)
    torch.testing.assert_close(loaded(images(10)), guarded(images(10)), rtol=0, atol=0)


def test_a_detector_file_loads_beside_the_network_as_it_is(network, train, tmp_path):
    method = fitted(train, "vim")
    method.save(tmp_path / "vim.offspan")
    loaded = OODModule.load(tmp_path / "vim.offspan", network, strict=True)
    assert loaded.strict and loaded.detector == method.detector


def test_a_file_without_a_detector_is_named(network, tmp_path):
    torch.save(network.state_dict(), tmp_path / "net.pt")
    with pytest.raises(offspan.FormatError, match=r"net\.pt: expected the state of an OODModule"):
        OODModule.load(tmp_path / "net.pt", network)
    (tmp_path / "text").write_text("nothing of the kind")
    with pytest.raises(offspan.FormatError):
        OODModule.load(tmp_path / "text", network)
    with pytest.raises(FileNotFoundError):
        OODModule.load(tmp_path / "nowhere", network)


def test_it_is_in_the_mode_of_its_network(network, train):
    calls = []
    network.register_forward_hook(lambda *_: calls.append(1))
    guarded = OODModule(network, fitted(train, "energy"))
    assert not guarded.training
    guarded(images(4, seed=3))
    calls.clear()
    guarded(images(4, seed=3))
    assert len(calls) == 1, "one pass for both"
    assert OODModule(network.train(), fitted(train, "energy")).training


def test_a_batch_without_rows_has_no_scores(network, train):
    guarded = OODModule(network, fitted(train, "kpca-nys"))
    logits, score = guarded(images(4, seed=3)[:0])
    assert logits.shape[0] == 0 and score.shape == (0,)
    assert guarded.assess(images(4, seed=3)[:0]).is_in.shape == (0,)


def test_rows_of_zeros_are_left_out_of_a_fit_that_needs_directions():
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).eval()
    with torch.no_grad():
        network[0].bias.zero_()
    rows = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    rows[::50] = 0
    with pytest.warns(UserWarning, match="of 8 of 400 rows are all zeros"):
        guarded = OODModule.fit(network, [rows], "knn", neighbours=5, progress=False)
    assert guarded(rows[:2])[1][0] == -torch.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OODModule.fit(network, [rows], "energy", progress=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": 95}, "keep: expected a number between 0 and 1"),
        ({"confidence": 2.0}, "confidence: expected"),
        ({"hold_out": 2.0}, "hold_out: expected a share"),
        ({"calibrate": torch.ones(3)}, "calibrate: expected an iterable of batches"),
    ],
)
def test_a_mistake_shows_before_the_first_batch(network, options, words):
    def never():
        raise AssertionError("a batch was asked for")
        yield

    with pytest.raises(offspan.InputError, match=words):
        OODModule.fit(network, never(), "energy", **options)


def test_thresholds_and_detectors_are_what_they_should_be(network, train):
    guarded = OODModule(network, fitted(train, "energy"))
    for bad in (float("nan"), "x"):
        with pytest.raises(offspan.InputError, match="threshold: expected a number"):
            guarded.threshold = bad
    with pytest.raises(offspan.InputError, match="detector: expected a Detector"):
        OODModule(network, 5)
    assert "detector=energy, threshold=" in repr(guarded)
