"""Compute the keys that decide whether work can be reused: content keys, payload hashes and index signatures."""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from assets.stages.normalize import clean
from resources.core.domain import Item

MAX_TITLE = 200
_SCOPE = re.compile(r":owner-([0-9a-f]{16})$")
_POWERPOINT = (
    r"powerpoint[- ]?(?:pr[eéäæ][sz]ent\w*|esitys|プレゼンテーション|演示文稿|簡報|프레젠테이션|sunusu|bemutató)"
    r"|(?:apresenta|pr[eé][sz]enta|презентац)\w*(?: \w+){0,2} powerpoint"
)
"""The title that PowerPoint gives a new file, in the language of its user: `Presentación de PowerPoint`."""
_NO_TITLE = re.compile(
    r"^(?:untitled(?:[ -](?:document|presentation|spreadsheet|\d+))?|document\d*|microsoft \w+ - .*|presentation\d*"
    rf"|(?:slide|folie|diapositiv[ae]|dia) \d+|\(?anonymous\)?|\(?unspecified\)?|{_POWERPOINT})$|\.[a-z0-9]{{2,5}}$",
    re.IGNORECASE,
)
_encoder = msgspec.json.Encoder(order="deterministic")


def content_key(item: Item, content_hash: str) -> str:
    """Return the key of a document's parsed text: equal keys are parsed, chunked and embedded once, regardless of the owner.

    The key of an `owner_scoped` document ends with its owner.

    The key depends on the bytes and their type. For a file with a description, and for an image, which has no other text, it also
    depends on title and description. Pages of a book have a key of their own, because those with fewer than 50 words are skipped.
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


def passage_version(profile_version: str) -> str:
    """Return the version in the ids of passages: that of chunking, and not of the parser.

    The stores are written one after the other, so a passage with a new id is not found for a moment in between, and one that keeps its id
    is. "p2" is what the parser's version was when it was still part of the ids.
    """
    return f"p2|{profile_version}"


def scoped_hash(content_key: str, text_hash: str) -> str:
    """Return the key of a chunk's vector: the hash of its text, combined with the owner for an `owner_scoped` document."""
    scope = _SCOPE.search(content_key)
    return text_hash if scope is None else hashlib.sha256(f"{scope[1]}:{text_hash}".encode()).hexdigest()


def is_book(tags: Mapping[str, object]) -> bool:
    """Return True if the document is a page of a book (a file root of kind `book`)."""
    return tags.get("kind") == "book"


def payload_hash(item: Item, permissions: tuple[str, ...]) -> str:
    """Return a hash of the document's part of a point's payload."""
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
    """Return the suffix that turns a content key into the name of the index entry that a document should have."""
    return f"{parser_version}|{profile_version}|{collection}"


def own_title(title: str | None) -> str | None:
    """Return the file's embedded title, or None if it is a file name or a placeholder of the program that wrote it."""
    text = " ".join(clean(title or "").split())  # one of an earlier version may have a NUL
    if not text or len(text) > MAX_TITLE or _NO_TITLE.search(text):
        return None
    return text
