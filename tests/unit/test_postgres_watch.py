"""Watching Postgres."""

from __future__ import annotations

import asyncio
import socket

from serving.http.database import postgres_watch


def test_a_postgres_that_hangs_does_not_stop_the_process() -> None:
    """It accepts connections, as one that is stopped by a signal does, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answered, turns = asyncio.run(_watched(silent.getsockname()[1]))
    assert not answered
    assert turns > 5, f"The event loop ran {turns} times in three seconds."


async def _watched(port: int) -> tuple[bool, int]:
    """Return whether a server answers, and the turns of the event loop until that was known."""
    watch = postgres_watch(f"postgresql://a@127.0.0.1:{port}/a")
    watch.start()
    answers = asyncio.create_task(watch.answers())
    turns = 0
    while not answers.done():
        await asyncio.sleep(0.01)
        turns += 1
    await watch.stop()
    return answers.result(), turns
