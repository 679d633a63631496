"""How full the disks and the index are, stored once an hour, so that Postgres can tell when they will be full."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from resources.core.errors import TemporaryError
from resources.logging import logger
from resources.stores.room import rooms
from serving.http.periodic import Repeated
from sql.growth import Growth

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection
    from serving.http.database import Database

INTERVAL_SECONDS = 3600.0
FIRST_SECONDS = 60.0
"""A start is busy enough without it."""
KEPT_DAYS = 8

log = logger("serving")


class Fullness(NamedTuple):
    """How much is used, and at how much syncs stop: bytes of a disk, or passages of the index."""

    what: str
    place: str
    used: float
    most: float


def samples(settings: Settings, points: int | None) -> list[Fullness]:
    """Return how full the disks of this machine and the index are. Blocking. `points`: passages in the index, None if unknown."""
    found = [
        Fullness("disk", f"{socket.gethostname()}:{room.folder}", room.total - room.free, room.total - room.reserve)
        for room in rooms(settings)
    ]
    if settings.max_vectors is not None and points is not None:
        found.append(Fullness("index", "", points, settings.max_vectors))
    return found


class Sampling(Repeated):
    """The task that stores samples. `index_size` returns the passages in the index and the bytes of their vectors."""

    def __init__(
        self, settings: Settings, database: Database, index_size: Callable[[], Awaitable[tuple[int | None, int | None]]]
    ) -> None:
        super().__init__("growth", INTERVAL_SECONDS, self.take, FIRST_SECONDS)
        self._settings = settings
        self._database = database
        self._index_size = index_size

    async def take(self) -> None:
        """Store samples once, and remove old ones."""
        points, _ = await self._index_size()
        try:
            await self._database.in_thread(lambda connection: self._store(connection, points))
        except (TemporaryError, psycopg.Error) as error:
            log.warning("growth_not_stored", reason=str(error))

    def _store(self, connection: Connection, points: int | None) -> None:
        statements = Growth(connection)
        rows = [one._asdict() for one in samples(self._settings, points)]
        statements.record(samples=rows)
        statements.forget(days=KEPT_DAYS)
