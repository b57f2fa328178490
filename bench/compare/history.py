"""Runs side by side: every run adds a line, the last ones are shown. Standard library only.

    python3 bench/compare/history.py bench/results/history.jsonl [RUNS]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NAME = "history.jsonl"
COLUMNS = 4


def add(run: Any, stamp: str, path: Path) -> None:
    """One line per run: when, where, with which instructions, and what was found for every bar."""
    line = {
        "when": stamp,
        "machine": run.machine,
        "threads": run.threads,
        "others": run.others,
        "smaller": run.smaller,
        "instructions": run.instructions,
        "limits": run.limits,
        "found": {key: {"median": value, "best": best, "measured": shape} for key, (value, best, shape) in run.found.items()},
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def table(runs: list[dict[str, Any]], works: dict[str, str]) -> str:
    """One column per run, the newest last; medians, and best times after a stroke where they are known."""
    head = ["work", *(run["when"] for run in runs)]
    about: list[list[str]] = [
        ["instructions", *(run["instructions"].get("offspan", "?").split(" (")[0] for run in runs)],
        ["threads", *(str(run["threads"]) for run in runs)],
        ["cores that others kept busy", *("?" if run["others"] is None else f"{run['others']:.2f}" for run in runs)],
    ]
    keys = [key for key in works if any(key in run["found"] for run in runs)]
    keys += sorted({key for run in runs for key in run["found"]} - set(keys))
    rows = [[works.get(key, key), *(cell(run["found"].get(key)) for run in runs)] for key in keys]
    lines = [head, ["---"] * len(head), *about, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    best = "" if found["best"] is None else f" / {found['best']:.3g}"
    return f"{found['median']:.3g}{best}"


def main(path: Path, count: int) -> None:
    if not path.exists():
        sys.exit(f"there is no {path} yet: `make bench` adds a line with every run")
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from compare.bars import BARS

    print(table(runs[-count:], {bar.key: f"{bar.work} ({bar.text})" for bar in BARS}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else COLUMNS)
