"""A fit by the formula in NumPy float64, as one writes it, in a process of its own. Writes nothing.

    python fit_numpy.py fourier|nystrom ROWS.npy M GAMMA RATIO
"""

import sys

import numpy as np


def kernel(a: np.ndarray, b: np.ndarray, gamma: float) -> np.ndarray:
    distances = np.sum(a * a, axis=1, keepdims=True) + np.sum(b * b, axis=1) - 2.0 * (a @ b.T)
    return np.exp(-gamma * np.maximum(distances, 0.0))


def fit(kind: str, path: str, size: int, gamma: float, ratio: float) -> int:
    draw = np.random.default_rng(0)
    x = np.load(path).astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    if kind == "fourier":
        omega = draw.normal(0.0, np.sqrt(2.0 * gamma), (x.shape[1], size))
        phi = np.sqrt(2.0 / size) * np.cos(x @ omega + draw.uniform(0.0, 2.0 * np.pi, size))
    else:
        landmarks = x[draw.choice(len(x), size, replace=False)]
        values, vectors = np.linalg.eigh(kernel(landmarks, landmarks, gamma))
        kept = values > 1e-12 * values[-1]
        phi = kernel(x, landmarks, gamma) @ (vectors[:, kept] / np.sqrt(values[kept]))
    phi -= phi.mean(axis=0)
    values, vectors = np.linalg.eigh(phi.T @ phi / len(phi))
    share = np.cumsum(values[::-1]) / np.sum(values)
    return int(np.sum(share < ratio)) + 1


if __name__ == "__main__":
    print(fit(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])))
