"""Every method of offspan as a postprocessor of OpenOOD: higher confidence is more in-distribution, as here.

>>> from offspan.openood import OffspanPostprocessor                                            # doctest: +SKIP
>>> postprocessor = OffspanPostprocessor(method="vim")                                          # doctest: +SKIP
>>> Evaluator(network, id_name="cifar10", postprocessor=postprocessor).eval_ood()               # doctest: +SKIP

OpenOOD's own pipeline makes postprocessors from a configuration; there the method's name and options stand under
``postprocessor_args``, and the values to search under ``postprocessor_sweep``::

    postprocessor:
      name: offspan
      APS_mode: True
      postprocessor_args: {method: kpca-nys, gamma: 1.0}
      postprocessor_sweep: {gamma_list: [0.3, 1.0, 3.0]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

try:
    import torch
except ImportError as error:
    raise ImportError("offspan.openood needs PyTorch 1.13 or newer: pip install torch") from error

import numpy as np
from torch import Tensor, nn

import offspan

from .torch._arrays import Array, to_numpy
from .torch._network import evaluating, placement, to_network, unwrap
from .torch._progress import with_progress

try:
    # OpenOOD's evaluator insists on its own base class.
    from openood.postprocessors import BasePostprocessor as _Base
except ImportError:

    class _Base:  # type: ignore[no-redef]
        """What OpenOOD's base class keeps, where OpenOOD is not installed: its loops ask for no more."""

        def __init__(self, config: Any) -> None:
            self.config = config


class OffspanPostprocessor(_Base):
    """A method of offspan behind OpenOOD's ``setup``, ``postprocess`` and ``inference``.

    Networks follow OpenOOD's protocol: ``net(data, return_feature=True)`` gives logits and features, ``net.get_fc()``
    weight and bias of the last layer. Unlike OpenOOD's own postprocessors, this one runs where the network is, also on
    a CPU.

    Parameters
    ----------
    config : mapping, optional
        OpenOOD's configuration; None if the method is given directly.
    method : str
        As in :func:`offspan.methods`.
    sweep : mapping, optional
        Lists of values by option, for OpenOOD's automatic search of parameters.
    **options
        The method's parameters, as in :func:`offspan.make`.
    """

    def __init__(
        self,
        config: Any = None,
        method: str | None = None,
        *,
        sweep: Mapping[str, Iterable[Any]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(config)
        section = _entry(config, "postprocessor")
        given = dict(_entry(section, "postprocessor_args") or {})
        options = {**given, **options}
        method = method or options.pop("method", None)
        options.pop("method", None)
        if method is None:
            raise offspan.InputError("name a method: OffspanPostprocessor(method=…), or under postprocessor_args")
        self.method = str(method)
        self.options = options
        swept = dict(_entry(section, "postprocessor_sweep") or {}) if sweep is None else dict(sweep)
        #: Values to search by option. OpenOOD's configurations call the list of `k` `k_list`.
        self.args_dict = {_without_suffix(name, "_list"): list(values) for name, values in swept.items()}
        self.APS_mode = bool(_entry(section, "APS_mode")) if sweep is None else True
        self.hyperparam_search_done = False
        # A mistake in the name or the options shows here, not after an hour of features.
        offspan.make(self.method, **self.options)
        self.detector: offspan.Detector | None = None
        self._training: dict[str, Any] | None = None

    def setup(self, net: nn.Module, id_loader_dict: Mapping[str, Any], ood_loader_dict: Any = None) -> None:
        """Fit to the training rows, ``id_loader_dict["train"]``; does nothing if that was done."""
        if self.detector is not None or self._training is not None:
            return
        features, logits, labels = [], [], []
        for batch in with_progress(id_loader_dict["train"], "setup", enabled=True):
            found = _forward(net, batch["data"])
            logits.append(to_numpy(found[0]))
            features.append(to_numpy(found[1]))
            labels.append(to_numpy(batch["label"]))
        self._training = {
            "features": np.concatenate(features),
            "logits": np.concatenate(logits),
            "labels": np.concatenate(labels).astype(np.int64),
            "head": _head(net),
        }
        self._fit()
        if not self.APS_mode:
            # Only a search fits again.
            self._training = None

    def _fit(self) -> None:
        training = self._training
        if training is None:
            raise offspan.NotFittedError("setup() has not seen the training rows yet, or has let them go")
        method = offspan.make(self.method, head=training["head"], **self.options)
        # All rows, as in `offspan eval`: OpenOOD measures confidences and asks for no threshold.
        method.fit(training["features"], training["logits"], training["labels"], hold_out=0.0)
        self.detector = method.detector

    def postprocess(self, net: nn.Module, data: Any) -> tuple[Tensor, Tensor]:
        """The predicted classes and the confidences of a batch."""
        if self.detector is None:
            raise offspan.NotFittedError("call setup(net, id_loader_dict, ood_loader_dict) first")
        logits, features = _forward(net, data)
        confidence = self.detector.score(to_numpy(features), logits=to_numpy(logits))
        return logits.argmax(dim=1), torch.from_numpy(confidence)

    def inference(
        self, net: nn.Module, data_loader: Iterable[Mapping[str, Any]], progress: bool = True
    ) -> tuple[Array, Array, Array]:
        """Predicted classes, confidences and labels of all rows of a loader."""
        predictions, confidences, labels = [], [], []
        for batch in with_progress(data_loader, "inference", progress):
            prediction, confidence = self.postprocess(net, batch["data"])
            predictions.append(to_numpy(prediction))
            confidences.append(to_numpy(confidence))
            labels.append(to_numpy(batch["label"]))
        return (
            np.concatenate(predictions).astype(int),
            np.concatenate(confidences),
            np.concatenate(labels).astype(int),
        )

    def set_hyperparam(self, hyperparam: list[Any]) -> None:
        """Set the options that are searched, in the order of ``args_dict``, and fit again."""
        if len(hyperparam) != len(self.args_dict):
            raise offspan.InputError(f"expected values for {', '.join(self.args_dict) or 'nothing'}, got {hyperparam}")
        self.options.update(zip(self.args_dict, hyperparam))
        self._fit()

    def get_hyperparam(self) -> list[Any]:
        """The current values of the options that are searched."""
        return [self.options.get(name) for name in self.args_dict]


def _forward(net: nn.Module, data: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and features. OpenOOD searches parameters before it puts the network in evaluation mode: we do it here."""
    try:
        with evaluating(net), torch.no_grad():
            logits, features = net(to_network(data, *placement(net)), return_feature=True)
    except TypeError as error:
        if "return_feature" not in str(error):
            raise
        raise offspan.InputError(
            f"{type(unwrap(net)).__name__} does not take return_feature=True, as OpenOOD's networks do"
        ) from error
    return logits, features.flatten(1)


def _head(net: nn.Module) -> Any:
    network = unwrap(net)
    if not hasattr(network, "get_fc"):
        raise offspan.InputError(f"{type(network).__name__} has no get_fc(), as OpenOOD's networks do")
    weight, bias = network.get_fc()
    return to_numpy(weight), to_numpy(bias)


def _entry(section: Any, name: str) -> Any:
    """An entry of a configuration, or None. OpenOOD's are dicts whose attributes raise KeyError."""
    if isinstance(section, Mapping):
        return section[name] if name in section else None
    return getattr(section, name, None)


def _without_suffix(name: str, suffix: str) -> str:
    return name[: -len(suffix)] if name.endswith(suffix) else name
