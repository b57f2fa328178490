"""Write the small tables that tests read: Parquet and Arrow files as common programs write them, good and bad ones.

python3 -m venv /tmp/tables && /tmp/tables/bin/pip install numpy pyarrow pandas polars
/tmp/tables/bin/python tools/make_tables.py

The same rows are in every good file: `value` below, which the tests compute, too.
"""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

FOLDER = Path(__file__).resolve().parents[1] / "crates" / "offspan-arrow" / "tests" / "files"
ROWS, WIDTH, CLASSES = 120, 6, 3


def table(rows: int, width: int) -> np.ndarray:
    """Numbers that half precision holds."""
    i, j = np.indices((rows, width))
    return (((i * 31 + j * 17 + i * j) % 101) / 8 - 5).astype(np.float32)


FEATURES = table(ROWS, WIDTH)
LOGITS = table(ROWS, CLASSES) / 2
LABELS = np.arange(ROWS) % CLASSES


def lists(rows: np.ndarray, kind: str = "list") -> pa.Array:
    """Rows as a list column."""
    values = pa.array(rows.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])
    offsets = np.arange(len(rows) + 1) * rows.shape[1]
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def whole(kind: str = "list", dtype: type = np.float32) -> pa.Table:
    """All rows with logits and labels."""
    columns = {"id": pa.array([f"row {i}" for i in range(ROWS)]), "features": lists(FEATURES.astype(dtype), kind)}
    return pa.table({**columns, "logits": lists(LOGITS, kind), "labels": pa.array(LABELS)})


def parquet(name: str, data: pa.Table, **options: object) -> None:
    """One Parquet file."""
    (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, FOLDER / name, **options)


def good() -> None:
    """Files that hold the rows."""
    parquet("fixed-snappy.parquet", whole("fixed"), compression="snappy", row_group_size=50)
    parquet("list-zstd.parquet", whole(), compression="zstd", data_page_version="2.0", data_page_size=256)
    parquet("large-gzip.parquet", whole("large", np.float64), compression="gzip", use_dictionary=False)
    parquet("half-lz4.parquet", whole("list", np.float16), compression="lz4")
    parquet("plain.parquet", whole(), compression="none", store_schema=False)
    numbered = {f"f{j}": FEATURES[:, j] for j in (3, 1, 0, 5, 4, 2)}
    numbered |= {f"logit_{j}": LOGITS[:, j] for j in range(CLASSES)}
    data = pa.table({"name": pa.array(["x"] * ROWS), **numbered, "label": pa.array(LABELS.astype(np.uint8))})
    parquet("numbered.parquet", data, compression="snappy", row_group_size=32)
    pd.DataFrame(FEATURES).rename(columns=str).to_parquet(FOLDER / "pandas.parquet")
    frame = pl.DataFrame({"features": pl.Series(FEATURES), "labels": LABELS})
    frame.write_parquet(FOLDER / "polars.parquet")
    data = whole("fixed")
    for number, (start, stop) in enumerate(((0, 45), (45, 45), (45, ROWS))):
        parquet(f"spark/part-0000{number}-3b2c-c000.snappy.parquet", data.slice(start, stop - start))
    (FOLDER / "spark" / "_SUCCESS").touch()
    (FOLDER / "spark" / ".part-00000-3b2c-c000.snappy.parquet.crc").write_bytes(b"crc")
    with pa.ipc.new_file(FOLDER / "file.arrow", data.schema) as writer:
        writer.write_table(data, max_chunksize=50)
    with pa.ipc.new_stream(FOLDER / "stream.arrow", whole().schema) as writer:
        writer.write_table(whole(), max_chunksize=50)
    pa.feather.write_feather(whole("large"), FOLDER / "lz4.feather", compression="lz4")
    pa.feather.write_feather(whole(), FOLDER / "zstd.feather", compression="zstd", chunksize=50)
    np.savez(FOLDER / "openood.npz", feat_list=FEATURES, label_list=LABELS)
    np.savez_compressed(FOLDER / "deflated.npz", features=FEATURES, logits=LOGITS, labels=LABELS)
    np.savez(FOLDER / "single.npz", FEATURES.astype(np.float64), names=np.array(["a", "b"]))


def bad() -> None:
    """Files that must be refused."""
    rows = FEATURES[:4].tolist()
    of = lambda values: pa.table({"features": pa.array(values, pa.list_(pa.float32()))})  # noqa: E731
    parquet("bad/null-row.parquet", of([*rows[:2], None, rows[3]]))
    parquet("bad/null-number.parquet", of([*rows[:3], [1.0, None, 2.0, 3.0, 4.0, 5.0]]))
    parquet("bad/ragged.parquet", of([*rows[:3], rows[3][:5]]))
    parquet("bad/empty-lists.parquet", of([[], []]))
    parquet("bad/nan.parquet", of([*rows[:3], [1.0, 2.0, float("nan"), 3.0, 4.0, 5.0]]))
    parquet("bad/no-rows.parquet", of([]))
    parquet("bad/text.parquet", pa.table({"features": pa.array(["a", "b"])}))
    parquet("bad/integers.parquet", pa.table({"features": pa.array([[1, 2], [3, 4]])}))
    parquet("bad/gap.parquet", pa.table({f"f{j}": FEATURES[:4, j] for j in (0, 1, 3)}))
    parquet("bad/null-column.parquet", pa.table({"f0": [1.0, 2.0], "f1": [1.0, None]}))
    parquet("bad/null-label.parquet", pa.table({"features": lists(FEATURES[:2]), "labels": pa.array([0, None])}))
    parquet("bad/brotli.parquet", whole(), compression="brotli")
    encrypted("bad/encrypted.parquet", plaintext_footer=False)
    encrypted("bad/encrypted-columns.parquet", plaintext_footer=True)
    with pa.ipc.new_file(FOLDER / "bad" / "ragged.arrow", of(rows).schema) as writer:
        writer.write_table(of([*rows[:3], rows[3][:5]]))


class Keys(pe.KmsClient):
    """Keys that are no secret."""

    def __init__(self, _: object) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        """Do nothing but encode."""
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        """Undo it."""
        return base64.b64decode(wrapped_key)


def encrypted(name: str, plaintext_footer: bool) -> None:
    """One encrypted file."""
    factory = pe.CryptoFactory(lambda config: Keys(config))
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["features"]}, plaintext_footer=plaintext_footer
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    data = pa.table({"features": FEATURES[:, 0]})
    with pq.ParquetWriter(FOLDER / name, data.schema, encryption_properties=properties) as writer:
        writer.write_table(data)


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    good()
    bad()
    print(sum(path.stat().st_size for path in FOLDER.rglob("*")), "bytes")
