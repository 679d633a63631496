"""The processes of the HTTP service, and what they share: the listening socket, and the memory that counts for all of them.

The supervisor has both open. So new connections wait in the socket's queue while the only process is replaced, and while one of
several is, the others take them. The processes are alike, and each is a service to the supervisor.
"""

import socket
import threading
from functools import partial

from orchestration.supervision import commands
from orchestration.supervision.environment import service_environment
from orchestration.supervision.liveness import NoReplyError, answers, http_replies
from orchestration.supervision.service import Service
from resources.servers.listening import ALL_FAMILIES, listen
from resources.servers.shared import ACCEPTING, BEATS, Inherited, Shared
from resources.settings import Settings

SERVING = "serving"


def serving_address(settings: Settings) -> str:
    """Return the URL at which our processes reach the HTTP interface, which unlike the public URL never leads through a proxy."""
    if settings.http_internal_url is not None:
        return settings.http_internal_url.rstrip("/")
    loopback = "127.0.0.1" if socket.has_dualstack_ipv6() else "::1"  # the one that a socket of all families surely has
    own = {"0.0.0.0": "127.0.0.1", ALL_FAMILIES: loopback}  # noqa: S104 # compared, not bound
    host = own.get(settings.http_host, settings.http_host)
    return f"http://[{host}]:{settings.http_port}" if ":" in host else f"http://{host}:{settings.http_port}"


class Serving:
    """The processes of one installation. The socket opens with the first process and closes with the last."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._workers = settings.serving_workers
        self._listener: socket.socket | None = None
        self._shared = Shared.alone()
        self._changing = threading.Lock()
        self._opened: set[int] = set()
        self._beats: dict[int, int] = {}
        """Heartbeats of each process at the last look."""

    def services(self) -> list[Service]:
        """Return a service for each process; the first has the name and the URL of the HTTP service."""
        return [self._service(worker) for worker in range(self._workers)]

    def _service(self, worker: int) -> Service:
        return Service(
            name=f"{SERVING}-{worker + 1}" if worker else SERVING,
            one_of=SERVING,
            command=partial(self._command, worker),
            ready=partial(self._ready, worker),
            probe=partial(self._replies, worker),
            url=None if worker else self._settings.base_url,
            environment=service_environment(self._settings, SERVING),
            prepare=partial(self._open, worker),
            close=partial(self._close, worker),
            port=("CONCORDANCE_HTTP_PORT", self._settings.http_host, self._settings.http_port),
            descriptors=lambda: [fd for fd in self._descriptors() if fd >= 0],
        )

    def _open(self, worker: int) -> None:
        """Open the socket and the memory if no other process has them. Raises `ConfigurationError` if it cannot listen."""
        with self._changing:
            if not self._opened:
                self._shared.close()
                self._shared = Shared.create(self._workers, "")  # the supervisor makes no digests
            if self._listener is None:
                self._listener = listen(self._settings)
            self._opened.add(worker)
        self._beats[worker] = self._shared.processes.of(worker, BEATS)

    def _close(self, worker: int) -> None:
        """Refuse connections once no process is left to take them."""
        with self._changing:
            self._opened.discard(worker)
            if not self._opened and self._listener is not None:
                self._listener.close()
                self._listener = None

    def _descriptors(self) -> tuple[int, int]:
        return -1 if self._listener is None else self._listener.fileno(), self._shared.fd

    def _command(self, worker: int) -> list[str]:
        inherited = Inherited(worker, self._workers, *self._descriptors())
        return commands.serving("--worker", inherited.argument())

    def _ready(self, worker: int) -> bool:
        processes = self._shared.processes
        # what the process before it has left in the memory does not beat
        accepts = processes.of(worker, ACCEPTING) and processes.of(worker, BEATS) != self._beats[worker]
        return (self._workers == 1 or bool(accepts)) and answers(f"{serving_address(self._settings)}/readyz")

    def _replies(self, worker: int) -> bool:
        if self._workers == 1:
            return http_replies(f"{serving_address(self._settings)}/healthz")
        before, now = self._beats[worker], self._shared.processes.of(worker, BEATS)
        self._beats[worker] = now
        if now == before:
            raise NoReplyError("its event loop does not run")
        return True
