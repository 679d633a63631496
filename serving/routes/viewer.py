"""The document page that citations of uploads and files link to, `/documents/{doc_id}?chunk=N`.

A browser needs a session, a program a token. All content is escaped; the page runs no script.
"""

from html import escape
from typing import Annotated, Any
from urllib.parse import quote

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter
from litestar.response import Stream

from resources.core.domain import Access
from resources.sources import label
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.access.auth import access_from, credential_of, session_access, session_of
from serving.citations.format import long_date
from serving.citations.links import is_web
from serving.deps import Services
from serving.document_html import headings, render
from serving.errors import ProblemError, UnauthorizedError
from serving.openapi.describe import HTML, Answer, described
from serving.pages import page
from serving.routes.documents import DEFAULT_CONTEXT, MAX_INTEGER, OpenDocument, open_document
from serving.routes.originals import original_of
from serving.schemas import DocumentId
from serving.sign_in.pages import sign_in_page


def _sign_in(services: Services, after: str, note: str = "") -> Response[str]:
    return sign_in_page(list(services.providers.values()), services.sample_people, after, note=note, status=401)


def _render(opened: OpenDocument) -> str:
    document = opened.response
    facts = [label(document.source_type, document.collection_id), document.path, document.owner or ""]
    if document.modified_at:
        facts.append(long_date(document.modified_at.date()))
    place = document.place
    if place and place.page_start:
        facts.append(f"page {place.page_start}")
    if place and place.section_path:
        facts.append(" › ".join(place.section_path))
    links: list[str] = []
    if document.url and is_web(document.url):
        address = escape(document.citation.link, quote=True)
        links.append(f'<a href="{address}" rel="noopener noreferrer" target="_blank">Open the source</a>')
    original = f"/documents/{document.doc_id}/original"
    if document.mime_type != CONVERSATION:
        links.append(f'<a href="{original}">Download</a>')
    image = ""
    if document.mime_type.startswith("image/"):
        image = f'<img src="{original}" alt="{escape(document.title, quote=True)}">'
    begins = document.text_start
    start, end = (place.start - begins, place.end - begins) if place else (0, 0)
    text = render(document.text, headings(opened.section_paths), start, end, wrapped=document.mime_type != CONVERSATION)
    return (
        f"<h1>{escape(document.title)}</h1><p>{escape(' · '.join(fact for fact in facts if fact))}</p><p>{' · '.join(links)}</p>"
        f"<article>{image}{text}</article>"
    )


@get(
    "/documents/{doc_id:str}",
    operation_id="viewDocument",
    tags=["pages"],
    summary="Page of a document",
    exclude_from_auth=True,
    opt=described(
        problems=("service-unavailable", "storage-full", "storage-read-only"),
        parameters={"doc_id": "b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706", "chunk": 0},
        answers={
            200: Answer("The document", {HTML: {"type": "string"}}),
            401: Answer("The sign-in page", {HTML: {"type": "string"}}),
            404: Answer("There is no such document, or you may not see it", {HTML: {"type": "string"}}),
        },
    ),
)
async def view_document(
    request: Request[Any, Any, Any],
    services: NamedDependency[Services],
    doc_id: DocumentId,
    chunk: Annotated[
        int | None, QueryParameter(ge=0, le=MAX_INTEGER, description="Position of the passage to show, from 0.")
    ] = None,
) -> Response[str]:
    """Show a document around a cited location, or "not found" if the caller may not read it."""
    here = f"/documents/{quote(doc_id)}" + (f"?chunk={chunk}#place" if chunk is not None else "")
    try:
        access = await _access(request, services)
        if access is None:
            return _sign_in(services, here)
        opened = await open_document(
            services, access, doc_id, chunk=chunk, start=None, end=None, context=DEFAULT_CONTEXT * 4
        )
    except UnauthorizedError as error:
        return _sign_in(services, here, str(error))
    except ProblemError as error:
        if error.slug == "rate-limited":
            raise
        return page("Not found", f"<h1>Not found</h1><p>{escape(str(error))}</p>", 404)
    return page(opened.response.title, _render(opened))


@get("/documents/{doc_id:str}/original", operation_id="viewOriginal", include_in_schema=False, exclude_from_auth=True)
async def view_original(
    request: Request[Any, Any, Any], services: NamedDependency[Services], doc_id: DocumentId
) -> Stream:
    """Return the original file of a document, like `GET /api/documents/{doc_id}/original`, to a browser that is signed in."""
    access = await _access(request, services)
    if access is None:
        raise UnauthorizedError("token-missing", "Sign in first: /sign-in")
    return await original_of(services, access, doc_id)


async def _access(request: Request[Any, Any, Any], services: Services) -> Access | None:
    """Return the access of the credential in the request's header, or else of the browser's session; None if there is neither."""
    if credential := credential_of(request):
        return await access_from(services, credential, request.client)
    cookie = session_of(services, request)
    return (await session_access(services, cookie, request.client)).access if cookie else None
