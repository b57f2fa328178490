"""Hooks that keep what modules take in and give out."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Callable

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ._network import first_tensor

#: What to keep of a tensor. It must not share memory with it: networks overwrite (`ReLU(inplace=True)`).
Keep = Callable[[Tensor], "Tensor | None"]


class Capture:
    """Keeps tensors of one forward pass by key. Hooks live as long as the ``with`` block, whatever happens in it,
    and listen only to the thread that opened it: several may share a network."""

    def __init__(self) -> None:
        self.values: dict[str, Tensor] = {}
        self._handles: list[RemovableHandle] = []
        self._thread = threading.get_ident()

    def input_of(self, key: str, module: nn.Module, keep: Keep) -> None:
        def hook(_module: nn.Module, arguments: Any) -> None:
            self._keep(key, arguments, keep)

        self._handles.append(module.register_forward_pre_hook(hook))

    def output_of(self, key: str, module: nn.Module, keep: Keep) -> None:
        def hook(_module: nn.Module, _arguments: Any, output: Any) -> None:
            self._keep(key, output, keep)

        self._handles.append(module.register_forward_hook(hook))

    def _keep(self, key: str, value: Any, keep: Keep) -> None:
        if threading.get_ident() != self._thread:
            return
        tensor = first_tensor(value)
        kept = None if tensor is None else keep(tensor)
        # A module that runs again counts where it ran last.
        self.values.pop(key, None)
        if kept is not None:
            self.values[key] = kept

    def __enter__(self) -> Capture:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
