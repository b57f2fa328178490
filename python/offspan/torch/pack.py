"""Whole packs: the folders that ``offspan fit`` and ``offspan eval`` read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from offspan import InputError

from ._tensorfile import write_tensors
from .extract import extract

SPLITS = ("train", "test", "ood")


def extract_pack(model: nn.Module, splits: Mapping[str, Any], folder: str | os.PathLike[str], **options: Any) -> Path:
    """Extracts every split of an experiment into a pack folder, a batch at a time.

    Parameters
    ----------
    model : torch.nn.Module
    splits : mapping
        ``{"train": loader, "test": loader, "ood": {"svhn": loader, …}}``; "test" and "ood" may be left out.
    folder : path
        Made if it is not there. Files of the same names are replaced.
    **options
        Those of ``extract``, except ``out``.

    Returns
    -------
    pathlib.Path
        The folder, which ``offspan.make(…).fit(folder)`` and the command line take.

    Examples
    --------
    >>> import tempfile, torch
    >>> network = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaders = {"train": [torch.rand(5, 8)], "ood": {"noise": [torch.randn(5, 8)]}}
    ...     pack = extract_pack(network, loaders, folder)
    ...     sorted(path.relative_to(pack).as_posix() for path in pack.rglob("*.safetensors"))
    ['head.safetensors', 'ood/noise.safetensors', 'train.safetensors']
    """
    folder = Path(folder)
    loaders = _by_file(splits)
    head = None
    for number, (name, loader) in enumerate(loaders.items()):
        path = folder / f"{name}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        extracted = extract(model, loader, out=path, **options)
        if number == 0:
            head = extracted.head
            _write_head(folder / "head.safetensors", head)
    return folder


def _by_file(splits: Mapping[str, Any]) -> dict[str, Iterable[Any]]:
    unknown = sorted(set(splits) - set(SPLITS))
    if unknown or "train" not in splits:
        raise InputError(f"a pack has the splits train, test and ood, and needs train; got {', '.join(splits)}")
    loaders = {name: splits[name] for name in ("train", "test") if name in splits}
    sets = splits.get("ood", {})
    if not isinstance(sets, Mapping):
        raise InputError(f"'ood' maps names to loaders, got {type(sets).__name__}")
    for name, loader in sets.items():
        if not name or Path(name).name != name:
            raise InputError(f"{name!r} cannot name a file of the pack")
        loaders[f"ood/{name}"] = loader
    return loaders


def _write_head(path: Path, head: tuple[Any, Any] | None) -> None:
    if head is not None:
        weight, bias = head
        write_tensors(path, {"weight": weight, "bias": bias})
    elif path.exists():
        raise InputError(f"{path} is there from another network, and these features enter no head: remove it first")
