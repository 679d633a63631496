"""`python -m serving`: run the HTTP service until SIGTERM or SIGINT.

With `--standby`, which the supervisor uses, it receives the listening socket through standard input, loads everything, and serves once
no other process does.
"""

import contextlib
import gc
import os
import signal
import sys
from functools import partial

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from resources.core.errors import ConcordanceError
from resources.logging import configure
from resources.servers.sockets import socket_path
from resources.servers.succession import SERVING
from resources.settings import load


def main() -> int:
    """Serve until stopped, finish the requests in progress, and return the exit status."""
    # A parent that runs in the background of a script passes on an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The matrices are small: threads cost far more than they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A search creates thousands of objects and hardly any cycles: a collection per 700 objects took 7 % of its time.
    gc.set_threshold(50_000, 20, 100)
    try:
        settings = load()
        configure(settings.log_level, "serving")
        from serving.app import create_app
        from serving.server import config
        from serving.standby import await_turn, receive_listener

        turn = sockets = None
        if sys.argv[1:] == ["--standby"]:
            listener = receive_listener()
            if listener is None:
                return 0
            turn, sockets = partial(await_turn, socket_path(settings, SERVING), listener), [listener]
        app = create_app(settings, turn=turn)
    except ConcordanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    server = uvicorn.Server(config(app, settings))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=sockets)
    return 0 if server.started else STARTUP_FAILURE


if __name__ == "__main__":
    sys.exit(main())
