"""The example of the engine on the page of documentation runs as it is written."""

from __future__ import annotations

import re

import data
import numpy as np
import pieces

import offspan

PAGE = data.ROOT / "docs" / "cluster.md"


def test_the_example_of_the_engine_runs(engine, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, rows in (("train", small.rows), ("new", small.test)):
        (tmp_path / folder).mkdir()
        pieces.write(tmp_path / folder, [len(rows) // 2, len(rows) - len(rows) // 2], rows)
    np.save("weight.npy", small.head[0])
    np.save("bias.npy", small.head[1])
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.S | re.M)
    (example,) = [block for block in blocks if f"offspan.{engine.name}" in block]
    assert len(example.splitlines()) <= 10
    # Engines have folders of their own to begin in.
    example = re.sub(r'"(train|new|scored)/"', lambda match: repr(str(tmp_path / match[1])), example)
    exec(compile(example, PAGE.name, "exec"), {"__name__": "page"})
    assert isinstance(offspan.load("net.offspan"), offspan.Detector)
    assert list((tmp_path / "scored").glob("*.parquet"))
