"""Opens the page of a running `offspan serve` in a real browser: idle, normal, alarm, light and dark, on a phone.

python3 -m unittest discover -s tests/browser
python3 tests/browser/test_live_page.py [--screenshots FOLDER]
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path
from typing import ClassVar

from chrome import Chrome, Tab
from test_pages import LEAST_CONTRAST, MEASURE, complaint

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from serving import Serving, program

WIDTH = 4
#: Resolves when the page has drawn events that came later than now.
DRAWN = """new Promise((done) => {
  const time = () => Number(document.documentElement.dataset.drawn ?? 0);
  const before = time();
  const look = () => time() > before ? done(true) : requestAnimationFrame(look);
  look();
})"""
#: Resolves when the state has this class.
STATE = """new Promise((done) => {{
  const at = (id) => document.getElementById(id);
  const look = () => at("status").className === "{}" ? done(at("verdict").innerText) : requestAnimationFrame(look);
  look();
}})"""
#: Resolves when the page asks for a token.
ASKED = """new Promise((done) => {
  const look = () => document.getElementById("ask")?.hidden === false ? done(true) : requestAnimationFrame(look);
  look();
})"""
GIVE_TOKEN = """(() => {
  document.getElementById("token").value = "0123456789abcdef";
  document.getElementById("ask").requestSubmit();
})()"""
KEY = "document.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{}', bubbles: true }}))"


class Given:
    """What is made once for all tests."""

    chrome: Chrome
    folder: Path
    screenshots: ClassVar[Path | None] = None


def setUpModule() -> None:
    Given.chrome = Chrome()
    unittest.addModuleCleanup(Given.chrome.__exit__)
    folder = tempfile.TemporaryDirectory(prefix="offspan-live-")
    unittest.addModuleCleanup(folder.cleanup)
    Given.folder = Path(folder.name)
    write_npy(Given.folder / "train.npy", rows(900, 1.0))
    words = ["fit", Given.folder / "train.npy", "--method", "knn", "-o", Given.folder / "net.offspan"]
    subprocess.run([program(), *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def rows(count: int, mean: float, seed: int = 0) -> list[list[float]]:
    draw = random.Random(seed)
    return [[draw.gauss(mean, 1.0) for _ in range(WIDTH)] for _ in range(count)]


def write_npy(path: Path, table: list[list[float]]) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(table)}, {WIDTH})}}"
    header = header.ljust(117) + "\n"
    numbers = [x for row in table for x in row]
    path.write_bytes(
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header.encode()
        + struct.pack(f"<{len(numbers)}f", *numbers)
    )


def ask(server: Serving, table: list[list[float]], name: str) -> None:
    data = [x for row in table for x in row]
    body = {
        "id": name,
        "inputs": [{"name": "features", "shape": [len(table), WIDTH], "datatype": "FP32", "data": data}],
    }
    request = urllib.request.Request(f"http://{server.http}/v2/models/net/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        answer.read()


class Page(Tab):
    """A tab with the page of a server."""

    def show(self, server: Serving, name: str) -> None:
        self.name = name
        self.call("Page.navigate", url=f"http://{server.http}/")
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._chrome.receive("loading the page")
        self.evaluate(DRAWN)

    def keep(self, what: str) -> None:
        if Given.screenshots:
            Given.screenshots.mkdir(parents=True, exist_ok=True)
            (Given.screenshots / f"live-{self.name}-{what}.png").write_bytes(self.screenshot())

    def complaints(self) -> list[str]:
        return [said for said in map(complaint, self.events) if said is not None]

    def requested(self) -> set[str]:
        sent = (
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        )
        return {url for url in sent if not url.startswith("data:")}


class LivePage(unittest.TestCase):
    def check(self, tab: Page, server: Serving) -> None:
        """What holds in every state."""
        self.assertEqual(tab.complaints(), [])
        self.assertLessEqual(tab.requested(), {f"http://{server.http}/", f"http://{server.http}/live"})
        wide = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide[0], wide[1])
        self.assertEqual(tab.evaluate("document.querySelectorAll('figure svg line.grid').length >= 15"), True)
        broken = tab.evaluate(
            "[...document.querySelectorAll('svg *')].filter((e) => /NaN|undefined|Infinity/.test(e.outerHTML)).length"
        )
        self.assertEqual(broken, 0)
        measured = tab.evaluate(f"({MEASURE})()")
        faint = [text for text in measured["words"] if text["ratio"] < LEAST_CONTRAST]
        self.assertEqual(faint, [])

    def test_idle_normal_and_alarm_are_told_apart_in_light_and_dark(self) -> None:
        for scheme in ("light", "dark"):
            with self.subTest(scheme=scheme), Serving(Given.folder / "net.offspan") as server:
                with Page(Given.chrome, scheme=scheme) as tab:
                    tab.show(server, scheme)
                    self.assertIn("Idle", tab.evaluate(STATE.format("waiting")))
                    self.check(tab, server)
                    tab.keep("idle")
                    for k in range(8):
                        ask(server, rows(250, 1.0, seed=k + 1), f"ordinary {k}")
                        tab.evaluate(DRAWN)
                    self.assertIn("All is well", tab.evaluate(STATE.format("good")))
                    self.check(tab, server)
                    bars = tab.evaluate("document.querySelectorAll('#scores .bar').length")
                    self.assertGreater(bars, 5)
                    tab.keep("normal")
                    for k in range(4):
                        ask(server, rows(100, -6.0, seed=k), f"strange {k}")
                        tab.evaluate(DRAWN)
                    said = tab.evaluate(STATE.format("bad"))
                    self.assertRegex(said, "ALARM: .*(out-of-distribution|moved).*since .* for")
                    self.check(tab, server)
                    self.assertIn("strange 3", tab.evaluate("document.getElementById('flagged').innerText"))
                    self.assertIn("ALARM", tab.evaluate("document.title"))
                    tab.keep("alarm")

    def test_a_phone_shows_all_of_it(self) -> None:
        with Serving(Given.folder / "net.offspan") as server, Page(Given.chrome, width=390) as tab:
            ask(server, rows(300, 1.0), "a")
            tab.show(server, "phone")
            ask(server, rows(100, -6.0), "b")
            tab.evaluate(STATE.format("bad"))
            self.check(tab, server)
            tab.keep("alarm")

    def test_keys_change_time_colours_and_read_values(self) -> None:
        with Serving(Given.folder / "net.offspan") as server, Page(Given.chrome) as tab:
            tab.show(server, "keys")
            ask(server, rows(300, 1.0), "a")
            tab.evaluate(DRAWN)
            tab.evaluate(KEY.format("3"))
            pressed = "document.querySelector('#spans [aria-pressed=true]').innerText"
            self.assertEqual(tab.evaluate(pressed), "15 min")
            before = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            tab.evaluate(KEY.format("d"))
            self.assertNotEqual(tab.evaluate("getComputedStyle(document.body).backgroundColor"), before)
            reads = """(() => { const f = document.getElementById("rows"); f.focus();
              f.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
              return f.querySelector("figcaption span").innerText; })()"""
            self.assertRegex(tab.evaluate(reads), r"rows/s \d")
            reachable = tab.evaluate(
                "[...document.querySelectorAll('button, figure')].every((e) => e.tabIndex >= 0 || e.role === 'tab')"
            )
            self.assertTrue(reachable)
            self.assertEqual(tab.complaints(), [])

    def test_a_server_that_is_gone_is_said(self) -> None:
        with Page(Given.chrome) as tab:
            with Serving(Given.folder / "net.offspan") as server:
                tab.show(server, "gone")
                tab.evaluate(STATE.format("waiting"))
            self.assertIn("No connection", tab.evaluate(STATE.format("bad")))

    def test_a_server_that_hangs_is_said_and_old_figures_do_not_look_like_news(self) -> None:
        with Serving(Given.folder / "net.offspan") as server, Page(Given.chrome) as tab:
            ask(server, rows(300, 1.0), "a")
            tab.show(server, "hangs")
            tab.evaluate(STATE.format("good"))
            stale = "document.body.classList.contains('stale')"
            self.assertFalse(tab.evaluate(stale))
            # It keeps the connection, and says nothing any more.
            os.kill(server.process.pid, signal.SIGSTOP)
            try:
                self.assertRegex(tab.evaluate(STATE.format("bad")), "No connection .*since .* for .*old")
                self.assertTrue(tab.evaluate(stale))
                self.assertIn("No connection", tab.evaluate("document.title"))
                tab.keep("stale")
            finally:
                os.kill(server.process.pid, signal.SIGCONT)
            self.assertIn("All is well", tab.evaluate(STATE.format("good")))
            self.assertFalse(tab.evaluate(stale))

    def test_a_server_with_tokens_asks_for_one(self) -> None:
        tokens = Given.folder / "tokens"
        tokens.write_text("0123456789abcdef\n")
        with Serving(Given.folder / "net.offspan", "--token-file", tokens) as server, Page(Given.chrome) as tab:
            tab.call("Page.navigate", url=f"http://{server.http}/")
            tab.evaluate(ASKED)
            tab.evaluate(GIVE_TOKEN)
            tab.evaluate(DRAWN)
            self.assertIn("Idle", tab.evaluate(STATE.format("waiting")))


if __name__ == "__main__":
    if "--screenshots" in sys.argv:
        place = sys.argv.index("--screenshots")
        Given.screenshots = Path(sys.argv[place + 1])
        del sys.argv[place : place + 2]
    unittest.main()
