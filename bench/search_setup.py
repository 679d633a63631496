"""Start the services of the search benchmark in a temporary folder, and write what the vector server alone and the peers are given."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import httpx
import numpy as np
import polars as pl

from bench.search_data import Company, Floats
from resources import keys, schema
from resources.core.bm25 import encode_query
from resources.core.domain import Access
from resources.embedding import embedder
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.processes import free_port
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.postgres import session
from resources.stores.qdrant_search import batch_body
from serving.search.retrieval.plan import queries
from serving.search.retrieval.query import search_query
from tests.fixtures.vector import VectorProcess

ROOT = Path(__file__).resolve().parents[1]


def say(text: str) -> None:
    """Print progress."""
    print(f"… {text}", file=sys.stderr, flush=True)


@contextmanager
def parts() -> Generator[tuple[Path, Settings, dict[str, int]]]:
    """Yield a temporary folder, settings of embedded services in it, and their process ids; everything is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="concordance-bench-"))
    folder.chmod(0o711)
    root = {"name": "texts", "url": (folder / "texts").as_uri(), "tenant": "bench", "dataset": "texts"}
    plain = Settings(
        _env_file=None,  # pyright: ignore[reportCallIssue]
        home=folder / "home",
        postgres_port=free_port(),
        file_roots=json.dumps([root]),
    )
    # Compacted once after filling, not several times on the way.
    vectors = VectorProcess(folder / "vectors", options=("--compact-from", "0"))
    postgres = EmbeddedPostgres(plain)
    try:
        keys.ensure(plain)
        postgres.start()
        vectors.start()
        schema.prepare(plain.postgres_dsn)
        settings = plain.model_copy(update={"qdrant_url": vectors.url})
        yield folder, settings, {"postgres": postgres.pid or 0, "qdrant": vectors.pid}
    finally:
        vectors.close()
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def serving(environment: Mapping[str, str], log: Path, workers: int = 1) -> Generator[tuple[int, int]]:
    """Yield the port of the HTTP service and the id of the process that started it, once all of its processes have started.

    `log` is `HOME/logs/serving.log`. One process runs by itself, without a supervisor.
    """
    log.parent.mkdir(exist_ok=True)
    port = int(environment["CONCORDANCE_HTTP_PORT"])
    before = log.read_text().count('"serving_started"') if log.exists() else 0
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "serving" if workers == 1 else "bench.serving"],
            cwd=ROOT,
            env=dict(environment),
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                ready = httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
                if ready and log.read_text().count('"serving_started"') - before >= workers:
                    break
            except httpx.TransportError:
                pass
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit(f"The HTTP service is not ready: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


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
