"""Keys that say when work can be reused: what parsing depends on, what a point's payload says, what the index should hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

from resources.domain import Item

MAX_TITLE = 200
_SCOPE = re.compile(r":owner-([0-9a-f]{16})$")
_NO_TITLE = re.compile(
    r"^(untitled|document\d*|microsoft \w+ - .*|presentation\d*|slide \d+)$|\.[a-z0-9]{2,5}$", re.IGNORECASE
)
_encoder = msgspec.json.Encoder(order="deterministic")


def content_key(item: Item, content_hash: str) -> str:
    """Return the key of a document's parsed text: equal keys are parsed, chunked and embedded once, whoever holds them.

    The key of an `owner_scoped` document ends with its owner.

    The bytes and their type decide; where a person described the file, or it is an image, which has no other text, the words
    about it count too. Pages of a book have a rule of their own (fewer than 50 words are skipped).
    """
    parts = [content_hash, item.mime_type]
    if item.description or item.mime_type.startswith("image/"):
        words = f"{item.title}\x00{item.description or ''}"
        parts.append(hashlib.sha256(words.encode()).hexdigest()[:16])
    if is_book(item.tags):
        parts.append("book")
    if item.owner_scoped:
        parts.append(f"owner-{hashlib.sha256((item.owner or '').encode()).hexdigest()[:16]}")
    return ":".join(parts)


def scoped_hash(content_key: str, text_hash: str) -> str:
    """Return what a chunk's vector is kept under: the hash of its text, for an `owner_scoped` document together with the owner."""
    scope = _SCOPE.search(content_key)
    return text_hash if scope is None else hashlib.sha256(f"{scope[1]}:{text_hash}".encode()).hexdigest()


def is_book(tags: Mapping[str, object]) -> bool:
    """Tell whether the document is a page of a book (a file root of kind `book`)."""
    return tags.get("kind") == "book"


def payload_hash(item: Item, permissions: tuple[str, ...]) -> str:
    """Return a hash of everything that a point's payload says of its document beyond the chunk itself."""
    facts = (
        item.partition,
        item.title,
        item.path,
        item.mime_type,
        item.url,
        item.owner,
        item.author,
        item.created_at,
        item.modified_at,
        item.collection_ids,
        item.tags,
        item.profile,
        item.description,
        permissions,
        *item.folders,
    )
    return hashlib.sha256(_encoder.encode(facts)).hexdigest()[:32]


def signature(parser_version: str, profile_version: str, collection: str) -> str:
    """Return what, appended to a content key, names the index entry that a document should have."""
    return f"{parser_version}|{profile_version}|{collection}"


def own_title(title: str | None) -> str | None:
    """Return the title that a file gives itself if it is one for people: not a file name, not what a program put there."""
    text = " ".join((title or "").split())
    if not text or len(text) > MAX_TITLE or _NO_TITLE.search(text):
        return None
    return text
