"""Statements that the web service uses: `sql/serving`."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from sql.family import ArrayText, AsyncFamily, Family, JsonText, QueuedFamily
from sql.rows import JobError
from sql.serving_rows import (
    ActiveModel,
    Around,
    Asked,
    AuditEntry,
    ChunkPlace,
    ChunkText,
    Colleague,
    CollectionPage,
    CountedQuestion,
    DirectoryEntry,
    Document,
    DocumentPage,
    ExportedUpload,
    Figure,
    FullTextMatch,
    Holder,
    IngestState,
    LatestDocument,
    Memberships,
    NamedPerson,
    NotifiedChannel,
    Original,
    ReadableName,
    RegistryEntry,
    SectionStart,
    SharedAnswer,
    Shares,
    StoredAnswer,
    StoredKey,
)
from sql.source_rows import (
    FirstSyncRow,
    Noted,
    PartitionTotals,
    Skips,
    SourceRow,
    SourceTotals,
    StalePartition,
    SyncJobRow,
)


class WebReads(AsyncFamily, path="serving"):
    """Statements that a request waits for."""

    # one plan of full_text for all words would go over every passage: 2 s instead of 0.2 s at 100,000; one for all people would go
    # over every document
    planned_each_time: ClassVar[frozenset[str]] = frozenset(
        {
            "full_text",
            "documents",
            "collections",
            "audit_events",
            "readable_count",
            "readable_folders",
            "readable_totals",
        }
    )

    async def active_collection(self) -> ActiveModel | None: ...
    async def answer_by_id(self, *, answer_id: str, email: str) -> StoredAnswer | None: ...
    async def answer_delete(self, *, answer_id: str, email: str) -> int: ...
    async def answer_share(self, *, answer_id: str, email: str, shared: bool) -> SharedAnswer | None: ...
    async def answers_of(
        self, *, email: str, before_at: datetime | None, before_id: str | None, contains: str | None, most: int
    ) -> list[Asked]: ...
    async def answer_cache_lookup(self, *, cache_key: str) -> bytes | None: ...
    async def any_chunk(self, *, principals: list[str]) -> bool: ...
    async def api_key_by_id(
        self,
        *,
        key_id: str,
        key_hash: str,
        now: datetime,
        seen_before: datetime | None,
        fresh_since: datetime,
        idle_since: datetime,
    ) -> StoredKey | None: ...
    async def audit_events(
        self,
        *,
        email: str | None,
        action: str | None,
        since: datetime | None,
        until: datetime | None,
        before_at: datetime | None,
        before_id: int | None,
        most: int,
    ) -> list[AuditEntry]: ...
    async def colleagues(
        self, *, email: str, domain: str, beginning: str, following: str, accounts: bool, most: int
    ) -> list[Colleague]: ...
    async def collections(
        self,
        *,
        source_types: list[str] | None,
        include_archived: bool,
        after_source: str | None,
        after_id: str | None,
        most: int,
        principals: list[str],
        fresh_since: datetime,
    ) -> CollectionPage: ...
    async def directory(
        self, *, email: str, fresh_since: datetime, token_id: str | None, issued: float | None
    ) -> Memberships: ...
    async def document(self, *, doc_ids: list[str], principals: list[str], fresh_since: datetime) -> list[Document]: ...
    async def document_by_page(
        self,
        *,
        doc_ids: list[str],
        own_id: str | None,
        urls: list[str],
        paths: list[str],
        collection_id: str | None,
        sources: list[str],
        principals: list[str],
        fresh_since: datetime,
    ) -> str | None: ...
    async def document_chunk(
        self, *, doc_id: str, chunk_index: int, principals: list[str], fresh_since: datetime
    ) -> ChunkPlace | None: ...
    async def document_original(
        self, *, doc_id: str, principals: list[str], fresh_since: datetime
    ) -> Original | None: ...
    async def document_outline(
        self, *, doc_id: str, most: int, principals: list[str], fresh_since: datetime
    ) -> list[SectionStart]: ...
    async def document_text(
        self, *, doc_id: str, start_char: int, end_char: int, principals: list[str], fresh_since: datetime
    ) -> list[ChunkText]: ...
    async def documents(
        self,
        *,
        source_types: list[str] | None,
        collection_ids: list[str] | None,
        mime_types: list[str] | None,
        authors: list[str] | None,
        tags: JsonText,
        title: str | None,
        on_created: bool,
        since: datetime | None,
        before: datetime | None,
        include_archived: bool,
        before_at: datetime | None,
        before_id: str | None,
        most: int,
        principals: list[str],
        fresh_since: datetime,
    ) -> DocumentPage: ...
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
    async def first_syncs(self) -> list[FirstSyncRow]: ...
    async def full_text(
        self,
        *,
        query: str,
        principals: list[str],
        depth: int,
        most: int,
        most_words: int,
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
        left_out_chunks: list[str],
        left_out_partitions: list[str],
    ) -> list[FullTextMatch]: ...
    async def identity(self, *, email: str) -> list[DirectoryEntry]: ...
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
    async def readable_words(
        self,
        *,
        forms: str,
        lexemes: str,
        principals: JsonText,
        fresh_since: datetime,
        collection: str | None,
        most: int,
    ) -> list[Holder]: ...
    async def names_of_people(self, *, email: str, emails: list[str]) -> list[NamedPerson]: ...
    async def listed_passages(self) -> int: ...
    async def latest_documents(
        self, *, principals: list[str], fresh_since: datetime, sources: list[str], looked: int, most: int
    ) -> list[LatestDocument]: ...
    async def readable_count(self, *, principals: list[str], fresh_since: datetime, most: int) -> int: ...
    async def names_of(
        self, *, doc_ids: list[str], principals: list[str], fresh_since: datetime
    ) -> list[ReadableName]: ...
    async def readable_folders(self, *, principals: list[str], fresh_since: datetime) -> list[ReadableName]: ...
    async def readable_names(self, *, principals: list[str], fresh_since: datetime) -> list[ReadableName]: ...
    async def readable_totals(self, *, principals: list[str], fresh_since: datetime) -> list[SourceTotals]: ...
    async def recheck(
        self,
        *,
        chunk_ids: ArrayText,
        collection: str | None,
        principals: ArrayText,
        fresh_since: datetime,
        collection_ids: list[str] | None,
    ) -> str: ...
    async def sign_in_begin(
        self, *, sign_in_id: str, requested_by: str, now: datetime, expires_at: datetime
    ) -> int: ...
    async def sign_in_finish(self, *, sign_in_id: str, claim: str, now: datetime) -> str | None: ...
    async def partition_elsewhere(self, *, partition: str) -> bool: ...
    async def sign_in_use(
        self, *, sign_in_id: str, provider: str, claim: str, now: datetime, expires_at: datetime
    ) -> int: ...
    async def sign_in_used(self, *, sign_in_id: str) -> bool: ...
    async def widget_question(self, *, widget: str, a_day: int, visitor: bytes, a_minute: int) -> CountedQuestion: ...
    async def shares(self, *, doc_id: str, email: str) -> Shares | None: ...
    async def source_partitions(self) -> list[PartitionTotals]: ...
    async def source_notes(self) -> list[Noted]: ...
    async def source_skips(self) -> list[Skips]: ...
    async def sources(self, *, sources: list[str]) -> list[SourceRow]: ...
    async def unwithheld(self) -> bool: ...
    async def stale_partitions(self, *, fresh_since: datetime) -> list[StalePartition]: ...
    async def sync_errors(self, *, job_id: str, owner: str | None) -> list[JobError]: ...
    async def sync_job(self, *, job_id: str) -> SyncJobRow | None: ...
    async def totals(self) -> list[Figure]: ...
    async def uploads_of(self, *, email: str, most: int) -> list[ExportedUpload]: ...
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
        operator: Literal[False],
    ) -> RegistryEntry | None: ...


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
        shareable: bool,
        latency_ms: float,
        model_ms: float,
    ) -> None: ...
    def answer_cache_store(self, *, cache_key: str, body: bytes, seconds: float) -> None: ...
    def answer_cache_expire(self) -> None: ...
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
        scim: bool,
        expires_at: datetime | None,
    ) -> int: ...
    def api_key_revoke(self, *, key_id: str) -> str | None: ...
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
    def directory(
        self, *, email: str, fresh_since: datetime, token_id: str | None, issued: float | None
    ) -> Memberships: ...
    def identity(self, *, email: str) -> list[DirectoryEntry]: ...
    def sign_in_begin(self, *, sign_in_id: str, requested_by: str, now: datetime, expires_at: datetime) -> int: ...
    def shares(self, *, doc_id: str, email: str | None) -> Shares | None: ...
    def source_resume(self, *, source: str) -> int: ...
    def why(
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
        operator: bool,
    ) -> RegistryEntry | None: ...
