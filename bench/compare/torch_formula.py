"""The same formula in PyTorch on the CPU, in float32: what a service in Python would run."""

from __future__ import annotations

import numpy as np

from .formula import Array, Scorer, StandIn


def scorer(weights: StandIn, threads: int) -> Scorer:
    """Rows to scores; sharing the memory of rows with a tensor costs nothing."""
    import torch

    torch.set_num_threads(threads)

    def tensor(array: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))

    mean, reconstruct = tensor(weights.mean), tensor(weights.basis @ weights.basis.T)
    if weights.fitted.map == "nystrom":
        landmarks, whitening = tensor(weights.landmarks), tensor(weights.whitening)
        squares = (landmarks * landmarks).sum(dim=1)

        def phi(x: torch.Tensor) -> torch.Tensor:
            distances = (x * x).sum(dim=1, keepdim=True) + squares - 2.0 * (x @ landmarks.T)
            return torch.exp(-weights.gamma * distances.clamp_min(0.0)) @ whitening.T

    else:
        omega, offset = tensor(weights.omega), tensor(weights.offset)
        scale = float(np.sqrt(2.0 / len(offset)))

        def phi(x: torch.Tensor) -> torch.Tensor:
            return scale * torch.cos(x @ omega + offset)

    def score(rows: Array) -> Array:
        with torch.inference_mode():
            x = torch.from_numpy(rows)
            centred = phi(x / x.norm(dim=1, keepdim=True)) - mean
            return (-(centred - centred @ reconstruct).norm(dim=1)).numpy()

    return score
