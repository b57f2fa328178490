"""A list of every component of what is shipped, as CycloneDX 1.6 JSON, from Cargo.lock's own graph.

python3 tools/sbom.py PACKAGE [-o FILE]        PACKAGE: offspan-cli, offspan-python, offspan-capi, …

Only what is compiled into the package for Linux is listed: no tests, no build tools. The same sources give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = "x86_64-unknown-linux-gnu"


def main() -> None:
    """Write the list."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("package")
    words.add_argument("-o", "--output", type=Path)
    given = words.parse_args()
    text = json.dumps(document(metadata(), given.package), indent=2) + "\n"
    if given.output:
        given.output.write_text(text)
    else:
        sys.stdout.write(text)


def metadata() -> dict:
    """What cargo knows of the workspace and its dependencies."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", TARGET]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def document(known: dict, package: str) -> dict:
    """The document of one package of the workspace."""
    packages = {one["id"]: one for one in known["packages"]}
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    members = {packages[one]["name"]: one for one in known["workspace_members"]}
    if package not in members:
        sys.exit(f"expected one of {', '.join(sorted(members))}, got {package}")
    root = members[package]
    edges = {root: shipped(nodes[root])}
    waiting = list(edges[root])
    while waiting:
        one = waiting.pop()
        if one not in edges:
            edges[one] = shipped(nodes[one])
            waiting.extend(edges[one])
    order = sorted(edges, key=lambda one: (packages[one]["name"], packages[one]["version"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(packages[root], "application")},
        "components": [component(packages[one], "library") for one in order if one != root],
        "dependencies": [
            {"ref": reference(packages[one]), "dependsOn": sorted(reference(packages[two]) for two in edges[one])}
            for one in order
        ],
    }


def shipped(node: dict) -> list[str]:
    """What a package is made of: its ordinary dependencies."""
    ordinary = (edge for edge in node["deps"] if any(kind["kind"] is None for kind in edge["dep_kinds"]))
    return [edge["pkg"] for edge in ordinary]


def reference(package: dict) -> str:
    """The name by which others know a package."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, kind: str) -> dict:
    """What is said of one package."""
    said = {"type": kind, "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
    said["purl"] = reference(package)
    if package.get("license"):
        # Some crates still write an alternative with a slash.
        said["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return said


if __name__ == "__main__":
    main()
