"""Methods compared on packs, with the engine of the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

import numpy.typing as npt

from . import _internal
from ._arrays import PathLike
from ._method import Method, native_method
from ._method import methods as library_methods
from ._own import Adapter, Function, OwnMethod, Scores, made, registered
from ._pack import Pack, native_pack
from ._progress import Report, reporter
from .errors import InputError

#: What can be compared: a name, a method from :func:`make`, a method of your own, a function of features (and logits),
#: the folder of a method's scores (as a ``Path``), or its scores by the name of the set.
Comparable = Union[
    str, Method, OwnMethod, Callable[..., npt.ArrayLike], "os.PathLike[str]", Mapping[str, npt.ArrayLike]
]


@dataclass(frozen=True)
class Comparison:
    """What :func:`evaluate` found."""

    #: The ``offspan.eval/1`` document: fractions, every set, times, parameters, and what it takes to repeat it.
    document: dict[str, Any]
    #: The table in percent, best average first and best of each column in bold.
    markdown: str
    #: The same with booktabs, best in bold and second underlined.
    latex: str
    #: The same as a page of its own.
    html: str
    #: Comma-separated values; none where comparisons of pairs were asked for, which are tables of their own.
    csv: str | None
    #: The page of the report, if one was asked for.
    report: Path | None = None
    _text: str = field(default="", repr=False)

    @property
    def averages(self) -> dict[str, dict[str, float]]:
        """Metrics averaged over the OoD sets, by method; with several seeds, over them, too."""
        return {result["method"]: result["average"] for result in self.document["results"]}

    @property
    def without(self) -> dict[str, str]:
        """Why a method has no result, by method."""
        return {left["method"]: left["reason"] for left in self.document["without"]}

    def to_dataframe(self) -> Any:
        """One line per method and OoD set, group of sets and average, as a pandas DataFrame.

        The column ``over`` tells which of these a line is: ``"set"``, ``"group"`` or ``"average"``. With several seeds,
        each seed of a method that draws anything has lines of its own.
        """
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        lines = []
        for result in self.document["results"]:
            runs = result.get("seeds", {}).get("runs") or [result]
            for run in runs:
                seed = {"seed": run["seed"]} if "seed" in run else {}
                parts = {"set": run["sets"], "group": run.get("groups", {}), "average": {"average": run["average"]}}
                for over, figures in parts.items():
                    for name, numbers in figures.items():
                        flat = {key: value for key, value in numbers.items() if not isinstance(value, dict)}
                        lines.append({"method": result["method"], **seed, "over": over, "set": name, **flat})
        return pd.DataFrame(lines)

    def save(self, path: PathLike) -> None:
        """Write the document, which ``offspan eval --repeat`` takes."""
        _internal.write_bytes(os.fspath(path), (json.dumps(self.document, indent=2) + "\n").encode())

    def __str__(self) -> str:
        # A method that failed must not look as if nobody had asked for it.
        missing = [f"{name}: no result: {reason}" for name, reason in self.without.items()]
        for pair in self.document.get("not_compared", []):
            missing.append(f"{pair['first']} and {pair['second']} are not compared: {pair['reason']}")
        return "\n".join([self.markdown.rstrip("\n"), *missing])


def evaluate(
    pack: PathLike | Pack,
    methods: str | Iterable[Comparable] | Mapping[str, Comparable] = ("auto",),
    *,
    tpr: float = 0.95,
    fpr_rule: str = "at-least",
    interval: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    seeds: int = 1,
    compare: Iterable[tuple[str, str]] = (),
    metrics: Iterable[str] = (),
    full_spectrum: bool = False,
    pseudo_labels: int | None = None,
    report: PathLike | None = None,
    progress: bool | Report = False,
) -> Comparison:
    """Fit methods on a pack's training rows and measure how well they tell its OoD sets from its test rows.

    The engine is that of ``offspan eval``, and so are the figures.

    Parameters
    ----------
    pack
        A pack folder, or a :class:`Pack` of arrays.
    methods
        Names of the library (also ``"all"``) or of :func:`register`, methods from :func:`make`, methods of your own
        (:class:`OwnMethod`), functions ``f(features)`` or ``f(features, logits)`` that give scores, folders of scores
        (a :class:`pathlib.Path` to ``test.npy`` and ``SET.npy``), or mappings of such scores by the names of the sets.
        With a mapping, its keys are what tables call them.
    tpr, fpr_rule, interval, level, seed
        As in :func:`offspan.metrics.evaluate`.
    seeds
        Fit methods with random choices so often, with seeds from ``seed`` on; figures are then means.
    compare
        Pairs of methods, among those that are given, to compare on the same rows.
    metrics
        What tables show: ``"fpr95"``, ``"auroc"``, ``"aupr-in"``, … as ``offspan eval --metrics`` takes them.
    full_spectrum
        Count the pack's shifted rows as in-distribution.
    pseudo_labels
        So many clusters stand in for classes where training rows have no labels.
    report
        A folder for a report about the best of the methods; not with ``full_spectrum``.
    progress
        ``True`` for a bar, or a callable of stage, steps done and steps in all.

    """
    pairs = list(compare)
    how = {
        "tpr": tpr,
        "rule": fpr_rule,
        "interval": interval,
        "level": level,
        "seed": seed,
        "seeds": seeds,
        "compare": pairs,
        "metrics": list(metrics),
        "full_spectrum": full_spectrum,
        "pseudo_labels": pseudo_labels,
        "report": None if report is None else os.fspath(report),
    }
    if full_spectrum and report is not None:
        raise InputError("report: expected full_spectrum=False, since a report shows the test rows alone")
    given = native_methods(methods, seed)
    _check_compared(pairs, [name for name, _ in given])
    with reporter(progress) as reported:
        document, texts, page = _internal.evaluate_pack(native_pack(pack), given, how, reported)
    text = dict(texts)
    return Comparison(
        json.loads(document), text["markdown"], text["latex"], text["html"], text.get("csv"), page, text["text"]
    )


def _check_compared(pairs: list[tuple[str, str]], names: list[str]) -> None:
    """Say before any fit that what is to be compared is not evaluated."""
    known = [*names, *(known["name"] for known in library_methods())] if "all" in names else names
    for first, second in pairs:
        if first == second:
            raise InputError(f"compare: expected two methods, got {first} twice")
        for name in (first, second):
            if name not in known:
                raise InputError(f"compare: expected two of {', '.join(names)}, got {name}")


@dataclass(frozen=True)
class Repetition:
    """What :func:`repeat` found."""

    #: The ``offspan.repeat/1`` document: the largest difference of each method, and what made the figures then and now.
    document: dict[str, Any]

    @property
    def agrees(self) -> bool:
        """Whether every figure is within 0.05 points of what it was."""
        return bool(self.document["agrees"])

    @property
    def identical(self) -> bool:
        """Whether every figure is the same to the last bit."""
        return bool(self.document["identical"])

    @property
    def other_rows(self) -> list[str]:
        """Splits whose rows are not those of the document; nothing is repeated then."""
        return list(self.document["other_rows"])


def repeat(
    result: PathLike | Comparison | Mapping[str, Any],
    pack: PathLike | Pack | None = None,
    *,
    progress: bool | Report = False,
) -> Repetition:
    """Do again what a comparison tells, and say whether the figures agree, as ``offspan eval --repeat`` does.

    Parameters
    ----------
    result
        The path of a document, what :func:`evaluate` gave, or its ``document``. Methods of your own cannot be made from
        it, so they do not agree.
    pack
        The same rows: a pack folder or a :class:`Pack` of arrays. By default, the folder that the document tells.
    progress
        As in :func:`evaluate`.

    """
    if isinstance(result, (str, os.PathLike)):
        name = os.fspath(result)
        text = Path(name).read_text(encoding="utf-8")
    else:
        name = "result"
        text = json.dumps(result.document if isinstance(result, Comparison) else result)
    given = None if pack is None else native_pack(pack)
    with reporter(progress) as reported:
        return Repetition(json.loads(_internal.repeat_document(text, name, given, reported)))


@dataclass(frozen=True)
class Ranking:
    """What :func:`rank` found."""

    #: The ranking: mean ranks, wins, regret, and what may be chance.
    document: dict[str, Any]
    #: The table, best mean rank first.
    markdown: str
    #: The same with booktabs.
    latex: str
    #: The page with the diagram, if a folder was given.
    page: Path | None = None

    @property
    def mean_ranks(self) -> dict[str, float]:
        """Mean rank by method, best first; 1 is the best there can be."""
        return {method["method"]: method["mean_rank"] for method in self.document["methods"]}

    def __str__(self) -> str:
        return self.markdown.rstrip("\n")


def rank(
    packs: Iterable[PathLike | Pack | Comparison],
    methods: str | Iterable[Comparable] | Mapping[str, Comparable] = ("auto", "kpca-nys", "knn"),
    *,
    by: str = "auroc",
    over: str = "packs",
    folder: PathLike | None = None,
    top: int = 20,
    **options: Any,
) -> Ranking:
    """Rank methods over many packs, as ``offspan rank`` does: mean ranks, wins, regret, and what may be chance.

    Parameters
    ----------
    packs
        Packs, on which the methods are evaluated, or comparisons from :func:`evaluate`, which have theirs.
    methods, options
        As :func:`evaluate` takes them; your own among them.
    by
        The figure that ranks follow from: ``"auroc"``, ``"fpr95"``, …
    over
        ``"packs"``, or ``"sets"`` to count every OoD set as a case.
    folder
        Where to write a page with the critical-difference diagram, of the ``top`` methods.

    """
    if over not in ("packs", "sets"):
        raise InputError(f"over: expected packs or sets, got {over}")
    found = [pack if isinstance(pack, Comparison) else evaluate(pack, methods, **options) for pack in packs]
    document, markdown, latex, page = _internal.rank_documents(
        [json.dumps(one.document) for one in found],
        by=by,
        over_sets=over == "sets",
        folder=None if folder is None else os.fspath(folder),
        top=top,
    )
    return Ranking(json.loads(document), markdown, latex, page)


def study(
    name: str,
    packs: PathLike | Iterable[PathLike],
    folder: PathLike,
    methods: Iterable[str | OwnMethod] | Mapping[str, str | OwnMethod] = (),
    *,
    tpr: float = 0.95,
    fpr_rule: str = "at-least",
    seed: int = 0,
    pseudo_labels: int | None = None,
    progress: bool | Report = False,
    **options: Any,
) -> Path:
    """Repeat one of the kernel PCA paper's studies on pack folders, as ``offspan study`` does; the page that it wrote.

    Parameters
    ----------
    name
        ``"kernels"``, ``"sampling"``, ``"sensitivity"``, ``"layers"``, ``"approximation"``, ``"cost"``, ``"learned"``
        or ``"paper"``, which has all of them.
    packs
        A pack folder, or several that are layers of one network.
    folder
        Where the study goes; what was done before is kept there.
    methods
        Methods of your own, for the comparison that ``"paper"`` has.
    options
        Where the study does not change it: ``gamma``, ``landmarks``, ``features``, ``preset`` and the like.

    """
    given = [packs] if isinstance(packs, (str, os.PathLike)) else list(packs)
    own = native_methods(methods, seed) if methods else []
    if any(isinstance(method, (_internal.Method, str)) or method is None for _, method in own):
        raise InputError("study: expected methods of your own; those of the library are in it anyway")
    flags = [("--" + option.replace("_", "-"), str(value)) for option, value in options.items()]
    if seed:
        flags.append(("--seed", str(seed)))
    with reporter(progress) as reported:
        return _internal.make_study(
            name,
            [os.fspath(pack) for pack in given],
            os.fspath(folder),
            own,
            flags,
            tpr=tpr,
            rule=fpr_rule,
            seed=seed,
            pseudo_labels=pseudo_labels,
            progress=reported,
        )


def native_methods(methods: Any, seed: int) -> list[tuple[str, Any]]:
    """Methods with their names, as the native module takes them."""
    if isinstance(methods, str):
        methods = [methods]
    named = methods.items() if isinstance(methods, Mapping) else [(_name_of(method), method) for method in methods]
    given: list[tuple[str, Any]] = []
    of_all: list[str] = []
    for name, method in named:
        if method == "all" and isinstance(method, str):
            # The whole catalogue, and what the user has added to it.
            of_all = [own for own in registered() if all(own != other for other, _ in given)]
            given.append(("all", None))
            given.extend((own, made(own)) for own in of_all)
            continue
        if any(name == other for other, _ in given):
            if method == name and name in of_all:
                continue
            raise InputError(f"methods: expected different names, got {name} twice; give a mapping of names to methods")
        given.append((name, _native(name, method, seed)))
    if not given:
        raise InputError("methods: expected at least one, got none")
    return given


def _name_of(method: Any) -> str:
    if isinstance(method, str):
        return method
    if isinstance(method, os.PathLike):
        return Path(method).name
    if isinstance(method, Mapping):
        raise InputError("methods: expected a name for scores; give a mapping of names to methods")
    if isinstance(method, type) or not hasattr(method, "name"):
        return str(getattr(method, "__name__", type(method).__name__))
    return str(method.name)


def _native(name: str, method: Any, seed: int) -> Any:
    if isinstance(method, str):
        return made(method) or native_method(method, {"seed": seed} if seed else {})
    if isinstance(method, Method):
        return native_method(method.name, method.options)
    if isinstance(method, os.PathLike):
        return os.fspath(method)
    if isinstance(method, Mapping):
        return Scores(name, method)
    if isinstance(method, OwnMethod) and not isinstance(method, type):
        return Adapter(method)
    if callable(method) and not isinstance(method, type):
        return Function(method)
    raise InputError(
        f"methods: expected a name, offspan.make(…), an object with fit and score, a function, a folder of scores or "
        f"scores by set for {name}, got {type(method).__name__}"
    )
