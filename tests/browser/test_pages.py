"""Opens the pages that offspan writes in a real browser, and proves that they draw.

python3 -m unittest discover -s tests/browser
python3 tests/browser/test_pages.py [--offspan PROGRAM] [--pages FILE…] [--screenshots FOLDER]

The program is $OFFSPAN, or the one in target/; the browser is $CHROME, or Chromium. With --pages, only what holds for
every page is tested, on these.
"""

from __future__ import annotations

import argparse
import base64
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable, ClassVar

from chrome import Chrome, Tab

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MEASURE = (HERE / "measure.js").read_text(encoding="utf-8")

LARGEST_PAGE = 3_000_000
WIDTHS = (1280, 400)
#: WCAG 2.1, criterion 1.4.3.
LEAST_CONTRAST = 4.5
#: Samples of colours in legends are shorter than this, in the plot's own pixels.
LONGEST_SAMPLE = 31

#: Looks at a picture: its size, and the share of pixels in colours that are not grey within boxes.
LOOK = """async (uri, boxes) => {
  const image = new Image();
  image.src = uri;
  await image.decode();
  const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const whole = { left: 0, top: 0, right: canvas.width, bottom: canvas.height };
  const shares = (boxes ?? [whole]).map(({ left, top, right, bottom }) => {
    const { data } = context.getImageData(left, top, right - left, bottom - top);
    let coloured = 0;
    for (let k = 0; k < data.length; k += 4) {
      const [r, g, b] = [data[k], data[k + 1], data[k + 2]];
      if (data[k + 3] && Math.max(r, g, b) - Math.min(r, g, b) > 40) coloured += 1;
    }
    return coloured / (data.length / 4);
  });
  return { width: canvas.width, height: canvas.height, coloured: shares };
}"""
#: A curve of two pixels covers about 0.3 % of a plot.
LEAST_COLOUR = 0.0005

TITLE_OF = 'new DOMParser().parseFromString({}, "image/svg+xml").querySelector("title").textContent'

FACTS = "[...document.querySelectorAll('dt')].map((name) => [name.innerText, name.nextElementSibling.innerText])"
#: Follows the links one by one. The last sections may be too short to reach the top of the window.
JUMPS = """[...document.querySelectorAll("nav a")].map((link) => {
  link.click();
  const target = document.querySelector(":target");
  const top = target?.getBoundingClientRect().top;
  const atEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
  return { text: link.innerText, title: target?.querySelector("h2").innerText ?? null, top,
           arrived: Math.abs(top) < 2 || (atEnd && top > 0 && top < innerHeight) };
})"""


class Given:
    """What the command line names, and what is made once for all tests."""

    offspan: str | None = os.environ.get("OFFSPAN")
    pages: ClassVar[list[Path]] = []
    screenshots: Path | None = None

    chrome: Chrome
    #: The demo's report.
    report: Path


def setUpModule() -> None:
    # The browser first: where there is none, that is known at once.
    Given.chrome = Chrome()
    unittest.addModuleCleanup(Given.chrome.__exit__)
    if not Given.pages:
        folder = tempfile.TemporaryDirectory(prefix="offspan-pages-")
        unittest.addModuleCleanup(folder.cleanup)
        Given.pages = write_pages(Path(folder.name))
        Given.report = Given.pages[0]


def write_pages(folder: Path) -> list[Path]:
    """The demo's report, and a small study of its data where the program has studies."""
    pack, report, study = folder / "pack", folder / "report", folder / "study"
    offspan("demo", "--write-pack", pack, "--report", report)
    if re.search(r"^  study ", offspan("--help"), re.MULTILINE):
        offspan("study", "sampling", pack, "--landmarks", "64", "-o", study)
    return [report / "report.html", *sorted(study.glob("**/*.html"))]


def offspan(*words: str | Path) -> str:
    return subprocess.run([program(), *words], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def program() -> str:
    built = [ROOT / "target" / kind / "offspan" for kind in ("debug", "release")]
    found = Given.offspan or next((path for path in built if path.exists()), None)
    if found is None:
        raise FileNotFoundError("no offspan: run `cargo build`, or name the program in $OFFSPAN")
    return str(found)


def measure(tab: Tab) -> dict[str, Any]:
    return tab.evaluate(f"({MEASURE})()")


def look(tab: Tab, kind: str, picture: bytes, boxes: list[dict[str, float]] | None = None) -> dict[str, Any]:
    uri = f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
    return tab.evaluate(f"({LOOK})({json.dumps(uri)}, {json.dumps(boxes)})")


def keep_screenshot(tab: Tab, page: Path, name: str) -> None:
    if Given.screenshots:
        Given.screenshots.mkdir(parents=True, exist_ok=True)
        (Given.screenshots / f"{page.stem}-{name}.png").write_bytes(tab.screenshot())


def complaint(event: dict[str, Any]) -> str | None:
    """What an event of the browser holds against the page, if it does."""
    method, params = event["method"], event["params"]
    if method == "Runtime.exceptionThrown":
        return f"exception: {params['exceptionDetails']}"
    if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
        return f"console: {params['args']}"
    if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
        return f"log: {params['entry']['text']}"
    if method == "Network.loadingFailed":
        return f"failed: {params['errorText']}"
    return None


def marks_wanted_and_found(plot: dict[str, Any]) -> tuple[int, int]:
    """How many marks a plot says to have in its description, and how many are drawn."""
    description, marks = plot["description"], plot["marks"]
    number = r"(\d[\d\u202f]*)"
    counts = {
        what: sum(int(n.replace("\u202f", "")) for n in re.findall(f"{number} {what}s?\\b", description))
        for what in ("set", "curve", "point", "row", "column")
    }
    large = sum(mark["coloured"] and mark["length"] > LONGEST_SAMPLE for mark in marks)
    if description.startswith("Scatter plot"):
        samples = description.count(" points.")
        return counts["point"] + samples, sum(mark["pieces"] for mark in marks if mark["coloured"])
    if description.startswith("Bars of"):
        return description.count(": "), sum(mark["tag"] == "rect" for mark in marks)
    if description.startswith("Matrix of"):
        cells = sum(mark["tag"] == "rect" and mark["coloured"] for mark in marks)
        return counts["row"] * counts["column"], cells
    return max(1, counts["set"] + counts["curve"]), large


def for_every_page(test: Callable[[Any, Path], None]) -> Callable[[Any], None]:
    @functools.wraps(test)
    def tests(case: unittest.TestCase) -> None:
        for page in Given.pages:
            with case.subTest(page=page.name):
                test(case, page)

    return tests


class EveryPage(unittest.TestCase):
    maxDiff = None

    @for_every_page
    def test_it_is_small_enough_for_a_mail(self, page: Path) -> None:
        self.assertLess(page.stat().st_size, LARGEST_PAGE)

    @for_every_page
    def test_it_loads_without_complaint_and_asks_for_nothing_else_online_or_offline(self, page: Path) -> None:
        for offline in (False, True):
            with Tab(Given.chrome, offline=offline) as tab:
                tab.open(page)
                events = list(tab.events)
            requests = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
            others = [url[:100] for url in requests if not url.startswith("data:")]
            self.assertEqual(others, [page.resolve().as_uri()])
            self.assertEqual([text for text in map(complaint, events) if text], [])

    @for_every_page
    def test_every_plot_is_drawn_and_its_texts_stay_inside(self, page: Path) -> None:
        with Tab(Given.chrome) as tab:
            tab.open(page)
            measured, screenshot = measure(tab), tab.screenshot()
        plots = measured["plots"]
        with Tab(Given.chrome) as eye:
            colours = look(eye, "png", screenshot, [plot["box"] for plot in plots])["coloured"]
        for picture in measured["images"]:
            self.assertGreater(picture["width"], 0, picture)
        for plot, coloured in zip(plots, colours):
            with self.subTest(plot=plot["title"]):
                self.check_plot(plot)
                self.assertGreater(coloured, LEAST_COLOUR, "share of coloured pixels")

    def check_plot(self, plot: dict[str, Any]) -> None:
        self.assertTrue(plot["visible"])
        self.assertGreater(plot["box"]["right"] - plot["box"]["left"], 200)
        self.assertGreater(plot["box"]["bottom"] - plot["box"]["top"], 100)
        # The title is set in lines, of which the last one may end in an ellipsis.
        shown = " ".join(plot["texts"])
        title = shown[: len(plot["title"])].partition("…")[0]
        self.assertTrue(title)
        self.assertTrue(plot["title"].startswith(title), f"{plot['title']!r} is not in {shown[:200]!r}")
        wanted, found = marks_wanted_and_found(plot)
        self.assertGreaterEqual(found, wanted, f"marks drawn of: {plot['description']}")
        self.assertEqual(plot["outside"], [], "texts that leave their plot")
        self.assertEqual(plot["notNumbers"], [])

    @for_every_page
    def test_every_plot_is_also_an_svg_and_a_png_file_that_show_it(self, page: Path) -> None:
        with Tab(Given.chrome) as tab:
            tab.open(page)
            titles = {plot["title"] for plot in measure(tab)["plots"]}
        files = list((page.parent / "plots").iterdir())
        vectors, pixels = ({file.stem: file for file in files if file.suffix == kind} for kind in (".svg", ".png"))
        self.assertEqual(set(vectors), set(pixels))
        in_files = set()
        with Tab(Given.chrome) as eye:
            for name, path in vectors.items():
                with self.subTest(plot=name):
                    text = path.read_text(encoding="utf-8")
                    in_files.add(eye.evaluate(TITLE_OF.format(json.dumps(text))))
                    vector = look(eye, "svg+xml", text.encode())
                    picture = look(eye, "png", pixels[name].read_bytes())
                    for key in ("width", "height"):
                        self.assertAlmostEqual(picture[key], 2 * vector[key], delta=2)
                    self.assertGreater(vector["coloured"][0], LEAST_COLOUR)
                    self.assertAlmostEqual(picture["coloured"][0], vector["coloured"][0], delta=0.02)
        self.assertLessEqual(titles, in_files)

    @for_every_page
    def test_it_never_scrolls_sideways(self, page: Path) -> None:
        for width in WIDTHS:
            with self.subTest(width=width), Tab(Given.chrome, width=width) as tab:
                tab.open(page)
                keep_screenshot(tab, page, str(width))
                measured = measure(tab)
                needed, given = measured["width"]
                self.assertEqual(given, width)
                self.assertEqual(measured["tooWide"], [])
                self.assertLessEqual(needed, given)

    @for_every_page
    def test_light_and_dark_differ_and_both_are_legible(self, page: Path) -> None:
        backgrounds = {}
        for scheme in ("light", "dark"):
            with Tab(Given.chrome, scheme=scheme) as tab:
                tab.open(page)
                keep_screenshot(tab, page, scheme)
                measured = measure(tab)
            backgrounds[scheme] = measured["background"]
            texts = measured["words"] + [text for plot in measured["plots"] for text in plot["legibility"]]
            faint = [text for text in texts if text["ratio"] < LEAST_CONTRAST]
            self.assertGreater(len(texts), len(measured["plots"]))
            with self.subTest(scheme=scheme):
                self.assertEqual(faint, [])
        self.assertGreater(min(backgrounds["light"][:3]), 200)
        self.assertLess(max(backgrounds["dark"][:3]), 80)


class WrittenPages(unittest.TestCase):
    @for_every_page
    def test_every_plot_of_the_folder_is_on_the_page(self, page: Path) -> None:
        with Tab(Given.chrome) as tab:
            tab.open(page)
            shown = len(measure(tab)["plots"])
        self.assertGreater(shown, 0)
        self.assertEqual(shown, len(list((page.parent / "plots").glob("*.svg"))))

    def test_the_lead_says_what_the_threshold_does_and_how_often_it_is_wrong(self) -> None:
        results = json.loads(Given.report.with_name("results.json").read_text(encoding="utf-8"))
        with Tab(Given.chrome) as tab:
            tab.open(Given.report)
            title, lead = (tab.evaluate(f"document.querySelector('{name}').innerText") for name in ("h1", "header"))
            facts = dict(tab.evaluate(FACTS))
        # Whether a number may be torn from its sign is a matter of style.
        lead = re.sub("[\u00a0\u202f]", " ", lead)
        shown = next(result for result in results["results"] if title == f"{result['method']} on {results['pack']}")
        threshold = facts["threshold"].split(":")[0]
        float(threshold.replace("\N{MINUS SIGN}", "-"))
        self.assertIn(f"below {threshold} ", lead)
        self.assertIn(f"{percent(1 - results['metrics']['tpr'])} of ordinary samples", lead)
        for name, found in shown["sets"].items():
            self.assertIn(f"{percent(found['fpr95'])} of {name}", lead)

    def test_every_link_leads_to_its_section(self) -> None:
        with Tab(Given.chrome) as tab:
            tab.open(Given.report)
            jumps = tab.evaluate(JUMPS)
            sections = tab.evaluate("[...document.querySelectorAll('main h2')].map(e => e.innerText)")
        self.assertGreater(len(jumps), 2)
        self.assertEqual([jump["title"] for jump in jumps], sections)
        for jump in jumps:
            self.assertEqual(jump["text"], jump["title"])
            self.assertTrue(jump["arrived"], jump)


def percent(share: float) -> str:
    """As the page writes it: two digits, without zeros at the end."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offspan", default=Given.offspan)
    parser.add_argument("--pages", nargs="+", type=Path, default=[])
    parser.add_argument("--screenshots", type=Path)
    options, others = parser.parse_known_args()
    Given.offspan, Given.pages, Given.screenshots = options.offspan, options.pages, options.screenshots
    unittest.main(argv=[sys.argv[0], *others], defaultTest="EveryPage" if options.pages else None)


if __name__ == "__main__":
    main()
