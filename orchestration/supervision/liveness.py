"""Detect services that run but no longer respond, so that the supervisor can restart them.

Each service is probed in its own thread, so that a hanging one does not delay the others. Any reply counts, even an error. A slow
service that uses the processor gets more time than an idle one. Time in which this process itself was suspended does not count.
"""

import http.client
import selectors
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import psutil
import psycopg
from psycopg.pq import ConnStatus, ExecStatus

from resources.core.errors import ConcordanceError
from resources.servers.processes import ProcessIdentity, family, stopped_by_signal

INTERVAL_SECONDS = 3.0
DEADLINE_SECONDS = 5.0
"""Longest wait for one reply."""
SUSPECT_MISSES = 2
"""Consecutive missing replies after which `status` shows the service as hung."""
IDLE_MISSES = 4
"""Consecutive missing replies after which an idle service is restarted: 12 to 32 seconds."""
BUSY_MISSES = 12
"""The same for a service that uses the processor: up to 96 seconds."""
BUSY_SHARE = 0.02
"""Share of one core from which a service counts as busy."""

PAUSE_SECONDS = 20.0
"""Delay of a round that means that this process or the machine was suspended."""

Probe = Callable[[], bool | None]
"""Return True if the service replied within `DEADLINE_SECONDS`, and None if that is unknown; else return False or raise the reason."""


class NoReplyError(ConcordanceError):
    """A service did not reply."""


def ask(probe: Probe) -> tuple[bool | None, str]:
    """Call a probe; return its result, and the reason if there was no reply."""
    try:
        replied = probe()
    except Exception as error:  # noqa: BLE001 # a thread's edge: any error of a probe means that there was no reply
        return False, str(error).strip() or type(error).__name__
    return replied, "no reply" if replied is False else ""


class Pulse:
    """Watches one process with one probe until `stop`."""

    def __init__(
        self,
        probe: Probe,
        leader: ProcessIdentity,
        *,
        grace: float = 0.0,
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start watching. Misses do not count during the first `grace` seconds, while the process may be starting."""
        self._probe = probe
        self._leader = leader
        self._interval = interval
        self._clock = clock
        self._counts_from = clock() + grace
        self._reason = ""
        self._stopping = threading.Event()
        self._misses = 0
        self._first_miss = (0.0, 0.0)
        """Time of the first consecutive miss and the processor time used by then, both in seconds."""
        self._hung = False
        self._replies = False
        self._thread = threading.Thread(target=self._watch, name="liveness", daemon=True)
        self._thread.start()

    @property
    def suspect(self) -> bool:
        """Return True if the last replies are missing."""
        return self._misses >= SUSPECT_MISSES

    @property
    def replies(self) -> bool:
        """Return True if there was a reply to the last probe."""
        return self._replies

    @property
    def hung(self) -> bool:
        """Return True if the process has not replied for so long that it should be restarted."""
        return self._hung

    @property
    def reason(self) -> str:
        """The reason why the last reply is missing."""
        return self._reason

    def stop(self) -> None:
        """Stop watching. A probe in progress ends by its own deadline."""
        self._stopping.set()

    def _watch(self) -> None:
        began = self._clock()
        while not self._stopping.wait(self._interval):
            replied, reason = (
                (False, "the process was stopped by a signal") if stopped_by_signal(self._leader) else ask(self._probe)
            )
            now = self._clock()
            paused = now - began > self._interval + PAUSE_SECONDS
            began = now
            self._replies = replied is True
            if replied or paused:
                self._misses, self._hung = 0, False
            elif replied is False and now >= self._counts_from:
                self._reason = reason
                self._miss(now)

    def _miss(self, now: float) -> None:
        used = processor_seconds(self._leader)
        if self._misses == 0:
            self._first_miss = (now, used)
        self._misses += 1
        since, used_then = self._first_miss
        busy = used - used_then > BUSY_SHARE * (now - since)
        self._hung = self._misses >= (BUSY_MISSES if busy else IDLE_MISSES)


def processor_seconds(leader: ProcessIdentity) -> float:
    """Return the processor time used by the process and its descendants."""
    total = 0.0
    for member in family(leader):
        try:
            times = psutil.Process(member.pid).cpu_times()
            total += times.user + times.system
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def answers(url: str, headers: Mapping[str, str] | None = None) -> bool:
    """Return True if a GET of this HTTP URL returns status 200 within two seconds."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=2)
    try:
        connection.request("GET", parts.path or "/", headers=dict(headers or {}))
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def http_replies(url: str) -> bool:
    """Return True if the server sends any response, or closes the connection, which a hung one does not.

    Raises `NoReplyError` otherwise.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=DEADLINE_SECONDS)
    try:
        connection.connect()
    except OSError as error:
        raise NoReplyError(f"{url} accepts no connection: {error}") from error
    try:
        connection.request("GET", parts.path or "/")
        connection.getresponse()
    except TimeoutError:
        raise NoReplyError(f"{url} sent no response within {DEADLINE_SECONDS:.0f} s") from None
    except (OSError, http.client.HTTPException):
        return True
    finally:
        connection.close()
    return True


def postgres_replies(dsn: str) -> bool:
    """Return True if the server answers `SELECT 1` on a new connection, or refuses the connection with an error message.

    Raises `NoReplyError` otherwise.
    """
    try:
        connection = psycopg.connect(dsn, connect_timeout=round(DEADLINE_SECONDS), autocommit=True)
    except psycopg.OperationalError as error:
        # Such as too many connections, or crash recovery: the server itself replied.
        if "FATAL:" in str(error):
            return True
        raise NoReplyError(f"Postgres accepts no connection: {error}") from error
    try:
        if _answers_query(connection):
            return True
        raise NoReplyError(f"Postgres did not answer a query within {DEADLINE_SECONDS:.0f} s")
    finally:
        connection.close()


def _answers_query(connection: psycopg.Connection) -> bool:
    """Return True if a query has a result before a deadline, which `connection.execute` does not support."""
    server = connection.pgconn
    server.send_query(b"SELECT 1")
    deadline = time.monotonic() + DEADLINE_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(server.socket, selectors.EVENT_READ)
        while server.is_busy():
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                return False
            server.consume_input()
            if server.status != ConnStatus.OK:
                return False
    result = server.get_result()
    return result is not None and result.status == ExecStatus.TUPLES_OK


def grpc_replies(target: str) -> bool:
    """Return True if the gRPC server at `target` (`127.0.0.1:port` or `unix:path`) answers the standard health check.

    Raises `NoReplyError` if it does not reply.
    """
    import grpc  # 15 MB that only the supervisor needs

    with grpc.insecure_channel(target) as channel:
        check = cast("Any", channel).unary_unary("/grpc.health.v1.Health/Check")  # its types are incomplete
        try:
            check(b"", timeout=DEADLINE_SECONDS)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
                raise NoReplyError(f"{target}: {error.code().name}: {error.details()}") from error
    return True
