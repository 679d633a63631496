"""Dynamic client registration (RFC 7591) without a store: a client ID is what the client registered, signed by our key.

So anyone may register without adding a row. IDs signed by a key that has left `CONCORDANCE_SECRET_KEY` are unknown, and their agents
register again.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import jwt
import msgspec
from pydantic import AnyUrl

from resources.core.guard import LOOPBACK

NAMELESS = "An agent without a name"
MAX_NAME = 100
MAX_REDIRECTS = 10
MAX_REDIRECT = 500
EDITORS = frozenset({"cursor", "vscode", "vscode-insiders", "windsurf", "jetbrains"})
"""Schemes without a dot that editors have registered for themselves."""
_PRINTABLE = re.compile(r"[!-~]+")
_AUDIENCE = "concordance-agent"
_ALGORITHM = "HS256"


class AgentClient(msgspec.Struct, frozen=True):
    """Registration of a client: the name that it gives itself, and where answers to it may go."""

    name: str
    redirect_uris: list[str]

    def redirects_to(self, uri: str) -> bool:
        """Return True if answers may go to this URI. The port of a loopback address is free. Source: RFC 8252 7.3."""
        return any(_comparable(one) == _comparable(uri) for one in self.redirect_uris)


def new_client_id(key: str, client: AgentClient) -> str:
    claims = {"aud": _AUDIENCE, "jti": secrets.token_urlsafe(8), **msgspec.structs.asdict(client)}
    return jwt.encode(claims, key, algorithm=_ALGORITHM)


def client_of(keys: Sequence[str], client_id: str) -> AgentClient | None:
    """Return the client of an ID, None if none of our keys has signed it."""
    for key in keys:
        try:
            claims: Any = jwt.decode(
                client_id, key, algorithms=[_ALGORITHM], audience=_AUDIENCE, options={"require": ["aud"]}
            )
        except jwt.InvalidTokenError:
            continue
        return msgspec.convert(claims, AgentClient)
    return None


def client_hash(client_id: str) -> str:
    return hashlib.sha256(client_id.encode()).hexdigest()


def shown_name(name: str | None) -> str:
    """Return a client's name as people see it: one short line."""
    return "".join(filter(str.isprintable, " ".join((name or "").split())))[:MAX_NAME].strip() or NAMELESS


def acceptable(uris: Iterable[str]) -> list[str]:
    """Return the redirect URIs that answers may go to. PKCE, without which nobody connects, makes a code that another app reads useless."""
    return [uri for uri in uris if len(uri) <= MAX_REDIRECT and _is_acceptable(uri)]


def is_private(scheme: str) -> bool:
    """Return True for the private-use scheme of an application: a domain name in reverse, or that of a known editor.

    Anything else may start a program, such as `javascript:`, `file:` or `search-ms:`. Source: RFC 8252 7.1.
    """
    return scheme in EDITORS or "." in scheme


def _is_acceptable(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        AnyUrl(uri)  # which the package `mcp` makes of it later
    except ValueError:
        return False
    if not _PRINTABLE.fullmatch(uri) or "#" in uri or "@" in parts.netloc:
        return False
    if parts.scheme in {"http", "https"}:
        return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in LOOPBACK)
    return is_private(parts.scheme) and bool(parts.netloc or parts.path.strip("/"))


def _comparable(uri: str) -> SplitResult:
    parts = urlsplit(uri)
    loopback = parts.scheme == "http" and parts.hostname in LOOPBACK and "@" not in parts.netloc
    return parts._replace(netloc=parts.hostname or "" if loopback else parts.netloc, path=parts.path or "/")
