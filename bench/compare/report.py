"""The report of a run: Markdown, JSON and a plot, under one name."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .bars import BARS, Run, show


def write(run: Run, stem: Path) -> str:
    """Write all three; the Markdown is also the answer, for the terminal."""
    text = markdown(run)
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
    whole = asdict(run) | {"bars": [bar_json(run, bar) for bar in BARS]}
    del whole["found"]
    stem.with_suffix(".json").write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    kinds = [".md", ".json"]
    if importlib.util.find_spec("matplotlib") and run.found:
        plot(run, stem)
        kinds += [".png", ".svg"]
    return f"{text}\nwritten to {stem} ({', '.join(kinds)})"


def bar_json(run: Run, bar: Any) -> dict[str, Any]:
    value, best, shape = run.found.get(bar.key, (None, None, None))
    return asdict(bar) | {"value": value, "value_of_best_times": best, "measured": shape, "verdict": run.verdict(bar)}


def markdown(run: Run) -> str:
    lines = ["# offspan beside its peers", ""]
    others = "" if run.others is None else f"; others kept {run.others:.2f} cores busy meanwhile (0 is a quiet machine)"
    lines += [f"{run.machine}; {run.threads} threads on every side{others}.", ""]
    lines += ["Instructions: " + "; ".join(f"{who} {which}" for who, which in run.instructions.items()) + ".", ""]
    if run.smaller:
        lines += ["**Smaller shapes** than those the bars are about: verdicts are only a hint.", ""]
    lines += ["\"median\" is the median over rounds of the ratio within a round, \"best\" compares the fastest calls of the run; "
              "the worse of the two decides.", ""]
    lines += ["| work | measured | bar | median | best | verdict |", "|---|---|---|---|---|---|"]
    for bar in BARS:
        value, best, shape = run.found.get(bar.key, (None, None, ""))
        cells = [bar.work, shape, bar.text, cell(value, bar.unit), cell(best, bar.unit), run.verdict(bar)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Limits of the machine in this run", ""]
    lines += [f"- {name}: {value:.1f}" for name, value in run.limits.items()] or ["- not measured"]
    for title, rows in run.tables.items():
        lines += ["", f"## {title}", "", f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|"]
        lines += [f"| {' | '.join(plain(name, value) for name, value in row.items())} |" for row in rows]
    lines += ["", "## Peers", "", "; ".join(f"{name} {version}" for name, version in run.versions.items())]
    lines += [f"\nLeft out: {reason}." for reason in run.missing] + [f"\n{note}" for note in run.notes]
    return "\n".join(lines) + "\n"


def cell(value: float | None, unit: str) -> str:
    return "" if value is None else show(value, unit)


def plain(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "GEMM share":
        return f"{100 * value:.0f} %"
    return f"{value:.4g}" if isinstance(value, float) and value < 1000 else f"{value:.0f}" if isinstance(value, float) else str(value)


def plot(run: Run, stem: Path) -> None:
    """One bar per measured line, as a multiple of what is asked: right of the line is met."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    bars = [bar for bar in BARS if bar.key in run.found]
    margins = [run.margin(bar) for bar in bars]
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.42 * len(bars)), layout="constrained")
    axes.barh(range(len(bars)), margins, color=["#2a7f62" if margin >= 1.0 else "#c8553d" for margin in margins])
    for place, (bar, margin) in enumerate(zip(bars, margins, strict=True)):
        value, best, _ = run.found[bar.key]
        worse = value if best is None or bar.margin(value) <= bar.margin(best) else best
        axes.annotate(f"{show(worse, bar.unit)} (bar {bar.text}): {run.verdict(bar).split(' (')[0]}", (margin, place), xytext=(4, 0),
                      textcoords="offset points", va="center", fontsize=8)
    axes.axvline(1.0, color="black", linewidth=1, alpha=0.4, zorder=0.5)
    axes.set_yticks(range(len(bars)), [bar.work for bar in bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, *margins) / 1.5, max(2.0, *margins) * 12)
    axes.set_xlabel("times better than the bar asks" + (" (smaller shapes: a hint only)" if run.smaller else ""))
    for suffix in (".png", ".svg"):
        figure.savefig(stem.with_suffix(suffix), dpi=140)
    plt.close(figure)
