"""Middleware that refuses requests: by their host name, origin and body type, and past the limits."""

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from serving.http.errors import ProblemError
from serving.http.origins import ACCEPTED
from serving.http.service import HttpServices


def guarded(app: ASGIApp) -> ASGIApp:
    """Return a middleware that responds to requests refused by the rules with a problem."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        http: HttpServices = scope["litestar_app"].state.services.http
        refusal = http.rules.refusal(scope, scope["route_handler"].opt.get(ACCEPTED))
        if refusal is not None:
            raise ProblemError(refusal.kind, refusal.detail)
        await app(scope, receive, send)

    return call


class LimitRequests(ASGIMiddleware):
    """Enforces the limits of the app's services on every request."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        http: HttpServices = scope["litestar_app"].state.services.http
        await http.request_limits.enforce(scope, receive, send, next_app)
