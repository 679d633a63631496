"""What people call a document: an id, a link of Drive, Slack, a book or our own viewer, or a path enters; what to look for leaves.

Pure: nothing here knows whether a document exists. Whoever looks it up adds the caller's principals.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import unquote, urldefrag, urlsplit

import msgspec

from resources.core.domain import document_id
from resources.core.errors import InvalidRequestError
from resources.settings import FileRoot
from resources.sources import find, names, specs

MAX_LENGTH = 4000
_VIEWER = re.compile(r"/documents/([0-9a-fA-F-]{32,36})/?")
_NAMED_SOURCE = re.compile(r"([a-z][a-z0-9_-]*):(?!//)(.+)", re.DOTALL)
_PAGE_ENDINGS = ("", ".md", ".mdx", "/index.md", "/README.md")


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look: any of the ids and addresses; or, in a Slack channel, a document's name there, or whose messages were then.

    `own_id` is the one of `doc_ids` that was given as such, instead of being made from a path.
    """

    doc_ids: tuple[str, ...] = ()
    own_id: str | None = None
    urls: tuple[str, ...] = ()
    channel: str | None = None
    names: tuple[str, ...] = ()
    moment: datetime | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a book: ids, of which `own_id` was given as such, addresses, and paths within a root, the likeliest first."""

    doc_ids: list[str]
    own_id: str | None = None
    urls: list[str]
    paths: list[str]


def reference(text: str) -> Reference:
    """Return what a source id or a link leads to. Raises `InvalidRequestError` for nothing at all."""
    text = text.strip().replace("\0", "")
    if not text or len(text) > MAX_LENGTH:
        raise InvalidRequestError(
            f"source: give the source id or the link of a document, at most {MAX_LENGTH} characters."
        )
    if not text.lower().startswith(("http://", "https://")):
        return Reference(doc_ids=_ids(text), own_id=_own_id(text))
    link, _ = urldefrag(text)
    try:
        parts = urlsplit(link)
    except ValueError:
        raise InvalidRequestError("source: this is no link that can be read.") from None
    urls = _addresses(text, link)
    if found := _VIEWER.search(parts.path):
        return Reference(doc_ids=_ids(found[1]), own_id=_own_id(found[1]), urls=urls)
    for spec in specs():
        if spec.link is not None and (known := spec.link(parts)) is not None:
            ids = (document_id(spec.name, known.source_id),) if known.source_id else ()
            return Reference(doc_ids=ids, urls=urls, channel=known.partition, names=known.names, moment=known.moment)
    return Reference(urls=urls)


def page(text: str, roots: Sequence[FileRoot]) -> Page:
    """Return where to look for a page of a book that its reader's browser names: by address, path of the address, or file path."""
    text = text.strip().replace("\0", "")
    if text.lower().startswith(("http://", "https://")):
        found = reference(text)
        return Page(doc_ids=list(found.doc_ids), own_id=found.own_id, urls=list(found.urls), paths=[])
    urls: list[str] = []
    for root in roots if text.startswith("/") else ():
        if root.base_url is not None:
            parts = urlsplit(root.base_url)
            urls += _addresses(f"{parts.scheme}://{parts.netloc}{text}", f"{parts.scheme}://{parts.netloc}{text}")
    path = unquote(urldefrag(text).url).removeprefix("./").strip("/")
    stems = [path] + ([path.removeprefix("docs/")] if path.startswith("docs/") else [])
    paths = [stem + ending for stem in stems for ending in _PAGE_ENDINGS if stem]
    return Page(doc_ids=list(_ids(text)), own_id=_own_id(text), urls=urls, paths=paths)


def _ids(text: str) -> tuple[str, ...]:
    """Return the ids of the documents that a source may call so; a `doc_id` stands for itself."""
    if (named := _NAMED_SOURCE.fullmatch(text)) is not None and (spec := find(named[1])) is not None:
        return (document_id(spec.name, named[2]),)
    ids = [document_id(source, text) for source in names()]
    own = _own_id(text)
    return (*ids, own) if own is not None else tuple(ids)


def _own_id(text: str) -> str | None:
    """Return a `doc_id` in its usual form; None for anything else."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(text))
    return None


def _addresses(*links: str) -> tuple[str, ...]:
    found: list[str] = []
    for link in links:
        plain = link.rstrip("/")
        found += [link, plain, f"{plain}/"]
    return tuple(dict.fromkeys(found))
