"""Set up the installation for the search benchmark: real services in a temporary folder, filled by the production stages.

From the synthetic company it builds a filled installation and an HTTP service for it, and writes files with the same texts, vectors,
permissions and queries for measuring the vector server alone and the peers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import numpy as np

from assets import pipeline
from assets.index.targets import active_target
from bench.search_data import Company, parquet
from resources import keys
from resources.core.bm25 import encode_query
from resources.core.domain import STAGES, Access, SourceName
from resources.core.tables import embedded_table
from resources.embedding import embedder
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.processes import free_port
from resources.servers.vector.__main__ import COMPACT_FROM
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.stores.migrate import migrate
from resources.stores.qdrant_search import batch_body
from resources.syncing import open_sync
from serving.retrieval.plan import queries
from serving.retrieval.query import search_query
from tests.fixtures.vector import VectorProcess

ROOT = Path(__file__).resolve().parents[1]


def say(text: str) -> None:
    """Print progress."""
    print(f"… {text}", file=sys.stderr, flush=True)


@contextmanager
def parts() -> Iterator[tuple[Path, Settings, dict[str, int]]]:
    """Yield a temporary folder, settings of embedded services in it, and their process ids; everything is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="concordance-bench-"))
    folder.chmod(0o711)
    root = {"name": "texts", "url": (folder / "texts").as_uri(), "tenant": "bench", "dataset": "texts"}
    plain = Settings(  # type: ignore[call-arg]
        _env_file=None, home=folder / "home", postgres_port=free_port(), file_roots=json.dumps([root])
    )
    postgres, vectors = EmbeddedPostgres(plain), VectorProcess(folder / "vectors")
    try:
        keys.ensure(plain)
        postgres.start()
        vectors.start()
        migrate(plain.postgres_dsn)
        settings = plain.model_copy(update={"qdrant_url": vectors.url})
        yield folder, settings, {"postgres": postgres.pid or 0, "qdrant": vectors.pid}
    finally:
        vectors.close()
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def grow(settings: Settings, company: Company, folder: Path, first: int, count: int) -> float:
    """Add documents through the stages with synthetic vectors. Returns the seconds, including compaction."""
    began = time.monotonic()
    company.write(folder, first, count)
    say(f"{count:,} documents written in {time.monotonic() - began:.0f} s")
    with open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        for stage in STAGES:
            started = time.monotonic()
            if stage == "embedded":
                _embed(job.stores, company)
            done = job.run(stage, partial(pipeline.WORK[stage], job)).counts
            say(f"{stage} in {time.monotonic() - started:.0f} s: {json.dumps(done)}")
        if job.counts.failed or job.counts.skipped:
            raise SystemExit(f"Documents are missing: {job.counts}")
        _compact(job.stores)
    return round(time.monotonic() - began, 1)


def _embed(stores: Stores, company: Company) -> None:
    """Write a synthetic vector to the lake for every chunk without one, so that the stage has nothing left to embed."""
    collection = active_target(stores).collection
    table = embedded_table(collection.model, collection.dimensions)
    known = stores.lake.scan(table).select("text_hash").collect()
    chunks = stores.lake.scan("chunked").select("text_hash", "text", "tokens").unique("text_hash").collect()
    missing = chunks.join(known, on="text_hash", how="anti").sort("text_hash")
    hashes, texts, tokens = (missing[name].to_list() for name in ("text_hash", "text", "tokens"))
    stores.lake.append_vectors(table, collection.model, hashes, company.vectors(texts), tokens, datetime.now(UTC))
    say(f"{len(texts):,} chunks of {sum(tokens) / len(tokens):.0f} tokens have a vector")


def _compact(stores: Stores) -> None:
    """Compact the collection if it is large enough, as the vector server would do some seconds later."""
    collection, began = active_target(stores).collection.name, time.monotonic()
    if qdrant.count_points(stores.qdrant, collection) < COMPACT_FROM:
        return
    while True:
        answer = httpx.post(f"{stores.settings.qdrant_address}/collections/{collection}/compact", timeout=1800)
        if answer.status_code != httpx.codes.CONFLICT:  # already compacting
            answer.raise_for_status()
            break
        time.sleep(1)
    say(f"compacted in {time.monotonic() - began:.0f} s")


@contextmanager
def serving(environment: Mapping[str, str], log: Path, workers: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the port and process id of the HTTP service, once all of its processes have started."""
    port = int(environment["CONCORDANCE_HTTP_PORT"])
    before = log.read_text().count('"serving_started"') if log.exists() else 0
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "serving"], cwd=ROOT, env=dict(environment), stdout=out, stderr=out
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


def prepare(settings: Settings, folder: Path, access: Access, questions: Sequence[str], size: int) -> None:
    """Write the input of the vector server alone and of the peers: the product's batched queries; texts, vectors and queries."""
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
    with open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        collection = active_target(job.stores).collection
        chunks = job.stores.connection.execute(
            "SELECT c.chunk_id::text, d.title, c.chunk_text AS text, d.permissions, c.text_hash"
            " FROM active_chunks AS c JOIN documents AS d USING (doc_id) ORDER BY c.chunk_id"
        ).fetchall()
        hashes = [chunk.pop("text_hash") for chunk in chunks]
        found, vectors = job.stores.lake.vectors(embedded_table(collection.model, collection.dimensions), hashes)
    readable = sum(not access.principals.isdisjoint(chunk["permissions"]) for chunk in chunks) / len(chunks)
    say(f"{len(chunks):,} chunks, of which the caller may read {readable:.0%}")
    if not found.all() or abs(len(chunks) - size) > size / 100:
        raise SystemExit(f"Expected {size} chunks, found {len(chunks)}, {int(found.sum())} of them with a vector.")
    parquet(folder / "chunks.parquet", chunks)
    np.save(folder / "vectors.npy", vectors)
