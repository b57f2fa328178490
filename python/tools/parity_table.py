"""What the tools that compare scores with the library share: their arguments, and tables of what they found."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable


@dataclass(frozen=True)
class Request:
    """What to compare."""

    packs: list[Path]
    methods: list[str]
    #: Rows of each set that are scored, at most; all without it.
    rows: int | None
    #: A line of JSON for each cell instead of a table.
    as_json: bool

    @staticmethod
    def of(words: list[str], methods: str) -> Request:
        """From PACK... [--method NAME,...] [--rows N] [--json]; ``methods`` are compared by default."""
        words = list(words)
        said = {"--method": methods, "--rows": ""}
        for flag in said:
            if flag in words:
                at = words.index(flag)
                said[flag] = words[at + 1]
                del words[at : at + 2]
        as_json = "--json" in words
        packs = [Path(word) for word in words if word != "--json"]
        rows = int(said["--rows"]) if said["--rows"] else None
        return Request(packs, said["--method"].split(","), rows, as_json)

    def run(self, cell: Callable[[Path, str], str]) -> None:
        """Print what ``cell`` finds for every method on every pack."""
        if not self.as_json:
            print("| method |", " | ".join(pack.name for pack in self.packs), "|")
            print("|---|" + "---:|" * len(self.packs))
        for method in self.methods:
            found = [self._found(cell, pack, method) for pack in self.packs]
            if not self.as_json:
                print(f"| `{method}` |", " | ".join(found), "|", flush=True)

    def _found(self, cell: Callable[[Path, str], str], pack: Path, method: str) -> str:
        try:
            found = cell(pack, method)
        except Exception as error:
            # A pack need not have what every method asks for; the reason is told, and the others go on.
            print(f"{method} on {pack.name}: {str(error).strip()}", file=sys.stderr, flush=True)
            found = "–"
        if self.as_json:
            print(json.dumps({"pack": pack.name, "method": method, "found": found}), flush=True)
        return found
