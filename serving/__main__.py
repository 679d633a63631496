"""`python -m serving`: the HTTP interface on the port of the settings, until SIGTERM or SIGINT.

`--standby` is the supervisor's way to start it: load everything, wait for the listening socket, then serve.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from resources.errors import ConcordanceError
from resources.logging import configure
from resources.settings import load


def main() -> int:
    """Serve until told to stop; requests under way are finished first. Returns the exit status."""
    # A parent that runs in a script's background hands on an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Small matrices only: threads of their own cost far more than they save, above all while others want the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A search makes thousands of objects and hardly a cycle: looking for cycles at every 700 took 7 % of its time.
    gc.set_threshold(50_000, 20, 100)
    try:
        settings = load()
        configure(settings.log_level, "serving")
        from serving.app import create_app
        from serving.server import config
        from serving.standby import await_turn, warm_model

        waits = sys.argv[1:] == ["--standby"]
        model = warm_model(settings) if waits else None
        app = create_app(settings, embedder=(lambda: model) if model is not None else None)
    except ConcordanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sockets = None
    if waits:
        listener = await_turn()
        if listener is None:
            return 0
        sockets = [listener]
    server = uvicorn.Server(config(app, settings))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=sockets)
    return 0 if server.started else STARTUP_FAILURE


if __name__ == "__main__":
    sys.exit(main())
