"""Monitor the registry, the index and the disks for `/metrics` and `/readyz`, so that no request costs a query."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import psycopg

from resources.core.errors import OverloadedError, TemporaryError
from resources.logging import logger
from resources.stores.disk import HUNG, DiskFault
from serving.http.database import Database
from serving.http.periodic import Repeated
from sql.serving import WebReads
from sql.serving_rows import Figure

REFRESH_SECONDS = 10.0
OF_SYNCS = frozenset({"source_paused", "sync_failures_in_a_row", "latest_sync", "sync_awaited"})
"""Figures that alerts compare. A source that is not set up has none: it would be overdue, paused or failing for ever."""
DISK_SECONDS = 5.0
"""Longest wait for the disks at a look; one that does not answer at the next look either hangs."""
TOTALS_SECONDS = 120.0
"""The latest figures of a busy Postgres count for this long. One that answers nothing for longer is down: it may refuse connections."""
COMPLETE_SHARE = 0.99
"""An index that holds a smaller share of the registry's passages at two readings in a row is incomplete. One reading is not enough: a
sync may be between its two writes, and Qdrant's count is an estimate.
"""

log = logger("serving")


async def _all() -> Callable[[str], bool]:
    return lambda _: True


class StatusMonitor(Repeated):
    """The latest readings; those of a dependency that is down are empty."""

    def __init__(
        self,
        database: Database,
        index: Callable[[], Awaitable[tuple[int | None, int | None]]],
        disk: Callable[[], Sequence[DiskFault]],
        gauges: Callable[[], Mapping[str, float]] = dict,
        sources: Callable[[], Awaitable[Callable[[str], bool]]] = _all,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`disk` returns the disks and folders that cannot be written to, `gauges` further figures by name. Both block.

        `sources` returns a function that returns True for a source that is set up.
        """
        super().__init__("status-monitor", REFRESH_SECONDS, self._look)
        self._database = database
        self._read_index = index
        self._read_disk = disk
        self._read_gauges = gauges
        self._read_sources = sources
        self._clock, self._totals_at = clock, clock()
        self._reading: Future[tuple[Mapping[str, float], Sequence[DiskFault]]] | None = None
        self._was_short = False
        self.totals: Sequence[Figure] = ()
        self.points: int | None = None
        self.size: int | None = None
        self.incomplete = False
        """The index lacks passages that the registry lists, so results may lack documents."""
        self.disk_faults: Sequence[DiskFault] = ()
        self.gauges: Mapping[str, float] = {}
        self.dependencies: Mapping[str, bool] = {}
        """Whether each dependency answers; empty until the first look."""
        self._watched: dict[str, Callable[[], bool]] = {}

    def watch(self, dependency: str, answers: Callable[[], bool]) -> None:
        """Ask at each look whether a dependency answers."""
        self._watched[dependency] = answers

    @property
    def passages_per_document(self) -> float:
        """The mean over the whole index; 1 until it is known."""
        documents = sum(one.value for one in self.totals if (one.what, one.label) == ("documents", "live"))
        return max(1.0, (self.points or 0) / documents) if documents else 1.0

    async def _look(self) -> None:
        statements = WebReads(self._database)
        self.points, self.size = await self._read_index()
        points, expected, short = self.points, 0, False
        try:
            is_set_up = await self._read_sources()
            self.totals = [
                one for one in await statements.totals() if one.what not in OF_SYNCS or is_set_up(one.source)
            ]
            self._totals_at = self._clock()
            if points is not None and points < COMPLETE_SHARE * await statements.listed_passages():
                expected = await statements.expected_passages()
                short = points < COMPLETE_SHARE * expected
        except (TemporaryError, psycopg.Error) as error:
            log.warning("totals_unavailable", error=str(error))
            if not isinstance(error, OverloadedError) or self._clock() - self._totals_at > TOTALS_SECONDS:
                self.totals = ()
        if short and self._was_short and not self.incomplete:
            log.warning("index_incomplete", points=self.points, expected=expected)
        self.incomplete, self._was_short = short and self._was_short, short
        watched = {name: answers() for name, answers in self._watched.items()}
        self.dependencies = {
            "postgres": not self._database.watch.down and self._clock() - self._totals_at <= TOTALS_SECONDS,
            "qdrant": self.points is not None,
            **watched,
        }
        gauges, faults = await self._look_at_disks()
        self.gauges = {**gauges, "home_disk_writable": float(not faults)}
        if faults and not self.disk_faults:
            log.error("disk_not_writable", reason=" ".join(map(str, faults)))
        self.disk_faults = faults

    async def _look_at_disks(self) -> tuple[Mapping[str, float], Sequence[DiskFault]]:
        """Return figures and faults. While a file system hangs, one thread waits for it, and no other is started."""
        if first := self._reading is None:
            self._reading = Future()
            # a daemon, so that it does not keep the process from ending
            threading.Thread(target=self._read, args=(self._reading,), name="disks", daemon=True).start()
        done, _ = await asyncio.wait([asyncio.wrap_future(self._reading)], timeout=DISK_SECONDS)
        if not done:
            return self.gauges, self.disk_faults if first else [DiskFault((), Path(), HUNG, "")]
        reading, self._reading = self._reading, None
        return reading.result()

    def _read(self, reading: Future[tuple[Mapping[str, float], Sequence[DiskFault]]]) -> None:
        try:
            reading.set_result((self._read_gauges(), self._read_disk()))
        except Exception as error:  # noqa: BLE001 (raised by the look)
            reading.set_exception(error)
