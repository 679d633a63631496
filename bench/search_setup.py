"""Start the services of the search benchmark in a temporary folder, and write what the vector server alone and the peers are given."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import numpy as np
import polars as pl

from bench.installation import servers, temporary_folder
from bench.search_data import Company, Floats
from resources.core.bm25 import encode_query
from resources.core.domain import Access
from resources.embedding import embedder
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.postgres import session
from resources.stores.qdrant_search import batch_body
from serving.search.retrieval.plan import queries
from serving.search.retrieval.query import search_query


def say(text: str) -> None:
    """Print progress."""
    print(f"… {text}", file=sys.stderr, flush=True)


@contextmanager
def parts() -> Generator[tuple[Path, Settings, dict[str, int]]]:
    """Yield a temporary folder, settings of embedded services in it, and their process ids; everything is removed afterwards."""
    # Compacted once after filling, not several times on the way.
    compacted = ("--compact-from", "0")
    with temporary_folder() as folder:
        root = {"name": "texts", "url": (folder / "texts").as_uri(), "tenant": "bench", "dataset": "texts"}
        with servers(folder, compacted, file_roots=json.dumps([root])) as (settings, pids):
            yield folder, settings, pids


def prepare(settings: Settings, folder: Path, access: Access, questions: Sequence[str]) -> None:
    """Write the queries for the vector server alone, as the product's batches, and for the peers, as texts and vectors."""
    model = embedder(settings)
    rows = np.stack([model.embed_query(question) for question in questions])
    bodies: list[str] = []
    for question, vector in zip(questions, rows, strict=True):
        query = search_query(question, access, settings, limit=5)
        batch = queries(query, vector.tolist(), encode_query(question), with_payload=False)
        bodies.append(batch_body(batch).decode())
    (folder / "batches.jsonl").write_text("\n".join(bodies))
    asked = {"questions": list(questions), "principals": sorted(access.principals)}
    (folder / "queries.json").write_text(json.dumps(asked))
    np.save(folder / "query_vectors.npy", rows)


def check(settings: Settings, access: Access, size: int) -> None:
    """Print how many passages the caller may read. Raises `SystemExit` if the stores do not hold as many as wanted."""
    with session(settings.postgres_dsn) as connection, closing(qdrant.client(settings)) as client:
        found = connection.execute(
            "SELECT count(*) AS chunks, count(*) FILTER (WHERE d.permissions && %s::text []) AS readable"
            " FROM active_chunks AS c JOIN documents AS d USING (doc_id)",
            [sorted(access.principals)],
        ).fetchone()
        points = qdrant.count_points(client, qdrant.ALIAS)
    chunks, readable = (found["chunks"], found["readable"]) if found else (0, 0)
    say(f"{chunks:,} chunks, of which the caller may read {readable / max(1, chunks):.0%}")
    if chunks != points or abs(chunks - size) > size / 100:
        raise SystemExit(f"Expected {size} chunks, found {chunks} in Postgres and {points} in the vector server.")


def export(folder: Path, company: Company, documents: int) -> None:
    """Write the passages with permissions and vectors for the peers."""
    rows: list[dict[str, Any]] = []
    vectors: list[Floats] = []
    for document in map(company.document, range(documents)):
        rows += [
            {
                "chunk_id": str(uuid5(NAMESPACE_OID, f"{document.number}/{index}")),
                "title": document.title,
                "text": text,
                "permissions": document.readers,
            }
            for index, text in enumerate(document.texts)
        ]
        vectors.append(company.vectors(document))
    pl.DataFrame(rows).write_parquet(folder / "chunks.parquet")
    np.save(folder / "vectors.npy", np.concatenate(vectors))
