"""The documentation as a web site in target/site: the pages of docs/, and the Rust and Python references.

python3 tools/docs_site.py [--no-references]

Every link between pages, and every anchor, is checked: one that leads nowhere fails. The references need `make doc` and a
build of the native module before.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "tools"))
from environments import environment, install_built, run  # noqa: E402

FOLDER = ROOT / "target" / "site-source"
SITE = ROOT / "target" / "site"
#: Pages beside docs/, by their name on the site.
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "demo/README.md": "demo.md",
}
#: The order of the menu; what is not named here comes last.
MENU = {
    "Using it": ["python", "command-line", "rust", "calibration", "auto", "methods", "reports", "formats"],
    "In production": ["extract", "export", "deploy", "serve", "cluster"],
    "Numbers": ["numerics", "performance", "reproduce", "auto-notebook"],
}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def main() -> None:
    """Lay the pages out, build the site, and put the references beside it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    pages = FOLDER / "pages"
    shutil.copytree(ROOT / "docs", pages)
    for source, name in BESIDE.items():
        shutil.copy2(ROOT / source, pages / name)
    origins = {name: ROOT / source for source, name in BESIDE.items()}
    for page in pages.rglob("*.md"):
        inside = page.relative_to(pages)
        origin = origins.get(str(inside), ROOT / "docs" / inside)
        page.write_text(LINK.sub(lambda link: moved(link, origin, inside), page.read_text()))
    (FOLDER / "mkdocs.yml").write_text(settings(pages))
    python = environment(ROOT / "target" / "python" / "site", "mkdocs>=1.6,<2", "pdoc>=15", "numpy")
    run(python, "-m", "mkdocs", "build", "--strict", "--config-file", FOLDER / "mkdocs.yml", "--site-dir", SITE)
    if "--no-references" not in sys.argv:
        references(python)
    print(f"{SITE}: {len(list(SITE.rglob('*.html')))} pages")


def moved(link: re.Match[str], origin: Path, inside: Path) -> str:
    """A link as it must be on the site; a file of the sources is named instead."""
    words, target = link.groups()
    path, _, anchor = target.partition("#")
    if not path or "://" in path:
        return link.group()
    file = (origin.parent / path).resolve()
    if not file.exists():
        sys.exit(f"{origin.relative_to(ROOT)}: the link to {path} leads nowhere")
    name = str(file.relative_to(ROOT))
    anchor = f"#{anchor}" if anchor else ""
    page = BESIDE.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else None)
    if page is None:
        return words if name in words else f"{words} (`{name}`)"
    return f"[{words}]({'../' * (len(inside.parts) - 1)}{page}{anchor})"


def settings(pages: Path) -> str:
    """The configuration of mkdocs."""
    named = {"index", *(page for group in MENU.values() for page in group)}
    groups = {
        title: [f"{page}.md" for page in group if (pages / f"{page}.md").exists()] for title, group in MENU.items()
    }
    groups["The project"] = sorted(path.name for path in pages.glob("*.md") if path.stem not in named)
    menu = ["  - index.md", *(line for title, group in groups.items() for line in in_menu(title, group))]
    lines = [
        "site_name: offspan",
        f"docs_dir: {pages}",
        "theme: readthedocs",
        "use_directory_urls: false",
        "validation: {links: {anchors: warn, unrecognized_links: warn}}",
        "nav:",
        *menu,
        "  - schemas/README.md",
    ]
    return "\n".join(lines) + "\n"


def in_menu(title: str, pages: list[str]) -> list[str]:
    """One group of the menu."""
    return [f"  - {title}:", *(f"    - {page}" for page in pages)]


def references(python: Path) -> None:
    """The Rust reference as cargo wrote it, and the Python reference."""
    shutil.copytree(ROOT / "target" / "doc", SITE / "rust")
    install_built(python)
    words = [str(python), "-m", "pdoc", "offspan", "--output-directory", str(SITE / "python-reference")]
    subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
