"""Measure alternative libraries on the same texts, vectors, permissions and queries: in process, without HTTP or sign-in.

Run `python bench/search_peers.py NAME FOLDER --seconds 15 [--qdrant URL]` in the benchmark's environment (`bench/requirements.txt`);
nothing of the product is imported. The folder contains `chunks.parquet`, `vectors.npy`, `queries.json` and `query_vectors.npy`. Query
vectors are given, so a peer does not pay for embedding. Each peer filters by the caller's principals, considers 50 candidates per leg
and returns 10. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

DEPTH, TOP_K = 50, 10
THREADS = 8
ONE_CLIENT = 200
COMPACT_FROM = 50_000
"""Number of points from which the vector server builds its HNSW index; below it, exact search is as fast."""
Search = Callable[[int], int]
"""Searches for a query by its number and returns the number of passages found."""


def main() -> None:
    """Load, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(PEERS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=15.0, help="limit of each of the two measurements")
    parser.add_argument("--qdrant", help="URL of a Qdrant, for LlamaIndex")
    arguments = parser.parse_args()
    given = Given(arguments.folder, arguments.qdrant)
    began = time.perf_counter()
    search = PEERS[arguments.name](given)
    loaded = time.perf_counter() - began
    print(json.dumps({"load_s": round(loaded, 1), **_measure(search, len(given.questions), arguments.seconds)}))


class Given:
    """The contents of the folder."""

    def __init__(self, folder: Path, qdrant: str | None) -> None:
        self.folder, self.qdrant = folder, qdrant
        self.chunks: pa.Table = pq.read_table(folder / "chunks.parquet")
        self.vectors = np.load(folder / "vectors.npy")
        asked = json.loads((folder / "queries.json").read_text())
        self.questions: list[str] = asked["questions"]
        self.principals: list[str] = asked["principals"]
        self.query_vectors = np.load(folder / "query_vectors.npy")


def _measure(search: Search, queries: int, limit: float) -> dict[str, Any]:
    for number in range(3):
        search(number)
    spent: list[float] = []
    found = 0
    began = time.perf_counter()
    while len(spent) < min(ONE_CLIENT, queries) and time.perf_counter() - began < limit:
        sent = time.perf_counter()
        found += search(len(spent))
        spent.append((time.perf_counter() - sent) * 1000)
    done: list[int] = []
    began = time.perf_counter()
    end = began + limit

    def client(first: int) -> None:
        number = first
        while time.perf_counter() < end:
            done.append(search(number % queries))
            number += THREADS

    threads = [threading.Thread(target=client, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "p50_ms": round(float(np.percentile(spent, 50)), 1),
        "p95_ms": round(float(np.percentile(spent, 95)), 1),
        "queries": len(spent),
        "passages": round(found / len(spent), 1),
        "searches_per_s_8_threads": round(len(done) / (time.perf_counter() - began), 1),
        "rss_mb": round(psutil.Process().memory_info().rss / 2**20),
    }


def lancedb_hybrid(given: Given) -> Search:
    """LanceDB: HNSW and full-text indexes, a label index on permissions, a hybrid query with reciprocal rank fusion."""
    import lancedb
    from lancedb.index import FTS, HnswSq, LabelList
    from lancedb.rerankers import RRFReranker

    size = given.vectors.shape[1]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(given.vectors.ravel()), size)
    table = lancedb.connect(given.folder / "lance").create_table(
        "chunks", given.chunks.append_column("vector", vectors), mode="overwrite"
    )
    table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=1))
    table.create_index("text", config=FTS())
    table.create_index("permissions", config=LabelList())
    allowed = "array_has_any(permissions, [{}])".format(", ".join(f"'{name}'" for name in given.principals))
    reranker = RRFReranker()

    def search(number: int) -> int:
        asked = table.search(query_type="hybrid").vector(given.query_vectors[number]).text(given.questions[number])
        return len(asked.where(allowed, prefilter=True).rerank(reranker).limit(DEPTH).to_list()[:TOP_K])

    return search


def llamaindex_fusion(given: Given) -> Search:
    """LlamaIndex: vectors in the Qdrant server (a separate collection), BM25 in memory, fused by `QueryFusionRetriever`."""
    import httpx
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import QueryBundle, TextNode
    from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
    from llama_index.retrievers.bm25 import BM25Retriever
    from llama_index.vector_stores.qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient, models

    client = QdrantClient(url=given.qdrant, timeout=300)
    store = QdrantVectorStore("llamaindex", client=client, batch_size=500)
    rows = given.chunks.to_pylist()
    nodes = [
        TextNode(
            id_=row["chunk_id"],
            text=row["text"],
            metadata={"title": row["title"], "permissions": row["permissions"]},
            excluded_embed_metadata_keys=["permissions"],
        )
        for row in rows
    ]
    size = given.vectors.shape[1]
    for node, vector in zip(nodes, given.vectors, strict=True):
        node.embedding = vector.tolist()
    store.add(nodes)
    client.create_payload_index("llamaindex", "permissions", models.PayloadSchemaType.KEYWORD)
    for node in nodes:
        node.embedding = None
    if len(nodes) >= COMPACT_FROM:
        httpx.post(f"{given.qdrant}/collections/llamaindex/compact", timeout=600).raise_for_status()
    # the same meaning under two names: Qdrant's store calls it IN, the BM25 filter calls it ANY
    mine, my_words = (
        MetadataFilters(filters=[MetadataFilter(key="permissions", value=given.principals, operator=operator)])
        for operator in (FilterOperator.IN, FilterOperator.ANY)
    )
    model = MockEmbedding(embed_dim=size)
    index = VectorStoreIndex.from_vector_store(store, embed_model=model)
    dense = index.as_retriever(similarity_top_k=DEPTH, filters=mine)
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=DEPTH, filters=my_words)
    both = QueryFusionRetriever(
        [dense, words], llm=MockLLM(), similarity_top_k=TOP_K, num_queries=1, mode="reciprocal_rerank", use_async=False
    )

    def search(number: int) -> int:
        asked = QueryBundle(given.questions[number], embedding=given.query_vectors[number].tolist())
        return len(both.retrieve(asked))

    return search


PEERS: dict[str, Callable[[Given], Search]] = {"lancedb": lancedb_hybrid, "llamaindex": llamaindex_fusion}


if __name__ == "__main__":
    main()
