"""The authorization server's decisions, for the handlers of the package `mcp`, which check the requests themselves (RFC 6749, 7591, 7636).

Imported by the first request that needs it: see `serving.agents.oauth`.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

import msgspec
from litestar import Request, Response
from mcp.server.auth.handlers.authorize import AuthorizationErrorResponse, AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationErrorResponse, RegistrationHandler
from mcp.server.auth.handlers.token import TokenErrorResponse, TokenHandler
from mcp.server.auth.json_response import PydanticJSONResponse
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response as StarletteResponse
from starlette.types import Message, Scope

from resources.core.errors import InvalidRequestError
from serving.agents import registration
from serving.agents.client_documents import is_document
from serving.agents.clients import AgentClient, client_hash, client_of, new_client_id, shown_name
from serving.agents.connections import ACCESS_LIFETIME, MAX_STATE, AgentRequest
from serving.agents.events import host
from serving.agents.pages import wrong_page
from serving.agents.registration import GRANTS, PUBLIC
from serving.agents.service import AgentServices

LitestarRequest = Request[Any, Any, Any]


class KnownClient(OAuthClientInformationFull):
    """A registered client. Scopes are ignored: every token allows the same."""

    def validate_scope(self, requested_scope: str | None) -> list[str]:  # noqa: ARG002 (the package's signature)
        return []

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        registered = AgentClient(self.client_name or "", [str(one) for one in self.redirect_uris or ()])
        if redirect_uri is None or not registered.redirects_to(str(redirect_uri)):
            return super().validate_redirect_uri(redirect_uri)
        return redirect_uri


class AuthorizationServer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Registers clients, and gives tokens for what people allowed."""

    def __init__(self, agents: AgentServices, described: AgentClient | None = None) -> None:
        """`described` is the client of this request, if its ID is the URL of a document.

        Without it, such a client has no redirect URIs: only the holder of a code or token that was issued to it gets on.
        """
        self._http = agents.http
        self._agents = agents.connections
        self._described = described

    async def get_client(self, client_id: str) -> KnownClient | None:
        described = self._described or AgentClient("", [])
        found = described if is_document(client_id) else client_of(self._http.keys, client_id)
        if found is None:
            return None
        return KnownClient(
            client_id=client_id,
            client_name=found.name,
            redirect_uris=[AnyUrl(one) for one in found.redirect_uris],
            token_endpoint_auth_method=PUBLIC,
            grant_types=GRANTS,
        )

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Make every client a public one, whatever it asks for. Source: RFC 7591 3.2.1."""
        client = AgentClient(shown_name(client_info.client_name), [str(one) for one in client_info.redirect_uris or ()])
        client_info.client_id = new_client_id(self._http.key, client)
        client_info.client_name, client_info.grant_types = client.name, GRANTS
        client_info.token_endpoint_auth_method = PUBLIC
        client_info.client_secret = client_info.client_secret_expires_at = None

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the page on which the person decides."""
        if not for_us(params.resource, self._agents.resource):
            raise AuthorizeError("invalid_target", f"Tokens are issued for {self._agents.resource} only.")
        if len(params.state or "") > MAX_STATE:
            raise AuthorizeError("invalid_request", f"state: may have {MAX_STATE} characters at most.")
        request = AgentRequest(
            client_hash=client_hash(client.client_id),
            name=client.client_name or "",
            redirect_uri=str(params.redirect_uri),
            redirect_uri_sent=params.redirect_uri_provided_explicitly,
            state=params.state,
            code_challenge=params.code_challenge,
            publisher=host(client.client_id) if is_document(client.client_id) else "",
        )
        signed = self._agents.ask(request, self._http.clock())
        return f"{self._http.settings.base_url}/oauth/consent?request={signed}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        found = await self._agents.token(authorization_code, "code", client.client_id, self._http.clock())
        if found is None:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=[],
            expires_at=found.expires_at.timestamp(),
            client_id=client.client_id,
            code_challenge=found.code_challenge,
            redirect_uri=AnyUrl(found.redirect_uri),
            redirect_uri_provided_explicitly=found.redirect_uri_sent,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return await self._exchanged(client, authorization_code.code, "code")

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        found = await self._agents.token(refresh_token, "refresh", client.client_id, self._http.clock())
        if found is None:
            return None
        return RefreshToken(
            token=refresh_token, client_id=client.client_id, scopes=[], expires_at=int(found.expires_at.timestamp())
        )

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],  # noqa: ARG002 (the package's signature)
    ) -> OAuthToken:
        return await self._exchanged(client, refresh_token.token, "refresh")

    async def _exchanged(self, client: OAuthClientInformationFull, secret: str, kind: str) -> OAuthToken:
        new = await self._agents.exchange(secret, kind, client.client_id, self._http.clock())
        if new is None:
            raise TokenError("invalid_grant", "This code or refresh token was used before. Connect the agent again.")
        return OAuthToken(
            access_token=new.access_token,
            refresh_token=new.refresh_token,
            expires_in=int(ACCESS_LIFETIME.total_seconds()),
        )


def for_us(resource: str | None, ours: str) -> bool:
    """Return True if a resource indicator is ours, or none was sent. Source: RFC 8707."""
    return resource is None or resource.rstrip("/") == ours


async def register(agents: AgentServices, request: LitestarRequest) -> Response[bytes]:
    """Register what is acceptable of a client's metadata. The response names it. Source: RFC 7591 2 and 3.2.1."""
    body = await request.body()
    try:
        wanted = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):  # the handler says what is wrong
        wanted = None
    if wanted is not None:
        fault = registration.replace(wanted)
        if fault is not None:
            content = RegistrationErrorResponse(error="invalid_redirect_uri", error_description=fault)
            return _response(PydanticJSONResponse(status_code=400, content=content))
        body = msgspec.json.encode(wanted)
    handler = RegistrationHandler(AuthorizationServer(agents), ClientRegistrationOptions())
    return _response(await handler.handle(_with_body(request, body)))


async def authorize(agents: AgentServices, request: LitestarRequest) -> Response[Any]:
    client_id = request.query_params.get("client_id", "")
    try:
        described = await agents.client_documents.client(client_id) if is_document(client_id) else None
    except InvalidRequestError as error:
        content = AuthorizationErrorResponse(error="unauthorized_client", error_description=str(error))
        return _response(PydanticJSONResponse(status_code=400, content=content))
    response = await AuthorizationHandler(AuthorizationServer(agents, described)).handle(await _request(request))
    address, base = response.headers.get("location", ""), agents.http.settings.base_url
    if address and not address.startswith(f"{base}/oauth/consent?"):  # an error, in which the package names no issuer
        address = response.headers["location"] = construct_redirect_uri(address, iss=base)
        if not address.startswith("http:"):  # anyone can register what is not a loopback address
            return wrong_page(address)
    return _response(response)


async def token(agents: AgentServices, request: LitestarRequest) -> Response[bytes]:
    server, asked = AuthorizationServer(agents), _with_body(request, _without_scope(await request.body()))
    resource = (await asked.form()).get("resource")
    if isinstance(resource, str) and not for_us(resource, agents.connections.resource):
        fault = TokenErrorResponse(error="invalid_target", error_description=f"There is no {resource!r} here.")
        return _response(PydanticJSONResponse(status_code=400, content=fault))
    return _response(await TokenHandler(server, ClientAuthenticator(server)).handle(asked))


def _without_scope(body: bytes) -> bytes:
    """Return a form without `scope`: all tokens allow the same, and the package refuses one that a refresh token does not name."""
    fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    return urlencode([(name, value) for name, value in fields if name != "scope"]).encode()


async def _request(request: LitestarRequest) -> StarletteRequest:
    return _with_body(request, await request.body())


def _with_body(request: LitestarRequest, body: bytes) -> StarletteRequest:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return StarletteRequest(cast("Scope", request.scope), receive)


def _response(response: StarletteResponse) -> Response[bytes]:
    headers = {
        name: value for name, value in response.headers.items() if name not in {"content-length", "content-type"}
    }
    kind = response.headers.get("content-type", "text/plain")
    return Response(bytes(response.body), status_code=response.status_code, headers=headers, media_type=kind)
