"""The operators of a detector's graph in PyTorch's words.

Names and meanings are those of ONNX, as the library has them (``Op`` in ``crates/offspan/src/graph``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

import torch
from torch import Tensor

from offspan import InputError

#: What a node does with the tensors it takes: one tensor, or a tuple where the operator has several results.
Operation = Callable[..., Any]

_PLAIN: dict[str, Operation] = {
    "Neg": torch.neg,
    "Abs": torch.abs,
    "Sqrt": torch.sqrt,
    "Exp": torch.exp,
    "Log": torch.log,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Tanh": torch.tanh,
    "Erf": torch.erf,
    "Relu": torch.relu,
    "Sign": torch.sign,
    "Round": torch.round,
    "IsInf": torch.isinf,
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Pow": torch.pow,
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Equal": torch.eq,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Not": torch.logical_not,
    "Where": torch.where,
    "MatMul": torch.matmul,
}


def _sum(x: Tensor, axis: int, keep: bool) -> Tensor:
    return torch.sum(x, axis, keepdim=keep)


def _mean(x: Tensor, axis: int, keep: bool) -> Tensor:
    return torch.mean(x, axis, keepdim=keep)


def _largest(x: Tensor, axis: int, keep: bool) -> Tensor:
    return torch.amax(x, axis, keepdim=keep)


def _smallest(x: Tensor, axis: int, keep: bool) -> Tensor:
    return torch.amin(x, axis, keepdim=keep)


def _where_largest(x: Tensor, axis: int, keep: bool) -> Tensor:
    return torch.argmax(x, axis, keepdim=keep)


def _where_smallest(x: Tensor, axis: int, keep: bool) -> Tensor:
    return torch.argmin(x, axis, keepdim=keep)


def _running_sum(x: Tensor, axis: int) -> Tensor:
    return torch.cumsum(x, axis)


def _softmax(x: Tensor, axis: int) -> Tensor:
    return torch.softmax(x, axis)


def _top(x: Tensor, k: int, largest: bool) -> Any:
    return torch.topk(x, k, -1, largest, True)


def _gather(x: Tensor, index: Tensor, axis: int) -> Tensor:
    return x[(slice(None),) * axis + (index,)]


def _gather_elements(x: Tensor, index: Tensor, axis: int) -> Tensor:
    return torch.gather(x, axis, index)


def _concat(*parts: Tensor, axis: int) -> Tensor:
    return torch.cat(parts, axis)


def _slice(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    return torch.narrow(x, axis, start, end - start)


def _reshape(x: Tensor, shape: list[int]) -> Tensor:
    return torch.reshape(x, shape)


def _transpose(x: Tensor, order: list[int]) -> Tensor:
    return torch.permute(x, order)


_WITH_ATTRIBUTES: dict[str, Operation] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": _largest,
    "ReduceMin": _smallest,
    "ArgMax": _where_largest,
    "ArgMin": _where_smallest,
    "CumSum": _running_sum,
    "Softmax": _softmax,
    "TopK": _top,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Concat": _concat,
    "Slice": _slice,
    "Reshape": _reshape,
    "Transpose": _transpose,
}


def _to_real(x: Tensor, like: Tensor) -> Tensor:
    return x.to(like.dtype)


def _to_index(x: Tensor, _like: Tensor) -> Tensor:
    return x.to(torch.int64)


def _to_flag(x: Tensor, _like: Tensor) -> Tensor:
    return x.to(torch.bool)


#: A cast takes a second tensor, whose type is that of all reals.
CASTS: dict[str, Operation] = {"real": _to_real, "index": _to_index, "flag": _to_flag}


def operation(name: str, attributes: dict[str, Any]) -> Operation:
    """What a node of this operator does."""
    if name == "Cast":
        return CASTS[attributes["to"]]
    if name in _PLAIN and not attributes:
        return _PLAIN[name]
    if name in _WITH_ATTRIBUTES:
        return partial(_WITH_ATTRIBUTES[name], **attributes)
    raise InputError(f"a detector's graph: expected an operator that offspan.torch knows, got {name} {attributes}")
