"""Measure the vector server's memory and speed by the size of the vectors, in the collection that the product creates.

`python -m bench.dimensions [--points 100000] [--dimensions 384 1536 3072] [--on-disk]`. For each size: a server of its own, filled and
compacted once; its proportional set size (PSS) split into its own memory and mapped files, at rest and after the searches; one client's
dense searches as a person with 50 principals of 2,000; and the share of the 50 nearest of an exact search that these find. Vectors are
synthetic: 2,000 clusters in a space of 64 dimensions, with noise. The last line is JSON. It needs 12 kB of disk for each point of 3,072.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.qdrant_remote import QdrantRemote

from resources.core.bm25 import SparseVector
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.qdrant import CollectionLayout
from tests.fixtures.vector import VectorProcess

BATCH = 1_000
CLUSTERS, RANK, NOISE = 2_000, 64, 0.3
PRINCIPALS, READERS, HELD = 2_000, 8, 50
DEPTH, QUERIES, WARM = 50, 200, 20

Floats = NDArray[np.float32]


class Space:
    """Clustered vectors of one size."""

    def __init__(self, dimensions: int) -> None:
        self._generator = np.random.default_rng(dimensions)
        self._basis = self._generator.normal(size=(RANK, dimensions)).astype(np.float32)
        self._centers = self._generator.normal(size=(CLUSTERS, RANK)).astype(np.float32)

    def vectors(self, count: int) -> Floats:
        """Return that many vectors of length 1, as float32 rows."""
        chosen = self._centers[self._generator.integers(CLUSTERS, size=count)]
        low = chosen + NOISE * self._generator.normal(size=chosen.shape).astype(np.float32)
        rows = low @ self._basis
        rows += NOISE * self._generator.normal(size=rows.shape).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[384, 1_536, 3_072])
    parser.add_argument("--on-disk", action="store_true", help="keep full vectors out of memory at every size")
    arguments = parser.parse_args()
    figures = [measured(arguments.points, dimensions, on_disk=arguments.on_disk) for dimensions in arguments.dimensions]
    columns = list(figures[0])
    print(" | ".join(columns))
    for one in figures:
        print(" | ".join(str(one[name]) for name in columns))
    print(json.dumps(figures))


def measured(points: int, dimensions: int, *, on_disk: bool) -> dict[str, Any]:
    """Return the figures of one size."""
    with tempfile.TemporaryDirectory(prefix="concordance-bench-") as folder:
        server = VectorProcess(Path(folder) / "vectors", options=("--compact-from", "0"))
        server.start()
        settings = Settings(_env_file=None, home=Path(folder), qdrant_url=server.url)  # type: ignore[call-arg]
        try:
            with closing(qdrant.client(settings, 3_600)) as client:
                name = qdrant.collection_name("bench", dimensions)
                qdrant.create_collection(client, name, dimensions, CollectionLayout(on_disk=on_disk or None))
                space, rng = Space(dimensions), random.Random(dimensions)
                began = time.perf_counter()
                stored = np.concatenate([
                    _filled(client, name, space, rng, first, min(BATCH, points - first)) for first in range(0, points, BATCH)
                ])  # fmt: skip
                filling = time.perf_counter() - began
                began = time.perf_counter()
                httpx.post(f"{server.url}/collections/{name}/compact", timeout=3_600).raise_for_status()
                compaction = time.perf_counter() - began
                server.close()
                server.start()  # what it needs, without what filling left behind
                rest = _memory(server.pid)
                spent, recall = _searched(server.url, name, space, rng, stored)
                after = _memory(server.pid)
        finally:
            server.close()
    return {
        "dimensions": dimensions,
        "on_disk": on_disk,
        "points": points,
        "own_mb_at_rest": rest[0],
        "own_mb": after[0],
        "mapped_mb": after[1],
        "dense_p50_ms": round(statistics.median(spent) * 1000, 2),
        "dense_p95_ms": round(statistics.quantiles(spent, n=20)[-1] * 1000, 2),
        "found_of_the_nearest": recall,
        "points_per_s": round(points / filling),
        "compaction_s": round(compaction, 1),
    }


def _filled(client: QdrantRemote, name: str, space: Space, rng: random.Random, first: int, count: int) -> Floats:
    """Write points and return their vectors."""
    rows = space.vectors(count)
    ids = [_id(first + at) for at in range(count)]
    payloads = [{"permissions": _principals(rng, READERS), "doc_id": _id((first + at) // 8)} for at in range(count)]
    sparse = [SparseVector([1], [1.0])] * count
    qdrant.upsert(client, name, ids, rows.tolist(), sparse, payloads)
    if (first + count) % (20 * BATCH) == 0:
        print(f"… {name}: {first + count:,} points", file=sys.stderr, flush=True)
    return rows


def _searched(url: str, name: str, space: Space, rng: random.Random, stored: Floats) -> tuple[list[float], float]:
    """Return seconds of each search, and the mean share of the nearest that the searches without a filter find."""
    client = QdrantClient(url=url, timeout=600)
    rows = space.vectors(WARM + QUERIES)
    spent: list[float] = []
    for number, row in enumerate(rows):
        permitted = models.Filter(
            must=[models.FieldCondition(key="permissions", match=models.MatchAny(any=_principals(rng, HELD)))]
        )
        began = time.perf_counter()
        _nearest(client, name, row, permitted)
        if number >= WARM:
            spent.append(time.perf_counter() - began)
    shares: list[float] = []
    for row in rows[:WARM]:
        exact = {_id(int(at)) for at in np.argsort(-(stored @ row))[:DEPTH]}
        shares.append(len(exact & set(_nearest(client, name, row, None))) / DEPTH)
    return spent, round(statistics.mean(shares), 3)


def _nearest(client: QdrantClient, name: str, row: Floats, permitted: models.Filter | None) -> list[str]:
    found = client.query_points(
        name,
        query=row.tolist(),
        using=qdrant.DENSE,
        query_filter=permitted,
        limit=DEPTH,
        search_params=qdrant.RESCORED,
        with_payload=False,
    )
    return [str(one.id) for one in found.points]


def _principals(rng: random.Random, count: int) -> list[str]:
    return [f"user{rng.randrange(PRINCIPALS)}@example.com" for _ in range(count)]


def _id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _memory(pid: int) -> tuple[int, int]:
    """Return a process's own memory and its share of mapped files, in megabytes."""
    own = mapped = 0
    for region in psutil.Process(pid).memory_maps():
        if region.path.startswith(("[", "/dev/zero")):
            own += region.pss
        else:
            mapped += region.pss
    return round(own / 1e6), round(mapped / 1e6)


if __name__ == "__main__":
    main()
