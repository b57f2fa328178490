"""HTML for notebooks: a small table and a plot of a detector and of an evaluation.

Everything is inline: no scripts, no style sheets, nothing from the network. Text and axes have the
colour of the page, so they are readable on light and dark ones; the two data colours are from the
Okabe-Ito palette and differ for colour-blind readers, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from .metrics import Evaluation

#: A part of what a detector says of itself.
Fields = Mapping[str, Any]

IN_COLOUR = "#0072B2"
OUT_COLOUR = "#D55E00"

# Sizes of a plot in pixels; the margins hold ticks and labels.
WIDTH, HEIGHT = 400, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 20, 36

# A wide range of eigenvalue numbers is drawn through this many points.
CURVE_POINTS = 160
HISTOGRAM_BINS = 48
# Scores beyond this stand for an infinity; differences of them would be one.
DRAWN_BELOW = 1e300


def detector_html(info: Fields, threshold: float | None, eigenvalues: Sequence[ArrayLike]) -> str:
    """A fitted detector: what it is, what the fit found and, of kernel PCA, the variance it explains.

    Parameters
    ----------
    info
        What a detector file says of itself (``Detector.info``).
    threshold
        Scores at or above it count as in-distribution; ``None`` if there is none.
    eigenvalues
        Those of each kernel PCA model in the detector, largest first; empty for other methods.
    """
    spec, results, training = (info.get(key) or {} for key in ("spec", "results", "training"))
    models = _kernel_models(spec, results)
    rows = [
        ("method", str(info.get("method", "unknown"))),
        ("fitted to", f"{training.get('rows', 0):,} rows × {training.get('width', 0):,} features"),
    ]
    for name, model_spec, summary in models:
        map_words = _map_in_words(model_spec)
        if map_words:
            rows.append((f"map{name}", map_words))
        rows.append((f"subspace{name}", _subspace_in_words(summary)))
    rows += [(name, _number(value)) for name, value in _found(results).items()]
    rows.append(("threshold", _threshold_in_words(info.get("threshold"), threshold)))
    plots = [
        _variance_plot(name, np.asarray(values, dtype=np.float64), summary)
        for (name, _, summary), values in zip(models, eigenvalues)
        if np.size(values)
    ]
    return _frame("offspan detector", _table(rows), plots)


def evaluation_html(
    evaluation: Evaluation, ind_scores: ArrayLike | None = None, ood_scores: ArrayLike | None = None
) -> str:
    """An evaluation: its metrics and, where the scores are given, a histogram of the two sets."""
    intervals = evaluation.intervals
    rows = [
        ("AUROC", _percent(evaluation.auroc) + _interval_in_words(intervals, "auroc")),
        (f"FPR{100 * evaluation.tpr:g}", _percent(evaluation.fpr) + _interval_in_words(intervals, "fpr")),
        ("AUPR, in-distribution", _percent(evaluation.aupr_in)),
        ("AUPR, out-of-distribution", _percent(evaluation.aupr_out)),
    ]
    plots = []
    if ind_scores is not None and ood_scores is not None:
        ind, ood = (np.asarray(scores, dtype=np.float64).ravel() for scores in (ind_scores, ood_scores))
        rows.append(("rows", f"{ind.size:,} in-distribution, {ood.size:,} out-of-distribution"))
        if ind.size and ood.size:
            plots.append(_histogram_plot(ind, ood, evaluation.tpr))
    return _frame("offspan evaluation", _table(rows), plots)


# --- words ---------------------------------------------------------------------------------------


def _kernel_models(spec: Fields, results: Fields) -> list[tuple[str, Fields, Fields]]:
    """Name, parameters and summary of each kernel PCA model, in the order of the eigenvalues."""
    family = results.get("family")
    if family == "kpca":
        return [("", spec, results)]
    if family == "kpca-ensemble":
        parts = zip((" (rff)", " (nys)"), ("rff", "nystrom"), results["members"])
        return [(name, spec[key], summary) for name, key, summary in parts]
    if family == "learned-kpca":
        return [("", spec, results["kpca"])]
    if family == "rectified":
        return _kernel_models(spec["score"], results["score"])
    return []


def _found(results: Fields) -> Mapping[str, float]:
    if results.get("family") == "rectified":
        return _found(results["score"])
    return results.get("found") or {}


def _map_in_words(spec: Fields) -> str | None:
    """The kernel and how it becomes coordinates; ``None`` if the parameters do not say."""
    if "map" not in spec or "kernel" not in spec:
        return None
    kernel, by = spec["kernel"], spec["map"]
    words = f"{kernel['name']} kernel"
    if "gamma" in kernel:
        words += f", γ = {_number(kernel['gamma'])}"
    if "degree" in kernel:
        words += f", degree {kernel['degree']}, c = {_number(kernel['coef0'])}"
    words += ", on unit vectors" if spec.get("cosine") else ", on rows as they are"
    kind = by.get("kind")
    if kind == "nystrom":
        sampling = by.get("sampling")
        sampling = f"{sampling} " if isinstance(sampling, str) else "given "
        words += f"; {by['landmarks']:,} {sampling}landmarks, {spec.get('residual')} residual"
    elif kind == "fourier":
        words += f"; {by['features']:,} random Fourier features ({by['draw']})"
    elif kind == "tensor-sketch":
        words += f"; tensor sketch of {by['features']:,} features"
    elif kind == "exact":
        words += "; all rows"
    return words


def _subspace_in_words(summary: Fields) -> str:
    words = (
        f"{summary['components']:,} of {summary['dimensions']:,} directions, "
        f"{_percent(summary['explained_variance'])} of the variance"
    )
    if summary.get("clip") is not None:
        words += f"; activations cut at {_number(summary['clip'])}"
    return words


def _threshold_in_words(stored: Fields | None, threshold: float | None) -> str:
    if threshold is None:
        return "none: scores without decisions"
    words = f"in-distribution from a score of {_number(threshold)} on"
    if stored:
        source = "held-out training rows" if stored["source"] == "held-out" else "rows given for it"
        low, high = stored["share_interval"]
        words += (
            f"; keeps at least {_share(stored['keep'])} of in-distribution rows with a confidence of "
            f"{_share(stored['confidence'])}; expected {_percent(stored['expected_share'])} "
            f"(95 %: {_percent(low)} to {_percent(high)}), set with {stored['rows']:,} {source}"
        )
    return words


def _interval_in_words(intervals: Fields | None, name: str) -> str:
    if intervals is None:
        return ""
    low, high = intervals[name]
    return f" ({_share(intervals['level'])}: {_percent(low)} to {_percent(high)})"


def _number(value: float) -> str:
    """Whole numbers as such, others with four to five digits, and a true minus sign."""
    value = float(value)
    if not math.isfinite(value):
        text = "−∞" if value < 0 else "∞" if value > 0 else "not a number"
    elif value == int(value) and abs(value) < 1e15:
        text = f"{int(value):,}"
    else:
        text = f"{value:.5g}"
    return text.replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _share(share: float) -> str:
    return f"{100 * share:.4g} %"


# --- HTML and SVG --------------------------------------------------------------------------------


def _frame(title: str, table: str, plots: Iterable[str]) -> str:
    return (
        f'<div style="max-width:60em"><div style="margin-bottom:.3em"><strong>{escape(title)}</strong></div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start">{table}{"".join(plots)}</div></div>'
    )


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left;vertical-align:top;white-space:nowrap">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table style="max-width:30em;margin:0"><tbody>{cells}</tbody></table>'


class _Plot:
    """An SVG with axes: data coordinates in, pixels out."""

    def __init__(self, title: str, x_range: tuple[float, float], y_range: tuple[float, float], log_x: bool = False):
        self.title, self.log_x = title, log_x
        self.x_range = tuple(math.log(x) for x in x_range) if log_x else x_range
        self.y_range = y_range
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        low, high = self.x_range
        value = math.log(value) if self.log_x else value
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def text(self, x: float, y: float, words: str, anchor: str = "middle") -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(words)}</text>'
        )

    def legend(self, x: float, mark: str, colour: str, words: str) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{TOP - 7}" fill="currentColor"><tspan fill="{colour}">{mark}</tspan> '
            f"{escape(words)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str = 'stroke-opacity=".5"') -> None:
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" {style}/>'
        )

    def curve(self, points: Iterable[tuple[float, float]], style: str, close: bool = False) -> None:
        path = "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<path d="M{path}{"Z" if close else ""}" {style}/>')

    def axes(self, x_ticks: Iterable[float], y_ticks: Sequence[float], x_label: str) -> None:
        """Shares on the y axis, if it has ticks at all."""
        floor = HEIGHT - BOTTOM
        self.line(LEFT, floor, WIDTH - RIGHT, floor)
        if y_ticks:
            self.line(LEFT, TOP, LEFT, floor)
        for tick in x_ticks:
            self.line(self.x(tick), floor, self.x(tick), floor + 4)
            self.text(self.x(tick), floor + 15, _number(tick))
        for tick in y_ticks:
            self.line(LEFT - 4, self.y(tick), LEFT, self.y(tick))
            self.text(LEFT - 7, self.y(tick) + 4, _share(tick), "end")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, x_label)

    def svg(self) -> str:
        return (
            f'<svg role="img" aria-label="{escape(self.title)}" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-size="11" font-family="sans-serif" fill="none">'
            f"{''.join(self.parts)}</svg>"
        )


def _variance_plot(name: str, eigenvalues: NDArray[np.float64], summary: Fields) -> str:
    """Variance explained by the first directions, with q marked.

    A detector may have the eigenvalues of the kept directions only; the total then follows from the
    share that those hold.
    """
    kept = min(int(summary["components"]), eigenvalues.size)
    explained = float(summary["explained_variance"])
    cumulative = np.cumsum(eigenvalues)
    if not (kept and explained > 0 and cumulative[kept - 1] > 0):
        return ""
    cumulative = np.minimum(cumulative / (cumulative[kept - 1] / explained), 1.0)
    # Equal steps on the logarithmic axis; q itself is always among them.
    steps = np.geomspace(1, eigenvalues.size, CURVE_POINTS).round().astype(int)
    numbers = np.unique(np.append(steps, kept))
    most = max(int(summary["dimensions"]), 2)
    plot = _Plot(f"explained variance{name}", (1.0, float(most)), (0.0, 1.0), log_x=True)
    ticks = [float(10**power) for power in range(int(math.log10(most)) + 1)]
    plot.axes(ticks, (0.0, 0.5, 1.0), f"directions{name}")
    curve = [(float(number), float(cumulative[number - 1])) for number in numbers]
    plot.curve(curve, f'stroke="{IN_COLOUR}" stroke-width="2"')
    x, y = plot.x(kept), plot.y(float(cumulative[kept - 1]))
    plot.line(x, y, x, HEIGHT - BOTTOM, 'stroke-dasharray="4 3" stroke-opacity=".7"')
    plot.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{OUT_COLOUR}"/>')
    label = f"q = {kept:,}: {_percent(explained)}"
    # The label goes to the side that has room.
    side, anchor = (-8, "end") if x > WIDTH / 2 else (8, "start")
    plot.text(x + side, TOP - 7, label, anchor)
    return plot.svg()


def _histogram_plot(ind: NDArray[np.float64], ood: NDArray[np.float64], keep: float) -> str:
    """The two score sets, each as shares of its own rows, and the threshold that keeps a share of one."""
    threshold = _threshold_that_keeps(ind, keep)
    both = np.concatenate([ind, ood])
    finite = both[np.abs(both) < DRAWN_BELOW]
    if not finite.size:
        return ""
    # A few far scores must not squeeze the rest.
    low, high = (float(edge) for edge in np.quantile(finite, (0.005, 0.995)))
    is_drawn = abs(threshold) < DRAWN_BELOW
    if is_drawn:
        low, high = min(low, threshold), max(high, threshold)
    if not low < high:
        low, high = low - max(abs(low), 1.0) / 2, high + max(abs(high), 1.0) / 2
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    shares = [_shares_in_bins(scores, edges) for scores in (ind, ood)]
    top = float(max(share.max() for share in shares))
    plot = _Plot("histogram of scores", (low, high), (0.0, top))
    plot.axes(_round_ticks(low, high), (), "score (higher is more in-distribution)")
    for share, colour in zip(shares, (IN_COLOUR, OUT_COLOUR)):
        outline = [(low, 0.0)]
        for bin_share, left, right in zip(share, edges[:-1], edges[1:]):
            outline += [(float(left), float(bin_share)), (float(right), float(bin_share))]
        outline.append((high, 0.0))
        plot.curve(outline, f'fill="{colour}" fill-opacity=".3" stroke="{colour}" stroke-width="1.5"', close=True)
    if is_drawn:
        x = plot.x(threshold)
        plot.line(x, TOP, x, HEIGHT - BOTTOM, 'stroke-dasharray="4 3"')
    plot.legend(LEFT, "■", OUT_COLOUR, "out-of-distribution")
    plot.legend(LEFT + 124, "■", IN_COLOUR, "in-distribution")
    plot.legend(LEFT + 224, "┆", "currentColor", f"keeps {_share(keep)} of it")
    return plot.svg()


def _shares_in_bins(scores: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of the scores in each bin; what lies outside of all counts in the outermost."""
    return np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / scores.size


def _threshold_that_keeps(scores: NDArray[np.float64], share: float) -> float:
    """The highest score t for which ``score >= t`` keeps at least this share."""
    kept = math.ceil(share * scores.size)
    # The quotient has no rounding that matters, the product has.
    while kept > 1 and (kept - 1) / scores.size >= share:
        kept -= 1
    return float(np.sort(scores)[scores.size - kept])


def _round_ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers from low to high."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [number * step for number in range(first, last + 1)]
