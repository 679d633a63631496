"""Writes what searches without Postgres must know, before the change that it belongs to is committed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psycopg

from resources.core.errors import ConcordanceError, TemporaryError
from resources.logging import logger
from resources.stores import qdrant
from resources.stores.postgres import session
from resources.stores.withheld import WithheldCollection
from resources.stores.withholding import settle, withhold_documents, withhold_groups, withhold_people, withhold_token
from serving.http.periodic import Repeated
from sql.serving import WebReads

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection
    from serving.http.database import Database
    from serving.identity.withheld import WithheldReads

WRITE_SECONDS = 5
SETTLE_SECONDS = 30.0
LOOK_SECONDS = 2.0
"""Between looks at what the index has yet to be told, which also decide how long after that change answers without Postgres end."""

log = logger("serving")


class Withholding:
    """Writes entries for requests, and keeps the collection in step with Postgres while the service runs. Writes are blocking."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = qdrant.client(settings, seconds=WRITE_SECONDS)
        self._withheld = WithheldCollection(self._client)

    def documents(self, connection: Connection, doc_ids: Sequence[str]) -> None:
        """Limit documents to their present readers. Call it last in the transaction."""
        withhold_documents(connection, self._withheld, doc_ids)

    def people(self, connection: Connection) -> None:
        """Refuse people who have left with the transaction, and tokens from before an address was given to others. Call it last."""
        withhold_people(connection, self._withheld)

    def groups(self, connection: Connection, source: str) -> None:
        """Tell that groups come from a source. Call it in the transaction that records that it was read."""
        withhold_groups(connection, self._withheld, source)

    def token(self, connection: Connection, token_id: str, expires: float) -> None:
        """Refuse a token until it expires (Unix time). Call it in the transaction that puts it on the deny-list."""
        withhold_token(connection, self._withheld, token_id, expires)

    def token_alone(self, token_id: str, expires: float) -> None:
        """Refuse a token until it expires, without Postgres, which learns of it later. Raises `ServiceUnavailableError`."""
        self._withheld.tokens({token_id: expires})

    def settle(self) -> None:
        """Make the collection say what Postgres says. Raises `ConcordanceError` and `psycopg.Error`."""
        with session(self._settings.postgres_dsn, autocommit=True) as connection:
            carry_over(self._settings.home, self._withheld)
            settle(connection, self._withheld)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class WithholdingKeeper(Repeated):
    """Settles the collection when the service starts, when Postgres is back, when something was noted, and now and then."""

    def __init__(self, withholding: Withholding, database: Database, reads: WithheldReads) -> None:
        super().__init__("withholding", LOOK_SECONDS, self._look)
        self._withholding = withholding
        self._database = database
        self._reads = reads
        self._settled: float | None = None

    def start(self) -> None:
        self._database.watch.on_return(self._settle)
        super().start()

    async def stop(self) -> None:
        await super().stop()
        self._withholding.close()

    async def _look(self) -> None:
        with contextlib.suppress(TemporaryError):  # what was known last still holds
            self._reads.behind = await WebReads(self._database).unwithheld()
        if self._reads.behind or self._settled is None or time.monotonic() - self._settled > SETTLE_SECONDS:
            await self._settle()

    async def _settle(self) -> None:
        """Settle, before Postgres is asked again if it was down: it learns of the tokens that were revoked meanwhile."""
        try:
            await asyncio.to_thread(self._withholding.settle)
        except (ConcordanceError, psycopg.Error) as error:
            log.warning("withheld_not_settled", error=str(error))
        else:
            self._settled = time.monotonic()


def carry_over(home: Path, withheld: WithheldCollection) -> None:
    """Move what earlier versions kept in HOME to the collection. Idempotent.

    Postgres knows everything else that they kept there: permissions narrowed by owners and events.
    """
    tokens = home / "revoked" / "tokens.json"
    try:
        expires = msgspec.json.decode(tokens.read_bytes(), type=dict[str, float])
    except FileNotFoundError:
        expires = {}
    except (OSError, msgspec.MsgspecError) as error:
        log.error("revoked_tokens_unreadable", file=str(tokens), error=str(error))
        return
    withheld.tokens({token_id: until for token_id, until in expires.items() if until >= time.time()})
    for file in (tokens, tokens.with_suffix(".lock"), home / "rights" / "uploads.jsonl", home / "rights" / "lock"):
        with contextlib.suppress(OSError):
            file.unlink()
    for folder in (home / "revoked", home / "rights"):
        with contextlib.suppress(OSError):  # it is missing, or not empty
            folder.rmdir()
