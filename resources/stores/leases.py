"""Leases: which process may write to a partition of a source, or do some work of which one runs at a time.

A lease is a row in Postgres with a time until which it lasts. Its owner renews it while it works; the lease of a process that died or
hangs lapses, and another may claim it. Every claim has a number, the fence. A transaction that writes checks it first, so that a process
that was paused beyond its lease writes nothing. Nothing depends on a session, so this works behind a connection pool, and only the
clock of Postgres counts.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager

import psycopg
import structlog

from resources.core.errors import BusyError, LostLeaseError, ServiceUnavailableError
from resources.stores.postgres import Connection, connect, hang_up, said
from sql.leases import Leases

LEASE_SECONDS = 15.0
"""How long a lease lasts without renewal."""
RENEW_SECONDS = 3.0
IDLE_SECONDS = 90
"""A writing transaction ends once its process has done nothing for so long. A request to the vector index takes at most a minute."""
POLL_SECONDS = 0.25
"""Interval at which a process that waits for a lease tries again."""
WAIT_SECONDS = 3600.0
TOLD_SECONDS = 60.0
"""How often somebody who waits is told so."""
HANG_SECONDS = 12.0
"""Longest wait for a Postgres that does not answer when a lease is released."""
WHOLE = ""
"""The partition of a lease of a whole source, which conflicts with all of its partitions."""
REST = "\n"
"""Claimed by a sync of the whole source that works on some of its partitions only, because other syncs have the others."""
INSTALLATION = ""
"""The source of leases of work that belongs to no source."""
COMPACTION = "compaction"
"""Name of the lease of whoever compacts tables of the lake, or removes files that no version of them names."""

log = structlog.get_logger("leases")


class Lease:
    """A claim of partitions of a source. Made by `claim`; its thread renews it until `release`."""

    def __init__(self, dsn: str, source: str) -> None:
        self.source = source
        self.owner = uuid.uuid4().hex
        self.fence: int | None = None
        self.names: set[str] = set()
        """The claimed partitions; `WHOLE`: all."""
        self._others: list[Lease] = []
        self._dsn = dsn
        self._connection: Connection | None = None
        self._using = threading.RLock()
        """Held while the connection is used: by the thread that renews, or by the one that claims more."""
        self._released = threading.Event()
        self._renewing: threading.Thread | None = None

    def covers(self, partition: str) -> bool:
        """Return True if this claim is of the partition, or of the whole source."""
        return partition in self.names or WHOLE in self.names

    @property
    def partitions(self) -> list[str]:
        """The claimed partitions, without `REST`, sorted."""
        return sorted(self.names - {REST})

    def claim(self, partitions: Iterable[str]) -> bool:
        """Claim partitions, in addition to those that the lease has; return False if another process has one. Does not wait."""
        wanted = set(partitions) - self.names
        if not wanted:
            return True
        with self._using:
            fence = self._statements().claim(
                source=self.source, partitions=sorted(wanted), owner=self.owner, held=self.fence, seconds=LEASE_SECONDS
            )
            if fence is None:
                self._statements().cap(seconds=LEASE_SECONDS)
                return False
            self.fence = fence
            self.names |= wanted
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)
            self._renewing.start()
        return True

    def narrow(self, partitions: Iterable[str]) -> None:
        """Give up what the lease has but these partitions; one of the whole source becomes one of them.

        No other thread may be writing. Raises `LostLeaseError` if another process has claimed it.
        """
        names = set(partitions)
        with self._using:
            if self.fence is None or not self._renewed():
                raise self._lost()
            self._statements().narrow(source=self.source, owner=self.owner, fence=self.fence, partitions=sorted(names))
            self.names = names

    def wait(self, partitions: Collection[str], seconds: float, waits: Callable[[float], None] | None = None) -> bool:
        """Claim partitions; return False if another process still has one after so many seconds.

        `waits` is called when the wait begins and each minute, with the seconds waited so far.
        """
        began, told = time.monotonic(), 0
        while not self.claim(partitions):
            waited = time.monotonic() - began
            if waited >= seconds:
                return False
            if waits is not None and waited >= told * TOLD_SECONDS:
                waits(waited)
                told += 1
            time.sleep(POLL_SECONDS)
        return True

    def bind(self, *others: Lease) -> None:
        """Let `check` and `confirm` stand for these leases, too: the work needs all of them."""
        self._others += others

    def check(self, connection: Connection) -> None:
        """Keep others from claiming the lease until the transaction ends. Raises `LostLeaseError` if one has."""
        for lease in (self, *self._others):
            lease._keep(connection)

    def _keep(self, connection: Connection) -> None:
        with self._using:
            fence, expected = self.fence, len(self.names)
        kept = 0
        if fence is not None:
            kept = Leases(connection).keep(source=self.source, owner=self.owner, fence=fence, idle=IDLE_SECONDS)
        if kept < expected:
            raise self._lost()

    def confirm(self) -> None:
        """Renew the lease before a write to another store. Raises `LostLeaseError` if another process has claimed it."""
        for lease in (self, *self._others):
            with lease._using:
                if not lease._renewed():
                    raise lease._lost()

    def release(self) -> None:
        """End the lease. If Postgres does not answer, it lapses."""
        self._released.set()
        if self._renewing is not None:
            self._renewing.join(HANG_SECONDS)
            if self._renewing.is_alive() and self._connection is not None:
                hang_up(self._connection)
        try:
            if self.fence is not None:
                with self._using:
                    self._statements().release(source=self.source, owner=self.owner, fence=self.fence)
        except (psycopg.Error, ServiceUnavailableError) as error:
            log.warning("lease_lapses", source=self.source, reason=str(error).strip())
        finally:
            self._close()

    def _lost(self) -> LostLeaseError:
        pause = f"because this one was paused for more than {LEASE_SECONDS:.0f} s. Nothing is lost"
        if self.source == INSTALLATION:
            return LostLeaseError(f"Another process has taken over this work, {pause}: run the command again.")
        return LostLeaseError(
            f"Another process has taken over the source {self.source}, {pause}: a sync continues by itself, any other command has to "
            "be run again."
        )

    def _renew(self) -> None:
        """Renew the lease until it is released or lost. While Postgres does not answer, it can lapse, but no one can claim it."""
        while not self._released.wait(RENEW_SECONDS):
            try:
                with self._using:
                    if not self._renewed():
                        log.warning("lease_lost", source=self.source)
                        return
            except (psycopg.Error, ServiceUnavailableError) as error:  # also one that has become read-only
                log.warning("lease_not_renewed", source=self.source, reason=str(error).strip())

    def _renewed(self) -> bool:
        fence = self.fence
        if fence is None:
            return False
        rows = self._statements().renew(source=self.source, owner=self.owner, fence=fence, seconds=LEASE_SECONDS)
        return rows == len(self.names)

    def _statements(self) -> Leases:
        """Return the statements over a connection of the lease's own, made anew if it is broken."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn, autocommit=True)
        return Leases(self._connection)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def claim(
    dsn: str,
    source: str,
    partitions: Collection[str] | None,
    *,
    seconds: float = WAIT_SECONDS,
    waits: Callable[[float], None] | None = None,
) -> Lease | None:
    """Claim partitions of a source, or the whole source, and return the lease; None if another process keeps them for too long.

    `waits` is called as by `Lease.wait`. Release the lease. Raises `ServiceUnavailableError`.
    """
    lease = Lease(dsn, source)
    try:
        if lease.wait([WHOLE] if partitions is None else partitions, seconds, waits):
            return lease
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres stopped answering: {said(error)}") from error
    finally:
        if lease.fence is None:
            lease.release()
    return None


@contextmanager
def alone(
    dsn: str, work: str, refusal: str, *, seconds: float = 0, waits: Callable[[float], None] | None = None
) -> Generator[Lease]:
    """Hold the lease of some work of the installation for the block. Raises `BusyError(refusal)` if another process still does it after
    so many seconds. `waits` is called as by `Lease.wait`.
    """
    lease = claim(dsn, INSTALLATION, [work], seconds=seconds, waits=waits)
    if lease is None:
        raise BusyError(f"{refusal} One that was killed no longer counts after {LEASE_SECONDS:.0f} seconds.", "")
    try:
        yield lease
    finally:
        lease.release()
