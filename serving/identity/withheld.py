"""What must not be accepted or shown while Postgres is down, read from the vector index with each request.

The entries that concern a request are read by their ids: some 2 ms for 60 of them, however many there are. Nothing is cached, so that a
revocation takes effect for all processes at once. If they cannot be read, the request is refused.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from resources.core.errors import AbortSyncError, ServiceUnavailableError
from resources.logging import logger
from resources.people import SOURCES_OF_GROUPS
from resources.stores.qdrant import qdrant_errors
from resources.stores.withheld import (
    COLLECTION,
    COMPLETE,
    DOCUMENT,
    FORMER,
    GROUPS,
    HELD,
    PARTITION,
    PERSON,
    TOKEN,
    WithheldNow,
    partition_key,
    wanted_ids,
)
from serving.http.errors import account_inactive, token_revoked

if TYPE_CHECKING:
    from qdrant_client.async_qdrant_remote import AsyncQdrantRemote

    from serving.identity.tokens import Verified

READ_SECONDS = 3.0
RETRY_AFTER_SECONDS = 2.0

log = logger("serving")


class WithheldReads:
    """Reads entries. Raises `ServiceUnavailableError` if the collection does not answer, is missing, or was never completed."""

    def __init__(self, qdrant: AsyncQdrantRemote) -> None:
        self._qdrant = qdrant
        self.behind = False
        """True while the index has yet to be told something, as far as is known."""

    async def admit(self, email: str, token: Verified | None) -> frozenset[str]:
        """Return the sources of groups that were ever read.

        Raises `UnauthorizedError` for a revoked token, for one of a former holder of the address, and for a person who has left.
        """
        tokens = () if token is None else (token.token_id,)
        found = await self._entries(wanted_ids(tokens=tokens, people=(email,), groups=SOURCES_OF_GROUPS))
        since = found[FORMER].get(email, {}).get("since", 0.0)
        if found[TOKEN] or (token is not None and token.issued < math.floor(since)):
            raise token_revoked()
        if found[PERSON]:
            raise account_inactive()
        return frozenset(found[GROUPS])

    async def of(self, payloads: Iterable[Mapping[str, Any]]) -> WithheldNow:
        """Return what is withheld of the documents with these payloads."""
        documents: set[str] = set()
        partitions: set[str] = set()
        for one in payloads:
            documents.add(one["doc_id"])
            partitions.add(partition_of(one))
        found = await self._entries(wanted_ids(documents=sorted(documents), partitions=sorted(partitions)))
        return WithheldNow(
            readers={key: frozenset(one["readers"]) for key, one in found[DOCUMENT].items()},
            checked={key: one["checked_at"] for key, one in found[PARTITION].items()},
            held={key: one["checked_at"] for key, one in found[HELD].items()},
        )

    async def _entries(self, ids: list[str]) -> dict[str, dict[str, Mapping[str, Any]]]:
        """Return the payloads of entries by kind and key."""
        if self.behind:
            log.error("withheld_behind")
            raise _unreadable()
        try:
            with qdrant_errors("read what is withheld"):
                async with asyncio.timeout(READ_SECONDS):
                    records = await self._qdrant.retrieve(COLLECTION, ids, with_payload=True)
        except (TimeoutError, AbortSyncError, ServiceUnavailableError) as error:
            log.error("withheld_not_read", error=str(error) or "It took too long.")
            raise _unreadable() from error
        found: dict[str, dict[str, Mapping[str, Any]]] = {
            kind: {} for kind in (COMPLETE, TOKEN, PERSON, FORMER, GROUPS, DOCUMENT, PARTITION, HELD)
        }
        for record in records:
            payload = record.payload or {}
            found[payload["kind"]][payload["key"]] = payload
        if not found[COMPLETE]:
            log.error("withheld_incomplete")
            raise _unreadable()
        return found


def partition_of(payload: Mapping[str, Any]) -> str:
    """Return the key of the partition of a point."""
    return partition_key(payload.get("source_type") or "", payload.get("partition") or "")


def _unreadable() -> ServiceUnavailableError:
    return ServiceUnavailableError(
        "Postgres does not answer, and the vector index does not say what has been revoked since. Try again shortly.",
        RETRY_AFTER_SECONDS,
    )
