"""Features, logits and labels of everything a data loader yields."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from offspan import InputError

from ._arrays import Array, check_dtype, in_dtype, to_numpy
from ._batches import Unpack, label_array, unpack_batch
from ._network import evaluating, forward, placement, to_network, unwrap
from ._plan import RESERVED, Layer, Plan, Request
from ._progress import with_progress
from ._tensorfile import TensorFileWriter
from .extracted import Extracted
from .heads import linear_arrays, linear_layer
from .pooling import Pool

#: The longest side that a split file may have for its pictures.
LARGEST_THUMBNAIL = 256


def extract(
    model: nn.Module,
    loader: Iterable[Any],
    layer: Layer | None = None,
    *,
    layers: Mapping[str, Layer] | Iterable[str] | None = None,
    pool: Pool = "avg",
    maps: bool | Layer = False,
    head: Layer | None = None,
    logits: bool | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    dtype: str = "float32",
    thumbnails: int | None = None,
    unpack: Unpack = unpack_batch,
    progress: bool = True,
) -> Extracted:
    """Runs a network over a loader and keeps its features.

    The features are what enters the classifier head: the last linear layer, whose output is the network's. It is
    found in the first forward pass, whatever the network calls it. The network runs in evaluation mode without
    gradients; its modes, its device and its hooks are afterwards as they were.

    Parameters
    ----------
    model : torch.nn.Module
    loader : iterable
        Yields tensors, ``(x, y, …)`` or dicts with "image", "data" or "input" and "label"; see ``unpack``.
    layer : str or torch.nn.Module, optional
        Take the pooled output of this layer as features instead. The head is then given only where the features
        are still what enters it (``layer4`` of a ResNet, averaged).
    layers : list of str, or dict from names to layers, optional
        Further layers, pooled the same way and kept by name.
    pool : "avg", "max", "cls", "none" or function
        Makes a vector per row of maps [rows, channels, H, W] or tokens [rows, tokens, width]; "cls" is the first
        token, "none" leaves maps as they are (for ``layers``).
    maps : bool, str or torch.nn.Module
        Keep the maps whose averages are the features, which rank-feat needs; True finds their layer.
    head : str or torch.nn.Module, optional
        The head, where it cannot be found: networks that go on after it, for example with a softmax.
    logits : bool, optional
        By default logits are kept where there is a head; True takes the network's output for want of one.
    out : path, optional
        Stream into this safetensors file, a split of a pack; the arrays given back are mapped from it.
    device : optional
        Where to run; by default where the network is.
    dtype : "float32" or "float16"
        Type of features, layers and maps. Logits are kept in float32.
    thumbnails : int, optional
        Also keep the inputs, images [rows, 1 or 3, H, W], as small pictures for reports: scaled down so that neither
        side is longer than this many pixels (at most 256), the darkest number of each image black, the brightest
        white.
    unpack : function
        From a batch to (inputs, labels or None). Inputs in a tuple or a dict are several arguments of the network.
    progress : bool
        Show progress on stderr, if that is a terminal.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))
    >>> extract(network, [torch.ones(5, 8), torch.zeros(2, 8)])
    Extracted(features [7, 4], logits [7, 3], head)
    """
    request = Request.of(unwrap(model), layer, layers, pool, maps, head, logits)
    found, _ = extract_with_plan(
        model,
        loader,
        request,
        out=out,
        device=device,
        dtype=dtype,
        thumbnails=thumbnails,
        unpack=unpack,
        progress=progress,
    )
    return found


def extract_with_plan(
    model: nn.Module,
    loader: Iterable[Any],
    request: Request,
    *,
    out: str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    dtype: str = "float32",
    thumbnails: int | None = None,
    unpack: Unpack = unpack_batch,
    progress: bool = True,
) -> tuple[Extracted, Plan]:
    """What ``extract`` gives, and where in the network it was found."""
    kept = check_dtype(dtype)
    if out is not None and os.path.splitext(out)[1] != ".safetensors":
        raise InputError(f"out: expected a file name that ends in .safetensors, got {os.fspath(out)!r}")
    if thumbnails is not None and not 1 <= thumbnails <= LARGEST_THUMBNAIL:
        raise InputError(f"thumbnails: expected 1 to {LARGEST_THUMBNAIL} pixels, got {thumbnails}")
    network = unwrap(model)
    plan: Plan | None = None
    with ExitStack() as stack:
        sink = stack.enter_context(TensorFileWriter(out)) if out is not None else _Memory()
        stack.enter_context(evaluating(model, device))
        # Not inference_mode: what a network caches in there is of no use to its training.
        stack.enter_context(torch.no_grad())
        where = placement(network)
        if device is not None:
            where = (torch.device(device), where[1])
        for batch in with_progress(loader, "extract", progress):
            inputs, labels = unpack(batch)
            call = partial(forward, network, to_network(inputs, *where))
            if plan is None:
                plan = Plan.find(network, call, request)
            _, found = plan.run(network, call)
            for name, tensor in found.items():
                wanted = np.dtype(np.float32) if name == "logits" else kept
                sink.append(name, in_dtype(to_numpy(tensor), wanted, name))
            if labels is not None:
                sink.append("labels", label_array(labels))
            if thumbnails is not None:
                sink.append("thumbnails", _small_pictures(inputs, thumbnails))
        if plan is None:
            raise InputError("the loader yielded no batches")
        _check_rows(sink.rows())
        weights = None if plan.head is None else linear_arrays(linear_layer(network, plan.head))
    if isinstance(sink, _Memory):
        return sink.extracted(weights), plan
    return Extracted.load(sink.path, weights), plan


def _small_pictures(inputs: Any, longest: int) -> Array:
    """Bytes [rows, H, W] (grey) or [rows, H, W, 3] of a batch of images, each with its own black and white."""
    if not isinstance(inputs, Tensor) or inputs.ndim != 4 or inputs.shape[1] not in (1, 3):
        got = list(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
        raise InputError(f"thumbnails need images [rows, 1 or 3, H, W] as inputs, got {got}")
    height, width = inputs.shape[2:]
    scale = min(1.0, longest / max(height, width))
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    # "area" averages all pixels that one becomes, so that fine patterns do not turn into others.
    small = functional.interpolate(inputs.detach().float(), size=size, mode="area")
    darkest, brightest = small.amin((1, 2, 3), keepdim=True), small.amax((1, 2, 3), keepdim=True)
    # A picture of one colour is black: there is nothing to tell its pixels apart.
    unit = (small - darkest) / (brightest - darkest).clamp_min(torch.finfo(small.dtype).tiny)
    pictures = to_numpy((unit.nan_to_num(0.0) * 255).round().to(torch.uint8).permute(0, 2, 3, 1))
    return pictures[..., 0] if pictures.shape[3] == 1 else pictures


class _Memory:
    """Batches in lists until the end."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = {}

    def append(self, name: str, rows: Array) -> None:
        self._parts.setdefault(name, []).append(rows)

    def rows(self) -> dict[str, int]:
        return {name: sum(map(len, parts)) for name, parts in self._parts.items()}

    def extracted(self, head: tuple[Array, Array] | None) -> Extracted:
        # Each list goes once it is joined, so that only one tensor is there twice.
        whole = {name: np.concatenate(self._parts.pop(name)) for name in list(self._parts)}
        own = {name: whole.pop(name) for name in RESERVED if name in whole}
        return Extracted(**own, head=head, layers=whole)


def _check_rows(rows: Mapping[str, int]) -> None:
    for name, count in rows.items():
        if count != rows["features"]:
            raise InputError(f"the loader gave {rows['features']} rows of features but {count} of {name}")
