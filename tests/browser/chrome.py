"""A headless Chromium, spoken to through a pipe, with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
#: Debian's packages; a new machine may have no font at all.
PACKAGES = ("chromium", "fonts-dejavu-core")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
UNLIMITED = {"downloadThroughput": -1, "uploadThroughput": -1}


class ChromeError(Exception):
    """The browser is missing, has ended, or refused a command."""


def find_chrome() -> str:
    """$CHROME or the first of the usual names; Debian's package is installed where it can be."""
    named = os.environ.get("CHROME")
    if named:
        if found := shutil.which(named):
            return found
        raise ChromeError(f"$CHROME is {named!r}, which is no program")
    return _installed() or _install() or _give_up()


def _installed() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


def _install() -> str | None:
    """Asks apt-get, as root or with a sudo that asks for no password."""
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if not shutil.which("apt-get") or (sudo and not shutil.which("sudo")):
        return None
    print("No Chromium found: installing Debian's package", flush=True)
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        command = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", *words]
        if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
            return None
    return _installed()


def _give_up() -> str:
    raise ChromeError(
        f"no browser: install Chromium (Debian: apt-get install chromium) so that one of {', '.join(NAMES)} "
        "is on the path, or name its program in $CHROME"
    )


class Chrome:
    """A browser with a profile of its own, for a ``with`` statement."""

    def __init__(self) -> None:
        program = find_chrome()
        self._profile = tempfile.mkdtemp(prefix="offspan-chrome-")
        self._log = tempfile.TemporaryFile()
        # The browser reads from descriptor 3 and writes to 4; the shell can put its own ends of ordinary pipes there.
        shell = ("sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 </dev/null >&2')
        self._process = subprocess.Popen(
            [*shell, program, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
        )
        self._last_id = 0
        self._pending = b""
        #: Events by session, in the order in which they came.
        self.events: dict[str | None, list[dict[str, Any]]] = {}

    def __enter__(self) -> Chrome:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
        except ChromeError:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            pipe.close()
        # Helpers of the browser may still be writing; what they leave is no reason to fail.
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its result."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(method)
            if answer.get("id") != self._last_id:
                continue
            if "error" in answer:
                raise ChromeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def receive(self, waiting_for: str) -> dict[str, Any]:
        """The next message; events are also kept."""
        pipe = self._process.stdout
        while b"\0" not in self._pending:
            if not (chunk := os.read(pipe.fileno(), 1 << 20)):
                raise ChromeError(f"{waiting_for}: the browser ended{self._last_words()}")
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.events.setdefault(message.get("sessionId"), []).append(message)
        return message

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except BrokenPipeError:
            raise ChromeError(f"the browser ended{self._last_words()}") from None

    def _last_words(self) -> str:
        self._log.seek(0)
        words = self._log.read().decode(errors="replace").strip()
        return f"; it said:\n{words[-2000:]}" if words else ""


class Tab:
    """A tab that keeps account of what its page says and asks for, for a ``with`` statement.

    One at a time: a tab behind another one does not paint.
    """

    def __init__(self, chrome: Chrome, width: int = 1280, scheme: str = "light", offline: bool = False) -> None:
        self._chrome = chrome
        self._target = chrome.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = chrome.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=offline, latency=0, **UNLIMITED)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *_: object) -> None:
        self._chrome.call("Target.closeTarget", targetId=self._target)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._chrome.call(method, self._session, **params)

    @property
    def events(self) -> list[dict[str, Any]]:
        """What has been told so far."""
        return self._chrome.events.setdefault(self._session, [])

    def open(self, page: Path) -> None:
        """Opens a file and waits until everything in it is there."""
        if error := self.call("Page.navigate", url=page.resolve().as_uri()).get("errorText"):
            raise ChromeError(f"{page}: {error}")
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._chrome.receive(f"loading {page}")
        # Two frames: one to lay out, one to paint. What a script does at once has happened by then.
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of what it promises."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if wrong := answer.get("exceptionDetails"):
            raise ChromeError(wrong.get("exception", {}).get("description", wrong["text"]))
        return answer["result"].get("value")

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(taken["data"])
