"""Statements of sources: their events, notification channels, uploads and credentials."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from sql.family import Family, Json


class ConnectedApp(msgspec.Struct, frozen=True):
    """The bot that reads a source, and its app."""

    bot_id: str | None
    app_id: str | None


class EventChannel(msgspec.Struct, frozen=True):
    """A channel that an event concerns, or may concern once a running sync has stored what it read: '' is any one."""

    partition: str
    stored: bool


class Remaining(msgspec.Struct, frozen=True):
    """A document, and who may still read it."""

    doc_id: str
    permissions: list[str]


class WaitingEvent(msgspec.Struct, frozen=True):
    """An event without a requested sync; no partition: it concerns the whole source."""

    event_id: str
    partition: str | None
    received_at: datetime


class NotificationChannel(msgspec.Struct, frozen=True):
    """A notification channel. Without `expires_at` it was not created (yet); `error` says why."""

    channel_id: str
    feed: str
    partitions: list[str]
    account: str
    address: str
    resource_id: str | None
    created_at: datetime
    expires_at: datetime | None
    notified_at: datetime | None
    error: str | None


class Readership(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that decide who may read an upload."""

    owner: str
    permissions: list[str]
    tags: dict[str, Any]
    origin: UUID | None
    origin_via: list[str]
    origin_readers: list[str]


class CopyReadership(Readership, frozen=True, kw_only=True):
    """The same of a copy of a managed document."""

    doc_id: UUID


class ChangedUpload(Readership, frozen=True, kw_only=True):
    """The same of an upload that its owner has changed or removed since it was read."""

    doc_id: UUID
    deleted: bool


class OwnUpload(Readership, frozen=True, kw_only=True):
    """Fields of an upload that its owner may change, in their current state."""

    source: str
    title: str
    description: str | None
    file_name: str


class Upload(Readership, frozen=True, kw_only=True):
    """An upload in its current state."""

    source_id: str
    doc_id: UUID
    partition: str
    content_hash: str
    file_name: str
    title: str
    description: str | None
    mime_type: str
    size: int
    url: str | None
    created_at: datetime
    modified_at: datetime
    deleted_at: datetime | None
    change: int


class UploadName(msgspec.Struct, frozen=True):
    """An upload whose other columns may be unreadable."""

    source_id: str
    owner: str
    file_name: str
    change: int


class PushedState(msgspec.Struct, frozen=True, kw_only=True):
    """A pushed document as it is recorded."""

    content_hash: str
    file_name: str
    title: str
    description: str | None
    mime_type: str
    permissions: list[str]
    tags: dict[str, Any]
    url: str | None
    modified_at: datetime
    stated_at: datetime | None
    deleted: bool


class TakenDown(msgspec.Struct, frozen=True):
    """An upload that was removed, and whose it was."""

    source: str
    owner: str


class RecordedUpload(msgspec.Struct, frozen=True):
    """The outcome of recording an upload."""

    created: bool
    change: int
    origin: UUID | None
    origin_via: list[str]
    origin_readers: list[str]


class Usage(msgspec.Struct, frozen=True):
    """One user's uploads, for quotas."""

    files: int
    bytes: int
    waiting: int


class ConnectedAccount(msgspec.Struct, frozen=True):
    account: str
    is_first: bool
    connected_at: datetime
    updated_at: datetime
    updated_by: str


class StoredCredential(msgspec.Struct, frozen=True):
    """A provider's encrypted token."""

    account: str
    secret: bytes
    scopes: list[str]
    updated_at: datetime
    updated_by: str


class Events(Family, path="events/events.sql"):
    """Events of sources, from their arrival to the sync that has processed them."""

    def teams(self) -> list[str]: ...
    def app(self, *, source: str) -> ConnectedApp | None: ...
    def save_app(self, *, source: str, bot_id: str, app_id: str | None) -> int: ...
    def receive(
        self, *, event_id: str, source: str, partition: str | None, kind: str, urgent: bool, asked: bool
    ) -> str | None: ...
    def known_partition(self, *, source: str, partition: str | None) -> list[EventChannel]: ...
    def lock_files(self) -> None: ...
    def holders(self, *, file: str) -> list[EventChannel]: ...
    def touch(self, *, partition: str, key: str, value: Json) -> int: ...
    def save_begins(self, *, partition: str) -> None: ...
    def take_over(self, *, partition: str, keys: list[str]) -> int: ...
    def request(self, *, source: str, partition: str) -> int: ...
    def drop_unread(self, *, source: str, owner: str) -> int: ...
    def hide(self, *, partition: str) -> list[str]: ...
    def hide_for(self, *, partition: str, event_id: str) -> list[str]: ...
    def keep_accounts(self, *, source: str, rows: Json) -> int: ...
    def depart(self, *, partition: str, account: str, event_id: str) -> list[Remaining]: ...
    def departed(self, *, partition: str, doc_ids: list[str]) -> list[str]: ...
    def members_read(self, *, source: str) -> int: ...
    def show(self, *, source: str) -> int: ...
    def forget(self, *, days: int) -> int: ...
    def waiting(self, *, source: str, seconds: float) -> list[WaitingEvent]: ...
    def mark_requested(self, *, event_ids: list[str], received: list[datetime]) -> int: ...
    def ask(
        self,
        *,
        channel: str,
        ts: str,
        event_id: str,
        team: str,
        account: str,
        thread: str,
        direct: bool,
        question: str,
    ) -> str | None: ...
    def rate(self, *, channel: str, reply_ts: str, account: str, verdict: str) -> str | None: ...


class Channels(Family, path="events/channels.sql"):
    """Notification channels over which sources announce changes."""

    def channels(self, *, source: str) -> list[NotificationChannel]: ...
    def add_channel(
        self,
        *,
        channel_id: str,
        source: str,
        feed: str,
        partitions: list[str],
        account: str,
        address: str | None,
        token_hash: bytes,
    ) -> int: ...
    def made_channel(
        self, *, channel_id: str, resource_id: str | None, expires_at: datetime | None, error: str | None
    ) -> int: ...
    def cover(self, *, channel_id: str, partitions: list[str]) -> int: ...
    def drop_channel(self, *, channel_id: str) -> int: ...
    def notified(self, *, channel_id: str) -> int: ...
    def changed(self, *, event_id: str, source: str, partitions: list[str]) -> list[str]: ...


class UploadChanges(Family, path="uploads/uploads.sql"):
    """Uploads that users add, change or remove."""

    def lock_changes(self, *, key: int) -> None: ...
    def put_upload(
        self,
        *,
        source: str,
        source_id: str,
        doc_id: str,
        owner: str,
        partition: str | None,
        content_hash: str,
        file_name: str,
        title: str,
        description: str | None,
        mime_type: str,
        size: int,
        permissions: list[str],
        tags: Json,
        url: str | None,
        modified_at: datetime | None,
        origin: str | None,
        origin_via: list[str],
        origin_readers: list[str],
    ) -> RecordedUpload | None: ...
    def put_ingest_job(self, *, job_id: str, doc_id: str, owner: str, change: int) -> int: ...
    def pushed(self, *, doc_id: str) -> PushedState | None: ...
    def withdraw(self, *, source: str, partition: str) -> int: ...
    def delete_upload(self, *, doc_id: str, owner: str) -> str | None: ...
    def take_down(self, *, doc_id: str) -> TakenDown | None: ...
    def removed_upload(self, *, doc_id: str, owner: str, curator: bool) -> str | None: ...
    def has_copies(self, *, origins: list[str]) -> bool: ...
    def follow_origins(self, *, origins: list[str] | None) -> list[CopyReadership]: ...
    def hide_document(self, *, doc_id: str) -> int: ...
    def own_upload(self, *, doc_id: str, owner: str) -> OwnUpload | None: ...
    def revise_upload(
        self, *, doc_id: str, title: str, description: str | None, tags: Json, permissions: list[str]
    ) -> int: ...
    def narrow_document(self, *, doc_id: str, permissions: list[str]) -> int: ...
    def partitions(self, *, source: str) -> list[str]: ...
    def changes(self, *, source: str, partition: str, after: int, most: int) -> list[Upload]: ...
    def changed_since(self, *, doc_ids: list[str], change: int) -> list[ChangedUpload]: ...
    def change_after(self, *, source: str, partition: str, after: int) -> UploadName | None: ...
    def any_pending(self, *, source: str) -> bool: ...
    def usage(self, *, owner: str, source_id: str) -> Usage: ...


class Declarations(Family, path="registry/sources.sql"):
    """What statements know of sources."""

    def declare(self, *, rows: Json) -> int: ...
    def keep(self, *, sources: list[str]) -> int: ...


class StoredCredentials(Family, path="credentials/credentials.sql"):
    """Provider tokens that users granted for a source, already encrypted."""

    def put_credential(
        self, *, provider: str, account: str, secret: bytes, scopes: list[str], updated_by: str
    ) -> int: ...
    def accounts(self, *, provider: str) -> list[ConnectedAccount]: ...
    def credential(self, *, provider: str, account: str) -> StoredCredential | None: ...
    def rotate_credential(self, *, provider: str, account: str, old: bytes, secret: bytes) -> int: ...
    def remove_credential(self, *, provider: str, account: str) -> int: ...
