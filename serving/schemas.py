"""Requests and responses of the HTTP interface. Times are in UTC; ids are opaque strings."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from serving.citations.format import Format
from serving.ledger import LastJob

MAX_QUERY = 1000
SourceType = Annotated[
    str,
    Meta(
        max_length=40,
        description="google_drive, slack, upload, files, or another installed source; hyphens are accepted.",
    ),
]
ShortList = Meta(max_length=100)
Question = Annotated[str, Meta(max_length=4 * MAX_QUERY)]
"""A query as sent: white space is collapsed before its 1000 characters are counted."""
Name = Annotated[str, Meta(max_length=2000)]
"""An id or a name."""
MAX_TAGS = 50


class DateRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From `start` to `end`, both included; dates (2025-12-31) or times (RFC 3339)."""

    start: Annotated[str, Meta(max_length=64)] | None = None
    end: Annotated[str, Meta(max_length=64)] | None = None
    field: Literal["modified_at", "created_at"] = "modified_at"


class Filters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of a search: any value of a list may match, and every given filter must match."""

    source_types: Annotated[list[SourceType], ShortList] = []
    collection_ids: Annotated[list[Name], ShortList] = []
    document_ids: Annotated[list[Name], Meta(max_length=1000)] = []
    mime_types: Annotated[list[Name], ShortList] = []
    authors: Annotated[list[Name], ShortList] = []
    tags: Annotated[dict[str, Any], Meta(max_length=MAX_TAGS)] = {}
    date_range: DateRange | None = None
    include_archived: bool = False


class SearchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search. `query` has 1 to 1000 characters."""

    query: Question
    top_k: Annotated[int, Meta(ge=1, le=50)] = 5
    mode: Literal["hybrid", "vector", "keyword"] = "hybrid"
    fusion: Literal["weighted", "rrf", "dbsf", "minmax"] | None = None
    depth: Annotated[int, Meta(ge=10, le=500)] | None = None
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    rerank: bool = False
    group_by_document: bool = True
    neighbours: Annotated[int, Meta(ge=0, le=3)] = 0
    explain: bool = False
    citation_format: Format = "inline"
    filters: Filters | None = None


class Span(msgspec.Struct, frozen=True):
    """A range of characters, `end` exclusive."""

    start: int
    end: int


class Citation(msgspec.Struct, frozen=True):
    """The source of a result, ready to display; `link` opens the exact location."""

    index: int
    text: str
    link: str
    format: str


class FormattedCitation(msgspec.Struct, frozen=True):
    """A citation of one document."""

    index: int
    text: str
    link: str
    source_type: str
    doc_id: str


class DocumentReference(msgspec.Struct, frozen=True):
    """Another document with an identical passage, which the caller may read."""

    doc_id: str
    title: str
    source_type: str
    link: str


class Neighbour(msgspec.Struct, frozen=True):
    """A chunk before or after the result's."""

    chunk_id: str
    chunk_index: int
    chunk_text: str
    page_start: int | None
    page_end: int | None


class Explanation(msgspec.Struct, frozen=True):
    """How a result was scored. `keyword_score` is the share of the query's words that occur in the passage and its headings; ranks count
    among the results. `expansions` are texts that a language model added to the query."""

    dense_score: float | None
    dense_rank: int | None
    keyword_score: float | None
    keyword_rank: int | None
    fused_score: float
    boosts: dict[str, float]
    rerank_score: float | None
    expansions: list[str] | UnsetType = UNSET


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One passage. `highlights` are spans of the query's words within `snippet`."""

    doc_id: str
    chunk_id: str
    chunk_index: int
    title: str
    source_type: str
    source_id: str
    collection_id: str | None
    path: str
    mime_type: str
    owner: str | None
    tags: dict[str, Any]
    chunk_text: str
    snippet: str
    highlights: list[Span]
    section_path: list[str]
    page_start: int | None
    page_end: int | None
    relevance_score: float
    created_at: datetime | None
    modified_at: datetime | None
    acl_checked_at: datetime | None
    also_in: list[DocumentReference]
    citation: Citation
    neighbours: list[Neighbour] | UnsetType = UNSET
    explain: Explanation | UnsetType = UNSET


class Warning_(msgspec.Struct, frozen=True):  # noqa: N801 (the plain word is a builtin)
    """A limitation of this response; `code` is stable."""

    code: str
    message: str


class SearchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a search. `held_back` counts documents withheld because their permissions were checked too long ago."""

    results: list[Result]
    query_id: str
    latency_ms: float
    cached: bool
    held_back: int
    warnings: list[Warning_]


class CitationsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents to cite, numbered in this order."""

    doc_ids: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    format: Format = "inline"


class CitationsResponse(msgspec.Struct, frozen=True):
    """Citations of the documents that the caller may read."""

    citations: list[FormattedCitation]


class UploadResponse(msgspec.Struct, frozen=True):
    """The result of an upload. `job_id` is null if no sync could be started; a later one picks it up."""

    doc_id: str
    status: str
    message: str
    job_id: str | None = None


class DeleteResponse(msgspec.Struct, frozen=True):
    """The document is hidden at once; the next sync deletes its points."""

    doc_id: str
    status: str
    message: str
    job_id: str | None = None


class DocumentPlace(msgspec.Struct, frozen=True):
    """The cited range, in characters of the whole document's text."""

    start: int
    end: int
    chunk_index: int | None
    page_start: int | None
    page_end: int | None
    section_path: list[str]


class DocumentResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A document and the text around a location. `text` begins at character `text_start` of the whole text."""

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
    acl_checked_at: datetime | None
    language: str | None
    page_count: int | None
    chunk_count: int
    text: str
    text_start: int
    text_end: int
    place: DocumentPlace | None
    citation: Citation


class SyncRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Partitions to sync (default: all); `folder_ids` is another name for `partitions`."""

    partitions: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    folder_ids: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    full_sync: bool = False


class SyncResponse(msgspec.Struct, frozen=True):
    """The sync that was started."""

    job_id: str
    status: str
    started_at: datetime


class SyncFault(msgspec.Struct, frozen=True):
    """An error of one document; `file_id` is its `source_id`."""

    file_id: str
    error: str
    stage: str
    outcome: str


class SyncStatus(LastJob, frozen=True, kw_only=True):
    """A sync. Counts, exact times and `error_message` are for administrators; `errors` of uploads are for their owner too."""

    source: str
    errors: list[SyncFault]


class ServiceState(msgspec.Struct, frozen=True):
    """`state` is `ok`, `down`, `not_loaded` or, of the index, `incomplete`."""

    state: str
    detail: str | None = None


class Health(msgspec.Struct, frozen=True):
    """The process is alive."""

    status: str


class Readiness(msgspec.Struct, frozen=True):
    """`status` is `ready`, `degraded` (results come with a warning) or `unavailable`; `services` is for administrators and monitoring."""

    status: str
    services: dict[str, ServiceState] | msgspec.UnsetType = msgspec.UNSET
