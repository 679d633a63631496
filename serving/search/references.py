"""Parse references to documents: ids, links to Drive, Slack, a book or the document page, and file paths.

Pure: whether the document exists, and whether the caller may read it, is for the query that looks it up.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import unquote, urlsplit

import msgspec

from resources.core.domain import document_id
from resources.core.errors import InvalidRequestError
from resources.settings import FileRoot
from resources.sources import find, names, specs
from serving.http.fields import own_id

MAX_LENGTH = 4000
_VIEWER = re.compile(r"/documents/([0-9a-fA-F-]{32,36})/?")
_NAMED_SOURCE = re.compile(r"([a-z][a-z0-9_-]*):(?!//)(.+)", re.DOTALL)
_PAGE_ENDINGS = ("", ".md", ".mdx", "/index.md", "/README.md")


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Keys to look a document up by: ids, URLs, or in a Slack channel a thread's name or the time of a message.

    `own_id` is the one of `doc_ids` that was given as an id instead of being derived from a path.
    """

    doc_ids: tuple[str, ...] = ()
    own_id: str | None = None
    urls: tuple[str, ...] = ()
    channel: str | None = None
    names: tuple[str, ...] = ()
    moment: datetime | None = None


class PageKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys to look a book's page up by: ids (`own_id` as in `Reference`), URLs, and paths within a root, most likely first."""

    doc_ids: list[str]
    own_id: str | None = None
    urls: list[str]
    paths: list[str]


def reference(text: str, field: str = "source") -> Reference:
    """Parse a source id or a link. Raises `InvalidRequestError`, naming the field, for an empty text or an invalid link."""
    text = text.strip().replace("\0", "")
    if not text or len(text) > MAX_LENGTH:
        raise InvalidRequestError(
            f"{field}: give the source id or the link of a document, at most {MAX_LENGTH} characters."
        )
    if not text.lower().startswith(("http://", "https://")):
        return Reference(doc_ids=_ids(text), own_id=own_id(text))
    link = text.partition("#")[0]
    try:
        parts = urlsplit(link)
    except ValueError:
        raise InvalidRequestError(f"{field}: this is not a valid link.") from None
    urls = _addresses(text, link)
    if found := _VIEWER.search(parts.path):
        return Reference(doc_ids=_ids(found[1]), own_id=own_id(found[1]), urls=urls)
    for spec in specs():
        if spec.link is not None and (known := spec.link(parts)) is not None:
            ids = (document_id(spec.name, known.source_id),) if known.source_id else ()
            return Reference(doc_ids=ids, urls=urls, channel=known.partition, names=known.names, moment=known.moment)
    return Reference(urls=urls)


def page(text: str, roots: Sequence[FileRoot]) -> PageKeys:
    """Parse the name that a reader's browser gives a page of a book: a URL, the path of one, or a file path. An invalid URL has no keys."""
    text = text.strip().replace("\0", "")
    if text.lower().startswith(("http://", "https://")):
        try:
            found = reference(text)
        except InvalidRequestError:
            found = Reference()
        return PageKeys(doc_ids=list(found.doc_ids), own_id=found.own_id, urls=list(found.urls), paths=[])
    urls: list[str] = []
    for root in roots if text.startswith("/") else ():
        if root.base_url is not None:
            parts = urlsplit(root.base_url)
            urls += _addresses(f"{parts.scheme}://{parts.netloc}{text}", f"{parts.scheme}://{parts.netloc}{text}")
    path = unquote(text.partition("#")[0]).replace("\0", "").removeprefix("./").strip("/")
    stems = [path] + ([path.removeprefix("docs/")] if path.startswith("docs/") else [])
    paths = [stem + ending for stem in stems for ending in _PAGE_ENDINGS if stem]
    return PageKeys(doc_ids=list(_ids(text)), own_id=own_id(text), urls=urls, paths=paths)


def _ids(text: str) -> tuple[str, ...]:
    """Return the ids of documents with this source id in any source, and the text itself if it is a `doc_id`."""
    if (named := _NAMED_SOURCE.fullmatch(text)) is not None and (spec := find(named[1])) is not None:
        return (document_id(spec.name, named[2]),)
    ids = [document_id(source, text) for source in names()]
    own = own_id(text)
    return (*ids, own) if own is not None else tuple(ids)


def _addresses(*links: str) -> tuple[str, ...]:
    """Return the links with and without a trailing slash."""
    addresses: list[str] = []
    for link in links:
        plain = link.rstrip("/")
        addresses += [link, plain, f"{plain}/"]
    return tuple(dict.fromkeys(addresses))
