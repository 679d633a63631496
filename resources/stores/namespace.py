"""The prefix that an installation's collections and aliases have in a Qdrant server that several installations share.

The product, the registry and backups know names without it: it is added to each request and taken off each answer, so that no statement
can reach a collection of another installation, and a restored backup uses the collections of the installation that restores it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx
import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from resources.settings import Settings

_NAMED = re.compile(rb"^/collections/(?!aliases(?:[/?]|$))(?=[^/?])")
"""The path of a request about one collection or alias."""
_ALIASES = re.compile(rb"^/collections/aliases(?:\?|$)")
_LISTS = re.compile(rb"^/(?:collections|aliases|collections/[^/?]+/aliases)/?(?:\?|$)")
_NAMES = frozenset({"name", "collection_name", "alias_name", "old_alias_name", "new_alias_name"})
_SIZED = frozenset({"content-length", "content-encoding", "transfer-encoding"})


class Namespace(NamedTuple):
    """A prefix, and the path of the server's address that precedes all others."""

    prefix: str
    base: bytes = b""

    def stored(self, name: str) -> str:
        """Return the name that the server knows."""
        return f"{self.prefix}{name}"

    def middleware(self, request: httpx.Request, send: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
        """Send a request with the stored names and return its answer with ours. A middleware of qdrant-client."""
        return self._answered(request, send(self._asked(request)))

    async def async_middleware(
        self, request: httpx.Request, send: Callable[[httpx.Request], Awaitable[httpx.Response]]
    ) -> httpx.Response:
        """Do the same for the asynchronous client."""
        return self._answered(request, await send(self._asked(request)))

    def _path(self, request: httpx.Request) -> bytes:
        return request.url.raw_path.removeprefix(self.base)

    def _asked(self, request: httpx.Request) -> httpx.Request:
        path, content = self._path(request), request.content
        named = _NAMED.match(path)
        if named is not None:
            path = path[: named.end()] + self.prefix.encode() + path[named.end() :]
        elif _ALIASES.match(path) and content:
            content = msgspec.json.encode(self._with_prefix(msgspec.json.decode(content)))
        else:
            return request
        return httpx.Request(
            request.method,
            request.url.copy_with(raw_path=self.base + path),
            headers=[pair for pair in request.headers.raw if pair[0].decode().lower() not in _SIZED],
            content=content,
            extensions=request.extensions,
        )

    def _answered(self, request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if request.method != "GET" or not answer.is_success or not _LISTS.match(self._path(request)):
            return answer
        body: dict[str, Any] = msgspec.json.decode(answer.content)
        body["result"] = {
            kind: [self._without_prefix(one) for one in listed if self._is_ours(one)]
            for kind, listed in body["result"].items()
        }
        return httpx.Response(
            answer.status_code, headers={"content-type": "application/json"}, content=msgspec.json.encode(body)
        )

    def _with_prefix(self, value: Any) -> Any:
        """Return the operations on aliases with the stored names."""
        if isinstance(value, list):
            return [self._with_prefix(one) for one in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        return {
            key: self.stored(one) if key in _NAMES and isinstance(one, str) else self._with_prefix(one)
            for key, one in cast("dict[str, Any]", value).items()
        }

    def _is_ours(self, listed: dict[str, Any]) -> bool:
        return all(str(value).startswith(self.prefix) for key, value in listed.items() if key in _NAMES)

    def _without_prefix(self, listed: dict[str, Any]) -> dict[str, Any]:
        return {key: value.removeprefix(self.prefix) if key in _NAMES else value for key, value in listed.items()}


def namespace(settings: Settings) -> Namespace:
    """Return the namespace of an installation; one with an empty prefix changes nothing."""
    return Namespace(settings.index_prefix or "", urlsplit(settings.qdrant_address).path.rstrip("/").encode())
