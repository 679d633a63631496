"""Measure the embedded vector server over HTTP: upserts per second, p50 of hybrid queries, and CPU of the platform's own.

`python bench/vector.py [--points 20000] [--compact]` starts a server in a temporary folder, fills it through qdrant-client, and sends
dense + BM25 queries as one `query_batch_points` with a filter on 50 principals. An empty round trip in the same run is the baseline.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from qdrant_client import QdrantClient, models

ROOT = Path(__file__).resolve().parents[1]
DIMENSIONS = 384
VOCABULARY = 30_000
PRINCIPALS = 2_000
DEPTH = 50
BATCH = 2_000


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--compact", action="store_true", help="also build the HNSW index and measure again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "resources.servers.vector",
            "--path",
            folder,
            "--port",
            "0",
            "--compact-from",
            "0",
        ]
        server = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        try:
            started = json.loads(next(iter(server.stdout or ())))
            url = f"http://127.0.0.1:{started['port']}"
            figures = measure(url, arguments.points, arguments.queries, compact=arguments.compact)
            figures["person_cpu_ms"] = person_cpu(url, psutil.Process(server.pid), arguments.queries)
            figures["server_mb"] = round(psutil.Process(server.pid).memory_info().rss / 1e6)
        finally:
            server.terminate()
            server.wait()
    for name, value in figures.items():
        print(f"{name:32} {value}")
    print(json.dumps(figures))


def measure(url: str, points: int, queries: int, *, compact: bool) -> dict[str, Any]:
    """Fill the server, measure, and with `compact` measure again after a compaction."""
    client = QdrantClient(url=url, timeout=600)
    client.create_collection(
        "bench",
        vectors_config={"dense": models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    client.create_payload_index("bench", "permissions", models.PayloadSchemaType.KEYWORD)
    generator = np.random.default_rng(7)
    figures: dict[str, Any] = {"points": points, "cpus": os.cpu_count()}
    spent = {"list": 0.0, "columnar": 0.0, "raw_columnar": 0.0}
    counted = dict.fromkeys(spent, 0)
    for number, start in enumerate(range(0, points, BATCH)):
        ids = list(range(start, min(start + BATCH, points)))
        dense = generator.normal(size=(len(ids), DIMENSIONS)).astype(np.float32)
        sparse = [_sparse(80) for _ in ids]
        payloads = [_payload(i) for i in ids]
        kind = list(spent)[number % len(spent)]
        spent[kind] += _upsert(client, url, kind, ids, dense, sparse, payloads)
        counted[kind] += len(ids)
    for kind, seconds in spent.items():
        if counted[kind]:
            figures[f"upserts_per_second_{kind}"] = round(counted[kind] / seconds)
    with httpx.Client(base_url=url) as bare:
        figures["round_trip_p50_ms"] = _p50(lambda: bare.get("/healthz"), queries)
    for exact in ("exact", "hnsw") if compact else ("exact",):
        if exact == "hnsw":
            began = time.perf_counter()
            httpx.post(f"{url}/collections/bench/compact", timeout=3600).raise_for_status()
            figures["compaction_seconds"] = round(time.perf_counter() - began, 1)
        figures[f"hybrid_p50_ms_{exact}"] = _p50(
            lambda: client.query_batch_points("bench", _hybrid(generator)), queries
        )
        figures[f"dense_p50_ms_{exact}"] = _p50(
            lambda: client.query_batch_points("bench", _hybrid(generator)[:1]), queries
        )
        figures[f"bm25_p50_ms_{exact}"] = _p50(
            lambda: client.query_batch_points("bench", _hybrid(generator)[1:]), queries
        )
    return figures


def person_cpu(url: str, server: psutil.Process, queries: int) -> float:
    """Return the server's CPU milliseconds for a search of one person, who searches again and again with the same permissions.

    It is the batch that the platform sends: both legs, and each one's hits scored by the other.
    """
    client, generator = QdrantClient(url=url, timeout=600), np.random.default_rng(11)
    principals = _hybrid(generator)[0].filter
    batches: list[list[models.QueryRequest]] = []
    for _ in range(queries):
        legs = [one.model_copy(update={"filter": principals, "with_payload": False}) for one in _hybrid(generator)]
        scored = [
            one.model_copy(
                update={"prefetch": models.Prefetch(query=by.query, using=by.using, filter=by.filter, limit=by.limit)}
            )
            for one, by in zip(legs, reversed(legs), strict=True)
        ]
        batches.append([*legs, *scored])
    client.query_batch_points("bench", batches[0])
    before = server.cpu_times()
    for batch in batches:
        client.query_batch_points("bench", batch)
    after = server.cpu_times()
    return round((after.user + after.system - before.user - before.system) * 1000 / queries, 2)


def _upsert(
    client: QdrantClient,
    url: str,
    kind: str,
    ids: list[int],
    dense: Any,
    sparse: list[models.SparseVector],
    payloads: list[Any],
) -> float:
    """Return seconds for one batch including the client's work; `raw_columnar` sends prepared bytes, to time the server alone."""
    if kind == "raw_columnar":
        columns = {"dense": dense.tolist(), "bm25": [vector.model_dump() for vector in sparse]}
        body = json.dumps({"batch": {"ids": ids, "vectors": columns, "payloads": payloads}}).encode()
        began = time.perf_counter()
        headers = {"content-type": "application/json"}
        httpx.put(
            f"{url}/collections/bench/points?wait=true", content=body, headers=headers, timeout=600
        ).raise_for_status()
        return time.perf_counter() - began
    began = time.perf_counter()
    if kind == "columnar":
        vectors: Any = {"dense": dense.tolist(), "bm25": sparse}
        client.upsert("bench", models.Batch(ids=list(ids), vectors=vectors, payloads=payloads), wait=True)
    else:
        rows = zip(ids, dense.tolist(), sparse, payloads, strict=True)
        points = [models.PointStruct(id=i, vector={"dense": d, "bm25": s}, payload=p) for i, d, s, p in rows]
        client.upsert("bench", points, wait=True)
    return time.perf_counter() - began


def _hybrid(generator: np.random.Generator) -> list[models.QueryRequest]:
    principals = [f"user{random.randrange(PRINCIPALS)}@example.com" for _ in range(50)]
    permitted = models.Filter(must=[models.FieldCondition(key="permissions", match=models.MatchAny(any=principals))])
    dense = generator.normal(size=DIMENSIONS).tolist()
    return [
        models.QueryRequest(query=dense, using="dense", filter=permitted, limit=DEPTH, with_payload=["chunk"]),
        models.QueryRequest(query=_sparse(6), using="bm25", filter=permitted, limit=DEPTH, with_payload=["chunk"]),
    ]


def _sparse(terms: int) -> models.SparseVector:
    """Return terms with a Zipf-like distribution, so that some are frequent as in text."""
    indices = {min(int(random.paretovariate(0.6)), VOCABULARY) for _ in range(terms)}
    return models.SparseVector(indices=sorted(indices), values=[1.0 + random.random() for _ in indices])


def _payload(i: int) -> dict[str, Any]:
    permissions = [f"user{random.randrange(PRINCIPALS)}@example.com" for _ in range(8)]
    return {
        "chunk": i,
        "permissions": permissions,
        "chunk_text": "a passage of some length " * 30,
        "title": f"Document {i // 8}",
    }


def _p50(call: Any, times: int) -> float:
    call()
    spent: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return round(statistics.median(spent) * 1000, 2)


if __name__ == "__main__":
    main()
