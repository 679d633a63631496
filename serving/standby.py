"""The turn of a serving process that waits, warm, to take over: it has everything loaded and only lacks the listening socket.

The supervisor keeps that socket open for as long as it runs. When the active process dies it hands the socket to the one that
waits, and connections that came in between are in the socket's queue instead of being refused.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

from resources.errors import ConcordanceError
from resources.settings import Settings
from serving.embedding import EmbedsQueries


def warm_model(settings: Settings) -> EmbedsQueries | None:
    """Load the model that the settings name, if it is a local one, and use it once. None when it cannot be loaded."""
    if settings.embedding_provider != "local":
        return None
    from resources.embedding import embedder
    from resources.embedding.background import background

    try:
        model = embedder(settings)
        background(model)
    except ConcordanceError:
        return None  # tried again, and reported, once the process serves
    return model


def await_turn() -> socket.socket | None:
    """Return the listener once it comes through standard input, which is a socket.

    None: the supervisor has gone, or the process is told to end.
    """
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as channel, contextlib.suppress(KeyboardInterrupt):
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if descriptors:
            return socket.socket(fileno=descriptors[0])
    return None
