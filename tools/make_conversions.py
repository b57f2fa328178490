"""Write the small files that the tests of `offspan convert` read, each as the program that it is named after writes it.

python3 python/tools/torch_env.py /tmp/conversions
/tmp/conversions/bin/python -m pip install numpy
/tmp/conversions/bin/python tools/make_conversions.py torch
python3 -m venv /tmp/datasets && /tmp/datasets/bin/pip install numpy datasets
/tmp/datasets/bin/python tools/make_conversions.py datasets openood

The numbers are those of `value` below, which the tests compute, too.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "crates" / "offspan-cli" / "tests" / "conversions"
ROWS, WIDTH, CLASSES = 40, 6, 3


def value(rows: int, width: int, shift: float = 0.0) -> np.ndarray:
    """Numbers that half precision holds."""
    i, j = np.indices((rows, width))
    return (((i * 31 + j * 17 + i * j) % 101) / 8 - 5 + shift).astype(np.float32)


FEATURES = value(ROWS, WIDTH)
LABELS = np.arange(ROWS) % CLASSES
# In pytorch-ood, rows of no known class have negative labels.
MIXED = np.where(np.arange(ROWS) % 4 == 3, -1, LABELS)


def with_torch() -> None:
    """What `torch.save` and pytorch-ood's buffers leave."""
    import torch

    features, labels = torch.from_numpy(FEATURES), torch.from_numpy(LABELS)
    logits = torch.from_numpy(value(ROWS, CLASSES))
    torch.save({"embedding": features, "label": labels, "logits": logits}, FOLDER / "buffer.pt")
    torch.save((features.double(), torch.from_numpy(MIXED)), FOLDER / "tuple.pt")
    torch.save(features.half(), FOLDER / "single.pth")
    # Columns lie together, behind numbers of something else.
    apart = torch.cat([torch.zeros(5), features.t().reshape(-1)])[5:].view(WIDTH, ROWS).t()
    torch.save({"features": apart, "args": {"lr": 0.1}, "names": ["a"], "when": None}, FOLDER / "columns.pt")
    torch.save({"features": features[:, ::2]}, FOLDER / "scattered.pt")
    torch.save(features, FOLDER / "old.pt", _use_new_zipfile_serialization=False)


def with_datasets() -> None:
    """What Hugging Face's library leaves."""
    from datasets import Dataset, DatasetDict

    def split(shift: float, rows: int = ROWS) -> Any:
        table = {"text": [f"row {i}" for i in range(rows)], "embedding": value(rows, WIDTH, shift).tolist()}
        return Dataset.from_dict({**table, "label": (np.arange(rows) % CLASSES).tolist()})

    splits = DatasetDict({"train": split(0), "validation": split(0.25, 20), "test": split(0.5), "oos": split(3, 10)})
    shutil.rmtree(FOLDER / "saved", ignore_errors=True)
    splits.save_to_disk(FOLDER / "saved", num_shards={"train": 2, "validation": 1, "test": 1, "oos": 1})
    shutil.rmtree(FOLDER / "hub", ignore_errors=True)
    (FOLDER / "hub" / "data").mkdir(parents=True)
    for name in ("train", "test"):
        for part in range(2):
            shard = splits[name].shard(2, part, contiguous=True)
            shard.to_parquet(FOLDER / "hub" / "data" / f"{name}-{part:05}-of-00002.parquet")


def with_openood() -> None:
    """What OpenOOD's pipelines leave: features with labels, and scores with predictions."""
    np.savez(FOLDER / "id_train.npz", feat_list=FEATURES, label_list=LABELS)
    np.savez(FOLDER / "far.npz", feat_list=value(10, WIDTH, 3), label_list=np.full(10, -1))
    # What `conf` of some post-processors is: single precision.
    np.savez(FOLDER / "scores-id.npz", pred=LABELS, conf=FEATURES[:, 0], label=LABELS)
    far = value(10, 1, -3)[:, 0].astype(float)
    np.savez(FOLDER / "scores-far.npz", pred=LABELS[:10], conf=far, label=np.full(10, -1))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for kind in sys.argv[1:]:
        {"torch": with_torch, "datasets": with_datasets, "openood": with_openood}[kind]()
