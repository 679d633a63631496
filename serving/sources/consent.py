"""`GET /api/auth/google` and its callback: connect the Google account as which Drive is read."""

from html import escape
from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.di import NamedDependency

from resources.core.domain import Access, Role
from resources.core.errors import ConfigurationError, TemporaryError
from resources.logging import logger
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.openapi.describe import HTML, JSON, Answer, described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.sources.google import CALLBACK, GoogleSignIn, SignInError
from serving.sources.service import SourceServices
from serving.web.docs import page

AGAIN = "<p>To start again: <code>concordance connect google</code>, or <code>GET /api/auth/google</code>.</p>"

log = logger("serving")


class ConsentPage(msgspec.Struct, frozen=True):
    """Address of the page on which to grant access."""

    url: str
    """Address of Google's consent page, valid for ten minutes and once."""


@get(
    "/api/auth/google",
    operation_id="connectGoogle",
    tags=["sync"],
    summary="Connect a Google account for Drive",
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("write")
    | described(
        problems=("source-not-configured",),
        answers={
            200: Answer(
                "With `Accept: application/json`: the address of Google's consent page",
                {JSON: ConsentPage},
                example={"url": "https://accounts.google.com/o/oauth2/v2/auth?client_id=example"},
            ),
            302: Answer("A redirect to Google's consent page", headers={"Location": "Google's consent page."}),
        },
    ),
)
async def connect_google(
    request: Request[Access, Any, Any], source_services: NamedDependency[SourceServices]
) -> Response[Any]:
    """Redirect to Google's consent page, or return its URL with `Accept: application/json`. Administrators only."""
    address = await _sign_in(source_services).begin(request.user.email, source_services.http.clock())
    if "application/json" in request.headers.get("accept", ""):
        return Response(ConsentPage(address))
    return Response(None, status_code=302, headers={"Location": address})


@get(
    CALLBACK,
    operation_id="googleCallback",
    tags=["pages"],
    summary="Where Google sends the browser back to",
    exclude_from_auth=True,
    opt=limited("sign-in")
    | described(
        answers={
            status: Answer(text, {HTML: {"type": "string"}}, example="<!doctype html>…")
            for status, text in (
                (200, "The account is connected"),
                (400, "The sign-in is unknown, has expired, or was refused"),
                (403, "Access was not granted"),
                (409, "Google Drive is not set up"),
                (500, "A setting is wrong"),
                (502, "Google does not answer as expected"),
                (503, "A dependency is unavailable"),
            )
        },
    ),
)
async def google_callback(
    request: Request[Any, Any, Any], source_services: NamedDependency[SourceServices]
) -> Response[str]:
    """Complete a sign-in that an administrator started, and show the result on a page."""
    try:
        connected = await _sign_in(source_services).finish(
            dict(request.query_params.items()), source_services.http.clock()
        )
    except (SignInError, ProblemError) as error:
        return _failure(str(error), error.status if isinstance(error, SignInError) else 409)
    except ConfigurationError as error:
        return _failure(str(error), 500)
    except TemporaryError:
        return _failure("The database does not answer, so nothing was saved.", 503)
    log.info("google_connected", account=connected.account, by=connected.by)
    detail = msgspec.json.encode({"provider": "google", "account": connected.account}).decode()
    await source_services.http.audit.record(AuditEvent(email=connected.by, action="connect", detail=detail))
    return page(
        "Google Drive is connected",
        f"<h1>Google Drive is connected</h1><p>Read as {escape(connected.account)}</p>"
        f"<p>The next sync begins within {source_services.http.settings.sync_minutes} minutes. You can close this page.</p>",
    )


def _sign_in(source_services: SourceServices) -> GoogleSignIn:
    return GoogleSignIn(source_services.http.settings, source_services.http.key, source_services.http.database)


def _failure(reason: str, status: int) -> Response[str]:
    return page("Not connected", f"<h1>Google Drive is not connected</h1><p>{escape(reason)}</p>{AGAIN}", status)
