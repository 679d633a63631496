"""The nouns of the platform: documents, chunks, permissions and what a source reports. Plain frozen data, no behaviour."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

STAGES = ("raw", "parsed", "chunked", "embedded", "indexed")
"""The stages that every source's documents pass, in order."""

NAMESPACE = uuid.UUID("6f0c3a52-8f0e-5d4b-9f3e-0c0de0c0da7a")
"""Namespace of every `doc_id`. Never change it: ids of indexed documents follow from it."""


DEFAULT_PROFILE = "default"
"""Profile of a document whose source asks for none: the one that the setting CHUNK_PROFILE names."""


class SourceName(StrEnum):
    """The sources; command line and routes also accept hyphens and the plural `uploads` (`SourceName.parse`)."""

    GOOGLE_DRIVE = "google_drive"
    SLACK = "slack"
    UPLOAD = "upload"
    FILES = "files"

    @classmethod
    def parse(cls, text: str) -> SourceName:
        """Return the source that a person named; raises `ValueError` listing the known ones."""
        name = text.strip().lower().replace("-", "_")
        name = "upload" if name == "uploads" else name
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(source.value for source in cls)
            raise ValueError(f"There is no source called {text!r}. Known sources: {known}.") from None


SOURCE_LABELS: Mapping[SourceName, str] = {
    SourceName.GOOGLE_DRIVE: "Google Drive",
    SourceName.SLACK: "Slack",
    SourceName.UPLOAD: "Upload",
    SourceName.FILES: "Files",
}


class State(StrEnum):
    """Where a document stands in the registry. Only `live` documents are ever shown."""

    LIVE = "live"
    LOST_ACCESS = "lost_access"
    DELETED = "deleted"
    SKIPPED = "skipped"
    FAILED = "failed"


def document_id(source: SourceName, source_id: str) -> str:
    """Return the stable id of a document: the same source and source id give the same id on every machine."""
    return str(uuid.uuid5(NAMESPACE, f"{source.value}:{source_id}"))


def chunk_id(doc_id: str, chunking_version: str, chunk_index: int) -> str:
    """Return the stable id of a chunk, which is also its point id in Qdrant."""
    return str(uuid.uuid5(uuid.UUID(doc_id), f"{chunking_version}:{chunk_index}"))


def text_hash(text: str) -> str:
    """Return the sha256 (hex) of the text with white space collapsed."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that a document lies in, and who may know its name. `name` is empty for one that the path does not show."""

    id: str
    name: str
    readers: tuple[str, ...]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One document as its source describes it now, without its bytes.

    `version` changes whenever the bytes may have changed (mtime and size, ETag, revision id): equal versions are not fetched
    again. Permissions and other metadata are compared by value. Times are aware UTC.
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
    """Every collection that holds the document, so that a filter on a folder includes what lies below it. The first is the
    one that results name: a root, a Drive folder, a channel, an upload day."""
    folders: tuple[Folder, ...] = ()
    """The folders of `path`, outermost first, each one of `collection_ids`: a reader is shown the names that are theirs to know.
    Sources whose documents share the readers of their collection leave it empty."""
    tags: dict[str, Any] = {}
    description: str | None = None
    """What a person wrote about the file; indexed with the text (all that an image has without OCR)."""
    profile: str = DEFAULT_PROFILE
    """Name of the chunking profile; the default one follows the setting CHUNK_PROFILE."""
    owner_scoped: bool = False
    """Whether parsed texts and vectors are reused among the owner's documents alone, so that the work that one person's document
    takes does not depend on what others have."""
    locator: str = ""
    """What the source's own `fetch` needs to read the bytes; opaque to everybody else, never shown."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A document that the source saw and will not hand over, with the reason for a person (wrong type, too large, ...)."""

    source_id: str
    partition: str
    title: str
    path: str
    reason: str
    version: str = ""
    owner: str | None = None
    collection_ids: tuple[str, ...] = ()
    """As of an `Item`: what is said of a folder holds for what is refused in it too."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what a source reports, with the cursor to save once this batch is safe in the lake.

    `seen` are documents as they are now: new, changed, renamed, moved, reshared or unchanged; the diff stage tells which.
    `deleted` are explicit tombstones (source ids). `listing` says what absence means: after `complete`, which closes a full
    listing of the partition, whatever the listing did not show is gone; after `page` or `delta`, absence means nothing. A
    listing whose pages carry cursors goes on where it was cut short. An item of another partition is taken in there.
    """

    partition: str
    seen: list[Item] = []
    refused: list[Refusal] = []
    deleted: list[str] = []
    deleted_at: dict[str, datetime] = {}
    """When the source says that a tombstone happened, by source id, where it says so."""
    emptied: list[str] = []
    """Collections (folders) of which everything that this batch does not show is gone."""
    permissions: tuple[str, ...] | None = None
    """What every document of the partition carries from now on, seen in this batch or not; None: each item says its own."""
    memory: dict[str, Any] = {}
    """What the source wants to find again (`Memory`), saved with the cursor; the value None forgets a key."""
    title: str | None = None
    """The partition's name for people, where it has one beside its key."""
    notice: str | None = None
    """What a person should know about this sync of the partition. It is recorded with the job's errors; the sync goes on."""
    cursor: str | None = None
    listing: Literal["delta", "page", "complete"] = "delta"


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of normalised text that chunking keeps whole where it can: `text[start:end]` of its `ParsedDocument`.

    `section_path` holds the headings above it, outermost first. `page` counts from 1 (PDF page or slide). `anchor` is the
    heading's slug for links, as GitHub and Docusaurus make it.
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
    """What parsing and normalisation made of the bytes. Offsets everywhere are characters of `text`."""

    text: str
    blocks: list[Block]
    title: str | None = None
    """The title that the file itself gives, if any; the source's title stands otherwise."""
    author: str | None = None
    language: str | None = None
    page_count: int | None = None
    warnings: list[str] = []


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the text from `start_char` on stands, up to the next place: for links to the sentence instead of the chunk."""

    start_char: int
    """Offset in the document's text, as every other."""
    page: int | None = None
    anchor: str | None = None
    section_path: tuple[str, ...] = ()


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that gets one vector. `text == parsed.text[start_char:end_char]`, always."""

    chunk_index: int
    text: str
    text_hash: str
    """`text_hash` of the text: the key of the embedding cache with the model's name."""
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
    places: tuple[Place, ...] = ()
    """The places within, in order, where a page or section begins; empty when the chunk has only one."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking, as the signed token and the directory say. Every read takes one; there is no default.

    `principals` holds the caller's email, domain, groups, Slack workspaces and `public`, all as they stand in documents'
    permissions. `admin` opens operations (sync, errors), never documents.
    """

    email: str
    principals: frozenset[str]
    admin: bool = False
