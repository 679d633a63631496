"""`python -m serving`: run the HTTP service until SIGTERM or SIGINT, in `CONCORDANCE_SERVING_WORKERS` processes.

With `--standby`, which the supervisor uses, it receives the listening socket through standard input, loads everything, and serves once
no other process does. With `--worker`, which it uses itself, it is one of its further processes.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
from functools import partial

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from resources.core.errors import ConcordanceError
from resources.keys import secret_key
from resources.logging import configure
from resources.servers.shared import Shared
from resources.servers.sockets import socket_path
from resources.servers.succession import SERVING
from resources.settings import Settings, load
from serving.workers.inherited import Inherited, end_with

Made = tuple[uvicorn.Server, list[socket.socket] | None]
"""A server, and the sockets that it serves on if it is not to open its own."""


def main() -> int:
    """Serve until stopped, finish the requests in progress, and return the exit status."""
    inherited = Inherited.parse(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else None
    if inherited is not None:
        end_with(inherited.leader)
    # A parent that runs in the background of a script passes on an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler if inherited is None else signal.SIG_IGN)
    # The matrices are small: threads cost far more than they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A search creates thousands of objects and hardly any cycles: a collection per 700 objects took 7 % of its time.
    gc.set_threshold(50_000, 20, 100)
    try:
        settings = load()
        worker = inherited.worker if inherited is not None else 0
        configure(settings.log_level, "serving", worker if settings.serving_workers > 1 else None)
        made = _leader(settings) if inherited is None else _follower(settings, inherited)
        if made is None:
            return 0
        server, sockets = made
    except ConcordanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=sockets)
    return 0 if server.started else STARTUP_FAILURE


def _leader(settings: Settings) -> Made | None:
    """Return the server of the only process, or of the first of several; None if the supervisor ended before it sent the socket."""
    from serving.app import create_app
    from serving.workers.leader import Leader, listen
    from serving.workers.standby import await_turn, receive_listener
    from serving.workers.uvicorn_config import config

    turn, listener = None, None
    if sys.argv[1:] == ["--standby"]:
        listener = receive_listener()
        if listener is None:
            return None
        turn = partial(await_turn, socket_path(settings, SERVING), listener)
    shared = Shared.create(settings.serving_workers, secret_key(settings))
    app = create_app(settings, turn=turn, shared=shared)
    if settings.serving_workers > 1:
        listener = listener or listen(settings)
        return Leader(app, settings, shared, listener), [listener]
    return uvicorn.Server(config(app, settings, shared)), None if listener is None else [listener]


def _follower(settings: Settings, inherited: Inherited) -> Made:
    from serving.app import create_app
    from serving.workers.follower import Follower

    shared = Shared.attach(inherited.worker, settings.serving_workers, secret_key(settings), inherited.memory)
    listener = socket.socket(fileno=inherited.listener)
    listener.set_inheritable(False)
    return Follower(create_app(settings, shared=shared), settings, shared, listener, inherited.leader), [listener]


if __name__ == "__main__":
    sys.exit(main())
