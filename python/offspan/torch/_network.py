"""A network as the rest of this package wants it: unwrapped, in evaluation mode, on one device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from offspan import InputError


def unwrap(model: nn.Module) -> nn.Module:
    """The network inside ``torch.compile`` or a data-parallel wrapper, which run hooks elsewhere or not at all."""
    if not isinstance(model, nn.Module):
        raise InputError(f"the model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError("a TorchScript module does not run hooks: give the network that it was made from")
    inner = getattr(model, "_orig_mod", None)
    if inner is None and isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        inner = model.module
    return model if inner is None else unwrap(inner)


@contextmanager
def evaluating(model: nn.Module, device: str | torch.device | None = None) -> Iterator[None]:
    """Evaluation mode, on ``device`` if one is given. Every module gets its own mode back, the network its device:
    a network whose batch normalisations are frozen must not come back in training mode throughout."""
    modes = [(module, module.training) for module in model.modules()]
    home = placement(model)[0]
    try:
        model.eval()
        if device is not None:
            model.to(device)
        yield
    finally:
        for module, training in modes:
            module.training = training
        if device is not None and home is not None:
            model.to(home)


def placement(model: nn.Module) -> tuple[torch.device | None, torch.dtype | None]:
    """Device of the first parameter or buffer, and type of the first floating-point one; None where there is none."""
    device = dtype = None
    for tensor in chain(model.parameters(), model.buffers()):
        device = tensor.device if device is None else device
        if tensor.is_floating_point():
            return device, tensor.dtype
    return device, dtype


def to_network(value: Any, device: torch.device | None, dtype: torch.dtype | None) -> Any:
    """Inputs where the network is; floating-point ones also in its type (a half network takes half images)."""
    if isinstance(value, Tensor):
        # Where the loader pins its memory, the copy to a device goes on beside the work. One to the CPU would be read
        # before it has arrived.
        beside = device is not None and device.type != "cpu"
        return value.to(device=device, dtype=dtype if value.is_floating_point() else None, non_blocking=beside)
    if isinstance(value, Mapping):
        return {key: to_network(entry, device, dtype) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(to_network(entry, device, dtype) for entry in value)
    return value


def forward(network: nn.Module, inputs: Any) -> Any:
    """One forward pass: a tuple is several arguments, a mapping named ones."""
    if isinstance(inputs, Mapping):
        return network(**inputs)
    if isinstance(inputs, tuple):
        return network(*inputs)
    return network(inputs)


def first_tensor(value: Any) -> Tensor | None:
    """The tensor of an output that may be wrapped: itself, ``.logits``, the entry "logits", or the first."""
    if isinstance(value, Tensor):
        return value
    logits = getattr(value, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    if isinstance(value, Mapping):
        return first_tensor(value["logits"] if "logits" in value else list(value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return next((tensor for tensor in map(first_tensor, value) if tensor is not None), None)
    return None
