"""The page of documentation runs as it is written, block after block."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_every_block_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.S | re.M)
    assert len(blocks) > 5
    names: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        if re.search(r"^\s*(import|from) torch|offspan\.torch", block, flags=re.M):
            if importlib.util.find_spec("torch") is None:
                continue  # The tests under with_torch/ cover what it shows.
        exec(compile(block, f"{PAGE.name}, block {number + 1}", "exec"), names)
