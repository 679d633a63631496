"""`python -m serving`: run the HTTP service in this process until SIGTERM or SIGINT.

With `--worker`, which the supervisor uses, it is one of `CONCORDANCE_SERVING_WORKERS` processes on the supervisor's listening socket.
With `--drain SECONDS`, it serves for so long after SIGTERM while `/readyz` answers 503, so that a load balancer sends no more requests.
"""

import contextlib
import gc
import os
import signal
import socket
import sys

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from resources.core.errors import ConcordanceError
from resources.keys import secret_key
from resources.logging import configure
from resources.servers.listening import listen
from resources.servers.shared import Inherited, Shared
from resources.settings import Settings, load


def main() -> int:
    """Serve until stopped, finish the requests in progress, and return the exit status."""
    inherited = Inherited.parse(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else None
    # A parent that runs in the background of a script passes on an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn sends itself the signal again at the end
    drain = float(sys.argv[2]) if sys.argv[1:2] == ["--drain"] else 0.0
    # The matrices are small: threads cost far more than they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A search creates thousands of objects and hardly any cycles: a collection per 700 objects took 7 % of its time.
    gc.set_threshold(50_000, 20, 100)
    try:
        settings = load()
        configure(
            settings.log_level,
            "serving",
            inherited.worker if inherited is not None and inherited.workers > 1 else None,
        )
        server, listener = (
            (_alone(settings, drain), listen(settings)) if inherited is None else _worker(settings, inherited)
        )
    except ConcordanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    return 0 if server.started else STARTUP_FAILURE


def _alone(settings: Settings, drain: float = 0.0) -> uvicorn.Server:
    from serving.app import create_app
    from serving.workers.draining import DrainingServer

    shared = Shared.alone()
    return DrainingServer(create_app(settings, shared=shared), settings, shared, drain)


def _worker(settings: Settings, inherited: Inherited) -> tuple[uvicorn.Server, socket.socket]:
    from serving.app import create_app
    from serving.workers.server import WorkerServer

    listener = socket.socket(fileno=inherited.listener)
    listener.set_inheritable(False)
    if inherited.workers == 1:
        return _alone(settings), listener
    shared = Shared.attach(inherited.worker, inherited.workers, secret_key(settings), inherited.memory)
    return WorkerServer(create_app(settings, shared=shared), settings, shared, listener), listener


if __name__ == "__main__":
    sys.exit(main())
