"""Statements that the web service uses: `sql/serving`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from sql.family import ArrayText, AsyncFamily, Family, JsonText, QueuedFamily


class ActiveModel(msgspec.Struct, frozen=True):
    """The collection that searches read, with its model."""

    name: str
    model: str
    dimensions: int
    provider: str | None
    model_source: str | None
    model_dimensions: int | None
    model_window: int | None


class StoredAnswer(msgspec.Struct, frozen=True):
    """An answer as it was given; `sources` and `sentences` are decoded JSON."""

    answer_id: str
    query_id: str
    created_at: datetime
    question: str
    standalone: str | None
    answer: str
    found: bool
    mode: str
    model: str | None
    sources: Any
    sentences: Any
    removed_citations: int
    completed: bool
    latency_ms: float
    erased: bool


class StoredKey(msgspec.Struct, frozen=True):
    """An API key, valid or not."""

    key_hash: str
    email: str
    groups: list[str]
    admin: bool
    expires_at: datetime | None
    revoked_at: datetime | None


class Cached(msgspec.Struct, frozen=True):
    """The version of the index, and a search's candidates if they are cached."""

    version: int
    candidates: bytes | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document as the caller may know it."""

    doc_id: str
    title: str
    source_type: str
    source_id: str
    collection_id: str | None
    path: str
    mime_type: str
    url: str | None
    owner: str | None
    author: str | None
    tags: dict[str, Any]
    created_at: datetime | None
    modified_at: datetime | None
    indexed_at: datetime | None
    language: str | None
    page_count: int | None
    chunk_count: int
    acl_checked_at: datetime | None


class ChunkPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk's position in its document."""

    chunk_index: int
    start_char: int
    end_char: int
    section_path: list[str]
    anchor: str | None
    page_start: int | None
    page_end: int | None


class ChunkText(ChunkPlace, frozen=True, kw_only=True):
    """A chunk's text and position."""

    chunk_text: str


class Match(msgspec.Struct, frozen=True):
    """A chunk that full-text search found."""

    chunk_id: str
    score: float


class IngestState(msgspec.Struct, frozen=True):
    """How far an ingest is. `seen`: a sync has processed it; `running_stage` is that of the running sync of uploads."""

    job_id: str
    doc_id: str
    taken_back: bool
    seen: bool
    state: str | None
    reason: str | None
    stage: str | None
    running_stage: str | None
    indexed: bool
    chunk_count: int | None
    page_count: int | None


class Around(msgspec.Struct, frozen=True):
    """A chunk near the chunk `around` of the same document."""

    doc_id: str
    around: int
    chunk_id: str
    chunk_index: int
    chunk_text: str
    page_start: int | None
    page_end: int | None


class NotifiedChannel(msgspec.Struct, frozen=True):
    """The channel that a notification names."""

    partitions: list[str]
    token_hash: bytes


class SourceTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Documents of a source by state."""

    source: str
    live: int
    skipped: int
    failed: int
    lost_access: int
    held_deletions: int


class PartitionTotals(SourceTotals, frozen=True, kw_only=True):
    """Documents of a partition by state, and what its source says."""

    partition: str
    title: str | None
    source_count: int | None
    counted_at: datetime | None
    lost_at: datetime | None
    last_sync_at: datetime | None
    acl_checked_at: datetime | None


class Skips(msgspec.Struct, frozen=True):
    """A reason for which documents of a partition were skipped, and their number."""

    source: str
    partition: str
    reason: str
    count: int


class SyncJobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A sync."""

    source: str
    job_id: str
    status: str
    stage: str | None
    started_at: datetime
    completed_at: datetime | None
    synced: int
    skipped: int
    deleted: int
    failed: int
    embedded: int
    error_message: str | None


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source's state and its latest sync; without one, `job_id` and the fields after it are None."""

    source: str
    paused_at: datetime | None
    paused_reason: str | None
    last_sync_at: datetime | None
    job_id: str | None
    status: str | None
    stage: str | None
    started_at: datetime | None
    completed_at: datetime | None
    synced: int | None
    skipped: int | None
    deleted: int | None
    failed: int | None
    embedded: int | None
    error_message: str | None


class SyncErrorRow(msgspec.Struct, frozen=True):
    """An error of a sync."""

    source_id: str
    stage: str
    reason: str
    outcome: str


class Figure(msgspec.Struct, frozen=True):
    """A figure for `/metrics`."""

    what: str
    source: str
    label: str
    value: float


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A document's registry entry, for `why`."""

    doc_id: str
    state: str | None
    reason: str | None
    stage: str | None
    archived: bool
    stale: bool
    permitted: bool
    indexed: bool
    chunks: int


class WebReads(AsyncFamily, path="serving"):
    """Statements that a request waits for."""

    # one plan of full_text for all words would go over every passage: 2 s instead of 0.2 s at 100,000
    planned_each_time: ClassVar[frozenset[str]] = frozenset({"full_text"})

    async def active_collection(self) -> ActiveModel | None: ...
    async def answer_by_id(self, *, answer_id: str, email: str) -> StoredAnswer | None: ...
    async def answer_cache_lookup(self, *, cache_key: str) -> bytes | None: ...
    async def any_chunk(self, *, principals: list[str]) -> bool: ...
    async def api_key_by_id(self, *, key_id: str) -> StoredKey | None: ...
    async def cache_lookup(self, *, cache_key: str) -> Cached: ...
    async def directory(self, *, email: str, fresh_since: datetime) -> list[str]: ...
    async def document(self, *, doc_ids: list[str], principals: list[str], fresh_since: datetime) -> list[Document]: ...
    async def document_by_page(
        self,
        *,
        doc_ids: list[str],
        own_id: str | None,
        urls: list[str],
        paths: list[str],
        collection_id: str | None,
        principals: list[str],
        fresh_since: datetime,
    ) -> str | None: ...
    async def document_chunk(
        self, *, doc_id: str, chunk_index: int, principals: list[str], fresh_since: datetime
    ) -> ChunkPlace | None: ...
    async def document_text(
        self, *, doc_id: str, start_char: int, end_char: int, principals: list[str], fresh_since: datetime
    ) -> list[ChunkText]: ...
    async def expected_passages(self) -> int: ...
    async def feedback_insert(
        self,
        *,
        feedback_id: str,
        email: str,
        principals: list[str],
        answer_id: str | None,
        query_id: str | None,
        verdict: str,
        comment: str | None,
        expected_doc_id: str | None,
    ) -> str | None: ...
    async def full_text(
        self,
        *,
        query: str,
        principals: list[str],
        depth: int,
        most: int,
        most_words: int,
        chunk_ids: list[str] | None,
        collection: str | None,
        source_types: list[str] | None,
        collection_ids: list[str] | None,
        document_ids: list[str] | None,
        mime_types: list[str] | None,
        authors: list[str] | None,
        tags: JsonText,
        on_created: bool,
        since: datetime | None,
        before: datetime | None,
        include_archived: bool,
    ) -> list[Match]: ...
    async def ingest_job(self, *, job_id: str, email: str) -> IngestState | None: ...
    async def neighbours(
        self,
        *,
        doc_ids: list[str],
        chunk_indexes: list[int],
        distance: int,
        collection: str | None,
        principals: list[str],
        fresh_since: datetime,
    ) -> list[Around]: ...
    async def notification_channel(self, *, channel_id: str, source: str) -> NotifiedChannel | None: ...
    async def readable_totals(self, *, principals: list[str], fresh_since: datetime) -> list[SourceTotals]: ...
    async def recheck(
        self,
        *,
        chunk_ids: ArrayText,
        collection: str | None,
        principals: list[str],
        fresh_since: datetime,
        collection_ids: list[str] | None,
    ) -> str: ...
    async def sign_in_begin(
        self, *, sign_in_id: str, requested_by: str, now: datetime, expires_at: datetime
    ) -> int: ...
    async def sign_in_finish(self, *, sign_in_id: str, now: datetime) -> str | None: ...
    async def source_partitions(self) -> list[PartitionTotals]: ...
    async def source_skips(self) -> list[Skips]: ...
    async def sources(self, *, sources: list[str]) -> list[SourceRow]: ...
    async def sync_errors(self, *, job_id: str, owner: str | None) -> list[SyncErrorRow]: ...
    async def sync_job(self, *, job_id: str) -> SyncJobRow | None: ...
    async def totals(self) -> list[Figure]: ...
    async def why(
        self,
        *,
        doc_ids: list[str],
        own_id: str | None,
        urls: list[str],
        channel: str | None,
        names: list[str],
        moment: datetime | None,
        principals: list[str],
        fresh_since: datetime,
    ) -> Entry | None: ...


class WebQueue(QueuedFamily, path="serving"):
    """Writes that no request waits for."""

    def answer_insert(
        self,
        *,
        answer_id: str,
        query_id: str,
        email: str,
        principals: list[str],
        question: str,
        standalone: str | None,
        answer: str,
        found: bool,
        mode: str,
        model: str | None,
        sources: JsonText,
        sentences: JsonText,
        unsupported: int,
        removed_citations: int,
        removed_links: int,
        warnings: list[str],
        cached: bool,
        completed: bool,
        latency_ms: float,
        model_ms: float,
    ) -> None: ...
    def answer_cache_store(self, *, cache_key: str, body: bytes, seconds: float) -> None: ...
    def cache_expire(self) -> None: ...
    def cache_store(self, *, cache_key: str, candidates: bytes, index_version: int, seconds: float) -> None: ...
    def conversation_insert(
        self, *, conversation_id: str, email: str, query: str, answer: str, sources: JsonText, asked_at: datetime
    ) -> None: ...


class WebSession(Family, path="serving"):
    """Statements that are part of a transaction in a thread."""

    def api_key_insert(
        self,
        *,
        key_id: str,
        key_hash: str,
        email: str,
        groups: list[str],
        admin: bool,
        expires_at: datetime | None,
    ) -> int: ...
    def api_key_revoke(self, *, key_id: str) -> int: ...
    def audit_insert(
        self,
        *,
        put_at: datetime,
        email: str,
        action: str,
        query_id: str | None,
        query: str | None,
        doc_ids: list[str],
        detail: JsonText | None,
        event_key: str,
    ) -> int: ...
    def directory(self, *, email: str, fresh_since: datetime) -> list[str]: ...
    def source_resume(self, *, source: str) -> int: ...
