"""Fill an installation for the benchmark of ticks: documents of one source with one passage each, written directly to the stores.

One document is synced first, which creates collection and tables; the others are registered by the pipeline's own rows, and what the
stages after that derive from a document is copied from the first one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from assets.chunked import batches
from assets.index.points import derived_version
from assets.index.targets import active_target
from assets.intake.fetching import Fetched
from assets.intake.rows import append, fetched_row
from assets.stages.diff import MAX_ATTEMPTS
from assets.stages.identify import passage_version, scoped_hash
from assets.stages.payload import chunk_payload, document_payload
from bench.search_setup import say
from resources.core import bm25
from resources.core.domain import DEFAULT_PROFILE, Item, SourceName, chunk_id, document_id
from resources.core.tables import embedded_table, table
from resources.settings import Settings
from resources.sources import open_source
from resources.sources.push import place_of
from resources.stores import qdrant
from resources.stores.blobs import Blobs
from resources.stores.postgres import Connection, session
from resources.stores.uploads import NewUpload, record
from resources.syncs.syncing import SyncJob, open_sync

ROOT = "texts"
GENERATED = {"tsv"}
OWNER = "ada@bench.example"
GROUP = 2000
PER_FOLDER = 1000
REPORT_EVERY = 100_000


def fill(settings: Settings, source: SourceName, folder: Path, count: int, sync: Callable[[], object]) -> None:
    """Add `count` documents of a source; `sync` syncs it once."""
    _add(settings, source, folder, range(1))
    sync()
    if source is SourceName.FILES:
        _add(settings, source, folder, range(1, count))
    else:
        _push_like_first(settings, range(1, count))
    with open_sync(settings, source, requested_by="bench") as job:
        _register(job)
        for name in job.stores.lake.names():
            job.stores.lake.compact(name, past=1)
    with session(settings.postgres_dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    say(f"{source.value}: {count:,} documents written")


def change(settings: Settings, source: SourceName, folder: Path, count: int) -> None:
    """Give the first documents another text."""
    _add(settings, source, folder, range(count), version=2)


def _text(number: int, version: int = 1) -> str:
    return (
        f"# Note {number}\n\nThe parcel {number} was weighed {version} times at the depot before it went on by rail.\n"
    )


def _add(settings: Settings, source: SourceName, folder: Path, numbers: Sequence[int], version: int = 1) -> None:
    """Provide documents as the source shows them: files, or records of pushed documents with their bytes in the blob store."""
    if source is SourceName.FILES:
        for number in numbers:
            target = folder / "texts" / f"{number // PER_FOLDER:04}" / f"note-{number:07}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_text(number, version))
        return
    blobs = Blobs(settings.lake_address)
    with session(settings.postgres_dsn, autocommit=True) as connection:
        for part in batches(numbers, GROUP):
            with connection.transaction():
                for number in part:
                    data = _text(number, version).encode()
                    blob = blobs.put(iter([data]))
                    name = f"note-{number:07}.md"
                    place = place_of(OWNER, ROOT, name, None, None)
                    record(
                        connection,
                        NewUpload(
                            owner=OWNER,
                            content_hash=blob.content_hash,
                            size=len(data),
                            file_name=name,
                            title=None,
                            description=None,
                            mime_type="text/markdown",
                            permissions=("public",),
                            tags={},
                            place=place,
                        ),
                    )


def _push_like_first(settings: Settings, numbers: Sequence[int]) -> None:
    """Copy the first pushed document's record for others, and write their bytes without waiting for the disk."""
    blobs = Blobs(settings.lake_address)
    with session(settings.postgres_dsn, autocommit=True) as connection:
        first = connection.execute("SELECT * FROM uploads").fetchone() or {}
        for part in batches(numbers, GROUP):
            texts = [_text(number).encode() for number in part]
            hashes = [hashlib.sha256(text).hexdigest() for text in texts]
            for text, content_hash in zip(texts, hashes, strict=True):
                path = blobs.local_path(content_hash)
                if path is None:
                    raise SystemExit("The benchmark needs a lake in a folder.")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
            names = [f"note-{number:07}.md" for number in part]
            source_ids = [place_of(OWNER, ROOT, name, None, None).source_id for name in names]
            given = {
                "source_id": ("text", source_ids),
                "doc_id": ("uuid", [document_id(SourceName.PUSH, source_id) for source_id in source_ids]),
                "content_hash": ("text", hashes),
                "file_name": ("text", names),
                "title": ("text", names),
                "size": ("bigint", [len(text) for text in texts]),
            }
            _copy_row(connection, "uploads", first, given, {"change": "nextval('uploads_change')"})


def _copy_row(
    connection: Connection,
    name: str,
    row: Mapping[str, Any],
    given: Mapping[str, tuple[str, Sequence[Any]]],
    computed: Mapping[str, str],
) -> None:
    """Insert copies of a table's only row, or of the one with these values, with other values in the columns `given`."""
    others = [column for column in row if column not in {*given, *computed, *GENERATED}]
    columns = ", ".join((*given, *computed, *others))
    values = ", ".join((*(f"r.{column}" for column in given), *computed.values(), *(f"t.{one}" for one in others)))
    arrays = ", ".join(f"%s::{type_} []" for type_, _ in given.values())
    key = next(iter(given))
    text = (
        f"INSERT INTO {name} ({columns}) SELECT {values}"  # noqa: S608 - names of columns
        f" FROM unnest({arrays}) AS r ({', '.join(given)}) CROSS JOIN (SELECT * FROM {name} WHERE {key} = %s LIMIT 1) AS t"
    )
    connection.execute(text.encode(), [*(list(column) for _, column in given.values()), row[key]])


def _items(job: SyncJob) -> Iterator[list[Item]]:
    """Yield what the source shows beyond the first document, and save the cursor that follows it."""
    stores = job.stores
    saved = stores.partitions.saved_cursor(partition=ROOT)
    known = saved.cursor
    cursor = known
    total = 0
    for batch in open_source(stores.settings, stores.source).changes(ROOT, known):
        cursor = batch.cursor or cursor
        total += len(batch.seen)
        there = {
            row.source_id
            for row in stores.documents.known(source_ids=[one.source_id for one in batch.seen], attempts=MAX_ATTEMPTS)
        }
        yield [one for one in batch.seen if one.source_id not in there]
    with stores.connection.transaction():
        counted = total + 1 if stores.source is not SourceName.FILES else total
        stores.partitions.save_cursor(partition=ROOT, cursor=cursor, title=None, whole=True, by=0, count=counted)
        stores.partitions.save_check(partition=ROOT, checked_at=saved.begun_at)


def _register(job: SyncJob) -> None:
    """Write the rows of all stages for the documents that the source shows and the registry does not have."""
    stores, done = job.stores, 0
    target = active_target(stores)
    collection = target.collection
    profile = target.profiles[stores.settings.chunk_profile] if stores.source is not SourceName.FILES else None
    profile = profile or target.profiles[DEFAULT_PROFILE]
    parsed = stores.lake.scan("parsed").filter(pl.col("status") == "ok").head(1).collect()
    chunked = stores.lake.scan("chunked").filter(pl.col("chunk_index") == 0).head(1).collect()
    template = stores.connection.execute("SELECT * FROM active_chunks LIMIT 1").fetchone() or {}
    vectors = embedded_table(collection.model, collection.dimensions)
    version = derived_version(collection.bm25_avg_len)
    random = np.random.default_rng(7)
    for items in _items(job):
        for part in batches(items, GROUP):
            now = datetime.now(UTC)
            texts = [_text(int(one.title[5:12])) for one in part]
            rows = [
                fetched_row(job, Fetched(item=item, content_hash=_stored(job, text), size=len(text)), None)
                for item, text in zip(part, texts, strict=True)
            ]
            append(stores, rows, [])
            keys = [row["content_key"] for row in rows]
            hashes = [scoped_hash(key, _hash(text)) for key, text in zip(keys, texts, strict=True)]
            stores.keyed.append("parsed", _copies(parsed, len(rows)).with_columns(content_key=pl.Series(keys)))
            pieces = _copies(chunked, len(rows)).with_columns(
                content_key=pl.Series(keys), text=pl.Series(texts), text_hash=pl.Series(hashes)
            )
            stores.keyed.append("chunked", pieces.select(table("chunked").schema.names()))
            matrix = random.standard_normal((len(rows), collection.dimensions), dtype=np.float32)
            matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
            stores.keyed.append_vectors(vectors, collection.model, hashes, matrix, [30] * len(rows), now)
            points = [chunk_id(row["doc_id"], passage_version(profile.version), 0) for row in rows]
            with stores.connection.transaction():
                stores.documents.save_documents(rows=rows)
                signatures = [target.signatures()[row["profile"]] for row in rows]
                _entries(job, collection.name, version, rows, signatures)
                _passages(job, template, rows, points, texts, hashes)
            registered = {str(row["doc_id"]): row for row in stores.index.rows(doc_ids=[row["doc_id"] for row in rows])}
            sparse = bm25.encode_documents(texts, collection.bm25_avg_len, ["en"] * len(rows))
            qdrant.upsert(
                stores.qdrant,
                collection.name,
                ids=points,
                dense=matrix.tolist(),
                sparse=sparse,
                payloads=[
                    {**document_payload(registered[row["doc_id"]]), **chunk_payload(piece)}
                    for row, piece in zip(rows, pieces.iter_rows(named=True), strict=True)
                ],
            )
            before, done = done, done + len(part)
            if done // REPORT_EVERY > before // REPORT_EVERY:
                say(f"{done:,} documents registered")


def _stored(job: SyncJob, text: str) -> str:
    if job.stores.source is SourceName.FILES:
        return job.stores.blobs.put(iter([text.encode()])).content_hash
    return _hash(text)


def _entries(job: SyncJob, name: str, version: str, rows: Sequence[dict[str, Any]], signatures: Sequence[str]) -> None:
    job.stores.connection.execute(
        "INSERT INTO index_entries (collection, doc_id, content, payload, keywords, chunk_count, indexed_at)"
        " SELECT %s, d.doc_id, d.content_key || '|' || s.signature, d.payload_hash,"
        " %s || E'\\n' || d.title || E'\\n' || d.source_title || E'\\n' || substring(d.path FROM '[^/]*$'), 1, now()"
        " FROM unnest(%s::uuid [], %s::text []) AS s (doc_id, signature) INNER JOIN documents AS d ON d.doc_id = s.doc_id",
        [name, version, [row["doc_id"] for row in rows], list(signatures)],
    )


def _passages(
    job: SyncJob,
    template: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    points: Sequence[str],
    texts: Sequence[str],
    hashes: Sequence[str],
) -> None:
    given = {
        "chunk_id": ("uuid", points),
        "doc_id": ("uuid", [row["doc_id"] for row in rows]),
        "chunk_text": ("text", texts),
        "text_hash": ("text", hashes),
    }
    _copy_row(job.stores.connection, "chunks", template, given, {})


def _copies(frame: pl.DataFrame, count: int) -> pl.DataFrame:
    return frame[[0] * count]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
