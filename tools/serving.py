"""A running `offspan serve` for tests and measurements, with nothing but the standard library."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def program() -> str:
    """$OFFSPAN, or the newest that cargo built."""
    built = [ROOT / "target" / kind / "offspan" for kind in ("debug", "release")]
    found = [path for path in built if path.exists()]
    named = os.environ.get("OFFSPAN")
    if not named and not found:
        raise FileNotFoundError("no offspan: run `cargo build`, or name the program in $OFFSPAN")
    return named or str(max(found, key=lambda path: path.stat().st_mtime))


class Serving:
    """A server on ports that the system chose, for a ``with`` statement. What it logs is in `log`."""

    def __init__(self, *words: str | Path, command: str | None = None) -> None:
        ports = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
        fixed = [word for word in ("--http", "--grpc") if word in words]
        ports = [word for k in (0, 2) if ports[k] not in fixed for word in ports[k : k + 2]]
        self.process = subprocess.Popen(
            [command or program(), "serve", *map(str, words), *ports, "--log-format", "json"],
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.log: list[dict[str, Any]] = []
        self.http = self.grpc = self.admin = self.metrics_address = ""
        for line in self.process.stderr:
            if self._heard(line):
                break
        else:
            raise RuntimeError(f"the server ended with {self.process.wait()}: {self.log}")
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _heard(self, line: str) -> bool:
        """Keep a line of the log; whether it is the one that tells the addresses."""
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            entry = {"message": line.strip()}
        self.log.append(entry)
        if entry.get("message") != "listening":
            return False
        self.http, self.grpc = entry.get("http", ""), entry.get("grpc", "")
        self.admin, self.metrics_address = entry.get("admin", ""), entry.get("metrics", "")
        return True

    def _listen(self) -> None:
        for line in self.process.stderr:
            self._heard(line)

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self._listener.join()
        self.process.stderr.close()

    def kill(self) -> None:
        """SIGKILL: no time for anything."""
        self.process.kill()
        self.process.wait()

    def get(self, path: str, data: bytes | None = None) -> bytes:
        """The body of an answer from REST."""
        with urllib.request.urlopen(f"http://{self.http}{path}", data) as answer:
            return answer.read()

    def metrics(self) -> dict[str, float]:
        """All samples by name and labels."""
        lines = self.get("/metrics").decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def metric(self, pattern: str) -> float:
        """The sum of the samples whose name and labels match."""
        return sum(value for name, value in self.metrics().items() if re.match(pattern, name))
