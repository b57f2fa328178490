"""Everything that a user of the library crate can name, one line each, compared with the list that is kept.

python3 tools/public_api.py [--update]

A line that goes away breaks somebody's program: it needs a word in CHANGELOG. The list is api/offspan.txt; --update writes it anew.
The names come from rustdoc's JSON, an unstable feature, which RUSTC_BOOTSTRAP unlocks in a stable one: for rustdoc alone, since
cargo would compile everything anew for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "api" / "offspan.txt"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
#: Stands in for rustdoc.
UNLOCKED = TARGET / "rustdoc-unlocked"


def main() -> None:
    """Compare, or write anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the list anew")
    chosen = parser.parse_args()
    if not chosen.update and not KEPT.is_file():
        sys.exit(f"{KEPT.relative_to(ROOT)} is missing; `make public-api PUBLIC_API=--update` writes it")
    now = sorted(set(lines(described())))
    if chosen.update:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text("\n".join(now) + "\n")
        return
    before = KEPT.read_text().splitlines()
    gone, new = sorted(set(before) - set(now)), sorted(set(now) - set(before))
    for sign, names in (("-", gone), ("+", new)):
        for name in names:
            print(sign, name)
    if gone or new:
        sys.exit("the public interface is not that of api/offspan.txt; `make public-api PUBLIC_API=--update` writes it anew")
    print(f"{len(now)} public names, as in {KEPT.relative_to(ROOT)}")


def described() -> dict[str, Any]:
    """What rustdoc says of the crate."""
    UNLOCKED.parent.mkdir(parents=True, exist_ok=True)
    UNLOCKED.write_text('#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n')
    UNLOCKED.chmod(0o755)
    command = ["cargo", "rustdoc", "--locked", "-p", "offspan", "--lib"]
    command += ["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "RUSTDOC": str(UNLOCKED)})
    return json.loads((TARGET / "doc" / "offspan.json").read_text())


def lines(crate: dict[str, Any]) -> list[str]:
    """One line for each item, method, field and variant that can be named from outside."""
    index = crate["index"]
    found: list[str] = []
    seen: set[tuple[str, str]] = set()

    def walk(number: Any, path: str) -> None:
        item = index.get(str(number))
        if item is None or (str(number), path) in seen:
            return
        seen.add((str(number), path))
        kind, inner = next(iter(item["inner"].items()))
        if kind == "use":
            into = path if inner["is_glob"] else f"{path}::{inner['name']}"
            target = index.get(str(inner["id"]))
            if target is None:
                found.append(f"use {into} = {inner['source']}")
            elif inner["is_glob"]:
                walk_all(target, path)
            else:
                named(target, into)
            return
        named(item, f"{path}::{item['name']}" if path else item["name"])

    def walk_all(item: dict[str, Any], path: str) -> None:
        _, inner = next(iter(item["inner"].items()))
        for one in inner.get("items", []) or inner.get("variants", []):
            walk(one, path)

    def named(item: dict[str, Any], path: str) -> None:
        kind, inner = next(iter(item["inner"].items()))
        found.append(f"{kind} {path}")
        if kind == "module":
            for one in inner["items"]:
                walk(one, path)
        elif kind in ("struct", "enum", "union", "trait"):
            members(inner, path)

    def members(inner: dict[str, Any], path: str) -> None:
        shape = inner.get("kind")
        fields = shape.get("plain", {}).get("fields", []) if isinstance(shape, dict) else []
        for one in [*fields, *inner.get("variants", []), *inner.get("items", [])]:
            walk(one, path)
        for number in inner.get("impls", []):
            block = index.get(str(number))
            if block is None or block["inner"]["impl"]["trait"] is not None:
                continue
            for one in block["inner"]["impl"]["items"]:
                if index.get(str(one), {}).get("visibility") == "public":
                    walk(one, path)

    named(index[str(crate["root"])], "offspan")
    return found


if __name__ == "__main__":
    main()
