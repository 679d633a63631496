"""Clients whose ID is the https URL of a document about them (draft-ietf-oauth-client-id-metadata-document-02).

The document is read when a person is asked. Codes and tokens are bound to the URL, so the token endpoint reads none.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from resources.core.errors import InvalidRequestError, OverloadedError, TemporaryError
from resources.logging import logger
from resources.public_web import PublicDocument, PublicWeb
from serving.agents.clients import AgentClient, acceptable, shown_name
from serving.agents.registration import NOT_ACCEPTABLE, PUBLIC

MAX_BYTES = 5 * 1024
"""Largest document that is read. Source: the draft, 6.6."""
SECONDS = 5.0
LEAST_CACHED, MOST_CACHED = 300.0, 86_400.0
"""Seconds that a document is kept at least and at most, whatever its cache headers say."""
MAX_CACHED = 500
MAX_FETCHES = 16
"""Documents that a process reads at a time. Others are refused: anyone can ask for documents that take their time."""
RETRY_SECONDS = 5.0
MAX_URL = 300
TOO_MANY = "The documents of many clients are being read. Try again shortly."
UNREADABLE = "The document of this client cannot be read. Its ID must be the https URL of a small JSON document at a public address."
_URL = re.compile(r"https://[^/]*/[!-~]*")
_HOST = re.compile(r"[a-z0-9.-]+")
_AGE = re.compile(r"(?:^|,)\s*max-age=\"?(\d{1,9})", re.IGNORECASE)

KNOWN: Mapping[str, AgentClient] = {
    "https://claude.ai/oauth/mcp-oauth-client-metadata": AgentClient(
        "Claude", ["https://claude.ai/api/mcp/auth_callback"]
    ),
    "https://claude.ai/oauth/claude-code-client-metadata": AgentClient(
        "Claude Code", ["http://localhost/callback", "http://127.0.0.1/callback"]
    ),
    "https://chatgpt.com/oauth/client.json": AgentClient(
        "ChatGPT", ["https://chatgpt.com/connector_platform_oauth_redirect"]
    ),
    "https://vscode.dev/oauth/client-metadata.json": AgentClient(
        "Visual Studio Code", ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"]
    ),
}
"""Documents of agents as they were in September 2026, for when they cannot be read: without a way out, or where their hosts ask
for a browser. Their redirect URIs are their vendors' own or of this machine. Source: the draft, Pre-Registering Client Identifier URLs."""

log = logger("serving")


class _ClientDocument(msgspec.Struct):
    client_id: str
    redirect_uris: list[str]
    client_name: str | None = None
    token_endpoint_auth_method: str = PUBLIC
    token_endpoint_auth_methods_supported: list[str] = []
    client_secret: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    client_secret_expires_at: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _CachedClient(NamedTuple):
    client: AgentClient
    until: float


class ClientDocuments:
    """Reads and caches the documents of clients."""

    def __init__(self, web: PublicWeb | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._web = web or PublicWeb(most_bytes=MAX_BYTES, seconds=SECONDS)
        self._clock = clock
        self._kept: OrderedDict[str, _CachedClient] = OrderedDict()
        self._places = asyncio.Semaphore(MAX_FETCHES)

    async def client(self, url: str) -> AgentClient:
        """Return the client of a document.

        Raises `InvalidRequestError`, whose text tells nothing of our networks, and `OverloadedError` while too many others are read.
        """
        fault = url_fault(url)
        if fault is not None:
            raise InvalidRequestError(fault)
        kept = self._kept.get(url)
        if kept is not None and kept.until > self._clock():
            self._kept.move_to_end(url)
            return kept.client
        try:
            if self._places.locked():
                raise OverloadedError(TOO_MANY)
            async with self._places:
                fetched = await self._web.read(url)
        except TemporaryError as error:
            log.warning("client_document_unreadable", client_id=url, reason=str(error))
            if url in KNOWN:
                return KNOWN[url]
            if isinstance(error, OverloadedError):
                raise OverloadedError(TOO_MANY, RETRY_SECONDS) from error
            raise InvalidRequestError(UNREADABLE) from error
        client = described(url, fetched.content)
        self._keep(url, client, fetched)
        return client

    def _keep(self, url: str, client: AgentClient, fetched: PublicDocument) -> None:
        age = _AGE.search(fetched.cache_control)
        seconds = min(max(float(age[1]) if age else 0.0, LEAST_CACHED), MOST_CACHED)
        self._kept[url] = _CachedClient(client, self._clock() + seconds)
        self._kept.move_to_end(url)
        if len(self._kept) > MAX_CACHED:
            self._kept.popitem(last=False)


def is_document(client_id: str) -> bool:
    """Return True if a client ID is the URL of a document. Those that we give out are signed and have no colon."""
    return client_id.startswith("https://")


def url_fault(url: str) -> str | None:
    """Return what is wrong with a client ID that is a URL, None if nothing is. Source: the draft, 3."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "client_id: is not a URL."
    if not _URL.fullmatch(url) or len(url) > MAX_URL or not _HOST.fullmatch(parts.hostname or ""):
        return f"client_id: must be an https URL with a path, of at most {MAX_URL} characters."
    if "@" in parts.netloc or "#" in url or port not in {None, 443}:
        return "client_id: the URL may have no user, no fragment and no port."
    if parts.path == "/" or {".", ".."} & set(unquote(parts.path).split("/")):
        return "client_id: the URL must have a path, without the segments . and .."
    return None


def described(url: str, content: bytes) -> AgentClient:
    """Return the client that a document describes. Raises `InvalidRequestError`, also for one that is of another URL."""
    try:
        document = msgspec.json.decode(content, type=_ClientDocument)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"The document of this client is not what it must be: {error}") from error
    if document.client_id != url:
        raise InvalidRequestError("The document of this client names another client_id than its URL.")
    if document.client_secret is not msgspec.UNSET or document.client_secret_expires_at is not msgspec.UNSET:
        raise InvalidRequestError("The document of this client has a secret, which it must not.")
    if PUBLIC not in {document.token_endpoint_auth_method, *document.token_endpoint_auth_methods_supported}:
        raise InvalidRequestError(
            "The document of this client has no token endpoint authentication method that is supported: none."
        )
    uris = acceptable(document.redirect_uris)
    if not uris:
        raise InvalidRequestError(NOT_ACCEPTABLE)
    return AgentClient(shown_name(document.client_name), uris)
