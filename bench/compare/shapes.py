"""Sizes of everything that is measured: those of the bars, and small ones for every change."""

from __future__ import annotations

from dataclasses import dataclass, replace

IMAGENET_ROWS = 1_281_167


@dataclass(frozen=True)
class Shapes:
    """``turn`` is how long a contender works before the next one has its turn, in seconds."""

    rounds: int = 7
    turn: float = 1.0
    widths: tuple[int, ...] = (2048, 768, 512, 342)
    batches: tuple[int, ...] = (1, 32, 1024)
    train: int = 20_000
    landmarks: int = 2048
    features: int = 4096
    # Nyström ratios; the first is the one that the bars are about, the others are measured at the first width only.
    ratios: tuple[float, ...] = (0.995, 0.9)
    knn: tuple[int, int, int] = (50_000, 342, 10_000)
    wide_knn: tuple[int, int] = (50_000, 2048)
    fit: tuple[int, int] = (50_000, 2048)
    fit_features: int = 4096
    fit_landmarks: int = 2048
    fit_rounds: int = 2

    @property
    def are_smaller(self) -> bool:
        """Whether these are not the shapes that the bars are about."""
        return self.widths[0] != 2048 or self.landmarks != 2048

    @staticmethod
    def chosen(short: bool, rounds: int | None, widths: str | None) -> Shapes:
        shapes = Shapes()
        if short:
            shapes = Shapes(
                rounds=5,
                turn=0.2,
                widths=(512,),
                batches=(1, 1024),
                train=5_000,
                landmarks=512,
                features=1024,
                ratios=(0.995,),
                knn=(10_000, 342, 2_000),
                wide_knn=(10_000, 512),
                fit=(10_000, 512),
                fit_features=1024,
                fit_landmarks=1024,
                fit_rounds=3,
            )
        if rounds:
            shapes = replace(shapes, rounds=rounds)
        if widths:
            shapes = replace(shapes, widths=tuple(int(width) for width in widths.split(",")))
        return shapes
