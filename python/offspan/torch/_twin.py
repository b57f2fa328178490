"""A network beside a network: the same weights, and a few of its tensors kept as they pass.

Hooks on the user's network would stay there for as long as the guard lives, and hooks that come and go within a pass
are nothing that compilers can read. So the guard has modules of its own on the way from the root to the layers that it
watches: copies that share parameters, buffers and all other modules with the network. Only the copies have hooks.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from offspan import InputError

from ._network import first_tensor
from ._plan import Tap
from ._tracing import is_compiled


class Shelf(threading.local):
    """Tensors of the pass that this thread is in, by name. Copies begin empty."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Shelf, ()


class Keeper:
    """A hook that keeps what a layer takes in (``before``) or gives out (``after``)."""

    def __init__(self, key: str, tap: Tap, shelf: Shelf, open_shelf: dict[str, Tensor]) -> None:
        self.key = key
        self.tap = tap
        self.shelf = shelf
        # Compilers do not know what a thread is; what they read they carry out in one.
        self.open_shelf = open_shelf

    def before(self, _module: nn.Module, arguments: Any) -> None:
        self._keep(arguments)

    def after(self, _module: nn.Module, _arguments: Any, output: Any) -> None:
        self._keep(output)

    def _keep(self, value: Any) -> None:
        tensor = first_tensor(value)
        if tensor is None:
            return
        tensors = self.open_shelf if is_compiled() else self.shelf.tensors
        # A module that runs again counts where it ran last.
        tensors[self.key] = self.tap.keep(tensor)


class Watch:
    """Which tensors of a pass are kept. It holds no network: copies of one module may share it."""

    def __init__(self, taps: Mapping[str, Tap]) -> None:
        self.taps = dict(taps)
        self._shelf = Shelf()
        self._open_shelf: dict[str, Tensor] = {}

    def twin_of(self, network: nn.Module) -> nn.Module:
        """The network beside the network, whose passes are watched."""
        watched = {id(network.get_submodule(tap.layer)) for tap in self.taps.values()}
        twin = _copy_towards(network, watched, {})
        for key, tap in self.taps.items():
            layer = twin.get_submodule(tap.layer)
            keeper = Keeper(key, tap, self._shelf, self._open_shelf)
            if tap.takes_input:
                layer.register_forward_pre_hook(keeper.before)
            else:
                layer.register_forward_hook(keeper.after)
        return twin

    def run(self, twin: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Tensor]]:
        """One forward pass: the network's output, and the tensors by name."""
        tensors = self._open_shelf if is_compiled() else self._shelf.tensors
        tensors.clear()
        output = twin(*args, **kwargs)
        found = dict(tensors)
        # Nothing outlives the pass.
        tensors.clear()
        if is_compiled() and len(found) < len(self.taps):
            # A compiler leaves alone what it cannot read, and there hooks work as without one.
            found.update(_taken_from(self._shelf))
        for key, tap in self.taps.items():
            if key not in found:
                raise InputError(
                    f"layer '{tap.layer}' did not run, or gave no tensor. (A network that keeps its layers or its own "
                    "methods in plain attributes, too, runs those; use OODModule for it)"
                )
        return output, found


def _taken_from(shelf: Shelf) -> dict[str, Tensor]:
    found = dict(shelf.tensors)
    shelf.tensors.clear()
    return found


# Not to be read by compilers. This is what `torch.compiler.disable` does, without the seconds that it takes to import one.
_taken_from._torchdynamo_disable = True  # type: ignore[attr-defined]


def _copy_towards(module: nn.Module, watched: set[int], known: dict[int, nn.Module]) -> nn.Module:
    """The module itself if no watched one is in it, else a copy that shares all but the modules on the way."""
    if id(module) in known:
        return known[id(module)]
    children = {name: child for name, child in module._modules.items() if child is not None}
    copies = {name: _copy_towards(child, watched, known) for name, child in children.items()}
    if id(module) not in watched and all(copies[name] is child for name, child in children.items()):
        known[id(module)] = module
        return module
    twin = copy.copy(module)
    # Dictionaries of parameters and buffers stay shared, so that both move together.
    twin._modules = type(module._modules)(module._modules)
    twin._modules.update(copies)
    for hooks in [name for name in vars(module) if name.startswith("_forward") and "hooks" in name]:
        setattr(twin, hooks, copy.copy(getattr(module, hooks)))
    known[id(module)] = twin
    return twin
