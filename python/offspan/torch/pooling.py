"""One vector per sample from what a layer gives."""

from __future__ import annotations

from typing import Callable, Union

from torch import Tensor

from offspan import InputError

#: "avg", "max", "cls" or "none", or a function of the layer's output.
Pool = Union[str, Callable[[Tensor], Tensor]]

POOLS = ("avg", "max", "cls", "none")


def check_pool(how: Pool) -> None:
    """Fails unless this is a way to pool."""
    if not callable(how) and how not in POOLS:
        raise InputError(f"pool must be one of {', '.join(POOLS)} or a function of the layer's output, got {how!r}")


def pool(x: Tensor, how: Pool) -> Tensor:
    """Pools maps [rows, channels, positions…] to [rows, channels] and tokens [rows, tokens, width] to [rows, width].

    The mean or largest value over positions or tokens; "cls" takes the first token; "none" leaves ``x`` as it is.
    The result never shares memory with ``x``.
    """
    x = x.detach()
    if callable(how):
        return how(x).detach().clone()
    if how == "none" or x.ndim == 2:
        return x.clone()
    if x.ndim < 3:
        raise InputError(f"expected the layer to give [rows, channels, …], got {list(x.shape)}")
    if how == "cls":
        if x.ndim != 3:
            raise InputError(f"pool='cls' takes the first of [rows, tokens, width], got {list(x.shape)}")
        return x[:, 0].clone()
    over = (1,) if x.ndim == 3 else tuple(range(2, x.ndim))
    return x.mean(over) if how == "avg" else x.amax(over)
