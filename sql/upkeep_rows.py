"""Rows that the statements of upkeep return."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class StoredContent(msgspec.Struct, frozen=True):
    """The content of a document that the lake should hold."""

    doc_id: str
    partition: str
    content_hash: str


class StoredGrants(msgspec.Struct, frozen=True):
    """The permissions of a live document, and what decides them."""

    doc_id: str
    source_id: str
    partition: str
    permissions: list[str]
    owner: str | None
    tags: dict[str, Any]
    version: str | None


class GrantChange(msgspec.Struct, frozen=True):
    """A permission that was granted or revoked. Without `effective_at` it is not in effect yet."""

    at: datetime
    source: str
    doc_id: str
    source_id: str | None
    title: str | None
    principal: str
    change: str
    effective_at: datetime | None


class Completeness(msgspec.Struct, frozen=True):
    """A partition's documents by state, and how many the source reports (None: unknown)."""

    partition: str
    title: str | None
    source_count: int | None
    live: int
    skipped: int
    failed: int
    held: int
    complete: bool


class DueDocument(msgspec.Struct, frozen=True):
    """A deleted document that is due for erasure."""

    doc_id: str
    source: str
    source_id: str
    title: str
    path: str
    url: str | None
    description: str | None
    content_hash: str | None
    content_key: str | None
    deleted_at: datetime
    first_seen_at: datetime


class NamedDocument(msgspec.Struct, frozen=True):
    """A document in any state."""

    doc_id: str
    source: str
    source_id: str
    title: str
    state: str


class ContentInUse(msgspec.Struct, frozen=True):
    """A content that something still refers to."""

    content_hash: str
    content_key: str | None


class IndexedVersion(msgspec.Struct, frozen=True):
    """A content in an index, and the version of its passages."""

    content_key: str
    version: str


class TableSize(msgspec.Struct, frozen=True):
    """The size of a table with its indexes; None if there is no such table."""

    name: str
    bytes: int | None


class TableIndex(msgspec.Struct, frozen=True):
    """An index of a table."""

    name: str
    definition: str
    is_unique: bool
    constraint_kind: str | None
    """`p` or `u` if it belongs to a constraint of the same name."""


class ForeignKey(msgspec.Struct, frozen=True):
    """A foreign key; `owner` is the table with the constraint, `target` the one that it refers to."""

    name: str
    owner: str
    target: str
    definition: str


class TableView(msgspec.Struct, frozen=True):
    """A view that reads a table."""

    name: str
    definition: str


class TablePrivilege(msgspec.Struct, frozen=True):
    """A privilege on a table or view."""

    privilege: str
    grantee: str


class RegisteredDocument(msgspec.Struct, frozen=True):
    """A document in the registry."""

    source_id: str
    partition: str
    state: str
    content_hash: str | None


class LiveEntry(msgspec.Struct, frozen=True):
    """A live document with its entry and the ids of its chunks in the active collection."""

    doc_id: str
    source_id: str
    collection: str
    chunk_count: int
    content: str
    chunk_ids: list[str]


class LakeExpectation(msgspec.Struct, frozen=True):
    """What the lake should hold: `models` has a `model` and its `dimensions` for each active collection."""

    sources: list[str]
    indexed: bool
    models: list[dict[str, Any]]


class SizedContent(msgspec.Struct, frozen=True):
    """A content of a live document, with its size in bytes if the source reports the size of the stored bytes."""

    source_id: str
    content_hash: str
    size: int | None


class GoneDocument(msgspec.Struct, frozen=True):
    """A document that no one may find any more, and what is left of it."""

    doc_id: str
    source_id: str
    deleted_at: datetime | None
    gone_at_source: datetime | None
    gone_is_exact: bool
    chunk_count: int
    indexed: bool
    chunks: int


class DeletionReceipt(msgspec.Struct, frozen=True):
    """A deletion and its results. Null times: that has not happened yet."""

    doc_id: str
    source: str
    source_id: str | None
    source_time: datetime | None
    source_time_is_exact: bool
    tombstone_at: datetime
    points_deleted: int
    points_gone_at: datetime | None
    caches_gone_at: datetime | None
    verified_at: datetime | None
    erased_at: datetime | None
    stores: dict[str, Any]
    seconds_to_invisible: float | None
