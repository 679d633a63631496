"""Rows of the statements of the web service; those about sources are in `sql.source_rows`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from sql.fields import AnswerMode, Moment, Tags


class ActiveModel(msgspec.Struct, frozen=True):
    """The collection that searches read, with its model, and the languages of the corpus (ISO 639-1)."""

    name: str
    model: str
    dimensions: int
    provider: str | None
    model_source: str | None
    model_dimensions: int | None
    model_window: int | None
    model_prompts: str | None
    reader_ids: bool
    """True if every point has the numbers of its readers."""
    languages: list[str]


class CountedQuestion(msgspec.Struct, frozen=True):
    """Whether a visitor of a widget may ask; if not, whether the day's questions are used up, and the seconds until they may."""

    allowed: bool
    used_up: bool
    seconds: float


class StoredAnswer(msgspec.Struct, frozen=True):
    """An answer as it was given; `sources` and `sentences` are decoded JSON."""

    answer_id: str
    query_id: str
    email: str
    created_at: datetime
    shared_at: datetime | None
    question: str
    standalone: str | None
    answer: str
    found: bool
    mode: AnswerMode
    model: str | None
    sources: Any
    sentences: Any
    removed_citations: int
    warnings: list[str]
    completed: bool
    latency_ms: float
    erased: bool


class SharedAnswer(msgspec.Struct, frozen=True):
    """Sharing state of an answer: whether it may be shared, and since when it is."""

    shareable: bool
    shared_at: datetime | None


class Asked(msgspec.Struct, frozen=True):
    """A question that the caller asked."""

    answer_id: str
    """ID of the answer, for `GET /api/answers/{answer_id}`."""
    created_at: Moment
    """When it was asked."""
    query: str
    """The question."""
    found: bool
    """False if the sources did not answer it."""
    mode: AnswerMode
    """Who wrote the answer."""
    shared_at: Moment | None
    """Since when the answer is shared by link; null if it is not."""


class StoredKey(msgspec.Struct, frozen=True):
    """An API key, valid or not."""

    key_hash: str
    email: str
    groups: list[str]
    groups_omitted: bool
    admin: bool
    scim: bool
    scopes: list[str] | None
    provider: str | None
    expires_at: datetime | None
    revoked_at: datetime | None


class AuditEntry(msgspec.Struct, frozen=True):
    """An event of the audit log. No event contains a document's text or a secret."""

    event_id: int
    """Number of the event."""
    at: Moment
    """When it happened."""
    email: str
    """Who did it; empty if unknown, as for blocked sign-ins."""
    action: str
    """What was done, such as `search`, `open` or `key_create`."""
    query_id: str | None
    """ID of the search or question; null if it is neither."""
    query: str | None
    """The query; null if there is none or it was redacted."""
    doc_ids: list[str]
    """IDs of the documents found, opened or changed."""
    detail: dict[str, Any]
    """Further facts, depending on the action."""


class Holder(msgspec.Struct, frozen=True):
    """A passage that the caller may read."""

    doc_id: str
    title: str
    section_path: list[str]
    chunk_text: str


class LatestDocument(msgspec.Struct, frozen=True):
    """A document that was changed lately and that the caller may read."""

    title: str
    mime_type: str


class ReadableName(msgspec.Struct, frozen=True):
    """An author, Slack channel or folder of a document that the caller may read."""

    kind: str
    """`author`, `channel` or `folder`."""
    value: str
    """What a filter takes: the author, the channel, or the folder's ID."""
    name: str
    """The author, the channel, or the names of the folder's path that the caller may know."""
    doc_id: str


class Memberships(msgspec.Struct, frozen=True):
    """The principals that sources report for a person, whether one reports them as inactive, whether their token is
    revoked, and the versions of the index and of each source in it."""

    index_version: int
    source_versions: dict[str, int]
    principals: list[str]
    read_sources: list[str]
    blocked: bool
    revoked: bool


class Shares(msgspec.Struct, frozen=True):
    """The principals that a document is shared with."""

    permissions: list[str]


class DirectoryEntry(msgspec.Struct, frozen=True):
    """Entry of a source about a person: a membership, or with no principal whether the account is active."""

    source: str
    principal: str | None
    through: str | None
    read_at: datetime | None
    active: bool


class ExportedUpload(msgspec.Struct, frozen=True):
    """An upload of the caller."""

    doc_id: str
    """ID of the document; `GET /api/documents/{doc_id}/original` returns the file."""
    file_name: str
    """Name of the file."""
    title: str
    """Title of the document."""
    description: str | None
    """Description of the document; null if it has none."""
    mime_type: str
    """MIME type of the file."""
    size: int
    """Size of the file in bytes."""
    permissions: list[str]
    """Principals who may read it, the caller among them."""
    tags: Tags
    """Tags of the document."""
    created_at: Moment
    """When it was uploaded."""
    modified_at: Moment
    """When it was last uploaded or changed."""


class NamedPerson(msgspec.Struct, frozen=True):
    """The name of a person whom the caller may know."""

    email: str
    name: str


class Colleague(msgspec.Struct, frozen=True):
    """A person whom the caller may know; without a name if no directory says it."""

    email: str
    name: str | None


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
    notes: list[dict[str, Any]]
    chunk_count: int
    acl_checked_at: datetime | None


class DocumentPage(msgspec.Struct, frozen=True):
    """A page of documents as JSON, and the number of all."""

    total: int
    documents: str


class CollectionPage(msgspec.Struct, frozen=True):
    """A page of collections as JSON, and the number of all."""

    total: int
    collections: str


class Original(msgspec.Struct, frozen=True):
    """The file that a document was made from; `content_hash` names its stored bytes."""

    content_hash: str | None
    title: str
    mime_type: str
    path: str


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
    """A chunk's text and position, and its places (`resources.core.domain.TextLocation`) if it has several."""

    chunk_text: str
    places: list[dict[str, Any]]


class SectionStart(msgspec.Struct, frozen=True):
    """A place at which the headings above the text change."""

    start_char: int
    section_path: list[str]


class FullTextMatch(msgspec.Struct, frozen=True):
    """A chunk that full-text search found."""

    chunk_id: str
    score: float


class IngestState(msgspec.Struct, frozen=True):
    """Progress of an ingest. `seen`: a sync has processed it; `running_stage` is that of the running sync of uploads."""

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


class Figure(msgspec.Struct, frozen=True):
    """A figure for `/metrics`."""

    what: str
    source: str
    label: str
    value: float


class RegistryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A document's registry entry, for `why`."""

    doc_id: str
    state: str | None
    reason: str | None
    stage: str | None
    notes: list[dict[str, Any]]
    archived: bool
    stale: bool
    permitted: bool
    indexed: bool
    chunks: int
