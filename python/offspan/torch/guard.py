"""From a trained network to a guarded one in one call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import offspan
from offspan import Detector, FormatError, InputError
from offspan._internal import CONFIDENCE, KEEP

from ._batches import Unpack, unpack_batch
from ._network import evaluating, first_tensor, forward, placement, to_network, unwrap
from ._plan import Layer, Plan, Request
from ._tracing import is_traced
from ._twin import Watch
from .fitting import as_detector, fit_to_loaders
from .native import STRUCTURE, NativeDetector, plain_if_exported
from .pooling import Pool

PREFIX = "detector."


class GuardedOutput(NamedTuple):
    """What a guarded network says of a batch."""

    #: As the network gives them.
    logits: Tensor
    #: [rows]; higher is more in-distribution. −∞ where the network gave NaN or infinities.
    score: Tensor
    #: [rows]; how probable a score as low is for an in-distribution row.
    p_value: Tensor
    #: [rows], bool: whether the row is taken for out-of-distribution.
    is_ood: Tensor


class Guarded(nn.Module):
    """A network and a detector that are one module: logits, score, p-value and decision in one pass.

    Made by ``guard``. The detector is a ``NativeDetector``: it runs where the network runs, is part of what
    ``torch.jit.trace``, ``torch.compile`` and ``torch.export`` see, and of the ``state_dict``.

    Scores are those of the network in evaluation mode. In training mode the logits come from a pass in that mode, and
    the scores from a second one; tracers and exporters are asked to see evaluation mode.

    The weights are the network's own, and no hook is put on it. ``train()`` and ``eval()`` are to be said to the
    guarded network: the modules on the way to the layer that is watched are its own.

    Parameters
    ----------
    model : torch.nn.Module
    detector : offspan.Detector, a fitted method, the path of a detector file, or a NativeDetector
        Calibrated, and of a method whose arithmetic can be exported.
    inputs : tensor, tuple or mapping of tensors
        An input of the network, to find out where its features are.
    layer, layers, pool, maps, head
        Where features and extras come from, as in ``extract``: give what was given there.
    dtype : torch.dtype, optional
        In which scores are computed: float32, or float64.
    """

    def __init__(
        self,
        model: nn.Module,
        detector: Any,
        inputs: Any,
        layer: Layer | None = None,
        *,
        layers: Mapping[str, Layer] | Iterable[str] | None = None,
        pool: Pool = "avg",
        maps: bool | Layer = False,
        head: Layer | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        network = unwrap(model)
        request = Request.of(network, layer, layers, pool, maps, head, logits=True)
        with evaluating(model), torch.no_grad():
            given = to_network(inputs, *placement(network))
            plan = Plan.find(network, lambda: forward(network, given), request)
        self._build(network, _native(detector, dtype), plan)

    @classmethod
    def _of_plan(cls, network: nn.Module, detector: NativeDetector, plan: Plan) -> Guarded:
        guarded = cls.__new__(cls)
        guarded._build(network, detector, plan)
        return guarded

    def _build(self, network: nn.Module, detector: NativeDetector, plan: Plan) -> None:
        super().__init__()
        if detector.threshold is None:
            raise InputError(
                "a guard decides by a threshold, and the detector has none: calibrate it with in-distribution rows, or "
                "fit it with a larger hold_out"
            )
        self._output_is_logits = plan.output_is_logits
        needed = ["features", *(name for name in detector.needs if not (name == "logits" and plan.output_is_logits))]
        for name in needed:
            if name not in plan.taps:
                raise InputError(f"{detector.method} needs {name}: say where they are with maps= or layers=")
        self._watch = Watch({name: plan.taps[name] for name in needed})
        self.model = self._watch.twin_of(network)
        device = placement(network)[0]
        self.detector = detector if device is None else detector.to(device)
        self.training = network.training

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model: nn.Module,
        inputs: Any,
        layer: Layer | None = None,
        *,
        layers: Mapping[str, Layer] | Iterable[str] | None = None,
        pool: Pool = "avg",
        maps: bool | Layer = False,
        head: Layer | None = None,
    ) -> Guarded:
        """The network with weights and detector of ``torch.save(guarded.state_dict(), path)``.

        Parameters
        ----------
        path
        model : torch.nn.Module
            A network of the same kind, which gets the weights.
        inputs, layer, layers, pool, maps, head
            As in the constructor.
        """
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, Mapping) or PREFIX + STRUCTURE not in state:
            raise FormatError(
                f"{os.fspath(path)}: expected the state of a guarded network, as "
                "`torch.save(guarded.state_dict(), path)` writes it, got one without a detector"
            )
        detector = NativeDetector.of_state(state, PREFIX)
        guarded = cls(model, detector, inputs, layer, layers=layers, pool=pool, maps=maps, head=head)
        guarded.load_state_dict(state)
        return guarded

    def forward(self, *args: Any, **kwargs: Any) -> GuardedOutput:
        """Logits, score, p-value and decision for each row; a plain tuple of them once it is traced or exported."""
        if self.training:
            # Before the pass for the logits, which may move batch statistics.
            score, p_value, is_ood = self._in_evaluation_mode(args, kwargs)
            logits = _logits(self._watch.run(self.model, args, kwargs)[0])
        else:
            logits, (score, p_value, is_ood) = self._decided(args, kwargs)
        return plain_if_exported(GuardedOutput(logits, score, p_value, is_ood))

    def _decided(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        output, tensors = self._watch.run(self.model, args, kwargs)
        logits = _logits(output)
        if self._output_is_logits:
            tensors["logits"] = logits.detach()
        return logits, self.detector(**tensors)

    def _in_evaluation_mode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_traced():
            raise InputError("scores are of evaluation mode: call `guarded.eval()` before it is traced or exported")
        with evaluating(self), torch.no_grad():
            return self._decided(args, kwargs)[1]


def guard(
    model: nn.Module,
    loader: Iterable[Any],
    method: str = "auto",
    layer: Layer | None = None,
    *,
    calibrate: Iterable[Any] | None = None,
    keep: float = KEEP,
    confidence: float = CONFIDENCE,
    hold_out: float | None = None,
    layers: Mapping[str, Layer] | Iterable[str] | None = None,
    pool: Pool = "avg",
    maps: bool | Layer = False,
    head: Layer | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
    unpack: Unpack = unpack_batch,
    progress: bool = True,
    **options: Any,
) -> Guarded:
    """From a trained network to a guarded one: extract features, fit a detector, set its threshold, join both.

    Features of all rows are kept in memory for the fit. For more rows than memory holds use ``extract(out=…)``,
    ``offspan.make`` and ``Guarded``. The network's modes, device and hooks are afterwards as they were.

    Parameters
    ----------
    model : torch.nn.Module
    loader : iterable
        In-distribution rows, those of the network's training, as in ``extract``.
    method : str
        As in ``offspan.make``; ``options`` are its parameters. Its arithmetic must be one that can be exported.
    calibrate : iterable, optional
        A loader of other in-distribution rows, best those that the network has not seen: they set the threshold.
    keep, confidence, hold_out
        What the threshold promises, and which share of the loader's rows sets it where there is no ``calibrate``: as in
        ``offspan.Method.fit``.
    layer, layers, pool, maps, head, device, unpack, progress
        As in ``extract``.
    dtype : torch.dtype, optional
        In which scores are computed: float32, or float64.

    Examples
    --------
    >>> guarded = offspan.torch.guard(network, loader, calibrate=val_loader, keep=0.99)     # doctest: +SKIP
    >>> logits, score, p_value, is_ood = guarded(images)                                    # doctest: +SKIP
    >>> torch.export.save(torch.export.export(guarded, (images,)), "guarded.pt2")           # doctest: +SKIP
    """
    # What can be known before an hour of features is told before.
    reasons = {one["name"]: one.get("not_exportable") for one in offspan.methods()}
    if reasons.get(method):
        raise InputError(f"{method} cannot be exported: {reasons[method]}; OODModule takes every method")
    network = unwrap(model)
    fitted, plan = fit_to_loaders(
        model,
        loader,
        method,
        options,
        Request.of(network, layer, layers, pool, maps, head, logits=True),
        calibrate=calibrate,
        keep=keep,
        confidence=confidence,
        hold_out=hold_out,
        device=device,
        unpack=unpack,
        progress=progress,
    )
    return Guarded._of_plan(network, _native(fitted, dtype), plan)


def _native(given: Any, dtype: torch.dtype | None) -> NativeDetector:
    if isinstance(given, NativeDetector):
        return given if dtype is None else given.to(dtype)
    detector = as_detector(given)
    if not isinstance(detector, Detector):
        raise InputError("detector: expected one, got None")
    return NativeDetector.of(detector, dtype)


def _logits(output: Any) -> Tensor:
    logits = first_tensor(output)
    if logits is None:
        raise InputError(f"expected the network to give logits, got {type(output).__name__}")
    return logits
