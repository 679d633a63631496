"""Measure what a document and a passage cost: bytes in each store, CPU of each step, memory of the vector index; and extrapolate.

`make bench-scale`, or `python -m bench.scale [--documents 1500]`. Two batches of files are synced in a new installation, short ones of
one passage and long ones of several; the difference of the two separates a document's cost from a passage's. Vectors are synthetic
while syncing; the bundled model is measured by itself. CPU is that of all processes. Prints the tables of `docs/scale.md`
(`bench.scale_model`), for 20 M documents, 100 M passages and 10 TB; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from deltalake import DeltaTable

from assets import pipeline
from bench import search_load
from bench.dimensions import measured as vector_server
from bench.ingest import without_embedding
from bench.ingest_uploads import vocabulary_of_samples
from bench.installation import serving
from bench.processes import cpu_seconds
from bench.scale_model import Measured, Row, rounded, solve, tables
from bench.search_load import Job
from bench.search_setup import parts, say
from resources.core.domain import STAGES, SourceName
from resources.embedding import embedder
from resources.logging import configure
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.postgres import session
from resources.syncs.syncing import open_sync
from serving.identity.tokens import mint

SHORT, LONG, WARM = 120, 1_500, 10
"""Words of the documents of the two batches, and how many documents are synced before."""
EMBEDDED = 300
SEARCHES = 400
WARMING = 50
"""Searches before those, with other queries: an answer is cached for minutes."""
POINTS = (20_000, 60_000)
EMAIL = "reader@bench.example"
SMALL_TABLE = 20
"""Tables of Postgres below that many bytes a document and a passage are shown as one line."""


class Batch(NamedTuple):
    """What a batch of documents added: bytes by store and part, and milliseconds of CPU by step."""

    documents: int
    passages: int
    source_bytes: int
    disk: Mapping[tuple[str, str], int]
    cpu: Mapping[str, float]
    graph: float
    """Milliseconds of CPU of the compaction after it, which builds the graph of all passages."""


def main() -> None:
    """Run the benchmark and print the tables."""
    configure("error", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_500, help="documents of each of the two batches")
    arguments = parser.parse_args()
    with parts() as (folder, plain, _):
        root = {
            "name": "texts",
            "url": (folder / "texts").as_uri(),
            "tenant": "bench",
            "dataset": "texts",
            "permissions": ["public"],
        }
        settings = Settings.model_validate(plain.model_dump() | {"file_roots": [root]})
        _batch(settings, folder, "warm", WARM, SHORT)
        idle = _idle(settings)
        small = _batch(settings, folder, "short", arguments.documents, SHORT)
        large = _batch(settings, folder, "long", arguments.documents, LONG)
        _idle(settings)  # keeps the keys of unchanged files
        listing = rounded(max(0.0, _idle(settings) - idle) / (2 * arguments.documents))
        model, tokens = _model(settings)
        search = _searches(settings)
    measured = Measured(
        _rows(small, large),
        [
            Row("sync", "list, unchanged", listing, 0.0),
            *(
                Row(
                    "sync",
                    step,
                    *solve(*((batch.cpu[step], batch.documents, batch.passages) for batch in (small, large))),
                )
                for step in STAGES
            ),
            Row("sync", "compact, build the graph", 0.0, rounded(large.graph / (small.passages + large.passages))),
            Row("model", "embed, bundled model", 0.0, model),
        ],
        _memory(),
        tokens,
    )
    print(tables(measured))
    print(
        f"\nA passage has {tokens:g} tokens. A search takes {search} ms of CPU at {large.passages + small.passages:,} passages."
    )
    figures = {
        "measured": [[row._asdict() for row in rows] for rows in measured[:3]],
        "tokens": tokens,
        "search_ms": search,
        "batches": [
            {"documents": one.documents, "passages": one.passages, "bytes": one.source_bytes} for one in (small, large)
        ],
    }
    print(json.dumps(figures))


def _batch(settings: Settings, folder: Path, name: str, documents: int, words: int) -> Batch:
    """Add documents of a length, sync them stage after stage, and return what that took."""
    written = _write(folder / "texts" / name, documents, words, seed=words + documents)
    (before, _), cpu = _disk(settings), dict[str, float]()
    with without_embedding(), open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        for stage in STAGES:
            began = cpu_seconds(os.getpid())
            counts = job.run(stage, partial(pipeline.WORK[stage], job)).counts
            cpu[stage] = (cpu_seconds(os.getpid()) - began) * 1000
            if stage == "chunked":
                passages = counts["chunks"]
    after, graph = _disk(settings)
    found = Batch(documents, passages, written, {key: after[key] - before.get(key, 0) for key in after}, cpu, graph)
    say(
        f"{name}: {documents:,} documents, {passages:,} passages, CPU {json.dumps({k: round(v) for k, v in cpu.items()})} ms"
    )
    return found


def _write(folder: Path, documents: int, words: int, seed: int) -> int:
    """Write texts whose words follow Zipf's law, as prose does. Returns their bytes."""
    vocabulary, spell, total = vocabulary_of_samples(), random.Random(seed), 0
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    for number in range(documents):
        drawn = spell.choices(vocabulary, weights, k=words)
        sentences = [" ".join(drawn[at : at + 16]).capitalize() + "." for at in range(0, words, 16)]
        target = folder / f"{number // 1000:03}" / f"report-{number:06}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        text = f"# Report {seed} {number}\n\n" + "\n\n".join(
            " ".join(sentences[at : at + 5]) for at in range(0, len(sentences), 5)
        )
        target.write_text(text)
        total += len(text.encode())
    return total


def _idle(settings: Settings) -> float:
    """Return the milliseconds of CPU of a sync without changes, the least of three."""
    spent: list[float] = []
    for _ in range(3):
        began = cpu_seconds(os.getpid())
        with without_embedding(), open_sync(settings, SourceName.FILES, requested_by="bench") as job:
            pipeline.sync(job)
        spent.append((cpu_seconds(os.getpid()) - began) * 1000)
    return min(spent)


def _disk(settings: Settings) -> tuple[dict[tuple[str, str], int], float]:
    """Compact everything. Return bytes by store and part, and the milliseconds of CPU that compacting the vector index took."""
    found: dict[tuple[str, str], int] = {}
    spent = 0.0
    with open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        for name in job.stores.lake.names():
            job.stores.lake.compact(name, past=1)
            table = job.stores.lake.open(name)
            found["lake", _kind(name)] = _live(table) if table is not None else 0
        with closing(qdrant.client(settings, 600)) as client:
            name = qdrant.current_collection(client)
        if name is not None:
            began = cpu_seconds(os.getpid())
            httpx.post(f"{settings.qdrant_address}/collections/{name}/compact", timeout=600).raise_for_status()
            spent = (cpu_seconds(os.getpid()) - began) * 1000
            found["vector index", "vectors, keywords, payload"] = _folder(settings.home.parent / "vectors")
        found["stored bytes", "blobs"] = sum(one.size for one in job.stores.blobs.stored())
    with session(settings.postgres_dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        for row in connection.execute(
            "SELECT relname AS name, pg_total_relation_size(oid) AS size FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ):
            found["Postgres", row["name"]] = row["size"]
    return found, spent


def _kind(name: str) -> str:
    """Return a lake table's name without the model's."""
    return "embedded" if name.startswith("embedded") else name


def _live(table: DeltaTable) -> int:
    """Return the bytes of the files that a table's latest version has."""
    return sum(Path(uri.removeprefix("file://")).stat().st_size for uri in table.file_uris())


def _folder(path: Path) -> int:
    """Return the bytes that a folder takes on the disk, without logs of writes, which are bounded."""
    return sum(one.stat().st_blocks * 512 for one in path.rglob("*") if one.is_file() and "wal" not in one.parts)


def _rows(small: Batch, large: Batch) -> list[Row]:
    rows, rest = list[Row](), [0.0, 0.0]
    keys = sorted(
        large.disk, key=lambda key: (("Postgres", "vector index", "lake", "stored bytes").index(key[0]), key[1])
    )
    for key in keys:
        if key[0] == "stored bytes":
            share = (small.disk[key] + large.disk[key]) / (small.source_bytes + large.source_bytes)
            rows.append(Row(*key, rounded(share), 0.0))
            continue
        each = solve(*((one.disk.get(key, 0), one.documents, one.passages) for one in (small, large)))
        if key[0] == "Postgres" and max(each) < SMALL_TABLE:
            rest = [total + part for total, part in zip(rest, each, strict=True)]
            continue
        rows.append(Row(*key, *each))
    last = max(at for at, row in enumerate(rows) if row.where == "Postgres")
    rows.insert(last + 1, Row("Postgres", "other tables", rounded(rest[0]), rounded(rest[1])))
    return rows


def _model(settings: Settings) -> tuple[float, float]:
    """Return the milliseconds of CPU and the tokens of a passage, with the bundled model."""
    with open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        texts = job.stores.lake.scan("chunked").select("text").collect()["text"].sample(EMBEDDED, seed=7).to_list()
    model = embedder(settings)
    model.embed_counted(texts[:1])
    began = time.process_time()
    _, tokens = model.embed_counted(texts)
    return rounded((time.process_time() - began) * 1000 / EMBEDDED), rounded(tokens / EMBEDDED)


def _searches(settings: Settings) -> float:
    """Return the milliseconds of CPU of a search over HTTP, of all processes but the load generator."""
    token = mint(settings, EMAIL, [], False, timedelta(hours=1))
    spell, vocabulary = random.Random(5), vocabulary_of_samples()
    bodies = settings.home / "searches.jsonl"
    queries = [json.dumps({"query": " ".join(spell.sample(vocabulary, 4))}) for _ in range(WARMING + SEARCHES)]
    with serving(settings) as (port, _):
        job = Job(port, "/api/rag/search", str(bodies), headers={"Authorization": f"Bearer {token}"}, clients=2)
        job = job._replace(must_hold=search_load.SEARCHED)
        bodies.write_text("\n".join(queries[:WARMING]))
        _said(search_load.run(job))
        bodies.write_text("\n".join(queries[WARMING:]))
        began = cpu_seconds(os.getpid())
        done = _said(search_load.run(job))
        spent = cpu_seconds(os.getpid()) - began - done["cpu_s"]
    return rounded(spent * 1000 / len(done["milliseconds"]))


def _said(figures: dict[str, Any]) -> dict[str, Any]:
    if figures["wrong"]:
        raise SystemExit(f"Unexpected response: {figures['wrong'][0]}")
    return figures


def _memory() -> list[Row]:
    """Return the vector server's memory a passage, as the difference between two sizes."""
    rows: list[Row] = []
    for on_disk, name in ((False, "int8 and full vectors in memory"), (True, "int8, on disk")):
        few, many = (vector_server(points, 384, on_disk=on_disk) for points in POINTS)
        say(f"{name}: {json.dumps([few, many])}")
        each = (many["own_mb"] - few["own_mb"] + (0 if on_disk else many["mapped_mb"] - few["mapped_mb"])) * 1e6
        rows.append(Row("384 dimensions", name, 0.0, rounded(each / (POINTS[1] - POINTS[0]))))
    return rows


if __name__ == "__main__":
    main()
