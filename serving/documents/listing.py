"""`GET /api/documents` and `GET /api/collections`: what the caller may read, page by page."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from serving.documents.files import one_line
from serving.documents.reading import DocumentSummary
from serving.documents.service import DocumentServices
from serving.http import cursors
from serving.http.audit import AuditEvent
from serving.http.fields import PAGE, Cursor, Limit, Name
from serving.http.openapi import examples
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.search.filters import DateField, DateRange, Filters, narrowing, sources_of
from serving.search.retrieval.full_text import filters_of
from serving.search.retrieval.query import Narrowing
from serving.search.searches import enforce_rate_limit
from sql.serving import WebReads

MAX_VALUES = 20
_PARAMETERS = {
    "source_types": "source_type",
    "date_range.start": "start",
    "date_range.end": "end",
    "date_range": "start",
}
"""Names of the parameters that are fields of `Filters`; `tags.…` are the parameter `tag`."""

Sources = Annotated[
    list[Name] | None,
    QueryParameter(name="source_type", max_items=MAX_VALUES, description="Sources, such as `files`. Several: any."),
]
Archived = Annotated[bool, QueryParameter(description="True to include documents tagged `lifecycle: archived`.")]


class DocumentList(msgspec.Struct, frozen=True):
    """A page of documents that the caller may read, the latest modified first."""

    documents: list[DocumentSummary]
    """The documents of this page."""
    total: int
    """Number of documents that the caller may read and that match, on all pages."""
    next_cursor: str | None
    """The parameter `cursor` of the next page; null on the last one."""


class Collection(msgspec.Struct, frozen=True):
    """A file root or folder, Drive folder, Slack channel, upload day or pushed source that the caller may know."""

    collection_id: str
    """ID of the collection, for the filter `collection_ids`."""
    source_type: str
    """The source of the collection."""
    name: str
    """Name of the folder or channel; the ID if it has none."""
    path: str
    """Names of the folders from the outermost to this one, as far as the caller may know them."""
    documents: int
    """Number of documents in it and below it that the caller may read."""


class CollectionList(msgspec.Struct, frozen=True):
    """A page of collections, by source and ID."""

    collections: list[Collection]
    """The collections of this page."""
    total: int
    """Number of collections on all pages."""
    next_cursor: str | None
    """The parameter `cursor` of the next page; null on the last one."""


_DOCUMENTS = msgspec.json.Decoder(list[DocumentSummary])
_COLLECTIONS = msgspec.json.Decoder(list[Collection])


def _named(field: str) -> str:
    return _PARAMETERS.get(field, "tag" if field.startswith("tags") else field)


def _tags(pairs: list[str]) -> dict[str, Any]:
    """Return `name:value` pairs as a filter; a name that is given several times may have any of the values.

    Raises `InvalidRequestError` for one without a colon.
    """
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if not colon:
            raise InvalidRequestError(f"tag: {pair[:100]!r} has no value; write name:value, such as topic:rent.")
        found.setdefault(name, []).append(value)
    return found


@get(
    "/api/documents",
    operation_id="listDocuments",
    tags=["documents"],
    summary="List documents",
    opt=limited("search")
    | described(
        parameters={"source_type": ["files"], "title": "project", "limit": 10},
        example=examples.DOCUMENTS,
    ),
)
async def list_documents(
    request: Request[Access, Any, Any],
    documents: NamedDependency[DocumentServices],
    sources: Sources = None,
    mime_type: Annotated[
        list[Name] | None,
        QueryParameter(max_items=MAX_VALUES, description="MIME types, such as `application/pdf`. Several: any."),
    ] = None,
    author: Annotated[
        list[Name] | None,
        QueryParameter(
            max_items=MAX_VALUES, description="Authors: emails, or names as the source gives them. Several: any."
        ),
    ] = None,
    collection_id: Annotated[
        list[Name] | None,
        QueryParameter(max_items=MAX_VALUES, description="Collections with everything below them. Several: any."),
    ] = None,
    tag: Annotated[
        list[Name] | None,
        QueryParameter(
            max_items=MAX_VALUES,
            description="Tags as `name:value`. Several values of one name: any of them; several names: all.",
        ),
    ] = None,
    title: Annotated[
        str | None, QueryParameter(max_length=500, description="Part of the title, in upper or lower case.")
    ] = None,
    start: Annotated[
        str | None, QueryParameter(max_length=64, description="First day (`2026-01-01`) or moment (RFC 3339).")
    ] = None,
    end: Annotated[str | None, QueryParameter(max_length=64, description="Last day, included, or last moment.")] = None,
    date_field: Annotated[
        DateField, QueryParameter(description="The date that `start` and `end` are about.")
    ] = "modified_at",
    include_archived: Archived = False,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> DocumentList:
    """List the documents that the caller may read, the latest modified first, with filters. Documents that are held back are left out."""
    wanted = narrowing(
        Filters(
            source_types=sources or [],
            collection_ids=collection_id or [],
            mime_types=mime_type or [],
            authors=author or [],
            tags=_tags(tag or []),
            date_range=DateRange(start, end, date_field),
            include_archived=include_archived,
        ),
        _named,
    )
    return await listed(documents, request.user, wanted, title=title, limit=limit, cursor=cursor)


async def listed(
    documents: DocumentServices,
    access: Access,
    wanted: Narrowing,
    *,
    title: str | None = None,
    limit: int = PAGE,
    cursor: str | None = None,
) -> DocumentList:
    """Return a page of the documents that the caller may read, and record that in the audit log."""
    await enforce_rate_limit(documents.search, access)
    at, last = cursors.decode(cursor, tuple[datetime | None, UUID]) if cursor is not None else (None, None)
    row = await WebReads(documents.http.database).documents(
        **filters_of(wanted),
        **documents.http.readable_by(access),
        title=one_line(title, 500).lower() or None if title else None,
        before_at=at,
        before_id=str(last) if last is not None else None,
        most=limit + 1,
    )
    found = _DOCUMENTS.decode(row.documents)
    page, following = found[:limit], None
    if len(found) > limit:
        following = cursors.encode((page[-1].modified_at, page[-1].doc_id))
    await documents.http.audit.record(
        AuditEvent(email=access.email, action="list", doc_ids=[document.doc_id for document in page])
    )
    return DocumentList(page, row.total, following)


@get(
    "/api/collections",
    operation_id="listCollections",
    tags=["documents"],
    summary="List collections",
    opt=limited("search")
    | described(
        parameters={"source_type": ["files"], "limit": 10},
        example={
            "collections": [
                {
                    "collection_id": "1XyZ",
                    "source_type": "google_drive",
                    "name": "Contracts",
                    "path": "Legal/Contracts",
                    "documents": 12,
                }
            ],
            "total": 1,
            "next_cursor": None,
        },
    ),
)
async def list_collections(
    request: Request[Access, Any, Any],
    documents: NamedDependency[DocumentServices],
    sources: Sources = None,
    include_archived: Archived = False,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> CollectionList:
    """List the folders, channels and days of documents that the caller may read, with the number of these documents."""
    await enforce_rate_limit(documents.search, request.user)
    source, last = cursors.decode(cursor, tuple[str, str]) if cursor is not None else (None, None)
    row = await WebReads(documents.http.database).collections(
        **documents.http.readable_by(request.user),
        source_types=sources_of(sources or [], _named) or None,
        include_archived=include_archived,
        after_source=source,
        after_id=last,
        most=limit + 1,
    )
    found = _COLLECTIONS.decode(row.collections)
    page, following = found[:limit], None
    if len(found) > limit:
        following = cursors.encode((page[-1].source_type, page[-1].collection_id))
    return CollectionList(page, row.total, following)
