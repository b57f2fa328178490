"""Refuses compilers and tracers, which cannot see into a detector."""

from __future__ import annotations

from typing import Any

import torch

from offspan import InputError


def _never() -> bool:
    return False


# Public since PyTorch 2.1; true in `torch.compile` and in `torch.export`, and so in the exporters that build on it.
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _never)


# Since PyTorch 2.7.
_is_exporting = getattr(getattr(torch, "compiler", None), "is_exporting", _never)


def is_exported() -> bool:
    """Whether ``torch.export`` watches."""
    return bool(_is_exporting())


def refuse_onnx() -> None:
    """Raise an error during an export to ONNX, which asks for the state of a module before it traces it."""
    is_exporting = getattr(getattr(torch, "onnx", None), "is_in_onnx_export", _never)
    if is_exporting():
        refuse()


def is_compiled() -> bool:
    """Whether a compiler or an exporter that builds on one reads the code."""
    return bool(_is_compiling())


def is_traced() -> bool:
    """Whether a tracer, compiler or exporter watches, which would take a look at numbers for a constant."""
    # The first of the two is what a compiler knows about itself, and then it must not go on to the second.
    return bool(_is_compiling() or torch.jit.is_tracing())


def refuse_tracing() -> None:
    """Raise an error while a tracer or compiler watches: it would freeze scores as constants, or fail in riddles."""
    if is_traced():
        refuse()


def refuse() -> Any:
    """Raise the error."""
    raise InputError(
        "an OODModule cannot be traced, scripted, compiled or exported, because its detector is no part of the graph "
        "and scores would be frozen: take `offspan.torch.guard(network, loader)`, whose detector is, or trace, compile "
        "or export the network alone, with its features as an output, and score those afterwards with "
        "`detector.score(features, logits)`"
    )


# Compilers run such a function instead of reading it, so that they pass its error on. This is what
# `torch.compiler.assume_constant_result` does, without the seconds that it takes to import the compiler.
refuse._dynamo_marked_constant = True  # type: ignore[attr-defined]
