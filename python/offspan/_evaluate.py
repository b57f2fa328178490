"""Methods compared on a pack, with the engine of the command line."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from . import _internal
from ._method import Method, native_method
from ._progress import Report, reporter
from .errors import InputError

FloatArray = npt.NDArray[np.floating[Any]]


@runtime_checkable
class OwnMethod(Protocol):
    """A method of your own, for :func:`evaluate`.

    ``fit`` may also take ``logits``, ``labels``, ``weight`` and ``bias`` (of the last layer), and ``score`` may take
    ``logits``; what a method does not name is not given to it. An attribute ``name`` is what tables call it.
    """

    def fit(self, features: FloatArray) -> Any:
        """Learn from the training rows."""

    def score(self, features: FloatArray) -> npt.ArrayLike:
        """Give one score per row; higher is more in-distribution."""


@dataclass(frozen=True)
class Comparison:
    """What :func:`evaluate` found."""

    #: The ``offspan.eval/1`` document: fractions, every set, times, parameters.
    document: dict[str, Any]
    #: The table in percent, best average first and best of each column in bold.
    markdown: str

    @property
    def averages(self) -> dict[str, dict[str, float]]:
        """Metrics averaged over the OoD sets, by method."""
        return {result["method"]: result["average"] for result in self.document["results"]}

    @property
    def without(self) -> dict[str, str]:
        """Why a method has no result, by method."""
        return {left["method"]: left["reason"] for left in self.document["without"]}

    def to_dataframe(self) -> Any:
        """One line per method and OoD set, as a pandas DataFrame."""
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        lines = [
            {"method": result["method"], "set": name, **{k: v for k, v in numbers.items() if k != "intervals"}}
            for result in self.document["results"]
            for name, numbers in [*result["sets"].items(), ("average", result["average"])]
        ]
        return pd.DataFrame(lines)

    def __str__(self) -> str:
        # A method that failed must not look as if nobody had asked for it.
        missing = [f"{name}: no result: {reason}" for name, reason in self.without.items()]
        return "\n".join([self.markdown.rstrip("\n"), *missing])


def evaluate(
    pack: str | os.PathLike[str],
    methods: Iterable[str | Method | OwnMethod] | Mapping[str, str | Method | OwnMethod] = ("auto",),
    *,
    tpr: float = 0.95,
    fpr_rule: str = "at-least",
    interval: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: bool | Report = False,
) -> Comparison:
    """Fit methods on a pack's training rows and measure how well they tell its OoD sets from its test rows.

    Parameters
    ----------
    pack
        A pack folder: ``train``, ``test``, ``ood/NAME`` and, where known, the last layer.
    methods
        Names, methods from :func:`offspan.make`, or methods of your own (:class:`OwnMethod`); with a mapping, its keys
        are what tables call them.
    tpr, fpr_rule, interval, level, seed
        As in :func:`offspan.metrics.evaluate`.
    progress
        ``True`` for a bar, or a callable of stage, steps done and steps in all.

    """
    named = methods.items() if isinstance(methods, Mapping) else [(_name_of(method), method) for method in methods]
    given: list[tuple[str, Any]] = []
    for name, method in named:
        if any(name == other for other, _ in given):
            raise InputError(f"methods: expected different names, got {name} twice; give a mapping of names to methods")
        given.append((name, _native(name, method)))
    if not given:
        raise InputError("methods: expected at least one, got none")
    with reporter(progress) as report:
        document, table = _internal.evaluate_pack(
            os.fspath(pack),
            given,
            tpr=tpr,
            rule=fpr_rule,
            interval=interval,
            level=level,
            seed=seed,
            progress=report,
        )
    return Comparison(json.loads(document), table)


def _name_of(method: str | Method | OwnMethod) -> str:
    if isinstance(method, str):
        return method
    return str(getattr(method, "name", type(method).__name__))


def _native(name: str, method: str | Method | OwnMethod) -> Any:
    if isinstance(method, str):
        return native_method(method, {})
    if isinstance(method, Method):
        return native_method(method.name, method.options)
    if isinstance(method, OwnMethod):
        return _Adapter(method)
    raise InputError(
        f"methods: expected a name, offspan.make(…) or an object with fit and score for {name}, "
        f"got {type(method).__name__}"
    )


class _Adapter:
    """Calls an own method with what it takes."""

    def __init__(self, method: OwnMethod) -> None:
        self._method: Any = method
        self._fitted: Any = method

    def fit(self, features: Any, logits: Any, labels: Any, weight: Any, bias: Any) -> None:
        extra = {"logits": logits, "labels": labels, "weight": weight, "bias": bias}
        fitted = self._method.fit(features, **_taken(self._method.fit, extra))
        # As in scikit-learn, `fit` may return the fitted object.
        self._fitted = fitted if hasattr(fitted, "score") else self._method

    def score(self, features: Any, logits: Any) -> npt.NDArray[np.float64]:
        scores = self._fitted.score(features, **_taken(self._fitted.score, {"logits": logits}))
        return np.ascontiguousarray(scores, dtype=np.float64).reshape(-1)


def _taken(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return given
    return {name: value for name, value in given.items() if name in parameters}
