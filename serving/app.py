"""The Litestar application. Every route but health, metrics and docs requires an authenticated caller."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType

from litestar import Litestar
from litestar.handlers import BaseRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.types import Message, Receive, Scope, Send

from resources.servers.shared import Shared
from resources.settings import Settings
from resources.sources import specs
from serving.assistant.worker import SlackAssistant
from serving.http import parameters, rate_headers
from serving.http.bodies import StrictRequest
from serving.http.heads import as_get
from serving.http.idempotency import Idempotency
from serving.http.middleware import LimitRequests, guarded
from serving.http.observed import observed
from serving.http.opaque_ids import routed
from serving.http.request_limits import check_limits
from serving.identity.authentication import Authentication
from serving.identity.visitor import ERRORS, identify_visitor
from serving.routes import ROOMS
from serving.services import PROVIDED, Services

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
    (b"cross-origin-resource-policy", b"same-origin"),  # the widget's script has its own
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
    services: Services = scope["litestar_app"].state.services
    if services.http.draining:
        added.append((b"connection", b"close"))
    message["headers"] = [*headers, *((name, value) for name, value in added if name not in present)]


async def _cross_origin(message: Message, scope: Scope) -> None:
    services: Services = scope["litestar_app"].state.services
    await services.http.cross_origin(message, scope)


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncGenerator[None]:
    """Open the services on startup and close them on shutdown; in the first process, also the assistant in Slack."""
    services: Services = app.state.services
    assistant = SlackAssistant(services.answers)
    await services.open()
    if services.http.shared.worker == 0:
        assistant.start()
    try:
        yield
    finally:
        await assistant.stop()
        await services.close()


class App(Litestar):
    """The application, which routes requests with an opaque id in their path by that id as it was sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Route and handle a request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # the server leaves out the body
            scope = as_get(scope)
        rate_headers.begin()
        requests = self.state.services.http.metrics.requests
        await observed(super().__call__, requests, routed(scope), receive, send)


def create_app(settings: Settings, *, shared: Shared | None = None) -> Litestar:
    """Return the app. `shared` is for several processes."""
    specs()  # read from the installed packages now, instead of during the first request
    app = route()
    app.state.services = Services(settings, shared=shared)
    return app


def handlers_of(module: ModuleType) -> Iterator[BaseRouteHandler]:
    """Yield the route handlers in a module's namespace, in order. Litestar refuses one that two modules have."""
    return (value for value in vars(module).values() if isinstance(value, BaseRouteHandler))


HANDLERS = [handler for room in ROOMS for module in room for handler in handlers_of(module)]
"""Every route."""


def route(handlers: Sequence[BaseRouteHandler] = ()) -> Litestar:
    """Return an app with every route, which finds its services in `state.services` for each request. `handlers` are further routes.

    Raises `ConfigurationError` for a route that belongs to no class of limits.
    """
    app = App(
        route_handlers=[*HANDLERS, *handlers],
        middleware=[
            guarded,
            DefineMiddleware(Authentication, exclude="^/docs(/|$)"),
            LimitRequests(),
            Idempotency(),
        ],
        dependencies=PROVIDED,
        before_request=parameters.refuse_unknown,
        exception_handlers=ERRORS,
        after_exception=[identify_visitor],
        before_send=[_secure, _cross_origin, rate_headers.add],
        lifespan=[lifespan],
        openapi_config=None,
        request_class=StrictRequest,
        request_max_body_size=MAX_BODY_BYTES,
        logging_config=None,
        debug=False,
    )
    check_limits(app)
    return app
