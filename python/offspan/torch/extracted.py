"""What ``extract`` gives back."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from offspan import FormatError

from ._arrays import Array
from ._plan import RESERVED
from ._tensorfile import read_tensors, write_tensors


@dataclass
class Extracted:
    """Rows of features with what belongs to them.

    >>> method.fit(data.features, data.logits, data.labels, extras=data.extras)     # doctest: +SKIP
    """

    #: [N, m]
    features: Array
    #: [N, C], if a head was found or logits were asked for.
    logits: Array | None = None
    #: [N], int64, if the loader gave labels.
    labels: Array | None = None
    #: (weight [C, m], bias [C]), if the features are what enters the head.
    head: tuple[Array, Array] | None = None
    #: Further layers by name.
    layers: dict[str, Array] = field(default_factory=dict)
    #: Un-pooled maps [N, m, H, W], if they were asked for.
    maps: Array | None = None
    #: Pictures of the inputs for reports, uint8 [N, H, W] or [N, H, W, 3], if they were asked for.
    thumbnails: Array | None = None

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        shown = [f"{name} {list(array.shape)}" for name, array in self._arrays().items()]
        return f"Extracted({', '.join(shown)}{'' if self.head is None else ', head'})"

    @property
    def extras(self) -> dict[str, Array]:
        """What ``fit`` and ``score`` take as ``extras``: the maps and the further layers."""
        return {**self.layers, **({} if self.maps is None else {"maps": self.maps})}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the split as one safetensors file. The head is not part of a split: see ``extract_pack``."""
        write_tensors(path, self._arrays())

    def _arrays(self) -> dict[str, Array]:
        own = {name: getattr(self, name) for name in RESERVED}
        return {name: array for name, array in {**own, **self.layers}.items() if array is not None}

    @classmethod
    def load(cls, path: str | os.PathLike[str], head: tuple[Array, Array] | None = None) -> Extracted:
        """Opens a split that ``save`` or ``extract(out=…)`` wrote. Its arrays stay on disk until they are read."""
        tensors = read_tensors(path)
        if "features" not in tensors:
            raise FormatError(f"{os.fspath(path)} has no `features`; it has {', '.join(tensors) or 'nothing'}")
        own = {name: tensors.pop(name) for name in RESERVED if name in tensors}
        return cls(**own, head=head, layers=tensors)
