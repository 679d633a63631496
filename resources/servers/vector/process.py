"""The server process: opens the collections of a folder, serves until SIGTERM or SIGINT, flushes and exits with 0."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from resources.core.guard import rules_for
from resources.servers.connections import bounded
from resources.servers.vector import SERVER_VERSION
from resources.servers.vector.files import own
from resources.servers.vector.http import Application
from resources.servers.vector.logs import log
from resources.servers.vector.routes import collections, points, service
from resources.servers.vector.store import CollectionStore

_GRACE_SECONDS = 10
_KEEP_ALIVE_SECONDS = 75


def build(store: CollectionStore, api_key: str | None, host: str) -> Application:
    """Return the ASGI application over an open store, for a listener on `host`."""
    app = Application(store, api_key, rules_for(host))
    for module in (service, collections, points):
        module.add_routes(app)
    return app


def run(path: Path, host: str, port: int, *, compact_from: int, graph_from: int, flush_seconds: float) -> None:
    """Serve until stopped. Port 0 picks a free one, which the start line names. Raises `FolderError` and `OSError`."""
    # A process started in the background of a script inherits an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with own(path), socket.create_server((host, port), backlog=512) as listener:
        store = CollectionStore(path, compact_from=compact_from, graph_from=graph_from, flush_seconds=flush_seconds)
        store.open()
        started = {
            "version": SERVER_VERSION,
            "path": path,
            "host": host,
            "port": listener.getsockname()[1],
            "pid": os.getpid(),
            "collections": len(store.collections),
            "seconds": round(time.monotonic() - began, 3),
        }
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(store, listener, host, started))
    log("stopped")


class _VectorServer(uvicorn.Server):
    """uvicorn re-raises a captured signal after shutdown, which would end the process with -15; this server flushes and exits with 0."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to `_serve`."""
        yield


async def _serve(store: CollectionStore, listener: socket.socket, host: str, started: dict[str, Any]) -> None:
    server = _VectorServer(
        uvicorn.Config(
            build(store, os.environ.get("CONCORDANCE_QDRANT_API_KEY") or None, host),
            lifespan="off",
            log_config=None,
            access_log=False,
            http=bounded(),
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, setattr, server, "should_exit", True)
    store.start()
    # Only now: a process that waits for this line may send a signal at once.
    log("started", **started)
    try:
        await server.serve(sockets=[listener])
    finally:
        await store.close()
