"""`GET /api/documents/{doc_id}` and `DELETE /api/documents/{doc_id}`."""

import json
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.stores.postgres import Connection
from serving.audit import AuditEvent
from serving.citations.format import Cited, citation
from serving.citations.links import link
from serving.deps import Services
from serving.documents import rebuild
from serving.errors import not_found
from serving.references import parse_id
from serving.routes.uploads import launch_upload_sync, message_for
from serving.schemas import Citation
from sql.web import WebReads, WebSession

DEFAULT_CONTEXT = 1000
MAX_CONTEXT = 20_000
MAX_RANGE = 200_000
MAX_INTEGER = 2**31 - 1

Index = Annotated[int | None, QueryParameter(ge=0, le=MAX_INTEGER)]


class DeleteResponse(msgspec.Struct, frozen=True):
    """The document is hidden at once; the next sync deletes its points."""

    doc_id: str
    status: str
    message: str
    job_id: str | None = None


class DocumentPlace(msgspec.Struct, frozen=True):
    """The cited range, in characters of the whole document's text."""

    start: int
    end: int
    chunk_index: int | None
    page_start: int | None
    page_end: int | None
    section_path: list[str]


class DocumentResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A document and the text around a location. `text` begins at character `text_start` of the whole text."""

    doc_id: str
    title: str
    source_type: str
    source_id: str
    collection_id: str | None
    path: str
    mime_type: str
    url: str | None
    owner: str | None
    author: str | None
    tags: dict[str, Any]
    created_at: datetime | None
    modified_at: datetime | None
    indexed_at: datetime | None
    acl_checked_at: datetime | None
    language: str | None
    page_count: int | None
    chunk_count: int
    text: str
    text_start: int
    text_end: int
    place: DocumentPlace | None
    citation: Citation


async def open_document(
    services: Services,
    access: Access,
    doc_id: str,
    *,
    chunk: int | None,
    start: int | None,
    end: int | None,
    context: int,
) -> DocumentResponse:
    """Return a document with its text around a location. Raises `not-found` alike for a hidden, withheld or unknown document."""
    doc_id = parse_id(doc_id, not_found())
    statements, allowed = WebReads(services.database), services.readable_by(access)
    documents = await statements.document(doc_ids=[doc_id], **allowed)
    if not documents:
        raise not_found()
    document, place = documents[0], None
    if chunk is not None:
        place = await statements.document_chunk(doc_id=doc_id, chunk_index=chunk, **allowed)
        if place is None:
            raise not_found()
        start, end = place.start_char, place.end_char
    start = start or 0
    end = min(start if end is None else end, start + MAX_RANGE)
    if end < start:
        raise InvalidRequestError("end: must not be less than start.")
    low, high = max(0, start - context), min(max(end, start + 1) + context, MAX_INTEGER)
    chunks = await statements.document_text(doc_id=doc_id, start_char=low, end_char=high, **allowed)
    text, begins = rebuild(chunks, low, high)
    address = link(
        base_url=services.settings.base_url,
        doc_id=doc_id,
        chunk_index=chunk,
        url=document.url,
        source_type=document.source_type,
        mime_type=document.mime_type,
        page=place.page_start if place else None,
        anchor=place.anchor if place else None,
    )
    section: list[str] = place.section_path if place else []
    cited = Cited(document.title, document.source_type, document.modified_at, section, address, document.owner)
    await services.audit.record(AuditEvent(email=access.email, action="open", doc_ids=[doc_id]))
    return DocumentResponse(
        **msgspec.structs.asdict(document),
        text=text,
        text_start=begins,
        text_end=begins + len(text),
        place=DocumentPlace(
            start=start,
            end=end,
            chunk_index=chunk,
            page_start=place.page_start if place else None,
            page_end=place.page_end if place else None,
            section_path=section,
        )
        if end > start
        else None,
        citation=Citation(1, citation(cited, 1, "inline", services.clock().date()), address, "inline"),
    )


@get("/api/documents/{doc_id:str}", operation_id="getDocument", tags=["documents"], summary="Text around a cited place")
async def get_document(
    request: Request[Access, Any, Any],
    services: NamedDependency[Services],
    doc_id: FromPath[str],
    chunk: Index = None,
    start: Index = None,
    end: Index = None,
    context: Annotated[int, QueryParameter(ge=0, le=MAX_CONTEXT)] = DEFAULT_CONTEXT,
) -> DocumentResponse:
    """Return a document's metadata and its text around the chunk `chunk`, or from `start` to `end`, if the caller may read it."""
    return await open_document(services, request.user, doc_id, chunk=chunk, start=start, end=end, context=context)


@delete(
    "/api/documents/{doc_id:str}",
    operation_id="deleteDocument",
    status_code=200,
    tags=["documents"],
    summary="Delete an upload",
)
async def delete_document(
    request: Request[Access, Any, Any], services: NamedDependency[Services], doc_id: FromPath[str]
) -> DeleteResponse:
    """Delete an upload of the caller. It is hidden at once, and removed from the index by the sync that this starts.

    Administrators may delete any user's upload, who then cannot upload the same content again.
    """
    from resources.sources.uploads import remove, take_down

    doc_id, email, admin = parse_id(doc_id, not_found()), request.user.email, request.user.admin

    def delete_upload(connection: Connection) -> bool:
        with connection.transaction():
            event = AuditEvent(email=email, action="delete", doc_ids=[doc_id])
            if not remove(connection, doc_id=doc_id, owner=email):
                owner = take_down(connection, doc_id=doc_id) if admin else None
                if owner is None:
                    return False
                event = AuditEvent(
                    email=email, action="take_down", doc_ids=[doc_id], detail=json.dumps({"owner": owner})
                )
            WebSession(connection).audit_insert(**event.row())
            services.rights.note(doc_id, [])
        return True

    if not await services.database.in_thread(delete_upload):
        raise not_found()
    job_id = await launch_upload_sync(services, email)
    return DeleteResponse(doc_id, "deleted", message_for(job_id, "Deleted and hidden from all searches"), job_id)
