"""Packs: the splits of one experiment, in a folder or as arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _internal
from ._arrays import PathLike, Rows, as_array, as_head, as_inputs, as_rows
from ._progress import Report, reporter
from .errors import InputError


class Split(NamedTuple):
    """Rows of a pack, with what belongs to them."""

    features: Any
    logits: Any = None
    labels: Any = None


class Pack:
    """Training rows, in-distribution test rows and out-of-distribution sets, for :func:`evaluate`.

    Parameters
    ----------
    train, test
        Features (as :meth:`Method.fit` takes them: arrays, memory maps, Arrow data or paths), or a tuple or mapping of
        ``features``, ``logits`` and ``labels``.
    ood
        Such sets by name; ``near/NAME`` and ``far/NAME`` say which they are.
    head
        The network's last layer: ``(weight, bias)``, a ``torch.nn.Linear``, or a path.
    name
        What reports call it.
    shifted
        In-distribution rows of another appearance by name, which count with ``full_spectrum``.

    Examples
    --------
    >>> import numpy as np, offspan
    >>> draw = np.random.default_rng(0)
    >>> ind = draw.normal(size=(600, 8)) + 3
    >>> pack = offspan.Pack(ind[:400], ind[400:], {"far": draw.normal(size=(100, 8))})
    >>> offspan.evaluate(pack, ["pca", "knn"]).averages["knn"]["auroc"] > 0.99
    True

    """

    #: What reports call it.
    name: str
    #: Where it lies, if it is a folder.
    folder: Path | None
    #: The last layer, if there is one.
    head: Any
    _splits: dict[str, Split]
    _shifted: dict[str, Split]
    _read: tuple[str | None, list[str]]
    _rows: list[tuple[str, int]]

    def __init__(
        self,
        train: Any,
        test: Any,
        ood: Mapping[str, Any],
        *,
        head: Any = None,
        name: str = "pack",
        shifted: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.folder = None
        self.head = as_head(head)
        self._splits = {"train": _split(train, "train"), "test": _split(test, "test")}
        for set_name, rows in ood.items():
            if set_name in self._splits:
                raise InputError(f"ood: expected a name that is not train or test, got {set_name}")
            self._splits[set_name] = _split(rows, set_name)
        if not ood:
            raise InputError("ood: expected at least one set, got none")
        self._shifted = {}
        for set_name, rows in (shifted or {}).items():
            if set_name in self._splits:
                raise InputError(f"shifted: expected a name that no other set has, got {set_name}")
            self._shifted[set_name] = _split(rows, set_name)

    @classmethod
    def open(cls, folder: PathLike, *, raw: str | None = None, columns: Iterable[str] = ()) -> Pack:
        """Open a pack folder; its rows stay in their files until they are read.

        ``raw`` tells type and width of files without a header (``"f64:2048"``), and ``columns`` which columns of tables
        are what, in the words of the command line's ``--columns``.
        """
        pack = cls.__new__(cls)
        pack.folder = Path(os.fspath(folder))
        pack._read = (raw, list(columns))
        pack.name, pack._rows, pack.head = _internal.open_pack(os.fspath(folder), *pack._read)
        pack._splits, pack._shifted = {}, {}
        return pack

    @property
    def sets(self) -> list[str]:
        """Names of its splits: train, test where there is one, and the out-of-distribution sets."""
        return [name for name, _ in self._rows] if self.folder is not None else list(self._splits)

    def read(self, name: str) -> Split:
        """Features, logits and labels of a split; those of a folder are read into memory as float32."""
        if name not in self.sets:
            raise InputError(f"{self.name}: expected one of {', '.join(self.sets)}, got {name}")
        if self.folder is None:
            return self._splits[name]
        return Split(*_internal.read_split(os.fspath(self.folder), *self._read, name))

    @classmethod
    def convert(
        cls,
        folder: PathLike,
        source: PathLike | None = None,
        *,
        train: PathLike | None = None,
        test: PathLike | None = None,
        calibrate: PathLike | None = None,
        ood: Mapping[str, PathLike] | None = None,
        head: PathLike | None = None,
        class_vectors: PathLike | None = None,
        temperature: float | None = None,
        unknown: str | None = None,
        unit: bool = False,
        dtype: str | None = None,
        raw: str | None = None,
        columns: Iterable[str] = (),
        progress: bool | Report = False,
    ) -> Pack:
        """Write a pack folder from files of other programs, as ``offspan convert`` does, and open it.

        ``source`` is a pack, a folder of caches or a Hugging Face dataset; ``train`` and the others are files
        (OpenOOD's ``.npz``, PyTorch's ``.pt``, ``.npy``, ``.safetensors``) or splits of the source. ``raw`` and
        ``columns`` are as in :meth:`open`.
        """
        path = [
            None if given is None else os.fspath(given)
            for given in (source, train, test, calibrate, head, class_vectors)
        ]
        sets = [(name, os.fspath(given)) for name, given in (ood or {}).items()]
        with reporter(progress) as report:
            _internal.convert_pack(
                os.fspath(folder),
                *path,
                ood=sets,
                temperature=temperature,
                unknown=unknown,
                unit=unit,
                dtype=dtype,
                raw=raw,
                columns=list(columns),
                progress=report,
            )
        return cls.open(folder)

    def __repr__(self) -> str:
        where = "" if self.folder is None else f" in {self.folder}"
        return f"<Pack {self.name}{where}: {', '.join(self.sets)}>"

    def _given(self) -> Any:
        """What the native module takes: a folder, or the splits."""
        if self.folder is not None:
            return (os.fspath(self.folder), *self._read)
        return (self.name, list(self._splits.items()), list(self._shifted.items()), self.head)


def as_pack(given: Any) -> Pack | str:
    """A pack, or the path of its folder."""
    if isinstance(given, Pack):
        return given
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    raise InputError(f"pack: expected a folder or offspan.Pack, got {type(given).__name__}")


def native_pack(given: Any) -> Any:
    """What the native module takes."""
    pack = as_pack(given)
    return pack._given() if isinstance(pack, Pack) else pack


def _split(given: Any, what: str) -> Split:
    if isinstance(given, Mapping) and "features" in given:
        strange = set(given) - {"features", "logits", "labels"}
        if strange:
            raise InputError(f"{what}: expected features, logits and labels, got {', '.join(sorted(strange))}")
        given = (given["features"], given.get("logits"), given.get("labels"))
    if not isinstance(given, tuple):
        given = (given,)
    if not 1 <= len(given) <= 3:
        raise InputError(f"{what}: expected features, logits and labels, got {len(given)} things")
    return Split(*as_inputs(*given))


def pseudo_labels(features: Rows, clusters: int, *, seed: int = 0) -> npt.NDArray[np.int64]:
    """Labels from clusters of the rows' directions, for methods that need classes where nobody has named any.

    >>> import numpy as np, offspan
    >>> rows = np.repeat(np.eye(3), 20, axis=0)
    >>> sorted(np.bincount(offspan.pseudo_labels(rows, 3)).tolist())
    [20, 20, 20]
    """
    return _internal.pseudo_labels(as_rows(features, "features"), clusters, seed)


def cosine_head(
    vectors: npt.ArrayLike, temperature: float = 1.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """A last layer whose logits are cosines with one vector per class, for features of unit length.

    With the text embeddings of CLIP-like models, ``msp`` behind it is MCM (temperature 1), and a temperature of 0.01
    gives CLIP's own probabilities.

    >>> import numpy as np, offspan
    >>> weight, bias = offspan.cosine_head([[3.0, 4.0], [0.0, 2.0]])
    >>> weight.tolist(), bias.tolist()
    ([[0.6, 0.8], [0.0, 1.0]], [0.0, 0.0])
    """
    array = np.ascontiguousarray(as_array(vectors, "class vectors"), dtype=np.float64)
    return _internal.cosine_head(array, temperature)
