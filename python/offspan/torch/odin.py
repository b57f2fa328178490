"""ODIN (Liang et al. 2018): the largest softmax probability at a high temperature, after a step of the input
towards it. The one method that needs the gradient of the network.

With x' = x − ε·sign(∇ₓ CE(l(x)/T, ŷ))/std, ŷ the predicted class, the score is max softmax(l(x')/T). Without the
step (ε = 0) it is a function of the logits, which ``offspan.make("odin")`` computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from offspan import InputError

from ._arrays import Array, to_numpy
from ._batches import Unpack, unpack_batch
from ._network import evaluating, first_tensor, placement, to_network, unwrap
from ._progress import with_progress


def odin_scores(
    model: nn.Module,
    data: Tensor | Iterable[Any],
    *,
    temperature: float = 1000.0,
    eps: float = 0.0014,
    std: Sequence[float] | None = None,
    device: str | torch.device | None = None,
    unpack: Unpack = unpack_batch,
    progress: bool = True,
) -> Array:
    """ODIN's scores, higher is more in-distribution: one float64 per input.

    Parameters
    ----------
    model : torch.nn.Module
        Gives logits. It runs in evaluation mode; its parameters collect no gradients.
    data : tensor or iterable of batches
        As in ``extract``.
    temperature, eps : float
        T and ε; ε = 0 leaves the inputs as they are.
    std : sequence of float, optional
        Standard deviation of each channel, if inputs were normalised by it: ε is then a step in the original scale.

    Examples
    --------
    >>> scores = odin_scores(nn.Linear(4, 3), torch.rand(5, 4))
    >>> scores.shape, bool((scores > 1 / 3).all())
    ((5,), True)
    """
    _check(temperature, eps)
    network = unwrap(model)
    batches = [data] if isinstance(data, Tensor) else data
    scores = []
    with evaluating(model, device):
        where = placement(network)
        if device is not None:
            where = (torch.device(device), where[1])
        for batch in with_progress(batches, "odin", progress):
            x = to_network(unpack(batch)[0], *where)
            x = _perturb(network, x, temperature, eps, std)
            with torch.no_grad():
                logits = to_numpy(_logits(network(x))).astype(np.float64)
            # In double precision: at T = 1000 all probabilities are close to 1/C, and float32 makes ties.
            relative = (logits - logits.max(axis=1, keepdims=True)) / temperature
            scores.append(1.0 / np.exp(relative).sum(axis=1))
    if not scores:
        raise InputError("the loader yielded no batches")
    return np.concatenate(scores)


def odin_perturb(
    model: nn.Module,
    x: Tensor,
    *,
    temperature: float = 1000.0,
    eps: float = 0.0014,
    std: Sequence[float] | None = None,
) -> Tensor:
    """ODIN's input x' for a batch x: a step that makes the predicted class more probable."""
    _check(temperature, eps)
    with evaluating(model):
        return _perturb(unwrap(model), x, temperature, eps, std)


def _check(temperature: float, eps: float) -> None:
    if not (temperature > 0 and np.isfinite(temperature)):
        raise InputError(f"temperature must be a number above 0, got {temperature}")
    if not (eps >= 0 and np.isfinite(eps)):
        raise InputError(f"eps must be 0 or a number above it, got {eps}")


def _perturb(network: nn.Module, x: Any, temperature: float, eps: float, std: Sequence[float] | None) -> Tensor:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = str(x.dtype) if isinstance(x, Tensor) else type(x).__name__
        raise InputError(f"ODIN moves the input along its gradient: it takes a floating-point tensor, got {got}")
    scale = None if std is None else _per_channel(x, std)
    if eps == 0.0:
        return x.detach()
    # Also where the caller has switched gradients off.
    with torch.inference_mode(False), torch.enable_grad():
        x = x.detach().clone().requires_grad_()
        logits = _logits(network(x)) / temperature
        # The sum, not the mean: each row's gradient is then its own, and does not vanish in large batches.
        loss = functional.cross_entropy(logits, logits.detach().argmax(1), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
    step = gradient.sign()
    return x.detach() - eps * (step if scale is None else step / scale)


def _per_channel(x: Tensor, std: Sequence[float]) -> Tensor:
    scale = torch.as_tensor(std, dtype=x.dtype, device=x.device)
    if x.ndim < 2 or scale.shape != (x.shape[1],) or not bool((scale > 0).all()):
        raise InputError(f"std must be a number above 0 for each channel of {list(x.shape)}, got {list(std)}")
    return scale.view(1, -1, *[1] * (x.ndim - 2))


def _logits(output: Any) -> Tensor:
    logits = first_tensor(output)
    if logits is None or logits.ndim != 2:
        got = "no tensor" if logits is None else str(list(logits.shape))
        raise InputError(f"expected logits [rows, classes] from the network, got {got}")
    return logits
