"""A network with a detector beside it: ``logits, score = model(x)``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from offspan import Detector, NotFittedError

from ._arrays import Array, to_numpy
from ._network import evaluating, first_tensor, unwrap
from ._plan import Layer, Plan, Request
from .pooling import Pool


class OODModule(nn.Module):
    """Scores every input in the forward pass that makes its logits.

    Higher scores are more in-distribution. They are computed by the detector, outside of autograd and in double
    precision, and given back in float32 on the device of the logits; the logits are as the network gives them.

    Parameters
    ----------
    model : torch.nn.Module
    detector : offspan.Detector, a fitted method, or the path of a detector file
        None if ``load_state_dict`` will bring one.
    layer, layers, pool, maps, head
        Where features and extras come from, as in ``extract``: give what was given there.

    Examples
    --------
    >>> guarded = OODModule(network, method)            # doctest: +SKIP
    >>> logits, score = guarded(images)                 # doctest: +SKIP
    >>> logits, is_in = guarded.predict(images)         # doctest: +SKIP
    """

    def __init__(
        self,
        model: nn.Module,
        detector: Any,
        layer: Layer | None = None,
        *,
        layers: Mapping[str, Layer] | Iterable[str] | None = None,
        pool: Pool = "avg",
        maps: bool | Layer = False,
        head: Layer | None = None,
        threshold: float | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.detector = _as_detector(detector)
        self._given_threshold = threshold
        self._request = Request.of(unwrap(model), layer, layers, pool, maps, head, logits=True)
        # Found in the first forward pass.
        self._plan: Plan | None = None

    @property
    def threshold(self) -> float | None:
        """Scores from here on are in-distribution: the detector's, unless another one is set."""
        if self._given_threshold is not None or self.detector is None:
            return self._given_threshold
        return self.detector.threshold

    @threshold.setter
    def threshold(self, value: float | None) -> None:
        self._given_threshold = value

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, Tensor]:
        """The network's logits, and a score for each row."""
        logits, scores = self._scored(args, kwargs)
        return logits, torch.from_numpy(scores).to(logits.device, torch.float32)

    def predict(self, *args: Any, **kwargs: Any) -> tuple[Any, Tensor]:
        """The network's logits, and for each row whether it is in-distribution."""
        if self.threshold is None:
            raise NotFittedError("the detector has no threshold: fit it with hold_out or calibrate, or set .threshold")
        logits, scores = self._scored(args, kwargs)
        return logits, torch.from_numpy(scores >= self.threshold).to(logits.device)

    def _scored(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Array]:
        if self.detector is None:
            raise NotFittedError("this OODModule has no detector yet: give it one, or load a state that has one")
        network = unwrap(self.model)
        call = partial(network, *args, **kwargs)
        if self._plan is None:
            # In evaluation mode: a look at the network must not move its batch statistics.
            with evaluating(self.model), torch.no_grad():
                self._plan = Plan.find(network, call, self._request)
        output, found = self._plan.run(network, call)
        extras = {name: to_numpy(value) for name, value in found.items() if name not in ("features", "logits")}
        scores = self.detector.score(
            to_numpy(found["features"]), logits=to_numpy(found["logits"]), extras=extras or None
        )
        logits = first_tensor(output)
        assert logits is not None  # the plan took logits from it, or from the layer that made it
        return logits, np.asarray(scores, dtype=np.float64)

    def get_extra_state(self) -> dict[str, Any]:
        """What a state dict keeps besides the network's parameters: detector and threshold."""
        # Bytes as a tensor: `torch.load(weights_only=True)` takes tensors and plain values only.
        stored = None
        if self.detector is not None:
            stored = torch.frombuffer(bytearray(self.detector.to_bytes()), dtype=torch.uint8)
        return {"detector": stored, "threshold": self._given_threshold}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take detector and threshold from a state dict."""
        stored = state["detector"]
        self.detector = None if stored is None else Detector.from_bytes(stored.cpu().numpy().tobytes())
        self._given_threshold = state["threshold"]


def _as_detector(given: Any) -> Detector | None:
    if given is None or isinstance(given, Detector):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Detector.load(given)
    # A method has its detector once it is fitted, and says so if it is not.
    return given.detector
