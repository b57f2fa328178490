"""A detector in PyTorch's own operations: ``detector.to_torch()``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from offspan import Detector, FormatError, InputError

from ._operators import Operation, operation
from ._tracing import is_exported, is_traced

#: Buffers that are no constants of the graph.
STRUCTURE, THRESHOLD, CALIBRATION = "structure", "threshold", "calibration_scores"
#: A number of no importance, whose type is that of all reals: a method may have no others.
REAL = "real"
#: What the names of the other ones begin with: a bare name could be one of nn.Module's own.
CONSTANT = "constant_"
#: In fewer digits than these a score is noise.
TYPES = (torch.float32, torch.float64)


class Decision(NamedTuple):
    """What a detector says of each row."""

    #: [rows]; higher is more in-distribution. −∞ where a number of the row is NaN or infinite.
    score: Tensor
    #: [rows]; how probable a score as low is for an in-distribution row. None if the detector has no threshold.
    p_value: Tensor | None
    #: [rows], bool: whether the row is taken for out-of-distribution. None if the detector has no threshold.
    is_ood: Tensor | None


def plain_if_exported(result: Any) -> Any:
    """The result as a plain tuple in an export: a file must be read where this package is not."""
    return tuple(result) if is_exported() else result


class _Step(NamedTuple):
    """One node: what it does, and the places of what it takes and gives."""

    apply: Operation
    takes: tuple[int, ...]
    gives: tuple[int, ...]


class NativeDetector(nn.Module):
    """A detector whose arithmetic is part of PyTorch's graph, and whose numbers are buffers.

    Made by ``detector.to_torch()``. It moves with ``.to(device)``, is saved in the ``state_dict`` of the module that it
    is part of, and can be traced, compiled and exported. Its scores are those of the library up to rounding: within
    1e-4 of the largest in float32, and within 1e-6 in float64 for a detector that was fitted with ``precision="f64"``.

    It computes in the type of its buffers, whatever the type of the rows, and switches autocast off for itself.
    ``.half()`` and ``.bfloat16()`` leave that type alone, because scores need more digits; ``.double()`` and
    ``.float()`` change it.

    The threshold is the buffer ``threshold``: ``module.threshold.fill_(-0.2)`` sets another one.

    Parameters
    ----------
    structure : dict
        Inputs, nodes and the value that is the score.
    numbers : dict of tensors
        By the names of the buffers.
    """

    structure: Tensor
    real: Tensor
    threshold: Tensor | None
    calibration_scores: Tensor | None

    def __init__(self, structure: Mapping[str, Any], numbers: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.method = str(structure["method"])
        #: What a row must bring besides its features: logits, or another tensor of the network.
        self.needs: list[str] = [given["name"] for given in structure["inputs"][1:]]
        self.width = int(structure["inputs"][0]["shape"][1])
        self._names, self._steps, self._score = _compile(structure)
        text = json.dumps(structure, sort_keys=True, separators=(",", ":")).encode()
        self.register_buffer(STRUCTURE, torch.frombuffer(bytearray(text), dtype=torch.uint8))
        self.register_buffer(REAL, numbers[REAL])
        for name in (THRESHOLD, CALIBRATION):
            self.register_buffer(name, numbers.get(name))
        for name in self._names:
            self.register_buffer(name, numbers[name])

    @classmethod
    def of(cls, detector: Detector, dtype: torch.dtype | None = None) -> NativeDetector:
        """From a detector; ``dtype`` is float32, unless float64 is asked for."""
        dtype = torch.float32 if dtype is None else dtype
        if dtype not in TYPES:
            raise InputError(f"dtype: expected torch.float32 or torch.float64, got {dtype}")
        text, arrays = detector._native.graph()
        description = json.loads(text)
        score = next(given["value"] for given in description["outputs"] if given["name"] == "score")
        nodes = _needed(description["nodes"], score)
        taken = {name for node in nodes for name in node["inputs"]} | {score}
        # Features always come first, also where a method reads logits alone: a call is the same for all.
        features = {"name": "features", "element": "real", "shape": ["N", detector.width]}
        others = [given for given in description["inputs"] if given["name"] in taken - {"features"}]
        structure = {
            "schema": description["schema"],
            "method": detector.method,
            "inputs": [features, *others],
            "constants": [given["name"] for given in description["constants"] if given["name"] in taken],
            "nodes": nodes,
            "score": score,
        }
        numbers = {CONSTANT + name: _tensor(arrays[name], dtype) for name in structure["constants"]}
        numbers[REAL] = torch.zeros((), dtype=dtype)
        if detector.threshold is not None:
            numbers[THRESHOLD] = torch.tensor(detector.threshold, dtype=dtype)
            known = detector.calibration_scores
            assert known is not None  # the threshold is one of them
            numbers[CALIBRATION] = _tensor(known, dtype)
        return cls(structure, numbers)

    @classmethod
    def of_state(cls, state: Mapping[str, Tensor], prefix: str = "") -> NativeDetector:
        """From a state dict that has one under ``prefix``, such as ``"detector."``."""
        own = {name[len(prefix) :]: value for name, value in state.items() if name.startswith(prefix)}
        if STRUCTURE not in own:
            raise FormatError(f"expected a state with '{prefix}{STRUCTURE}', as a native detector has it; it has none")
        try:
            structure = json.loads(bytes(own.pop(STRUCTURE).cpu().tolist()))
            return cls(structure, {name: value.clone() for name, value in own.items()})
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"'{prefix}{STRUCTURE}' of the state does not describe a detector: {error!r}") from error

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        threshold = "none" if self.threshold is None else f"{float(self.threshold):g}"
        return f"{self.method}, width={self.width}, threshold={threshold}, steps={len(self._steps)}"

    @property
    def dtype(self) -> torch.dtype:
        """In which the scores are computed."""
        return self.real.dtype

    def forward(self, features: Tensor, logits: Tensor | None = None, **extras: Tensor) -> Decision:
        """Score, p-value and decision of rows.

        Traced and exported modules give a plain tuple of the three.

        Parameters
        ----------
        features : tensor [rows, width]
        logits : tensor [rows, classes], optional
            Where ``needs`` names them. A detector that keeps the network's last layer makes them of the features, and
            does not look at given ones.
        extras : tensors
            What else ``needs`` names.
        """
        given = [features]
        for name in self.needs:
            tensor = logits if name == "logits" else extras.get(name)
            if tensor is None:
                raise InputError(f"{self.method} needs {name}: call it with features and {name}")
            given.append(tensor)
        if not is_traced():
            self._check(given)
        kind = features.device.type
        if _autocasts(kind):
            with torch.autocast(kind, enabled=False):
                return plain_if_exported(self._decide(given))
        return plain_if_exported(self._decide(given))

    def _check(self, given: list[Tensor]) -> None:
        features = given[0]
        if features.ndim != 2 or features.shape[1] != self.width:
            raise InputError(f"features: expected shape [rows, {self.width}], got {list(features.shape)}")
        for name, tensor in zip(self.needs, given[1:]):
            if tensor.ndim < 2 or tensor.shape[0] != features.shape[0]:
                raise InputError(f"{name}: expected shape [{features.shape[0]}, …], got {list(tensor.shape)}")

    def _decide(self, given: list[Tensor]) -> Decision:
        given = [tensor.to(self.real.dtype) for tensor in given]
        is_finite = torch.isfinite(given[0]).all(1)
        for tensor in given[1:]:
            is_finite = is_finite & torch.isfinite(tensor).flatten(1).all(1)
        score = self._scores(given).masked_fill(~is_finite, float("-inf"))
        threshold, known = self.threshold, self.calibration_scores
        if threshold is None or known is None:
            return Decision(score, None, None)
        # (1 + calibration scores at or below this one) / (1 + calibration scores)
        as_low = torch.searchsorted(known, score.contiguous(), right=True)
        return Decision(score, (as_low + 1).to(score.dtype) / (known.shape[0] + 1), ~(score >= threshold))

    def _scores(self, given: list[Tensor]) -> Tensor:
        values = [*given, *(getattr(self, name) for name in self._names)]
        for apply, takes, gives in self._steps:
            found = apply(*[values[place] for place in takes])
            if len(gives) == 1:
                values.append(found)
            else:
                values.extend(found)
        return values[self._score]

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> NativeDetector:
        """Moves and converts, but not to a type in which scores would be noise."""

        def careful(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            if not moved.is_floating_point() or moved.dtype in TYPES:
                return moved
            return tensor.to(moved.device)

        super()._apply(careful, *args, **kwargs)
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        given = state_dict.get(prefix + STRUCTURE)
        if given is not None and not torch.equal(given.cpu(), self.structure.cpu()):
            raise FormatError(
                f"the state has another detector than this {self.method}: one of the same method with the same sizes "
                "was expected; `NativeDetector.of_state(state, prefix)` makes any"
            )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _needed(nodes: list[dict[str, Any]], result: str) -> list[dict[str, Any]]:
    """The nodes that a value comes from, in their order."""
    wanted, needed = {result}, []
    for node in reversed(nodes):
        if any(given["name"] in wanted for given in node["outputs"]):
            needed.append(node)
            wanted.update(node["inputs"])
    return needed[::-1]


def _compile(structure: Mapping[str, Any]) -> tuple[list[str], list[_Step], int]:
    """Names of buffers, steps, and the place of the score. Values have places: inputs, buffers, results in order."""
    constants = [str(name) for name in structure["constants"]]
    order = [given["name"] for given in structure["inputs"]]
    place = {name: number for number, name in enumerate([*order, *constants])}
    steps = []
    for node in structure["nodes"]:
        attributes = node.get("attributes") or {}
        takes = [place[name] for name in node["inputs"]]
        if node["op"] == "Cast":
            takes.append(place["features"])
        gives = []
        for given in node["outputs"]:
            gives.append(len(place))
            place[given["name"]] = len(place)
        steps.append(_Step(operation(node["op"], attributes), tuple(takes), tuple(gives)))
    return [CONSTANT + name for name in constants], steps, place[structure["score"]]


def _tensor(array: Any, dtype: torch.dtype) -> Tensor:
    """A buffer of an array: reals in the type that is asked for, anything else as it is."""
    array = np.array(array)  # A copy: the buffer can be changed.
    tensor = torch.from_numpy(array) if array.ndim else torch.tensor(array.item(), dtype=_KINDS[array.dtype.kind])
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


#: The types of single numbers, which NumPy hands over without one.
_KINDS = {"f": torch.float64, "i": torch.int64, "b": torch.bool}

try:
    torch.is_autocast_enabled("cpu")
    _autocasts: Any = torch.is_autocast_enabled
except TypeError:  # PyTorch 2.3 and earlier

    def _autocasts(kind: str) -> bool:
        return torch.is_autocast_cpu_enabled() if kind == "cpu" else torch.is_autocast_enabled()
