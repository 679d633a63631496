"""Simulators of external services that speak their real APIs on loopback, for trying the connectors without an account.

`serve` runs an ASGI application over a model (`DriveApp`, `SlackApp`) and yields its address.
"""

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from resources.core.guard import Accepted, App, Guard, Receive, Rules, Scope, Send

__all__ = ["App", "Receive", "Scope", "Send", "run_forever", "serve"]

_RULES = Rules(accepted=Accepted(body_type=None))  # the services themselves accept bodies of any type
_LOOPBACK = "127.0.0.1"
_BACKLOG = 512
_KEEP_ALIVE_SECONDS = 75
_GRACE_SECONDS = 1


class _Server(uvicorn.Server):
    """uvicorn re-raises a captured signal after shutdown, which would end the process with -15; this server returns."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop on SIGINT and SIGTERM if they can be received, which is only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def serve(app: App, port: int = 0) -> Generator[str]:
    """Serve an application from a thread of this process and yield its base URL, without a trailing slash."""
    with socket.create_server((_LOOPBACK, port), backlog=_BACKLOG) as listener:
        server = _server(app)
        # the socket is listening already: a client that connects before the loop runs waits in the backlog
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="simulator", daemon=True)
        thread.start()
        try:
            yield _address(listener)
        finally:
            server.should_exit = True
            thread.join()


def run_forever(app: App, port: int, on_start: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `on_start` receives the base URL. Raises `OSError` if the port is in use."""
    with socket.create_server((_LOOPBACK, port), backlog=_BACKLOG) as listener:
        on_start(_address(listener))
        _server(app).run(sockets=[listener])


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}"


def _server(app: App) -> _Server:
    return _Server(
        uvicorn.Config(
            Guard(app, _RULES),
            lifespan="off",
            log_config=None,
            log_level="critical",  # a connection dropped on purpose is not worth a log line
            access_log=False,
            http="httptools",
            loop="uvloop",
            ws="websockets-sansio",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )
