"""Measure the memory of an erasure from a large lake table, with rows in all of its files.

`python -m bench.erasure --megabytes 600`. The table is filled by one process and erased by another, whose memory is measured.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from resources.core.tables import embedded_table
from resources.stores.lake import Lake
from resources.stores.lake_erasure import drop_rows, left, scrub

DIMENSIONS = 384
BATCH = 20_000
"""Vectors an append; some 30 MB, which do not compress."""


def fill(url: str, name: str, megabytes: int) -> int:
    """Append vectors until the table has this size, and merge its files as upkeep does. Returns the rows."""
    lake, rng, rows = Lake(url), np.random.default_rng(7), 0
    while rows * DIMENSIONS * 4 < megabytes * 2**20:
        hashes = [f"hash-{number:09}" for number in range(rows, rows + BATCH)]
        vectors = rng.standard_normal((BATCH, DIMENSIONS), dtype=np.float32)
        lake.append_vectors(name, "bench", hashes, vectors, [100] * BATCH, datetime.now(UTC))
        rows += BATCH
    lake.compact(name, past=1)
    return rows


def erase(url: str, name: str, rows: int, every: int) -> dict[str, float]:
    """Erase rows from every file; return seconds and megabytes of memory before, at most, and rows that are left."""
    lake = Lake(url)
    hashes = [f"hash-{number:09}" for number in range(0, rows, every)]
    lake.scan(name).select(pl.len()).collect()
    before, began = _peak(), time.monotonic()
    erased = drop_rows(lake, name, "text_hash", hashes, lambda: None)
    remaining = left(lake, name, "text_hash", hashes)
    scrub(lake, name, lambda: None)
    seconds = round(time.monotonic() - began, 1)
    return {"erased": erased, "left": remaining, "seconds": seconds, "before_mb": before, "peak_mb": _peak()}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _megabytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet")) // 2**20


def main() -> None:
    """Fill, erase, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--every", type=int, default=200, help="erase every n-th row, so that each file contains one")
    wanted = parser.parse_args()
    folder, name = Path(tempfile.mkdtemp(prefix="concordance-bench-")), embedded_table("bench", DIMENSIONS)
    spawn = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            rows = pool.submit(fill, folder.as_uri(), name, wanted.megabytes).result()
        size = _megabytes(folder)
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            figures = pool.submit(erase, folder.as_uri(), name, rows, wanted.every).result()
        figures |= {"rows": rows, "table_mb": size, "table_after_mb": _megabytes(folder)}
    finally:
        shutil.rmtree(folder)
    print(
        f"{figures['erased']:,} of {rows:,} rows erased from all files of a table of {size} MB in {figures['seconds']} s: "
        f"memory {figures['before_mb']} MB before, {figures['peak_mb']} MB at most"
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
