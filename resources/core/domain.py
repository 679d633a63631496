"""The domain model: documents, chunks, permissions and what a source reports, as frozen data without behaviour."""

from __future__ import annotations

import hashlib
import re
import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, cast

import msgspec

STAGES = ("raw", "parsed", "chunked", "embedded", "indexed")
"""The stages that every source's documents pass, in order."""

NAMESPACE = uuid.UUID("6f0c3a52-8f0e-5d4b-9f3e-0c0de0c0da7a")
"""Namespace of every `doc_id`. Never change it: the ids of indexed documents are derived from it."""


DEFAULT_PROFILE = "default"
"""Profile of a document whose source does not choose one: the profile named by the setting `chunk_profile`."""


_SOURCE_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""Sources name assets, jobs, partitions and tables of the lake, so their names are limited to what all of these accept."""


class SourceName(StrEnum):
    """Name of a source. Members are the names that the product itself refers to; `SourceName(text)` makes any other valid one.

    Which sources there are is known to `resources.sources`, not to this class.
    """

    GOOGLE_DRIVE = "google_drive"
    SLACK = "slack"
    UPLOAD = "upload"
    FILES = "files"
    PUSH = "push"

    @classmethod
    def _missing_(cls, value: object) -> SourceName | None:
        """Make the name of a source that an installed package adds; None, and so a `ValueError`, if it is not valid."""
        if not isinstance(value, str) or not _SOURCE_NAME.fullmatch(value):
            return None
        made = str.__new__(cls, value)
        made._name_, made._value_ = value.upper(), value
        return cast("SourceName", cls._value2member_map_.setdefault(value, made))


class Role(StrEnum):
    """A person's role, which allows more than reading. No role gives access to a document."""

    ADMINISTRATOR = "administrator"
    AUDITOR = "auditor"
    OPERATOR = "operator"
    CURATOR = "curator"
    PUBLISHER = "publisher"


class State(StrEnum):
    """State of a document in the registry. Only `live` documents are ever shown."""

    LIVE = "live"
    LOST_ACCESS = "lost_access"
    DELETED = "deleted"
    SKIPPED = "skipped"
    FAILED = "failed"


def document_id(source: SourceName, source_id: str) -> str:
    """Return the stable id of a document, derived from its source and source id."""
    return str(uuid.uuid5(NAMESPACE, f"{source.value}:{source_id}"))


def chunk_id(doc_id: str, chunking_version: str, chunk_index: int) -> str:
    """Return the stable id of a chunk, which is also its point id in Qdrant."""
    return str(uuid.uuid5(uuid.UUID(doc_id), f"{chunking_version}:{chunk_index}"))


def text_hash(text: str) -> str:
    """Return the sha256 (hex) of the text with white space collapsed."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that contains a document, and who may know its name. `name` is empty if the path does not show the folder."""

    id: str
    name: str
    readers: tuple[str, ...]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One document as its source describes it now, without its bytes.

    `version` changes whenever the bytes may have changed (mtime and size, ETag, revision id); a document with an unchanged
    version is not fetched again. Permissions and other metadata are compared by value. Times are aware UTC.
    """

    source_id: str
    partition: str
    title: str
    path: str
    mime_type: str
    version: str
    permissions: tuple[str, ...]
    owner: str | None = None
    author: str | None = None
    url: str | None = None
    size: int | None = None
    created_at: datetime | None = None
    modified_at: datetime | None = None
    collection_ids: tuple[str, ...] = ()
    """Every collection that holds the document, so that a filter on a folder includes its subfolders. The first is the one
    shown in results: a root, a Drive folder, a channel, an upload day, a pushed source."""
    folders: tuple[Folder, ...] = ()
    """The folders of `path`, outermost first, each one of `collection_ids`: a reader sees only the names they may know.
    Sources whose documents share the readers of their collection leave it empty."""
    tags: dict[str, Any] = {}
    description: str | None = None
    """Description that a person wrote about the file; indexed with the text (for an image without OCR it is all there is)."""
    profile: str = DEFAULT_PROFILE
    """Name of the chunking profile; the default follows the setting `chunk_profile`."""
    owner_scoped: bool = False
    """If True, parsed texts and vectors are reused only among the owner's documents, so that the time that processing one
    user's document takes reveals nothing about other users' documents."""
    locator: str = ""
    """What the source's own `fetch` needs to read the bytes; opaque to everything else and never shown."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A document that the source lists but does not hand over, with a reason for people (wrong type, too large, ...)."""

    source_id: str
    partition: str
    title: str
    path: str
    reason: str
    version: str = ""
    owner: str | None = None
    collection_ids: tuple[str, ...] = ()
    """As in `Item`: changes to a folder also apply to the refused documents in it."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what a source reports, with the cursor to save once this batch is safely in the lake.

    `seen` are documents in their current state: new, changed, renamed, moved, reshared or unchanged; the diff stage decides
    which. `deleted` are explicit tombstones (source ids). `listing` says what absence means: after `complete`, which closes a
    full listing of the partition, everything that the listing did not show is deleted; after `page` or `delta`, absence means
    nothing. A listing whose pages carry cursors resumes where it was interrupted. An item of another partition is moved to it.
    """

    partition: str
    seen: list[Item] = []
    refused: list[Refusal] = []
    deleted: list[str] = []
    deleted_at: dict[str, datetime] = {}
    """When the deletion happened according to the source, by source id, where known."""
    own: bool = False
    """If True, `deleted` and `emptied` concern only documents of this partition: others may have moved there from here."""
    emptied: list[str] = []
    """Collections (folders) in which everything that this batch does not show is deleted."""
    permissions: tuple[str, ...] | None = None
    """Permissions of every document of the partition from now on, in this batch or not; None: each item carries its own."""
    memory: dict[str, Any] = {}
    """State that the source reads back through `Memory`, saved with the cursor; the value None deletes a key."""
    title: str | None = None
    """Display name of the partition, if it has one besides its key."""
    keys: dict[str, int] = {}
    """What each document was listed with, by source id, as a key for `KnownKeys`. Only a source that has these gives them."""
    unchanged: int = 0
    """Documents that this part does not show because their keys are known."""
    notice: str | None = None
    """A note to people about this sync of the partition. It is recorded with the job's errors; the sync continues."""
    closed: list[str] = []
    """Collections (folders) that may not be listed, if they are all that is lacking in a listing that is otherwise complete: the deletion
    of known documents in them is held."""
    cursor: str | None = None
    listing: Literal["delta", "page", "complete"] = "delta"
    begins: bool = False
    """True for the first batch of a listing that starts over: what an interrupted one has shown before no longer counts."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of normalised text that chunking keeps whole where it can: `text[start:end]` of its `ParsedDocument`.

    `section_path` holds the headings above it, outermost first. `page` counts from 1 (PDF page or slide). `anchor` is the
    heading's slug for links, as generated by GitHub and Docusaurus.
    """

    kind: Literal["heading", "paragraph", "list", "table", "code"]
    start: int
    end: int
    section_path: tuple[str, ...] = ()
    page: int | None = None
    level: int | None = None
    anchor: str | None = None
    sheet: str | None = None
    row_start: int | None = None
    """First data row of a table block within its sheet, counting from 1."""


class ParsedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The result of parsing and normalising a document's bytes. All offsets are in characters of `text`."""

    text: str
    blocks: list[Block]
    title: str | None = None
    """The title given in the file itself, if any; otherwise the source's title is used."""
    author: str | None = None
    language: str | None = None
    page_count: int | None = None
    warnings: list[str] = []
    """What the text leaves out, was decoded with doubt or removed: the document's notes (`resources.core.notes`)."""


class TextLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Location (page, section) of the text from `start_char` to the next place: for links to a sentence instead of the chunk."""

    start_char: int
    """Offset in the document's text, in characters."""
    page: int | None = None
    anchor: str | None = None
    section_path: tuple[str, ...] = ()


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that gets one vector. `text == parsed.text[start_char:end_char]`, always."""

    chunk_index: int
    text: str
    text_hash: str
    """`text_hash` of the text; with the model's name, the key of the embedding cache."""
    start_char: int
    end_char: int
    tokens: int
    section_path: tuple[str, ...] = ()
    anchor: str | None = None
    page_start: int | None = None
    page_end: int | None = None
    is_table: bool = False
    sheet: str | None = None
    row_start: int | None = None
    row_end: int | None = None
    language: str | None = None
    places: tuple[TextLocation, ...] = ()
    """The places in the chunk, in order, where a page or section begins; empty if the chunk has only one."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's identity, as given by the signed token and the directory. Every read takes one; there is no default.

    `principals` holds the caller's email, domain, groups, Slack workspaces and `public`, in the form that documents'
    permissions use. `roles` give access to operations (sync, errors, the audit log), never to documents.
    """

    email: str
    principals: frozenset[str]
    roles: frozenset[Role] = frozenset()
    groups_omitted: bool = False
    """True if the provider of sign-in leaves out the caller's groups because they are too many: documents may be missing."""
    directory_unread: bool = False
    """True if Postgres did not answer when the caller's memberships were looked up: documents may be missing."""

    @property
    def admin(self) -> bool:
        """True for administrators."""
        return Role.ADMINISTRATOR in self.roles

    def has(self, *roles: Role) -> bool:
        """Return True if the caller has one of the roles. Administrators have all of them."""
        return self.admin or not self.roles.isdisjoint(roles)
