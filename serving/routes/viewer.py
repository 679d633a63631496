"""The document page that citations of uploads and files link to, `/documents/{doc_id}?chunk=N`, and its sign-in for browsers.

The token that a user enters is stored in an HttpOnly cookie that only this page accepts. All content is escaped; the page runs no script.
"""

from html import escape
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from litestar import Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.exceptions import ClientException
from litestar.params import QueryParameter
from litestar.response import Stream

from resources.core.domain import Access
from resources.sources import label
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.access.auth import COOKIE, access_from
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

_FIELDS_BYTES = 16 * 1024


def _sign_in(after: str, error: str = "") -> Response[str]:
    note = f"<p role=alert>{escape(error)}</p>" if error else ""
    body = (
        f"<h1>Sign in</h1>{note}"
        '<form method="post" action="/api/session"><p><label for="token">Token</label> '
        '<input id="token" name="token" type="password" autocomplete="off" required autofocus> '
        f'<input type="hidden" name="next" value="{escape(after, quote=True)}"><button>Sign in</button></p></form>'
        "<p>An administrator can create one with <code>concordance token EMAIL</code>.</p>"
    )
    return page("Sign in", body, 401)


def _render(opened: OpenDocument) -> str:
    document = opened.response
    facts = [label(document.source_type), document.path, document.owner or ""]
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
            401: Answer("A sign-in form", {HTML: {"type": "string"}}),
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
    credential = _credential(request)
    if not credential:
        return _sign_in(here)
    try:
        access: Access = await access_from(services, credential, request.client)
        opened = await open_document(
            services, access, doc_id, chunk=chunk, start=None, end=None, context=DEFAULT_CONTEXT * 4
        )
    except UnauthorizedError as error:
        return _sign_in(here, str(error))
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
    return await original_of(services, await access_from(services, _credential(request), request.client), doc_id)


def _credential(request: Request[Any, Any, Any]) -> str:
    """Return the token or key in the request's header, or else in this page's cookie, or an empty string."""
    header = request.headers.get("authorization", "")
    return header[7:].strip() if header[:7].lower() == "bearer " else request.cookies.get(COOKIE, "")


@post("/api/session", operation_id="openSession", include_in_schema=False, exclude_from_auth=True)
async def open_session(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> Response[Any]:
    """Exchange a token for the cookie of the document page, then redirect to `next`, a path of this service."""
    body = await request.body()
    if len(body) > _FIELDS_BYTES:
        raise ClientException("The form is too large.")
    fields = parse_qs(body.decode("utf-8", "replace"))
    token, after = fields.get("token", [""])[0].strip(), fields.get("next", ["/docs"])[0]
    after = quote(after, safe="/?=&#%") if after.startswith("/documents/") else "/docs"
    try:
        await access_from(services, token, request.client)
    except UnauthorizedError as error:
        return _sign_in(after, str(error))
    cookie = Cookie(
        key=COOKIE,
        value=token,
        path="/documents",
        httponly=True,
        samesite="lax",
        secure=services.settings.base_url.startswith("https://"),
    )
    return Response(None, status_code=303, headers={"Location": after}, cookies=[cookie])


@post("/api/session/close", operation_id="closeSession", include_in_schema=False, exclude_from_auth=True)
async def close_session() -> Response[None]:
    """Sign the browser out of the document page."""
    return Response(
        None, status_code=303, headers={"Location": "/docs"}, cookies=[Cookie(key=COOKIE, path="/documents", max_age=0)]
    )
