"""Layers by name: ``layer4``, ``features.norm5``, or the module itself."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from torch import nn

from offspan import InputError


def layer_name(network: nn.Module, layer: str | nn.Module) -> str:
    """The dotted name of a layer; "" is the network itself."""
    names = {name: module for name, module in network.named_modules()}
    if isinstance(layer, nn.Module):
        for name, module in names.items():
            if module is layer:
                return name
        raise InputError(f"the given {type(layer).__name__} is no module of this {type(network).__name__}")
    if not isinstance(layer, str):
        raise InputError(f"a layer is a name or a torch.nn.Module, got {type(layer).__name__}")
    if layer in names:
        return layer
    near = get_close_matches(layer, list(names), n=3)
    hint = f"did you mean {listing(near)}? " if near else ""
    top = [name for name, _ in network.named_children()]
    raise InputError(f"{type(network).__name__} has no layer '{layer}'; {hint}its layers are {listing(top)} and theirs")


def listing(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, the last ones if there are too many: the head is near the end."""
    names = list(names)
    shown = ", ".join(f"'{name}'" for name in names[-most:])
    return f"(…) {shown}" if len(names) > most else shown or "none"
