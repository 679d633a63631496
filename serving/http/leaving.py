"""Stop working for a client that has left."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar import Request

from serving.http.errors import ProblemError

T = TypeVar("T")


async def unless_left(request: Request[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which is cancelled if the client closes the connection first. The body must have been read.

    A whole answer may wait for its turn with the language model for a minute, and would keep others waiting after its reader left.
    """
    task, left = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ProblemError("invalid-request", "The connection was closed before the answer was complete.")
        return task.result()
    finally:
        task.cancel()
        left.cancel()
        await asyncio.wait((task, left))


async def _left(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
