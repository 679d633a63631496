"""QuickRAG's ingest interface: what `POST /api/ingest` takes and how a job is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from serving.schemas import MAX_TAGS, Name

MAX_CONTENT = 8 * 1024 * 1024
"""Largest body of an ingest; what is larger is uploaded, or named by its path in a file root."""
OWN_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"


class IngestRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document: one of `blob_path` (in a file root), `content` (text) and `content_base64` (bytes).

    `doc_id` is a name of your own for it, unique among your documents of the tenant: sent again, it replaces the content.
    `share` are the principals that may read it beside you; what was taken from a root is never shared wider than there.
    """

    blob_path: Annotated[str, Meta(min_length=1, max_length=4000)] | None = None
    content: Annotated[str, Meta(max_length=MAX_CONTENT)] | None = None
    content_base64: Annotated[bytes, Meta(max_length=MAX_CONTENT)] | None = None
    filename: Annotated[str, Meta(max_length=1000)] | None = None
    content_type: Annotated[str, Meta(max_length=200)] | None = None
    doc_id: Annotated[str, Meta(pattern=OWN_ID)] | None = None
    title: Annotated[str, Meta(max_length=500)] | None = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    tags: Annotated[dict[str, Any], Meta(max_length=MAX_TAGS)] = {}
    share: Annotated[list[Name], Meta(max_length=200)] = []


class IngestResponse(msgspec.Struct, frozen=True):
    """The document is kept and waits for its sync."""

    job_id: str
    doc_id: str
    status: Literal["queued"] = "queued"


class Counts(msgspec.Struct, frozen=True):
    """What the index holds of the document."""

    documents: int
    chunks: int
    pages: int


class IngestJob(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands. `stage` is the one it is in, or that it ended in; `error` is set when it failed."""

    job_id: str
    doc_id: str
    status: Literal["queued", "running", "success", "failed"]
    stage: str | None
    counts: Counts
    error: str | None
