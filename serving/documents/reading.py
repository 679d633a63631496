"""`GET /api/documents/{doc_id}` and `DELETE /api/documents/{doc_id}`."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import Request, delete, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from resources.core.domain import Access, Role, SourceName
from resources.core.errors import InvalidRequestError
from resources.core.notes import TextNote
from resources.stores.postgres import Connection
from serving.documents.receiver import launch_upload_sync, message_for
from serving.documents.service import DocumentServices
from serving.documents.text import rebuild
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError, not_found
from serving.http.fields import DocumentId, parse_id
from serving.http.openapi import examples
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.search.citations.format import Cited, citation
from serving.search.citations.links import link
from serving.search.schemas import Citation
from sql.fields import Moment, Tags
from sql.serving import WebReads, WebSession
from sql.serving_rows import ChunkText

DEFAULT_CONTEXT = 1000
MAX_CONTEXT = 20_000
MAX_RANGE = 200_000
MAX_INTEGER = 2**31 - 1


class DeleteResponse(msgspec.Struct, frozen=True):
    """The document is hidden at once; the next sync deletes its points."""

    doc_id: str
    """ID of the deleted document."""
    status: Literal["deleted"]
    """The document is deleted."""
    message: str
    """What happens next, in words."""
    job_id: str | None = None
    """The sync that removes it from the index; null if none could be started, and a later one does it."""


class DocumentPlace(msgspec.Struct, frozen=True):
    """The cited range, in characters of the whole document's text."""

    start: int
    """First character of the range, from 0."""
    end: int
    """The character after the last one of the range."""
    chunk_index: int | None
    """The requested chunk; null for a range."""
    page_start: int | None
    """First page or slide of the chunk; null if unknown."""
    page_end: int | None
    """Last page or slide of the chunk; null if unknown."""
    section_path: list[str]
    """Headings above the chunk, outermost first."""


class DocumentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A document without its text."""

    doc_id: str
    """ID of the document."""
    title: str
    """Title of the document."""
    source_type: str
    """The source of the document, such as `files`."""
    source_id: str
    """ID of the document at its source. For a file in a folder that you may not know, its `doc_id`."""
    collection_id: str | None
    """File root, Drive folder, Slack channel, upload day or pushed source. Null for a folder that you may not know."""
    path: str
    """The folders that you may know, and the file name."""
    mime_type: str
    """MIME type of the document."""
    url: str | None
    """Address of the document at its source; null if it has none."""
    owner: str | None
    """Email or name of the owner; null if unknown."""
    author: str | None
    """The author; null if unknown."""
    tags: Tags
    """Tags of the document."""
    created_at: Moment | None
    """When the document was created; null if unknown."""
    modified_at: Moment | None
    """When the document was last modified; null if unknown."""
    indexed_at: Moment | None
    """When the document was last indexed; null if unknown."""
    acl_checked_at: Moment | None
    """When permissions were last read from the source; null if unknown."""
    language: str | None
    """The document's language, such as `en`; null if unknown."""
    page_count: int | None
    """Number of pages or slides; null for documents without pages."""
    notes: list[TextNote]
    """What the text leaves out, was decoded with doubt or removed."""
    chunk_count: int
    """Number of passages."""


class DocumentResponse(DocumentSummary, frozen=True, kw_only=True):
    """A document and the text around a location. `text` begins at character `text_start` of the whole text."""

    text: str
    """The text around the location."""
    text_start: int
    """First character of `text` in the document, from 0."""
    text_end: int
    """The character after the last one of `text`."""
    place: DocumentPlace | None
    """The requested location; null if the request named none."""
    citation: Citation
    """The citation of the document, in the format `inline`."""


class OpenDocument(NamedTuple):
    """A document as it is opened, and the chunks of its text."""

    response: DocumentResponse
    chunks: Sequence[ChunkText]


class PassageGoneError(ProblemError):
    """The document that the caller may read has no such passage, or no longer."""

    def __init__(self) -> None:
        super().__init__("not-found", "This passage is no longer in the document.")


async def open_document(
    documents: DocumentServices,
    access: Access,
    doc_id: str,
    *,
    chunk: int | None,
    start: int | None,
    end: int | None,
    context: int,
    whole: bool = False,
) -> OpenDocument:
    """Return a document with its text around a location, with `whole` extended to whole chunks.

    Raises `not-found` alike for a hidden, withheld or unknown document, and `PassageGoneError` for an unknown chunk of one that the
    caller may read.
    """
    doc_id = parse_id(doc_id, not_found())
    statements, allowed = WebReads(documents.http.database), documents.http.readable_by(access)
    rows = await statements.document(doc_ids=[doc_id], **allowed)
    if not rows:
        raise not_found()
    document, place = rows[0], None
    if chunk is not None:
        place = await statements.document_chunk(doc_id=doc_id, chunk_index=chunk, **allowed)
        if place is None:
            raise PassageGoneError
        start, end = place.start_char, place.end_char
    start = start or 0
    end = min(start if end is None else end, start + MAX_RANGE)
    if end < start:
        raise InvalidRequestError("end: must not be less than start.")
    low, high = max(0, start - context), min(max(end, start + 1) + context, MAX_INTEGER)
    chunks = await statements.document_text(doc_id=doc_id, start_char=low, end_char=high, **allowed)
    if whole and chunks:
        low, high = chunks[0].start_char, max(one.end_char for one in chunks)
    text, begins = rebuild(chunks, low, high)
    address = link(
        base_url=documents.http.settings.base_url,
        doc_id=doc_id,
        chunk_index=chunk,
        url=document.url,
        source_type=document.source_type,
        mime_type=document.mime_type,
        page=place.page_start if place else None,
        anchor=place.anchor if place else None,
    )
    section: list[str] = place.section_path if place else []
    cited = Cited.at(document, address, section)
    await documents.http.audit.record(AuditEvent(email=access.email, action="open", doc_ids=[doc_id]))
    facts: dict[str, Any] = msgspec.structs.asdict(document)
    facts["notes"] = msgspec.convert(document.notes, list[TextNote])
    response = DocumentResponse(
        **facts,
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
        citation=Citation(1, citation(cited, 1, "inline", documents.http.clock().date()), address, "inline"),
    )
    return OpenDocument(response, chunks)


@get(
    "/api/documents/{doc_id:str}",
    operation_id="getDocument",
    tags=["documents"],
    summary="Text around a cited place",
    opt=limited("read")
    | described(
        problems=("not-found",),
        parameters={"doc_id": "b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706", "chunk": 0},
        example=examples.DOCUMENT,
    ),
)
async def get_document(
    request: Request[Access, Any, Any],
    documents: NamedDependency[DocumentServices],
    doc_id: DocumentId,
    chunk: Annotated[
        int | None, QueryParameter(ge=0, le=MAX_INTEGER, description="Position of a passage (`chunk_index`), from 0.")
    ] = None,
    start: Annotated[
        int | None,
        QueryParameter(ge=0, le=MAX_INTEGER, description="First character, from 0, instead of `chunk`."),
    ] = None,
    end: Annotated[
        int | None, QueryParameter(ge=0, le=MAX_INTEGER, description="The character after the last one.")
    ] = None,
    context: Annotated[
        int, QueryParameter(ge=0, le=MAX_CONTEXT, description="Characters to return before and after the location.")
    ] = DEFAULT_CONTEXT,
) -> DocumentResponse:
    """Return a document's metadata and its text around the chunk `chunk`, or from `start` to `end`, if the caller may read it."""
    found = await open_document(documents, request.user, doc_id, chunk=chunk, start=start, end=end, context=context)
    return found.response


@delete(
    "/api/documents/{doc_id:str}",
    operation_id="deleteDocument",
    status_code=200,
    tags=["documents"],
    summary="Delete an upload or a pushed document",
    opt=limited("write")
    | described(
        repeatable=True,
        problems=("not-found",),
        parameters={"doc_id": "b01b2115-b591-5686-a292-6e3ca11e28cb"},
        example={
            "doc_id": "b01b2115-b591-5686-a292-6e3ca11e28cb",
            "status": "deleted",
            "message": "Deleted and hidden from all searches, indexing in progress",
            "job_id": "3e363157-6a0c-4a3e-9d55-1f0e7a9f2d10",
        },
    ),
)
async def delete_document(
    request: Request[Access, Any, Any], documents: NamedDependency[DocumentServices], doc_id: DocumentId
) -> DeleteResponse:
    """Delete an upload or a pushed document of the caller. It is hidden at once, and removed from the index by the sync that this starts.

    Curators and administrators may delete any user's upload, who then cannot upload the same content again. Sent again, it changes nothing.
    """
    return await delete_own(documents, request.user, parse_id(doc_id, not_found()), curator=True)


async def delete_own(documents: DocumentServices, access: Access, doc_id: str, *, curator: bool) -> DeleteResponse:
    """Delete an upload or a pushed document of the caller, or with `curator` of anyone if the caller has that role.

    Done again, it changes nothing. Raises `not-found` alike for the document of another owner and for one that does not exist.
    """
    from resources.stores.uploads import remove, removed, take_down

    email, curates = access.email, curator and access.has(Role.CURATOR)

    def delete_upload(connection: Connection) -> SourceName | None:
        with connection.transaction():
            event = AuditEvent(email=email, action="delete", doc_ids=[doc_id])
            source = remove(connection, doc_id=doc_id, owner=email)
            if source is None:
                taken = take_down(connection, doc_id=doc_id) if curates else None
                if taken is None:
                    return removed(connection, doc_id=doc_id, owner=email, curator=curates)
                source, detail = SourceName(taken.source), json.dumps({"owner": taken.owner})
                event = AuditEvent(email=email, action="take_down", doc_ids=[doc_id], detail=detail)
            WebSession(connection).audit_insert(**event.row())
            documents.identity.withholding.documents(connection, [doc_id])
        return source

    source = await documents.http.database.in_thread(delete_upload)
    if source is None:
        raise not_found()
    job_id = await launch_upload_sync(documents, email, source)
    return DeleteResponse(doc_id, "deleted", message_for(job_id, "Deleted and hidden from all searches"), job_id)
