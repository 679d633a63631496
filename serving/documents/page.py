"""The document page that citations of uploads and files link to, `/documents/{doc_id}?chunk=N`.

A browser needs a session, a program a token. The page shows the text around a place: long documents are shown in parts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter
from litestar.response import Stream
from markupsafe import Markup

from resources.core.domain import Access, Role, SourceName
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.documents.html import headings, render
from serving.documents.originals import original_of
from serving.documents.outline import Heading, outline, page_starts
from serving.documents.reading import MAX_CONTEXT, MAX_INTEGER, OpenDocument, PassageGoneError, open_document
from serving.documents.revisions import KEPT, exact
from serving.documents.service import DocumentServices
from serving.http.fields import DocumentId
from serving.http.heads import is_head
from serving.http.openapi.describe import HTML, Answer, described
from serving.http.request_limits import limited
from serving.identity.authentication import SESSION, SessionFrom
from serving.identity.people import names_of_people
from serving.identity.visitor import PAGE_ERRORS, page_route, signed_in
from serving.search.citations.links import is_web
from serving.search.citations.quote import Extent
from serving.web.render import view
from sql.serving import WebReads
from sql.sources import OwnUpload, UploadChanges

CONTEXT = MAX_CONTEXT
"""Characters shown before and after a place."""
MAX_HEADINGS = 500
"""Headings of the outline."""
_PAGE = {HTML: {"type": "string"}}


class Parts(NamedTuple):
    """Starts of the parts before and after the one that is shown, as values of `start`; None if there is none."""

    before: int | None
    after: int | None


def _parts(opened: OpenDocument) -> Parts:
    document, chunks = opened
    if not chunks:
        return Parts(None, None)
    return Parts(
        max(0, document.text_start - CONTEXT) if chunks[0].chunk_index > 0 else None,
        document.text_end + CONTEXT if chunks[-1].chunk_index + 1 < document.chunk_count else None,
    )


def _text(opened: OpenDocument, contents: list[Heading], quote: Extent) -> Markup:
    """Return the text as HTML, with `quote` of the passage, the places that the outline links to and the numbers of pages."""
    document, begins = opened.response, opened.response.text_start
    signs: dict[int, str] = {}
    for heading in contents:
        signs[heading.start - begins] = f'<span id="at{heading.start}" class="at"></span>'
    for start, page in page_starts(opened.chunks).items():
        signs[start - begins] = f'<p class="page" id="page{page}">Page {page}</p>' + signs.get(start - begins, "")
    place = document.place
    start, end = (place.start - begins, place.end - begins) if place else (0, 0)
    paths = [path for one in opened.chunks for path in (one.section_path, *(at["section_path"] for at in one.places))]
    html = render(
        document.text,
        headings(paths),
        start,
        end,
        quote=(start + quote.start, start + quote.end),
        wrapped=document.mime_type != CONVERSATION,
        signs={at: sign for at, sign in signs.items() if 0 <= at < len(document.text)},
    )
    return Markup(html)  # noqa: S704 (escaped by `render`)


def _page(opened: OpenDocument, quote: Extent) -> int | None:
    """Return the page of the quote, or that on which the passage begins."""
    place = opened.response.place
    if place is None:
        return None
    begun = [page for start, page in page_starts(opened.chunks).items() if start <= place.start + quote.start]
    return begun[-1] if begun and place.page_start else place.page_start


async def _owned(documents: DocumentServices, access: Access, opened: OpenDocument) -> Mapping[str, Any]:
    """Return what the page shows to the owner of the document alone: its readers, and what can be changed of an upload."""
    document, upload = opened.response, None
    shares = await WebReads(documents.http.database).shares(doc_id=document.doc_id, email=access.email)
    if shares is not None and document.source_type == SourceName.UPLOAD:
        upload = await own_upload(documents, access, document.doc_id)
    return {
        "readers": None if shares is None else sorted(shares.permissions),
        "upload": upload,
        "changes": None if upload is None else _changeable(upload),
        "deletable": upload is not None or (document.source_type == SourceName.UPLOAD and access.has(Role.CURATOR)),
    }


async def own_upload(documents: DocumentServices, access: Access, doc_id: str) -> OwnUpload | None:
    """Return an upload of the caller in its current state, which a sync may not have indexed yet."""
    return await documents.http.database.in_thread(
        lambda connection: UploadChanges(connection).own_upload(doc_id=doc_id, owner=access.email)
    )


def _changeable(upload: OwnUpload) -> dict[str, Any]:
    return {
        "title": upload.title,
        "tags": {name: exact(value) for name, value in upload.tags.items() if name not in KEPT},
        "share": [one for one in upload.permissions if one != upload.owner],
    }


@get(
    "/documents/{doc_id:str}",
    operation_id="viewDocument",
    tags=["pages"],
    summary="Page of a document",
    exclude_from_auth=True,
    exception_handlers=PAGE_ERRORS,
    opt=limited("open")
    | described(
        problems=("service-unavailable", "storage-full", "storage-read-only"),
        parameters={"doc_id": "b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706", "chunk": 0},
        answers={
            200: Answer("The document", _PAGE),
            401: Answer("The sign-in page", _PAGE),
            403: Answer("The request was sent by a page of another site", _PAGE),
            404: Answer("There is no such document, or you may not see it", _PAGE),
            **dict.fromkeys((400, 413, 421, 429, 500, 503, 507), Answer("The problem as a page", _PAGE)),
        },
    )
    | {SESSION: SessionFrom.LINK},
)
async def view_document(
    request: Request[Any, Any, Any],
    documents: NamedDependency[DocumentServices],
    doc_id: DocumentId,
    chunk: Annotated[
        int | None, QueryParameter(ge=0, le=MAX_INTEGER, description="Position of the passage to show, from 0.")
    ] = None,
    start: Annotated[
        int | None,
        QueryParameter(
            ge=0, le=MAX_INTEGER, description="Character to show the text around, from 0, instead of `chunk`."
        ),
    ] = None,
    quote_start: Annotated[
        int,
        QueryParameter(
            name="from",
            ge=0,
            le=MAX_INTEGER,
            description="First character of the passage that is marked more strongly.",
        ),
    ] = 0,
    quote_end: Annotated[
        int, QueryParameter(name="to", ge=0, le=MAX_INTEGER, description="The character after the last one.")
    ] = 0,
) -> Response[str]:
    """Show a document around a place, or "not found" if the caller may not read it. Without the passage, it is shown from its beginning."""
    access = await signed_in(request, documents.identity)
    opening = partial(open_document, documents, access, doc_id, end=None, context=CONTEXT, whole=True)
    gone = False
    try:
        opened = await opening(chunk=chunk, start=start)
    except PassageGoneError:
        opened, gone = await opening(chunk=None, start=None), True
    document, quote = opened.response, Extent(quote_start, quote_end)
    sections = await WebReads(documents.http.database).document_outline(
        doc_id=document.doc_id, most=MAX_HEADINGS, **documents.http.readable_by(access)
    )
    contents = outline(sections)[:MAX_HEADINGS]
    owned = await _owned(documents, access, opened)
    at = document.place.start + quote.start if document.place else document.text_start if gone else start or 0
    return view(
        "document.html",
        access,
        script="viewer.js",
        document=document,
        gone=gone,
        text=_text(opened, contents, quote),
        page=_page(opened, quote),
        contents=contents,
        current=bisect_right([one.start for one in contents], at) - 1,
        parts=_parts(opened),
        source=document.citation.link if document.url and is_web(document.url) else None,
        original=None if document.mime_type == CONVERSATION else f"/documents/{document.doc_id}/original",
        people=await names_of_people(documents.identity, access, [document.owner, *(owned["readers"] or [])]),
        **owned,
    )


@page_route("/documents/{doc_id:str}/original", "viewOriginal", "open")
async def view_original(
    request: Request[Any, Any, Any], documents: NamedDependency[DocumentServices], doc_id: DocumentId
) -> Stream:
    """Return the original file of a document, like `GET /api/documents/{doc_id}/original`, to a browser that is signed in."""
    current = partial(signed_in, request, documents.identity)
    return await original_of(documents, await current(), doc_id, current, head=is_head(request))
