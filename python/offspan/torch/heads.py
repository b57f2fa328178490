"""The classifier head: the linear layer that makes the logits. What enters it are the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from offspan import InputError

from ._arrays import Array, to_numpy
from ._capture import Capture
from ._names import layer_name, listing
from ._network import evaluating, first_tensor, forward, placement, to_network, unwrap

#: Where torchvision, timm and their like keep the head, from the most to the least telling name.
CONVENTIONS = ("fc", "heads.head", "heads", "head.fc", "head", "classifier", "last_linear", "linear")


@dataclass(frozen=True)
class HeadLayer:
    """The last linear layer and its dotted name. ``offspan.make`` takes it as ``head``."""

    name: str
    module: nn.Linear

    @property
    def weight(self) -> Tensor:
        """W [C, m]."""
        return self.module.weight

    @property
    def bias(self) -> Tensor | None:
        """b [C], if the layer has one."""
        return self.module.bias


def find_head(model: nn.Module, inputs: Any | None = None) -> HeadLayer:
    """The linear layer that makes a network's logits.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : tensor, tuple or mapping of tensors, optional
        An input of the network. With it, the answer is sure: of the linear layers that run, the last one whose
        output is the network's output. Without it, the layer is found by the names that torchvision and timm use.

    Examples
    --------
    >>> from torch import nn
    >>> find_head(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)), torch.zeros(2, 8)).name
    '2'
    """
    network = unwrap(model)
    if inputs is None:
        return _by_convention(network)
    with evaluating(model), torch.no_grad(), Capture() as capture:
        watch_linear_layers(network, capture)
        output = first_tensor(forward(network, to_network(inputs, *placement(network))))
    name = traced_head(capture, output)
    if name is None:
        raise no_head(network, capture, output)
    return HeadLayer(name, linear_layer(network, name))


def named_head(network: nn.Module, head: str | nn.Module) -> str:
    """The name of a head that was chosen by hand."""
    name = layer_name(network, head)
    linear_layer(network, name)
    return name


def linear_layer(network: nn.Module, name: str) -> nn.Linear:
    """The layer of this name, which has to be a linear one."""
    module = network.get_submodule(name)
    if not isinstance(module, nn.Linear):
        raise InputError(f"the head must be an nn.Linear, and '{name}' is a {type(module).__name__}")
    return module


def watch_linear_layers(network: nn.Module, capture: Capture) -> None:
    """Keeps what enters and leaves every linear layer, as ``name.in`` and ``name.out``.

    Only [rows, width]: the token-wise layers of a transformer cannot be the head, and are large.
    """

    def matrix(tensor: Tensor) -> Tensor | None:
        return tensor.detach().clone() if tensor.ndim == 2 else None

    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            capture.input_of(f"{name}.in", module, matrix)
            capture.output_of(f"{name}.out", module, matrix)


def traced_head(capture: Capture, output: Tensor | None) -> str | None:
    """The last linear layer of the pass whose output is the network's."""
    if output is None:
        return None
    for key in reversed(list(capture.values)):
        name, _, side = key.rpartition(".")
        if side == "out" and _same(capture.values[key], output):
            return name
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return False
    a, b = a.cpu().double(), b.detach().cpu().double()
    return torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)


def no_head(network: nn.Module, capture: Capture, output: Tensor | None) -> InputError:
    """What to tell where no linear layer makes the logits."""
    kind = type(network).__name__
    shape = "no tensor" if output is None else str(list(output.shape))
    ran = [key[: -len(".out")] for key in capture.values if key.endswith(".out")]
    convolutions = [
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and output is not None and [module.out_channels] == list(output.shape[1:])
    ]
    because = f"its output is {shape}, which none of its linear layers gave"
    if not ran and convolutions:
        because = f"its classes come from the convolution '{convolutions[-1]}', and a head has to be an nn.Linear"
    return InputError(
        f"found no linear head in {kind}: {because}. Linear layers that ran: {listing(ran)}. "
        "Name one with head=, if its output are the logits, or the layer to take features from with layer= "
        f"({listing(name for name, _ in network.named_children())})"
    )


def _by_convention(network: nn.Module) -> HeadLayer:
    modules = dict(network.named_modules())
    asked = getattr(network, "get_classifier", None)
    # timm's networks know their classifier; if that is no linear layer, no other one will do.
    candidates = [asked()] if callable(asked) else [modules[name] for name in CONVENTIONS if name in modules]
    for candidate in candidates:
        if isinstance(candidate, nn.Sequential):
            # Of a stack, the last layer with weights: in SqueezeNet that is a convolution, and no head.
            weighty = [module for module in candidate.modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
            candidate = weighty[-1] if weighty else candidate
        if isinstance(candidate, nn.Linear):
            return HeadLayer(layer_name(network, candidate), candidate)
    linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
    if len(linear) == 1 and not callable(asked):
        return HeadLayer(linear[0], linear_layer(network, linear[0]))
    raise InputError(
        f"cannot tell the head of {type(network).__name__} by its names; its linear layers are {listing(linear)}. "
        "Pass inputs, so that it can be found in a forward pass, or name it with head="
    )


def linear_arrays(layer: nn.Linear) -> tuple[Array, Array]:
    """Weight [C, m] and bias [C] of a linear layer, zeros where it has no bias."""
    weight = to_numpy(layer.weight)
    if weight.dtype == np.float16:
        weight = weight.astype(np.float32)
    bias = np.zeros(len(weight), weight.dtype) if layer.bias is None else to_numpy(layer.bias).astype(weight.dtype)
    # A copy: the network may go on learning.
    return weight.copy(), bias.copy()
