"""Rows of the registry, as its statements return them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Known(msgspec.Struct, frozen=True):
    """Document as the registry holds it."""

    doc_id: str
    source_id: str
    partition: str
    mime_type: str
    version: str
    content_hash: str | None
    content_key: str | None
    payload_hash: str
    state: str
    stage: str | None
    reason: str | None
    attempts: int
    collection_ids: list[str]
    permissions: list[str]
    due: bool
    """True if its bytes could not be read and are to be read again now."""


class Permitted(Known, frozen=True):
    """A document with the metadata that its point carries."""

    source_title: str
    path: str
    url: str | None
    owner: str | None
    author: str | None
    description: str | None
    size: int | None
    created_at: datetime | None
    modified_at: datetime | None
    tags: dict[str, Any]
    profile: str
    locator: str


class Chosen(msgspec.Struct, frozen=True):
    """A document that a run is limited to."""

    doc_id: str
    source_id: str


class Hidden(msgspec.Struct, frozen=True):
    """A document that is no longer shown, and whether the index has points of it."""

    doc_id: str
    partition: str
    indexed: bool


class Readdressed(msgspec.Struct, frozen=True):
    """A document that has lost readers whose addresses have changed."""

    doc_id: str
    partition: str


class ListingKeys(msgspec.Struct, frozen=True):
    """The keys of a partition's documents, eight bytes each, how many have each, and the number of its documents with a key or without."""

    keys: bytes
    counts: bytes
    documents: int


class CollectionRoot(msgspec.Struct, frozen=True):
    """A folder, and the root that holds it."""

    collection: str
    partition: str


class Pending(msgspec.Struct, frozen=True):
    """A document whose index entry is missing or out of date."""

    doc_id: str
    source_id: str
    partition: str
    content_hash: str
    content_key: str
    mime_type: str
    title: str
    description: str | None
    profile: str
    owner: str | None
    tags: dict[str, Any]
    state: str
    stage: str | None
    """Stage that rejected it, if it is not live."""
    attempts: int
    was_indexed: bool
    """True if the index may contain points of it, from an earlier version or an interrupted sync."""
    size: int
    """Bytes of its content; 0 if unknown."""
    changed: float
    """When the registry row last changed, in seconds since 1970."""
    again: bool
    """True if the index has this content already, in another version or to be written again, or if parsing rejected it."""


class SavedCursor(msgspec.Struct, frozen=True):
    """Where a partition's changes continue. `reread`: every document is fetched again until the listing ends."""

    cursor: str | None
    reread: bool
    begun_at: datetime
    """The time of Postgres, before anything is read from the source."""


class Requested(msgspec.Struct, frozen=True):
    """Requests that were added to a running sync, as one; `partitions` None: all."""

    partitions: list[str] | None
    full_sync: bool


class Started(msgspec.Struct, frozen=True):
    """A job that was just created."""

    job_id: str
    started_at: datetime


class RunningJob(msgspec.Struct, frozen=True):
    """A running job of a source, and its age in seconds."""

    job_id: str
    partitions: list[str] | None
    claimed_at: datetime | None
    age: float
    alive: bool
    """True if the process that has claimed it has its lease."""


class Job(msgspec.Struct, frozen=True):
    """A sync job."""

    source: str
    status: str
    partitions: list[str] | None
    full_sync: bool
    planned: bool
    """True if a sync of the whole source left these partitions to it."""
    synced: int
    failed: int
    retries: int
    retries_failed: int
    error_message: str | None


class JobError(msgspec.Struct, frozen=True):
    """A document that a sync skipped or failed on."""

    source_id: str
    stage: str
    reason: str
    outcome: str


class FetchedContent(msgspec.Struct, frozen=True):
    """A content that was fetched for a batch which was interrupted."""

    source_id: str
    version: str
    content_hash: str
    size: int


class Approved(msgspec.Struct, frozen=True):
    """An approved deletion."""

    partition: str
    source_id: str
    source_time: datetime | None


class MemoryEntry(msgspec.Struct, frozen=True):
    """A key of a source's memory."""

    key: str
    value: Any


class PartitionCounts(msgspec.Struct, frozen=True):
    """A partition with its documents by state and what the active collection has of them."""

    partition: str
    title: str | None
    live: int
    skipped: int
    failed: int
    indexed: int
    passages: int


class SourceState(msgspec.Struct, frozen=True):
    """Sync state of a source: whether it is paused, and the credentials of the last attempt."""

    paused_at: datetime | None
    paused_reason: str | None
    credentials: str | None
    tried_at: datetime | None


class Removable(msgspec.Struct, frozen=True):
    """A document that must leave the index."""

    doc_id: str
    source_id: str
    partition: str
    state: str
    deleted_at: datetime | None
    gone_at_source: datetime | None
    gone_is_exact: bool
    chunk_count: int


class OutdatedPassage(msgspec.Struct, frozen=True):
    """A passage whose keyword vector is out of date."""

    chunk_id: str
    doc_id: str
    chunk_index: int
    chunk_text: str
    language: str | None


class IndexPass(msgspec.Struct, frozen=True):
    """The comparison of all documents with a collection: with what, and up to which source id; None: it is complete."""

    wanted: str
    after: str | None


class LakeTable(msgspec.Struct, frozen=True):
    """A table of the lake, and up to which time its keys are listed; with `complete`, all are."""

    number: int
    complete: bool
    after: datetime | None


class IndexTotals(msgspec.Struct, frozen=True):
    """Documents and passages of a source."""

    documents: int
    chunks: int


class CheckedPartition(msgspec.Struct, frozen=True):
    """A partition, and when its permissions were last checked."""

    partition: str
    acl_checked_at: datetime


class CollectionRow(msgspec.Struct, frozen=True):
    """A collection of the vector index, with its model."""

    name: str
    model: str
    dimensions: int
    bm25_avg_len: float
    provider: str | None
    model_source: str | None
    model_dimensions: int | None
    model_window: int | None
    model_prompts: str | None
    active: bool


class CollectionState(msgspec.Struct, frozen=True):
    """A collection that was created here at some time."""

    name: str
    model: str
    dimensions: int
    active: bool
    building: bool
    replaced_at: datetime | None
    just_replaced: bool
    expired: bool


class ProfileUse(msgspec.Struct, frozen=True):
    """A chunking profile and the number of its documents."""

    profile: str
    documents: int


class LeftBehind(msgspec.Struct, frozen=True):
    """Gaps of a secondary collection, and the number of points that it should have."""

    documents: int
    points: int
    sources: list[str]


class Readable(msgspec.Struct, frozen=True):
    """A document with its readers."""

    doc_id: str
    title: str
    source: str
    source_id: str
    permissions: list[str]
