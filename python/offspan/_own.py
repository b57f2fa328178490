"""Methods of the user's own: what they look like, and under which names they are known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from ._method import methods
from .errors import InputError

FloatArray = npt.NDArray[np.floating[Any]]
T = TypeVar("T")


@runtime_checkable
class OwnMethod(Protocol):
    """A method of your own, for :func:`evaluate`, :func:`study` and :func:`rank`.

    ``fit`` may also take ``logits``, ``labels``, ``weight`` and ``bias`` (of the last layer), and ``score`` may take
    ``logits``; what a method does not name is not given to it. An attribute ``name`` is what tables call it.
    """

    def fit(self, features: FloatArray) -> Any:
        """Learn from the training rows."""

    def score(self, features: FloatArray) -> npt.ArrayLike:
        """Give one score per row; higher is more in-distribution."""


_REGISTERED: dict[str, Callable[..., Any]] = {}


@overload
def register(name: str) -> Callable[[T], T]: ...
@overload
def register(name: str, method: T) -> T: ...
def register(name: str, method: Any = None) -> Any:
    """Make a method of your own known by a name, which :func:`evaluate`, :func:`study` and :func:`rank` then take.

    Parameters
    ----------
    name
        What it is called, in tables too; no name of the library.
    method
        A class with ``fit`` and ``score`` (:class:`OwnMethod`), or a function that makes such an object. It is called
        for every fit; if it takes ``seed``, with the seed of that fit. Without it, ``register`` is a decorator.

    Examples
    --------
    >>> import numpy as np, offspan
    >>> @offspan.register("distance to the mean")
    ... class Distance:
    ...     def fit(self, features):
    ...         self.mean = features.mean(axis=0)
    ...
    ...     def score(self, features):
    ...         return -np.linalg.norm(features - self.mean, axis=1)
    >>> offspan.registered()
    ['distance to the mean']
    >>> offspan.unregister("distance to the mean")

    """
    if method is None:

        def decorator(decorated: T) -> T:
            register(name, decorated)
            return decorated

        return decorator
    if not name or name == "all" or any(known["name"] == name for known in methods()):
        raise InputError(f"register: expected a name that the library does not have, got {name!r}")
    if not callable(method):
        raise InputError(
            f"register: expected a class with fit and score, or a function that makes such an object, for {name}, "
            f"got {type(method).__name__}"
        )
    _REGISTERED[name] = method
    return method


def unregister(name: str) -> None:
    """Forget a method of your own."""
    if _REGISTERED.pop(name, None) is None:
        raise InputError(f"unregister: expected a registered name, got {name!r}")


def registered() -> list[str]:
    """Names of your own methods."""
    return list(_REGISTERED)


def made(name: str) -> Any:
    """What stands for a registered method in an evaluation; None if there is none of this name."""
    maker = _REGISTERED.get(name)
    return None if maker is None else Made(name, maker)


class Made:
    """A method that is made anew for every fit."""

    def __init__(self, name: str, maker: Callable[..., Any]) -> None:
        self._name = name
        self._maker = maker
        self._takes_seed = "seed" in _parameters(maker)

    def with_seed(self, seed: int) -> Made | None:
        """The same with a seed, if it draws anything."""
        if not self._takes_seed:
            return None
        maker = self._maker
        seeded = Made(self._name, lambda: maker(seed=seed))
        seeded._takes_seed = False
        return seeded

    def fit(self, features: Any, logits: Any, labels: Any, weight: Any, bias: Any) -> None:
        """Make an object and fit it."""
        made = self._maker()
        if not isinstance(made, OwnMethod):
            raise InputError(f"{self._name}: expected an object with fit and score, got {type(made).__name__}")
        self._adapter = Adapter(made)
        self._adapter.fit(features, logits, labels, weight, bias)

    def score(self, features: Any, logits: Any, name: str) -> npt.NDArray[np.float64]:
        """Scores of the object that was fitted last."""
        return self._adapter.score(features, logits, name)


class Adapter:
    """Calls an own method with what it takes."""

    def __init__(self, method: OwnMethod) -> None:
        self._method: Any = method
        self._fitted: Any = method

    def fit(self, features: Any, logits: Any, labels: Any, weight: Any, bias: Any) -> None:
        """Fit it; as in scikit-learn, its ``fit`` may return the fitted object."""
        extra = {"logits": logits, "labels": labels, "weight": weight, "bias": bias}
        fitted = self._method.fit(features, **_taken(self._method.fit, extra))
        self._fitted = fitted if hasattr(fitted, "score") else self._method

    def score(self, features: Any, logits: Any, name: str) -> npt.NDArray[np.float64]:
        """One score per row."""
        return _numbers(self._fitted.score(features, **_taken(self._fitted.score, {"logits": logits})))


class Function:
    """A function of features, and of logits if it takes them, that needs no fit."""

    #: Nothing is learned, so tables have no time of a fit.
    learns = False

    def __init__(self, function: Callable[..., npt.ArrayLike]) -> None:
        self._function = function

    def fit(self, features: Any, logits: Any, labels: Any, weight: Any, bias: Any) -> None:
        """Nothing to do."""

    def score(self, features: Any, logits: Any, name: str) -> npt.NDArray[np.float64]:
        """What the function gives."""
        return _numbers(self._function(features, **_taken(self._function, {"logits": logits})))


class Scores:
    """Scores that are there already, by the name of the set."""

    learns = False

    def __init__(self, method: str, scores: Mapping[str, npt.ArrayLike]) -> None:
        self._method = method
        self._scores = scores

    def fit(self, features: Any, logits: Any, labels: Any, weight: Any, bias: Any) -> None:
        """Nothing to do."""

    def score(self, features: Any, logits: Any, name: str) -> npt.NDArray[np.float64]:
        """The scores of this set."""
        if name not in self._scores:
            have = ", ".join(self._scores) or "none"
            raise InputError(f"{self._method}: expected scores of {name}, got those of {have}")
        return _numbers(self._scores[name])


def _numbers(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(scores, dtype=np.float64).reshape(-1)


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # Some builtins do not tell.
        return {}


def _taken(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    parameters = _parameters(function)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return given
    return {name: value for name, value in given.items() if name in parameters}
