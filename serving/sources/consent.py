"""`GET /api/auth/PROVIDER` and its callback: connect an account as which a source is read, as its `connect` declares."""

from html import escape
from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from resources.core.domain import Access, Role
from resources.core.errors import ConfigurationError, TemporaryError
from resources.logging import logger
from resources.sources import connecting, names
from resources.sources.spec import Consent, ConsentError, SourceSpec
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.open_route import open_route
from serving.http.openapi.describe import HTML, JSON, Answer, described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.sources.consent_flow import PATH, ConsentFlow
from serving.sources.service import SourceServices
from serving.web.docs import page

log = logger("serving")


class ConsentPage(msgspec.Struct, frozen=True):
    """Address of the page on which to grant access."""

    url: str
    """Address of Google's consent page, valid for ten minutes and once."""


@get(
    f"{PATH}/google",
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
    return await connect(request, "google", source_services)


@get(
    f"{PATH}/google/callback",
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
    return await finish(request, "google", source_services)


@get(
    f"{PATH}/{{provider:str}}",
    operation_id="connectSource",
    include_in_schema=False,
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("write"),
)
async def connect_source(
    request: Request[Access, Any, Any], provider: FromPath[str], source_services: NamedDependency[SourceServices]
) -> Response[Any]:
    """Do the same for the provider of another source."""
    return await connect(request, provider, source_services)


@open_route(get, f"{PATH}/{{provider:str}}/callback", "sourceCallback", "sign-in")
async def source_callback(
    request: Request[Any, Any, Any], provider: FromPath[str], source_services: NamedDependency[SourceServices]
) -> Response[str]:
    """Complete a sign-in with the provider of another source."""
    return await finish(request, provider, source_services)


async def connect(request: Request[Access, Any, Any], provider: str, source_services: SourceServices) -> Response[Any]:
    """Lead to the consent page of a provider."""
    spec, consent = _declared(provider)
    flow = await _flow(source_services, spec, consent)
    address = await flow.begin(request.user.email, source_services.http.clock())
    if "application/json" in request.headers.get("accept", ""):
        return Response(ConsentPage(address))
    return Response(None, status_code=302, headers={"Location": address})


async def finish(request: Request[Any, Any, Any], provider: str, source_services: SourceServices) -> Response[str]:
    """Store what a person granted, and show the result on a page."""
    spec, consent = _declared(provider)
    try:
        flow = await _flow(source_services, spec, consent)
        connected = await flow.finish(dict(request.query_params.items()), source_services.http.clock())
    except (ConsentError, ProblemError) as error:
        return _failure(spec, consent, str(error), error.status if isinstance(error, ConsentError) else 409)
    except ConfigurationError as error:
        return _failure(spec, consent, str(error), 500)
    except TemporaryError:
        return _failure(spec, consent, "The database does not answer, so nothing was saved.", 503)
    log.info("account_connected", provider=provider, account=connected.account, by=connected.by)
    detail = msgspec.json.encode({"provider": provider, "account": connected.account}).decode()
    await source_services.http.audit.record(AuditEvent(email=connected.by, action="connect", detail=detail))
    title = f"{spec.label} is connected"
    return page(
        title,
        f"<h1>{escape(title)}</h1><p>Read as {escape(connected.account)}</p>"
        f"<p>The next sync begins within {source_services.http.settings.sync_minutes} minutes.</p>"
        f'<p><a href="/sources/{spec.name}/set-up">Choose what is read, and sync now</a></p>',
    )


def _declared(provider: str) -> tuple[SourceSpec, Consent]:
    if (found := connecting(provider)) is None:
        raise ProblemError("unknown-source", f"No source is connected at {provider!r}. Sources: {', '.join(names())}.")
    return found


async def _flow(source_services: SourceServices, spec: SourceSpec, consent: Consent) -> ConsentFlow:
    http = source_services.http
    return ConsentFlow(
        spec, consent, await source_services.settings(), http.keys, http.database, source_services.vendor_threads
    )


def _failure(spec: SourceSpec, consent: Consent, reason: str, status: int) -> Response[str]:
    ways = [one for one in (consent.command, f"GET {PATH}/{consent.provider}") if one]
    again = ", or ".join(f"<code>{escape(one)}</code>" for one in ways)
    body = f"<h1>{escape(spec.label)} is not connected</h1><p>{escape(reason)}</p><p>To start again: {again}.</p>"
    return page("Not connected", body, status)
