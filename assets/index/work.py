"""The documents of a source whose index entries may differ from what is wanted, so that a sync does not compare all others.

Triggers mark a document when it or one of its entries changes. What all documents depend on, such as the versions of parser and chunking,
is known to this version alone: when it changes, a pass compares every document, page by page, and marks those that differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from assets.index.points import derived_version
from assets.index.targets import Target, secondary_collections
from assets.stages.diff import MAX_ATTEMPTS
from assets.stages.parse import PARSER_VERSION
from resources.stores.clients import Stores
from resources.syncs.syncing import SyncJob

PAGE_DOCUMENTS = 2000
_encode = msgspec.json.Encoder(order="deterministic").encode


class IndexComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What the entries of a collection are compared with."""

    name: str
    signatures: dict[str, str] | None
    """None: the collection is not searched, so its contents are not compared."""
    version: str
    """Version of its keyword vectors."""


def marked(job: SyncJob, active: Target) -> list[str]:
    """Return the ids of documents that may differ from the active collection or one that is kept beside it, without those of other runs."""
    complete_marks(job, active)
    return job.stores.index_work.marked(partitions=job.stores.covered)


def complete_marks(job: SyncJob, active: Target) -> None:
    """Compare all documents with a collection if what is wanted of it has changed."""
    for one in _comparisons(job.stores, active):
        _complete(job, one)


def by_urgency(job: SyncJob, active: Target) -> list[str]:
    """Return the same ids, without comparing before, those of the documents to be indexed first at the beginning."""
    return job.stores.index_work.by_urgency(collection=active.collection.name, partitions=job.stores.covered)


def unmark(job: SyncJob, active: Target, doc_ids: Sequence[str]) -> None:
    """Remove the marks of those of these documents that do not differ any more."""
    if not doc_ids:
        return
    parsed = job.results.get("parsed")
    job.stores.index_work.unmark(
        doc_ids=list(doc_ids),
        collections=_comparisons(job.stores, active),
        attempts=MAX_ATTEMPTS,
        parsed=parsed is not None,
        deferred=sorted(parsed.deferred) if parsed is not None else [],
        partitions=job.partitions,
    )


def merge_counts(stores: Stores) -> None:
    """Merge what statements have added to the counts of the source."""
    stores.index_work.merge_documents()
    stores.index_work.merge_passages()


def _comparisons(stores: Stores, active: Target) -> list[IndexComparison]:
    collection = active.collection
    found = [
        IndexComparison(
            name=collection.name, signatures=active.signatures(), version=derived_version(collection.bm25_avg_len)
        )
    ]
    for name in secondary_collections(stores, collection.name):
        row = stores.collections.collection(name=name)
        if row is not None:
            found.append(IndexComparison(name=name, signatures=None, version=derived_version(row.bm25_avg_len)))
    return found


def _complete(job: SyncJob, one: IndexComparison) -> None:
    """Compare all documents if what is wanted has changed since they were compared; continues a pass that was interrupted."""
    stores = job.stores
    wanted = _wanted(stores, one)
    row = stores.index_work.wanted(collection=one.name)
    if row is not None and row.wanted == wanted and row.after is None:
        return
    stores.index_work.begin_pass(collection=one.name, wanted=wanted, parser=PARSER_VERSION)
    while stores.index_work.mark_page(
        collection=one.name, signatures=one.signatures, version=one.version, most=PAGE_DOCUMENTS
    ):
        job.progress("indexed")


def _wanted(stores: Stores, one: IndexComparison) -> str:
    """Return a hash of what entries depend on. A file that exceeded the time for parsing is tried again with a larger limit."""
    limit: Any = stores.settings.parse_seconds if one.signatures is not None else None
    return hashlib.sha256(_encode([one, limit])).hexdigest()
