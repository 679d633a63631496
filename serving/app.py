"""The Litestar application. Every route but health, metrics and docs requires an authenticated caller."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from litestar import Litestar
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from litestar.types import Message, Receive, Scope, Send

from resources.servers.shared import Shared
from resources.settings import Settings
from resources.sources import specs
from serving.access.auth import Authentication
from serving.access.origins import guarded
from serving.access.request_limits import LimitRequests
from serving.bodies import StrictRequest
from serving.deps import Launcher, Services, lifespan, provide_services
from serving.embedding import EmbedsQueries
from serving.errors import HANDLERS
from serving.opaque_ids import routed
from serving.pages import docs_document, docs_file, docs_page
from serving.routes.administration import end_any_session, list_all_keys, list_all_sessions, revoke_any_key
from serving.routes.agents import end_agent, end_any_agent, list_agents, list_all_agents
from serving.routes.answers import ask, feedback, get_answer
from serving.routes.audit import list_audit
from serving.routes.book import ask_book, ask_selection, track
from serving.routes.citations import format_citations
from serving.routes.copilot import chat, search_files
from serving.routes.documents import delete_document, get_document
from serving.routes.events import slack_events
from serving.routes.export import export_me
from serving.routes.google import connect_google, google_callback
from serving.routes.health import healthz, metrics, readyz
from serving.routes.held_deletions import decide_held_deletions, list_held_deletions
from serving.routes.history import list_answers, share_answer, unshare_answer
from serving.routes.ingest import ingest_status, start_ingest
from serving.routes.listing import list_collections, list_documents
from serving.routes.mcp import mcp
from serving.routes.me import me
from serving.routes.not_useful import propose_question
from serving.routes.notifications import drive_notifications
from serving.routes.oauth import OAUTH_HANDLERS
from serving.routes.originals import get_original
from serving.routes.pages.admin import (
    agents_page,
    audit_log_page,
    feedback_page,
    keys_page,
    policies_page,
    questions_page,
    sessions_page,
    take_downs_page,
)
from serving.routes.pages.answers import history, view_answer
from serving.routes.pages.dagster import dagster_session, open_dagster
from serving.routes.pages.document import view_document, view_original
from serving.routes.pages.me import me_page
from serving.routes.pages.search import home, results
from serving.routes.pages.sources import set_up_page, source_card, sources_page
from serving.routes.pages.upload import upload_page
from serving.routes.principals import list_principals
from serving.routes.push import delete_pushed, push_document
from serving.routes.push_batch import push_documents
from serving.routes.questions import decide_question, list_questions
from serving.routes.rag_search import rag_search
from serving.routes.revisions import change_document
from serving.routes.scim import SCIM_HANDLERS
from serving.routes.search import search
from serving.routes.sessions import end_session, list_sessions
from serving.routes.sign_in import finish_sign_in, sample_sign_in, sign_in, sign_out, start_sign_in
from serving.routes.source_check import check_source
from serving.routes.source_places import browse_source
from serving.routes.sources import list_sources
from serving.routes.sync import start_sync, sync_status
from serving.routes.uploads import upload
from serving.routes.why import why
from serving.routes.widget import ask_widget, widget_script, widget_token
from serving.web.static import static_file

MAX_BODY_BYTES = 1024 * 1024
"""Largest body of any route but the upload."""

CONTENT_POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
"""Of everything but pages with a script, which have their own: `serving.web.render.SCRIPT_POLICY`."""
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, browsers send forms of ours with `Origin: null`
    (b"cross-origin-opener-policy", b"same-origin"),
)


async def _secure(message: Message, scope: Scope) -> None:
    """Add the security headers to every response, errors included, and forbid caching."""
    if message["type"] != "http.response.start":
        return
    headers: list[tuple[bytes, bytes]] = list(message.get("headers", []))
    present = {name.lower() for name, _ in headers}
    path = scope["path"]
    policy = DOCS_POLICY if path.startswith("/docs") else CONTENT_POLICY
    added = [*_HEADERS, (b"content-security-policy", policy.encode()), (b"cache-control", b"no-store")]
    message["headers"] = [*headers, *((name, value) for name, value in added if name not in present)]


async def _cross_origin(message: Message, scope: Scope) -> None:
    services: Services = scope["litestar_app"].state.services
    await services.cross_origin(message, scope)


class App(Litestar):
    """The application, which routes requests with an opaque id in their path by that id as it was sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Route and handle a request."""
        await super().__call__(routed(scope), receive, send)


def create_app(
    settings: Settings,
    *,
    launcher: Launcher | None = None,
    embedder: Callable[[], EmbedsQueries] | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    turn: Callable[[], Awaitable[None]] | None = None,
    shared: Shared | None = None,
) -> Litestar:
    """Return the app. `launcher` and `embedder` replace starting syncs and loading the model, for tests.

    With `turn`, the app loads and connects on startup, and serves once `turn` returns. `shared` is for several processes.
    """
    specs()  # read from the installed packages now, instead of during the first request
    app = route()
    app.state.services = Services(settings, launcher=launcher, embedder=embedder, clock=clock, turn=turn, shared=shared)
    return app


def route() -> Litestar:
    """Return an app with every route, which finds its services in `state.services` for each request."""
    handlers: list[Any] = [
        search,
        ask,
        get_answer,
        list_answers,
        share_answer,
        unshare_answer,
        feedback,
        propose_question,
        rag_search,
        search_files,
        chat,
        ask_book,
        ask_selection,
        track,
        upload,
        start_ingest,
        push_document,
        push_documents,
        delete_pushed,
        ingest_status,
        why,
        me,
        export_me,
        list_principals,
        list_documents,
        list_collections,
        get_document,
        get_original,
        change_document,
        delete_document,
        start_sync,
        sync_status,
        slack_events,
        drive_notifications,
        list_sources,
        check_source,
        browse_source,
        list_held_deletions,
        decide_held_deletions,
        list_audit,
        list_all_keys,
        revoke_any_key,
        list_all_sessions,
        end_any_session,
        *SCIM_HANDLERS,
        connect_google,
        google_callback,
        format_citations,
        healthz,
        readyz,
        metrics,
        docs_page,
        docs_document,
        docs_file,
        home,
        results,
        view_answer,
        history,
        upload_page,
        me_page,
        sources_page,
        source_card,
        set_up_page,
        audit_log_page,
        keys_page,
        sessions_page,
        agents_page,
        policies_page,
        questions_page,
        feedback_page,
        take_downs_page,
        list_questions,
        decide_question,
        view_document,
        view_original,
        static_file,
        sign_in,
        start_sign_in,
        finish_sign_in,
        sample_sign_in,
        sign_out,
        list_sessions,
        end_session,
        open_dagster,
        dagster_session,
        mcp,
        *OAUTH_HANDLERS,
        list_agents,
        list_all_agents,
        end_any_agent,
        end_agent,
        widget_script,
        widget_token,
        ask_widget,
    ]
    return App(
        route_handlers=handlers,
        middleware=[
            guarded,
            DefineMiddleware(Authentication, exclude="^/docs(/|$)"),
            LimitRequests(),
        ],
        dependencies={"services": Provide(provide_services, sync_to_thread=False)},
        exception_handlers=HANDLERS,
        before_send=[_secure, _cross_origin],
        lifespan=[lifespan],
        openapi_config=None,
        request_class=StrictRequest,
        request_max_body_size=MAX_BODY_BYTES,
        logging_config=None,
        debug=False,
    )
