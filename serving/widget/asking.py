"""`/widget.js`, `POST /api/widget/{name}/token` and `/ask`: the chat widget for pages of other sites."""

import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from litestar.response import ServerSentEvent
from msgspec import Meta

from resources.core.domain import Access
from resources.sources import managed
from serving.answers.asking import as_events, next_event
from serving.answers.on_page import document_on_page
from serving.answers.schemas import AskRequest, ErrorEvent, Message, Selection, TokenEvent
from serving.http.errors import ProblemError, UnauthorizedError
from serving.http.heartbeat import with_heartbeats
from serving.http.leaving import unless_left
from serving.http.open_route import open_route
from serving.http.openapi.describe import EVENTS, Answer, described
from serving.http.origins import accepts
from serving.http.request_limits import limited
from serving.identity.authentication import credential_of, origin_of
from serving.identity.tokens import grace_since
from serving.search.filters import Filters
from serving.search.schemas import Question
from serving.widget.events import WidgetAnswer, WidgetEvent, WidgetSources, visitor_events
from serving.widget.visitors import LIFETIME, Widgets, check, issue

EXAMPLE_NAME = "handbook"
_SCRIPT = (Path(__file__).parent / "widget.js").read_bytes()

WidgetName = Annotated[str, PathParameter(description="Name of the widget in `CONCORDANCE_WIDGETS`.")]


class WidgetToken(msgspec.Struct, frozen=True):
    """A token for questions of anonymous visitors."""

    token: str
    """The token for the header `Authorization: Bearer TOKEN` of questions from pages of the same origin."""
    expires_in: int
    """Seconds for which it is valid."""


class PageSelection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text that a visitor selected on a page: the question is about it, and answered from that page alone."""

    text: Annotated[str, Meta(min_length=1, max_length=5000)]
    """The selected text."""
    page: Annotated[str, Meta(min_length=1, max_length=2000)]
    """Path or address of the page."""


class WidgetQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A visitor's question."""

    query: Question
    """The question: 1 to 1000 characters."""
    conversation_history: Annotated[list[Message], Meta(max_length=4)] = []
    """Earlier messages, oldest first."""
    selection: PageSelection | None = None
    """Text that the question is about. Null: the whole collection is searched."""


@open_route(get, "/widget.js", "widgetScript", "open", thread=False)
def widget_script() -> Response[bytes]:
    """Return the script that pages of other sites load, also with `crossorigin` or under an embedder policy."""
    headers = {
        "Cache-Control": "public, max-age=3600",
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    return Response(_SCRIPT, media_type="text/javascript", headers=headers)


@post(
    "/api/widget/{name:str}/token",
    operation_id="widgetToken",
    status_code=200,
    tags=["widget"],
    summary="A token for visitors of a page",
    exclude_from_auth=True,
    sync_to_thread=False,
    opt=limited("open")
    | accepts(checks_origin=True)
    | described(
        problems=("not-found",),
        parameters={"name": EXAMPLE_NAME},
        headers={"Origin": "Origin of the page, which browsers send by themselves."},
        example={"token": "eyJhbGciOiJIUzI1NiJ9…", "expires_in": 600},
    ),
)
def widget_token(request: Request[Any, Any, Any], widgets: NamedDependency[Widgets], name: WidgetName) -> WidgetToken:
    """Return an anonymous token for ten minutes, bound to the widget, the page's origin and the collection."""
    origin = request.headers.get("origin", "")
    widget = widgets.for_page(name, origin)
    return WidgetToken(issue(widgets.http.key, widget, origin), int(LIFETIME.total_seconds()))


@post(
    "/api/widget/{name:str}/ask",
    operation_id="askWidget",
    status_code=200,
    tags=["widget"],
    summary="Answer a visitor's question",
    exclude_from_auth=True,
    opt=limited("widget")
    | accepts(checks_origin=True)
    | described(
        problems=(
            "not-found",
            "token-missing",
            "token-expired",
            "token-signature",
            "token-malformed",
            "token-invalid",
            "service-unavailable",
            "storage-full",
            "storage-read-only",
        ),
        parameters={"name": EXAMPLE_NAME},
        headers={"Origin": "Origin of the page, which browsers send by themselves."},
        request={"query": "How many unused holidays may I carry over?"},
        components=(WidgetSources, TokenEvent, WidgetAnswer, ErrorEvent),
        answers={200: Answer("The answer as server-sent events", {EVENTS: WidgetEvent})},
        security=({"widgetToken": []},),
    ),
)
async def ask_widget(
    request: Request[Any, Any, Any],
    data: JSONBody[WidgetQuestion],
    widgets: NamedDependency[Widgets],
    name: WidgetName,
) -> ServerSentEvent:
    """Answer from public documents of the widget's collection, as server-sent events: `sources`, `token`…, `done`."""
    origin, token = request.headers.get("origin", ""), credential_of(request)
    widget = widgets.for_page(name, origin)
    if not token:
        raise UnauthorizedError("token-missing", f"Request a token first: POST /api/widget/{name}/token")

    begun = time.monotonic()

    async def current() -> Access:
        return check(token, widgets.http.keys, widget, origin, grace_since(begun))

    visitor = check(token, widgets.http.keys, widget, origin, 0.0)
    await widgets.count_question(widget, origin_of(widgets.identity, request.client), widgets.http.clock())
    await widgets.identity.directory.read_index_version(widgets.http.fresh_since())
    asked = await _to_ask(data, widgets, visitor, widget.collection)
    answer = widgets.answers.stream(asked, visitor, current)
    events = with_heartbeats(visitor_events(answer, widgets.http.settings.base_url))
    first = await unless_left(request, next_event(events))  # what fails before the first heartbeat still has a status
    return ServerSentEvent(as_events(first, events), status_code=200)


async def _to_ask(data: WidgetQuestion, widgets: Widgets, visitor: Access, collection: str) -> AskRequest:
    """Return the question that is asked of the one service. Raises the problem `not-found` for a page that is not in the collection."""
    selection = None
    if data.selection is not None:
        doc_id = await document_on_page(widgets.answers, visitor, data.selection.page, collection)
        if doc_id is None:
            raise ProblemError("not-found", "selection.page: there is no such page in this collection.")
        selection = Selection(doc_id, data.selection.text)
    return AskRequest(
        query=data.query,
        style="page" if selection is not None else "chat",
        filters=Filters(collection_ids=[collection], source_types=list(managed())),
        understand=False,  # what is understood of a question may name what is outside of the collection
        conversation_history=data.conversation_history,
        selection=selection,
    )
