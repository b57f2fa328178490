"""A network with a detector beside it: ``logits, score = model(x)``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from offspan import Detector, FormatError, InputError, NotFittedError
from offspan._internal import CONFIDENCE, KEEP

from ._arrays import Array, to_numpy
from ._batches import Unpack, unpack_batch
from ._network import evaluating, first_tensor, unwrap
from ._plan import Layer, Plan, Request
from ._tracing import refuse, refuse_onnx, refuse_tracing
from .fitting import as_detector, fit_to_loaders
from .pooling import Pool

#: How the files of ``torch.save`` begin: they are zip archives.
ZIP = b"PK\x03\x04"


class Assessment(NamedTuple):
    """All that a module knows of a batch."""

    #: As the network gives them.
    logits: Tensor
    #: [rows], float32; higher is more in-distribution.
    score: Tensor
    #: [rows], float64; small for unusual rows. None if the detector has no calibration.
    p_value: Tensor | None
    #: [rows], bool: the decision by the threshold. None if there is no threshold.
    is_in: Tensor | None
    #: [rows], bool: False where the network gave NaN or infinities, so that there was nothing to score.
    is_finite: Tensor


class _Scored(NamedTuple):
    """One forward pass: logits, and in double precision what belongs to each row."""

    logits: Tensor
    scores: Array
    is_finite: Array


class OODModule(nn.Module):
    """Scores every input in the forward pass that makes its logits.

    Higher scores are more in-distribution. They are computed by the detector, outside of autograd and in double
    precision, and given back in float32 on the device of the logits; the logits are as the network gives them.

    Scores are those of the network in evaluation mode, always: features of a network in training mode (dropout, batch
    statistics) are not those that the detector knows. In training mode the logits come from a pass in that mode, and
    the scores from a second one; call ``eval()`` to do with one.

    A row for which the network gives NaN or infinities has the score −∞, the smallest p-value and counts as out of
    distribution; ``assess`` flags it, and the first one brings a warning.

    Tracers, compilers and exporters (``torch.jit``, ``torch.compile``, ``torch.export``, ONNX) are refused: ``guard``
    makes a network that they can read, for every method whose arithmetic can be exported.

    Parameters
    ----------
    model : torch.nn.Module
    detector : offspan.Detector, a fitted method, or the path of a detector file
        None if ``load_state_dict`` will bring one.
    layer, layers, pool, maps, head
        Where features and extras come from, as in ``extract``: give what was given there. The module's state keeps
        it, except for a function as ``pool``.
    threshold : float, optional
        In place of the detector's.
    strict : bool
        Whether NaN or an infinity in a row is an error.

    Examples
    --------
    >>> guarded = OODModule.fit(network, loader)        # doctest: +SKIP
    >>> logits, score = guarded(images)                 # doctest: +SKIP
    >>> logits, is_in = guarded.predict(images)         # doctest: +SKIP
    >>> torch.save(guarded.state_dict(), "net.pt")      # doctest: +SKIP
    >>> guarded = OODModule.load("net.pt", network)     # doctest: +SKIP
    """

    def __init__(
        self,
        model: nn.Module,
        detector: Any = None,
        layer: Layer | None = None,
        *,
        layers: Mapping[str, Layer] | Iterable[str] | None = None,
        pool: Pool = "avg",
        maps: bool | Layer = False,
        head: Layer | None = None,
        threshold: float | None = None,
        strict: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        # In the mode of the network: `eval()` was perhaps said before it was wrapped.
        self.training = model.training
        self.strict = strict
        self.detector = as_detector(detector)
        self._given_threshold: float | None = None
        self.threshold = threshold
        self._request = Request.of(unwrap(model), layer, layers, pool, maps, head, logits=True)
        # Found in the first forward pass.
        self._plan: Plan | None = None
        self._has_warned = False

    @classmethod
    def fit(
        cls,
        model: nn.Module,
        loader: Iterable[Any],
        method: str = "auto",
        layer: Layer | None = None,
        *,
        calibrate: Iterable[Any] | None = None,
        keep: float = KEEP,
        confidence: float = CONFIDENCE,
        hold_out: float | None = None,
        layers: Mapping[str, Layer] | Iterable[str] | None = None,
        pool: Pool = "avg",
        maps: bool | Layer = False,
        head: Layer | None = None,
        strict: bool = False,
        device: str | torch.device | None = None,
        unpack: Unpack = unpack_batch,
        progress: bool = True,
        **options: Any,
    ) -> OODModule:
        """From a network and a loader to a network with a detector.

        Extracts features, logits and, where the loader yields them, labels; they are kept in memory for the fit. For
        more rows than memory holds use ``extract(out=…)``, ``offspan.make`` and the constructor.

        Parameters
        ----------
        model : torch.nn.Module
        loader : iterable
            In-distribution rows, those of the network's training, as in ``extract``.
        method : str
            As in ``offspan.make``; ``options`` are its parameters.
        calibrate : iterable, optional
            A loader of other in-distribution rows, best those that the network has not seen: they set the threshold.
        keep, confidence, hold_out
            What the threshold promises, and which share of the loader's rows sets it where there is no ``calibrate``:
            as in ``offspan.Method.fit``.
        layer, layers, pool, maps, head, strict
            As in the constructor.
        device, unpack, progress
            As in ``extract``.
        """
        request = Request.of(unwrap(model), layer, layers, pool, maps, head, logits=True)
        fitted, _ = fit_to_loaders(
            model,
            loader,
            method,
            options,
            request,
            calibrate=calibrate,
            keep=keep,
            confidence=confidence,
            hold_out=hold_out,
            device=device,
            unpack=unpack,
            progress=progress,
        )
        return cls(model, fitted, layer, layers=layers, pool=pool, maps=maps, head=head, strict=strict)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], model: nn.Module, layer: Layer | None = None, **options: Any
    ) -> OODModule:
        """The network with the detector of a file.

        Parameters
        ----------
        path
            What ``torch.save(guarded.state_dict(), path)`` wrote, which brings the network's weights as well and says
            where features come from; or a detector file, beside which the network stays as it is.
        model : torch.nn.Module
            A network of the same kind.
        layer, options
            As in the constructor; what the state says of layers goes before.
        """
        with open(path, "rb") as file:
            is_state = file.read(len(ZIP)) == ZIP
        if not is_state:
            return cls(model, path, layer, **options)
        guarded = cls(model, None, layer, **options)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, Mapping) or "_extra_state" not in state:
            raise FormatError(
                f"{os.fspath(path)}: expected the state of an OODModule, as `torch.save(guarded.state_dict(), path)` "
                "writes it, got one without a detector"
            )
        guarded.load_state_dict(state)
        return guarded

    @property
    def threshold(self) -> float | None:
        """Scores from here on are in-distribution: the detector's, unless another one is set."""
        if self._given_threshold is not None or self.detector is None:
            return self._given_threshold
        return self.detector.threshold

    @threshold.setter
    def threshold(self, value: float | None) -> None:
        if value is not None and not (isinstance(value, Real) and value == value):
            raise InputError(f"threshold: expected a number or None, got {value!r}")
        self._given_threshold = None if value is None else float(value)

    def extra_repr(self) -> str:
        """What ``print`` shows besides the network."""
        if self.detector is None:
            return "no detector yet"
        threshold = "none" if self.threshold is None else f"{self.threshold:g}"
        return f"detector={self.detector.method}, threshold={threshold}"

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, Tensor]:
        """The network's logits, and a score for each row."""
        scored = self._scored(args, kwargs)
        return scored.logits, _beside(scored.logits, scored.scores, torch.float32)

    def predict(self, *args: Any, **kwargs: Any) -> tuple[Any, Tensor]:
        """The network's logits, and for each row whether it is in-distribution."""
        if self.threshold is None:
            raise NotFittedError("the detector has no threshold: fit it with hold_out or calibrate, or set .threshold")
        scored = self._scored(args, kwargs)
        return scored.logits, _beside(scored.logits, self._decided(scored, self.threshold))

    def assess(self, *args: Any, **kwargs: Any) -> Assessment:
        """Logits, scores, p-values, decisions, and which rows could be scored at all."""
        scored = self._scored(args, kwargs, warn=False)
        logits, threshold, detector = scored.logits, self.threshold, self._fitted()
        knows = detector.calibration_scores is not None
        return Assessment(
            logits,
            _beside(logits, scored.scores, torch.float32),
            _beside(logits, detector.p_values_of(scored.scores)) if knows else None,
            None if threshold is None else _beside(logits, self._decided(scored, threshold)),
            _beside(logits, scored.is_finite),
        )

    def __prepare_scriptable__(self) -> Any:
        """What ``torch.jit.script`` asks for before it reads a module."""
        return refuse()

    @staticmethod
    def _decided(scored: _Scored, threshold: float) -> Array:
        return (scored.scores >= threshold) & scored.is_finite

    def _fitted(self) -> Detector:
        if self.detector is None:
            raise NotFittedError("this OODModule has no detector yet: give it one, or load a state that has one")
        return self.detector

    def _scored(self, args: tuple[Any, ...], kwargs: dict[str, Any], warn: bool = True) -> _Scored:
        refuse_tracing()
        detector = self._fitted()
        network = unwrap(self.model)
        call = partial(network, *args, **kwargs)
        if self._plan is None:
            # In evaluation mode: a look at the network must not move its batch statistics.
            with evaluating(self.model), torch.no_grad():
                self._plan = Plan.find(network, call, self._request)
        if any(module.training for module in network.modules()):
            # Before the pass for the logits, which may move batch statistics.
            with evaluating(self.model), torch.no_grad():
                _, found = self._plan.run(network, call)
            output = call()
        else:
            output, found = self._plan.run(network, call)
        arrays = {name: to_numpy(value) for name, value in found.items()}
        is_finite = _finite_rows(arrays)
        if not is_finite.all():
            self._tell(is_finite, warn)
            arrays = {name: array[is_finite] for name, array in arrays.items()}
        scores = np.full(len(is_finite), -np.inf)
        if is_finite.any() or not len(is_finite):
            features, logits = arrays.pop("features"), arrays.pop("logits")
            scores[is_finite] = detector.score(features, logits=logits, extras=arrays or None)
        first = first_tensor(output)
        assert first is not None  # the plan took logits from it, or from the layer that made it
        return _Scored(first, scores, is_finite)

    def _tell(self, is_finite: Array, warn: bool) -> None:
        """An error or, once, a warning of rows that cannot be scored."""
        broken = np.flatnonzero(~is_finite)
        shown = ", ".join(map(str, broken[:5])) + (", …" if len(broken) > 5 else "")
        text = f"the network gave NaN or infinities for {len(broken)} of {len(is_finite)} rows (row {shown})"
        if self.strict:
            raise InputError(f"{text}; with strict=False they are scored −∞ instead")
        if warn and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{text}: they are scored −∞ and count as out of distribution; `assess` tells which they are, and "
                "strict=True makes them an error. This is said once for each module",
                UserWarning,
                stacklevel=5,
            )

    def get_extra_state(self) -> dict[str, Any]:
        """What a state dict keeps besides the network's parameters: the detector, and how it is used."""
        refuse_onnx()
        # Bytes and numbers as tensors: `torch.load(weights_only=True)` of PyTorch 1.13 takes little else.
        stored = None
        if self.detector is not None:
            stored = torch.frombuffer(bytearray(self.detector.to_bytes()), dtype=torch.uint8)
        given = self._given_threshold
        threshold = None if given is None else torch.tensor(given, dtype=torch.float64)
        return {"detector": stored, "threshold": threshold, "taken": self._request.plain()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take detector, threshold and where its features come from out of a state dict."""
        stored = state["detector"]
        self.detector = None if stored is None else Detector.from_bytes(stored.cpu().numpy().tobytes())
        threshold = state["threshold"]
        self._given_threshold = None if threshold is None else float(threshold)
        taken = state.get("taken")
        if taken is not None:
            self._request = Request.of(unwrap(self.model), **taken, logits=True)
            self._plan = None


def _finite_rows(arrays: Mapping[str, Array]) -> Array:
    """Whether all numbers of a row are finite, whichever array they are in."""
    each = [np.isfinite(array).all(axis=tuple(range(1, array.ndim))) for array in arrays.values()]
    return np.logical_and.reduce(each)


def _beside(logits: Tensor, rows: Array, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers of the rows on the device of their logits."""
    return torch.from_numpy(rows).to(logits.device, dtype)
