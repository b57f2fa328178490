"""Build what is published, check it in clean environments, and lay it out in target/release-files.

python3 tools/release.py [--allow-dirty] [--twice] [--only wheels|sdist|binary]

- wheels for every Python from 3.9 on: manylinux2014 (linked by zig against an old libc), and musllinux where the musl target of
  Rust is installed;
- an sdist that needs nothing but the package registries to be installed from;
- the command line as a static binary where the musl target is installed, otherwise linked by zig against an old libc;
- a list of components (CycloneDX) for each, SHA256SUMS, and notes from CHANGELOG.md.

The same sources give the same bytes: paths of the machine are kept out of the binaries, and times come from the last commit. --twice
builds everything again in a copy of the sources elsewhere, and compares.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "tools"))
from check_install import USE  # noqa: E402
from environments import environment, run  # noqa: E402

OUT = ROOT / "target" / "release-files"
MUSL = "x86_64-unknown-linux-musl"
GNU = "x86_64-unknown-linux-gnu"
#: The oldest libc that binaries for GNU systems need: that of manylinux2014.
OLD_LIBC = "2.17"
PARTS = ("wheels", "sdist", "binary")


def main() -> None:
    """Build, check, and write what goes with it."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--allow-dirty", action="store_true", help="take the sources as they are, committed or not")
    words.add_argument("--twice", action="store_true", help="build in two places and compare the bytes")
    words.add_argument("--only", choices=PARTS, help="only this part")
    given = words.parse_args()
    if not given.allow_dirty and output("git", "status", "--porcelain"):
        sys.exit("there are changes that are not committed; commit them, or say --allow-dirty")
    parts = [given.only] if given.only else list(PARTS)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    python = environment(ROOT / "target" / "python" / "release", "maturin[zig]>=1.9,<2", "cargo-zigbuild")
    build(ROOT, OUT, python, parts)
    check(parts)
    if given.twice:
        compare(python, parts)
    for package in ("offspan-cli", "offspan-python"):
        run(sys.executable, ROOT / "tools" / "sbom.py", package, "-o", OUT / f"{package}.cdx.json")
    (OUT / "NOTES.md").write_text(notes())
    sums = [f"{hashed(path)}  {path.name}" for path in sorted(OUT.iterdir())]
    (OUT / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print("\n".join(sums))


def output(*words: str) -> str:
    """What a command prints."""
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def has_musl() -> bool:
    """Whether Rust can build for musl here."""
    library = Path(output("rustc", "--print", "target-libdir", "--target", MUSL))
    return library.exists()


def build(sources: Path, out: Path, python: Path, parts: list[str]) -> None:
    """Build from these sources."""
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    flags = f"--remap-path-prefix={sources}=/offspan --remap-path-prefix={cargo_home}=/cargo"
    os.environ["RUSTFLAGS"] = flags
    os.environ["SOURCE_DATE_EPOCH"] = output("git", "log", "-1", "--format=%ct")
    # cargo-zigbuild and zig are programs of the environment.
    os.environ["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    manifest = sources / "python" / "Cargo.toml"
    wheel = (python, "-m", "maturin", "build", "--release", "--locked", "--manifest-path", manifest, "--out", out)
    if "wheels" in parts:
        run(*wheel, "--zig", "--compatibility", "manylinux2014", folder=sources)
        if has_musl():
            run(*wheel, "--zig", "--target", MUSL, "--compatibility", "musllinux_1_2", folder=sources)
        else:
            print(f"The musllinux wheel was left out: `rustup target add {MUSL}` is needed.")
    if "sdist" in parts:
        run(python, "-m", "maturin", "sdist", "--manifest-path", manifest, "--out", out, folder=sources)
    if "binary" in parts:
        target = MUSL if has_musl() else f"{GNU}.{OLD_LIBC}"
        run("cargo", "zigbuild", "--release", "--locked", "-p", "offspan-cli", "--target", target, folder=sources)
        folder = target.removesuffix(f".{OLD_LIBC}")
        pack(sources / "target" / folder / "release" / "offspan", out / f"offspan-{version()}-{folder}.tar.gz")


def version() -> str:
    """The version of the workspace."""
    found = re.search(r'(?m)^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text())
    assert found is not None
    return found[1]


def pack(binary: Path, archive: Path) -> None:
    """An archive of the binary and its licences, without names and times of this machine."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = int(os.environ["SOURCE_DATE_EPOCH"])
        return member

    folder = archive.name.removesuffix(".tar.gz")
    with tempfile.TemporaryDirectory() as place:
        tar = Path(place) / "plain.tar"
        with tarfile.open(tar, "w") as files:
            for path in (binary, ROOT / "LICENSE-MIT", ROOT / "LICENSE-APACHE", ROOT / "README.md"):
                files.add(path, f"{folder}/{path.name}", filter=plain)
        # -n: no name and time of the file inside.
        with archive.open("wb") as packed:
            subprocess.run(["gzip", "-9", "-n", "-c", str(tar)], check=True, stdout=packed)


def check(parts: list[str]) -> None:
    """Use what was built, each in a clean environment."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, path in enumerate(sorted([*OUT.glob("*manylinux*.whl"), *OUT.glob("*.tar.gz")])):
            if path.name.startswith("offspan-") and path.suffix == ".gz" and "linux" in path.name:
                with tarfile.open(path) as files:
                    files.extractall(folder, filter="data")
                binary = folder / path.name.removesuffix(".tar.gz") / "offspan"
                run(binary, "--version", folder=folder)
                run(binary, "demo", folder=folder)
                continue
            python = environment(folder / f"env{number}")
            run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", path)
            run(python, "-c", USE, folder=folder)
    print("checked:", ", ".join(parts))


def compare(python: Path, parts: list[str]) -> None:
    """Build from a copy of the sources elsewhere, and fail unless all files have the same bytes."""
    with tempfile.TemporaryDirectory() as place:
        sources, out = Path(place) / "elsewhere", Path(place) / "out"
        ignored = shutil.ignore_patterns("target", ".git", ".venv", "__pycache__")
        shutil.copytree(ROOT, sources, ignore=ignored)
        out.mkdir()
        build(sources, out, python, parts)
        other = [path.name for path in sorted(out.iterdir()) if hashed(path) != hashed(OUT / path.name)]
    if other:
        sys.exit(f"built twice, these have other bytes: {', '.join(other)}")
    print("built twice: the same bytes")


def hashed(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def notes() -> str:
    """The newest part of CHANGELOG.md."""
    parts = re.split(r"(?m)^## ", (ROOT / "CHANGELOG.md").read_text())
    return f"# offspan {version()}\n\n{parts[1].partition(chr(10))[2].strip()}\n"


if __name__ == "__main__":
    main()
