"""Which tensors of a forward pass are taken, and where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Union

import torch
from torch import Tensor, nn

from offspan import InputError

from ._capture import Capture, Keep
from ._names import layer_name, listing
from ._network import first_tensor
from .heads import named_head, no_head, traced_head, watch_linear_layers
from .pooling import Pool, check_pool, pool

#: A layer by its name or as the module.
Layer = Union[str, nn.Module]

#: What a split file has beside further layers: the fields of ``Extracted``.
RESERVED = ("features", "logits", "labels", "maps", "thumbnails")

MEAN, RECTIFIED_MEAN = "mean", "rectified mean"


@dataclass(frozen=True)
class Tap:
    """The input or the pooled output of a layer. Names, not modules: a plan survives copies of the network."""

    layer: str
    takes_input: bool = False
    pool: Pool = "none"
    rectify: bool = False

    def keep(self, tensor: Tensor) -> Tensor:
        return pool(tensor.relu() if self.rectify else tensor, self.pool)

    def watch(self, capture: Capture, key: str, network: nn.Module) -> None:
        module = network.get_submodule(self.layer)
        (capture.input_of if self.takes_input else capture.output_of)(key, module, self.keep)


@dataclass(frozen=True)
class Request:
    """What was asked for: the arguments of ``extract`` that concern layers, these by name."""

    layer: str | None
    layers: Mapping[str, str]
    pool: Pool
    maps: bool | str
    head: str | None
    #: None: logits where a head is known. True: the network's output are logits, head or not.
    logits: bool | None

    @staticmethod
    def of(
        network: nn.Module,
        layer: Layer | None = None,
        layers: Mapping[str, Layer] | Iterable[str] | None = None,
        pool: Pool = "avg",
        maps: bool | Layer = False,
        head: Layer | None = None,
        logits: bool | None = None,
    ) -> Request:
        """Checks the arguments and looks the layers up."""
        check_pool(pool)
        if isinstance(layers, (str, nn.Module)):
            raise InputError("layers= takes several: a list of names, or a dict from names to layers")
        given = dict(layers) if isinstance(layers, Mapping) else {name: name for name in layers or ()}
        for name in given:
            if name in RESERVED:
                raise InputError(f"layers= may not use the name '{name}': {listing(RESERVED)} mean something else")
        return Request(
            layer=None if layer is None else layer_name(network, layer),
            layers={name: layer_name(network, one) for name, one in given.items()},
            pool=pool,
            maps=maps if isinstance(maps, bool) else layer_name(network, maps),
            head=None if head is None else named_head(network, head),
            logits=logits,
        )

    def plain(self) -> dict[str, Any] | None:
        """The arguments as names and plain values, for files; None if ``pool`` is a function."""
        if not isinstance(self.pool, str):
            return None
        return {
            "layer": self.layer,
            "layers": dict(self.layers),
            "pool": self.pool,
            "maps": self.maps,
            "head": self.head,
        }


@dataclass(frozen=True)
class Plan:
    """Taps by the name of the tensor they fill: ``features``, ``logits``, ``maps`` and those of further layers."""

    taps: Mapping[str, Tap]
    #: The head, if the features are what enters it.
    head: str | None
    #: Whether the network's output are the logits and no tap is needed.
    output_is_logits: bool

    @staticmethod
    def find(network: nn.Module, call: Callable[[], Any], request: Request) -> Plan:
        """Looks at one forward pass, made by ``call``."""
        features = None if request.layer is None else Tap(request.layer, pool=request.pool)
        with Capture() as capture:
            watch_linear_layers(network, capture)
            if features is not None:
                features.watch(capture, "features", network)
            if request.maps is True:
                _watch_means(network, capture)
            elif isinstance(request.maps, str):
                Tap(request.maps).watch(capture, "maps", network)
            output = first_tensor(call())

        head = traced_head(capture, output) if request.head is None else request.head
        if head is not None and f"{head}.in" not in capture.values:
            raise InputError(f"the head '{head}' did not run, or not on [rows, width]")
        if features is None:
            if head is None:
                raise no_head(network, capture, output)
            features = Tap(head, takes_input=True)
            rows = capture.values[f"{head}.in"]
        else:
            rows = _rows(capture, features)
        enters_head = head is not None and _close(rows, capture.values[f"{head}.in"])

        taps = {"features": features}
        taps.update({name: Tap(layer, pool=request.pool) for name, layer in request.layers.items()})
        if request.maps is True:
            taps["maps"] = _find_maps(network, capture, rows)
        elif isinstance(request.maps, str):
            taps["maps"] = _check_maps(capture, Tap(request.maps), rows)
        if head is not None and request.logits is not False:
            taps["logits"] = Tap(head)
        return Plan(taps, head if enters_head else None, head is None and request.logits is True)

    def run(self, network: nn.Module, call: Callable[[], Any]) -> tuple[Any, dict[str, Tensor]]:
        """One forward pass, made by ``call``: the network's output, and the tensors."""
        with Capture() as capture:
            for name, tap in self.taps.items():
                tap.watch(capture, name, network)
            output = call()
        for name, tap in self.taps.items():
            if name not in capture.values:
                raise InputError(f"layer '{tap.layer}' did not run, or gave no tensor")
        found = {name: capture.values[name] for name in self.taps}
        if self.output_is_logits:
            logits = first_tensor(output)
            if logits is None or logits.ndim != 2:
                got = "no tensor" if logits is None else str(list(logits.shape))
                raise InputError(f"expected logits [rows, classes] from the network, got {got}")
            found["logits"] = logits.detach()
        return output, found


def _rows(capture: Capture, tap: Tap) -> Tensor:
    rows = capture.values.get("features")
    if rows is None:
        raise InputError(f"layer '{tap.layer}' did not run, or gave no tensor")
    if rows.ndim != 2:
        raise InputError(
            f"features are [rows, width], and layer '{tap.layer}' with pool={tap.pool!r} gives {list(rows.shape)}: "
            "pool it, or take it with layers= or maps="
        )
    return rows


def _watch_means(network: nn.Module, capture: Capture) -> None:
    """Keeps the mean over positions of everything that looks like maps, as it is and rectified.

    DenseNets rectify their last maps outside of any module.
    """

    def mean_of(rectify: bool) -> Keep:
        def keep(tensor: Tensor) -> Tensor | None:
            if tensor.ndim != 4 or tensor.shape[2] * tensor.shape[3] < 2:
                return None
            return (tensor.relu() if rectify else tensor).detach().mean((2, 3))

        return keep

    for name, module in network.named_modules():
        capture.output_of(f"{name}.{MEAN}", module, mean_of(rectify=False))
        capture.output_of(f"{name}.{RECTIFIED_MEAN}", module, mean_of(rectify=True))


def _find_maps(network: nn.Module, capture: Capture, rows: Tensor) -> Tap:
    """The last layer whose maps have the features as their means."""
    for side in (MEAN, RECTIFIED_MEAN):
        for key in reversed(list(capture.values)):
            name, _, kind = key.rpartition(".")
            if kind == side and _close(capture.values[key], rows):
                return Tap(name, rectify=side == RECTIFIED_MEAN)
    maps = [key[: -len(MEAN) - 1] for key in capture.values if key.endswith(f".{MEAN}")]
    raise InputError(
        f"the features of {type(network).__name__} are not the averages of any layer's maps, which is what rank-feat "
        f"needs. Layers that give maps: {listing(maps)}. Choose one with maps='name', if you know better"
    )


def _check_maps(capture: Capture, tap: Tap, rows: Tensor) -> Tap:
    maps = capture.values.get("maps")
    got = "nothing" if maps is None else str(list(maps.shape))
    if maps is None or maps.ndim != 4 or maps.shape[1] != rows.shape[1]:
        raise InputError(f"maps are [rows, {rows.shape[1]}, height, width], and layer '{tap.layer}' gives {got}")
    return tap


def _close(a: Tensor, b: Tensor) -> bool:
    """Equal up to the rounding of a mean."""
    if a.shape != b.shape or not (a.is_floating_point() and b.is_floating_point()):
        return False
    digits = max(torch.finfo(a.dtype).eps, torch.finfo(b.dtype).eps)
    if not a.numel():
        return True
    a, b = a.cpu().double(), b.cpu().double()
    return bool((a - b).abs().max() <= 64 * digits * b.abs().max())
