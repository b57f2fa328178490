from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="offspan.openood needs PyTorch, which is not installed")

import torch
from torch import nn
from torch_networks import Convolutional, InOpenOOD, batches, hooks

import offspan
from offspan.openood import OffspanPostprocessor
from offspan.torch import extract


class Config(dict):
    """Like OpenOOD's: entries are attributes, and missing ones raise KeyError."""

    __getattr__ = dict.__getitem__


def config(method, sweep=None, **options):
    section = Config(name="offspan", APS_mode=sweep is not None, postprocessor_args=Config(method=method, **options))
    if sweep is not None:
        section["postprocessor_sweep"] = Config(sweep)
    return Config(postprocessor=section, dataset=Config(name="tests"))


def loader(rows, seed=0, scale=1.0):
    return [{"data": x * scale, "label": y, "index": y} for x, y in batches(rows, seed=seed)]


@pytest.fixture
def loaders():
    return {
        "id": {"train": loader(300), "val": loader(60, seed=1), "test": loader(80, seed=2)},
        "ood": {"val": loader(60, seed=3, scale=3), "near": {"wide": loader(70, seed=4, scale=3)}},
    }


@pytest.fixture
def net():
    torch.manual_seed(1)
    return InOpenOOD()


def auroc(ind, ood):
    return float(np.mean([(i > ood).mean() + 0.5 * (i == ood).mean() for i in ind]))


def evaluate(net, loaders, postprocessor):
    """The order of calls in OpenOOD's evaluator: setup, search of parameters, inference over the loaders."""
    postprocessor.setup(net, loaders["id"], loaders["ood"])
    if postprocessor.APS_mode and not postprocessor.hyperparam_search_done:
        found = {}
        for values in itertools.product(*postprocessor.args_dict.values()):
            postprocessor.set_hyperparam(list(values))
            ind = postprocessor.inference(net, loaders["id"]["val"])[1]
            ood = postprocessor.inference(net, loaders["ood"]["val"])[1]
            found[values] = auroc(ind, ood)
        best = max(found, key=found.__getitem__)
        postprocessor.set_hyperparam(list(best))
        postprocessor.hyperparam_search_done = True
    net.eval()
    prediction, confidence, label = postprocessor.inference(net, loaders["id"]["test"], False)
    results = {}
    for name, ood_rows in loaders["ood"]["near"].items():
        results[name] = auroc(confidence, postprocessor.inference(net, ood_rows, False)[1])
    return prediction, confidence, label, results


@pytest.mark.parametrize(
    ("method", "options"), [("vim", {"components": 4}), ("knn", {"neighbours": 5}), ("energy", {}), ("mahalanobis", {})]
)
def test_confidences_in_the_loop_are_offspans_scores(net, loaders, method, options):
    prediction, confidence, label, results = evaluate(net, loaders, OffspanPostprocessor(config(method, **options)))
    net.eval()
    train, test, wide = (
        extract(net, part) for part in (loaders["id"]["train"], loaders["id"]["test"], loaders["ood"]["near"]["wide"])
    )
    own = offspan.make(method, head=train.head, **options).fit(train.features, train.logits, train.labels, hold_out=0.0)
    scores = own.score(test.features, test.logits)
    np.testing.assert_allclose(confidence, scores, rtol=1e-9)
    np.testing.assert_array_equal(prediction, test.logits.argmax(1))
    np.testing.assert_array_equal(label, test.labels)
    expected = offspan.metrics.evaluate(scores, own.score(wide.features, wide.logits)).auroc
    assert results["wide"] == pytest.approx(expected, abs=1e-9)
    assert hooks(net) == 0


def test_arguments_do_as_well_as_a_configuration(net, loaders):
    by_config = evaluate(net, loaders, OffspanPostprocessor(config("pca", components=3)))
    by_arguments = evaluate(net, loaders, OffspanPostprocessor(method="pca", components=3))
    np.testing.assert_array_equal(by_config[1], by_arguments[1])


def test_the_search_ends_with_the_best_option_fitted(net, loaders):
    postprocessor = OffspanPostprocessor(config("knn", sweep={"neighbours_list": [1, 5, 250]}))
    _, confidence, _, _ = evaluate(net, loaders, postprocessor)
    (best,) = postprocessor.get_hyperparam()
    alone = {}
    for neighbours in (1, 5, 250):
        other = OffspanPostprocessor(method="knn", neighbours=neighbours)
        other.setup(net, loaders["id"], loaders["ood"])
        val = (other.inference(net, part["val"])[1] for part in (loaders["id"], loaders["ood"]))
        alone[neighbours] = auroc(*val)
        if neighbours == best:
            np.testing.assert_array_equal(other.inference(net, loaders["id"]["test"])[1], confidence)
    assert alone[best] == max(alone.values())
    with pytest.raises(offspan.InputError, match="expected values for neighbours"):
        postprocessor.set_hyperparam([1, 2])


def test_setup_leaves_modes_and_is_done_once(net, loaders):
    net.train()
    postprocessor = OffspanPostprocessor(method="energy")
    postprocessor.setup(net, loaders["id"], loaders["ood"])
    assert net.training
    fitted = postprocessor.detector
    postprocessor.setup(net, {}, {})
    assert postprocessor.detector is fitted


def test_a_batch_gives_classes_and_confidences(net, loaders):
    postprocessor = OffspanPostprocessor(method="energy")
    with pytest.raises(offspan.NotFittedError, match="setup"):
        postprocessor.postprocess(net, loaders["id"]["test"][0]["data"])
    postprocessor.setup(net, loaders["id"], loaders["ood"])
    net.eval()
    x = loaders["id"]["test"][0]["data"]
    prediction, confidence = postprocessor.postprocess(net, x)
    logits = net(x).detach()
    torch.testing.assert_close(confidence, logits.double().logsumexp(1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(prediction, logits.argmax(1))


def test_mistakes_are_told_before_the_work(loaders):
    with pytest.raises(offspan.InputError, match="name a method"):
        OffspanPostprocessor(None)
    with pytest.raises(offspan.InputError):
        OffspanPostprocessor(method="no-such-method")
    with pytest.raises(offspan.InputError, match="return_feature"):
        OffspanPostprocessor(method="energy").setup(Convolutional(), loaders["id"], loaders["ood"])

    class Half(nn.Module):
        def forward(self, x, return_feature=False):
            return x.flatten(1)[:, :3], x.flatten(1)

    with pytest.raises(offspan.InputError, match="get_fc"):
        OffspanPostprocessor(method="energy").setup(Half(), loaders["id"], loaders["ood"])


def test_it_is_one_of_openoods_own_where_that_is_installed(tmp_path):
    """OpenOOD's evaluator asks for its own base class. OpenOOD itself is a checkout, so a stand-in for it is enough."""
    package = tmp_path / "openood" / "postprocessors"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text(
        "class BasePostprocessor:\n    def __init__(self, config):\n        self.config = config\n"
    )
    program = (
        "from openood.postprocessors import BasePostprocessor\n"
        "from offspan.openood import OffspanPostprocessor\n"
        "made = OffspanPostprocessor(method='energy')\n"
        "assert isinstance(made, BasePostprocessor) and made.config is None\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
