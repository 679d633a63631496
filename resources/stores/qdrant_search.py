"""A fast client for searches of the vector index.

`qdrant-client` validates and copies every vector of a request and every hit of every prefetch, which took most of a search's time in
this process (DECISIONS.md has the figures). Filters and parameters are built from its models; requests, transport and decoding are
ours: aiohttp and msgspec.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BaseModel

from resources import http_clients
from resources.core.errors import AbortSyncError, NoCollectionError, ServiceUnavailableError
from resources.keys import qdrant_api_key
from resources.settings import Settings
from resources.stores.namespace import namespace
from resources.watch import Watch


class PointQuery(msgspec.Struct, frozen=True):
    """A query of one leg; the parts that several queries of a batch share are encoded once.

    Source: https://api.qdrant.tech/api-reference/search/query-points"""

    query: msgspec.Raw
    using: str
    filter: msgspec.Raw
    limit: int
    params: msgspec.Raw | UnsetType = UNSET
    with_payload: bool | UnsetType = UNSET
    prefetch: PointQuery | UnsetType = UNSET


def raw(value: Any) -> msgspec.Raw:
    """Return a value, or a model of qdrant-client without its unset fields, as JSON."""
    if isinstance(value, BaseModel):
        return msgspec.Raw(value.model_dump_json(exclude_unset=True).encode())
    return msgspec.Raw(msgspec.json.encode(value))


def batch_body(batch: Sequence[PointQuery]) -> bytes:
    """Return the body of a request to `/points/query/batch`."""
    return msgspec.json.encode({"searches": batch})


class ScoredHit(msgspec.Struct, frozen=True):
    id: str | int
    score: float
    payload: dict[str, Any] | None = None


class QueryHits(msgspec.Struct, frozen=True):
    points: list[ScoredHit]


class _Answers(msgspec.Struct):
    result: list[QueryHits]


PING_SECONDS = 2.0
_DECODER = msgspec.json.Decoder(_Answers)
_HEADERS = {"content-type": "application/json"}


class VectorSearch:
    """One session of keep-alive connections; the first search opens it."""

    def __init__(self, settings: Settings) -> None:
        self._address = settings.qdrant_address.rstrip("/")
        self._namespace = namespace(settings)
        key = qdrant_api_key(settings)
        self._headers = _HEADERS | ({"api-key": key} if key else {})
        self._session: aiohttp.ClientSession | None = None
        self.watch = Watch("qdrant", self._ping)

    async def query(self, collection: str, batch: Sequence[PointQuery], seconds: float) -> list[QueryHits]:
        """Return one answer per query, in order.

        Raises `ServiceUnavailableError` if there is none within `seconds` or the server is down, `NoCollectionError`, and
        `AbortSyncError` if it rejects a query.
        """
        if self.watch.down:
            raise ServiceUnavailableError("Qdrant does not answer.")
        body = batch_body(batch)
        url = f"{self._address}/collections/{self._namespace.stored(collection)}/points/query/batch"
        try:
            async with asyncio.timeout(None) as limit:
                with self.watch.call(lambda: limit.reschedule(0), seconds):
                    try:
                        status, answer = await self._post(url, body, seconds)
                    except aiohttp.ServerDisconnectedError:  # a keep-alive connection closed by a restarted server
                        status, answer = await self._post(url, body, seconds)
            if status == 200:
                return _DECODER.decode(answer).result
        except TimeoutError as error:
            raise ServiceUnavailableError(f"Qdrant does not answer, or took more than {seconds:.0f} s.") from error
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            raise ServiceUnavailableError(f"Qdrant does not answer (search): {error}") from error
        message = answer[:500].decode(errors="replace")
        if status == 404:
            raise NoCollectionError(f"Qdrant has no collection {collection}: {message}")
        if status < 500 and status != 429:
            raise AbortSyncError(f"Qdrant rejected the search: {message}")
        raise ServiceUnavailableError(f"Qdrant failed to search ({status}): {message}")

    async def close(self) -> None:
        await self.watch.stop()
        if self._session is not None:
            await self._session.close()

    def open(self) -> aiohttp.ClientSession:
        """Return the session; the first call starts to monitor the server."""
        if self._session is None:
            self._session = http_clients.session(self._address, headers=self._headers)
            self.watch.start()
        return self._session

    async def _ping(self) -> bool:
        limit = aiohttp.ClientTimeout(total=PING_SECONDS)
        try:
            async with self.open().get(f"{self._address}/healthz", timeout=limit, allow_redirects=False) as response:
                return response.status < 500
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False

    async def _post(self, url: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        limit = aiohttp.ClientTimeout(total=seconds)
        async with self.open().post(url, data=body, timeout=limit, allow_redirects=False) as response:
            return response.status, await response.read()
