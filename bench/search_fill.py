"""Fill the installation of the search benchmark with a synthetic company, by the pipeline's own writers.

Documents are registered and written to both stores as a sync does, but without files and lake, which searches do not read: their
set-up would take longer than all measurements.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray

from assets.chunked import batches, chunk_version
from assets.index.collection import activate, record
from assets.index.points import IndexEntry, PointWriter, Vectors
from assets.index.targets import Target, active_target
from assets.intake.fetching import Fetched
from assets.intake.rows import fetched_row
from bench.search_data import Company, Document
from bench.search_setup import say
from resources.core import bm25
from resources.core.domain import DEFAULT_PROFILE, Chunk, Folder, Item, SourceName
from resources.servers.vector.__main__ import COMPACT_FROM
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.syncs.syncing import SyncJob, open_sync
from sql.rows import Pending

ROOT = "texts"
TOKENS_PER_WORD = 1.3
"""Measured with the bundled model's tokenizer on these texts."""
GROUP = 200
"""Documents written at a time: 1,000 passages."""
SAMPLE = 1_000
REPORT_EVERY = 20_000


class GivenVectors(Vectors):
    """Vectors of one group of documents, by text hash."""

    def __init__(self, vectors: dict[str, NDArray[np.float32]]) -> None:
        self._vectors = vectors

    def rows(self, hashes: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per hash, in order."""
        return np.stack([self._vectors[text_hash] for text_hash in hashes])


def grow(settings: Settings, company: Company, first: int, count: int) -> float:
    """Add documents `first` to `first + count`. Returns the seconds, including compaction."""
    began = time.monotonic()
    with open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        target = _target(job.stores, company)
        with PointWriter(job, target.collection) as writer:
            for numbers in batches(range(first, first + count), GROUP):
                _write(job, writer, target, company, [company.document(number) for number in numbers])
                if (done := numbers[-1] + 1 - first) % REPORT_EVERY == 0:
                    say(f"{done:,} of {count:,} documents written in {time.monotonic() - began:.0f} s")
        stores = job.stores
        stores.partitions.save_cursor(partition=ROOT, cursor=None, title=None, whole=True, by=0, count=first + count)
        stores.partitions.save_check(partition=ROOT, checked_at=datetime.now(UTC))
        stores.connection.execute("ANALYZE")
        say(f"{count:,} documents written in {time.monotonic() - began:.0f} s")
        _compact(stores)
    return round(time.monotonic() - began, 1)


def _target(stores: Stores, company: Company) -> Target:
    """Return the collection to fill; the first time, it is created with the mean length of some passages."""
    target = active_target(stores)
    if stores.collections.active_collection() is not None:
        return target
    texts = [text for number in range(SAMPLE) for text in company.document(number).texts]
    average = bm25.mean_length(texts, ["en"] * len(texts))
    target = msgspec.structs.replace(
        target, collection=msgspec.structs.replace(target.collection, bm25_avg_len=average)
    )
    name = target.collection.name
    qdrant.create_collection(stores.qdrant, name, target.collection.dimensions)
    record(stores, target)
    qdrant.switch_alias(stores.qdrant, name)
    activate(stores.connection, name)
    return target


def _write(job: SyncJob, writer: PointWriter, target: Target, company: Company, documents: Sequence[Document]) -> None:
    rows = [fetched_row(job, _fetched(document), None) for document in documents]
    with job.writing:
        job.stores.documents.save_documents(rows=rows)
    profile = target.profiles[DEFAULT_PROFILE]
    entries: list[IndexEntry] = []
    vectors: dict[str, NDArray[np.float32]] = {}
    for document, row in zip(documents, rows, strict=True):
        chunks = _chunks(document)
        vectors.update(zip((chunk["text_hash"] for chunk in chunks), company.vectors(document), strict=True))
        entries.append(
            IndexEntry(
                document=_pending(row),
                chunks=chunks,
                version=chunk_version(profile),
                signature=target.collection.signature(profile),
                facts={"document_title": document.title, "language": "en", "page_count": None, "notes": []},
            )
        )
    writer.write(entries, GivenVectors(vectors))


def _fetched(document: Document) -> Fetched:
    name = f"report-{document.number:06}.md"
    folder = f"{document.number // 1000:03}"
    item = Item(
        source_id=f"{ROOT}/{folder}/{name}",
        partition=ROOT,
        title=name,
        path=f"{folder}/{name}",
        mime_type="text/markdown",
        version=str(document.number),
        permissions=tuple(document.readers),
        owner="owner@example.com",
        created_at=document.modified,
        modified_at=document.modified,
        collection_ids=(ROOT, f"{ROOT}/{folder}"),
        folders=(
            Folder(id=ROOT, name="", readers=("public",)),
            Folder(id=f"{ROOT}/{folder}", name=folder, readers=()),
        ),
        tags={"source": "files", "tenant": "bench", "dataset": "texts"},
    )
    return Fetched(item=item, content_hash=_hash("\n\n".join(document.texts)), size=sum(map(len, document.texts)))


def _pending(row: dict[str, Any]) -> Pending:
    now = datetime.now(UTC).timestamp()
    given = {"was_indexed": False, "changed": now, "state": "live", "again": False}
    return msgspec.convert({**row, **given}, Pending, strict=False)


def _chunks(document: Document) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start = 0
    for index, (heading, text) in enumerate(zip(document.headings, document.texts, strict=True)):
        chunk = Chunk(
            chunk_index=index,
            text=text,
            text_hash=_hash(text),
            start_char=start,
            end_char=start + len(text),
            tokens=round(len(text.split()) * TOKENS_PER_WORD),
            section_path=(document.title, heading),
            anchor=heading.lower().replace(" ", "-"),
            language="en",
        )
        found.append(msgspec.structs.asdict(chunk) | {"section_path": list(chunk.section_path), "places": None})
        start += len(text) + 2
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _compact(stores: Stores) -> None:
    """Compact the collection if it is large enough, as the vector server would do some seconds later."""
    collection, began = active_target(stores).collection.name, time.monotonic()
    if qdrant.count_points(stores.qdrant, collection) < COMPACT_FROM:
        return
    while True:
        answer = httpx.post(f"{stores.settings.qdrant_address}/collections/{collection}/compact", timeout=7200)
        if answer.status_code != httpx.codes.CONFLICT.value:  # already compacting
            answer.raise_for_status()
            break
        time.sleep(1)
    say(f"compacted in {time.monotonic() - began:.0f} s")
