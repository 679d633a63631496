"""Threads of one kind of blocking work.

Everything else shares the default threads of the event loop: a few uploads or calls to other services that hang occupy them all.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs blocking work as `asyncio.to_thread` does, in threads of its own."""

    def __init__(self, name: str, most: int | None = None) -> None:
        """`most`: number of threads; None: as many as the event loop has."""
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `work`. Raises what it raises."""
        call = partial(contextvars.copy_context().run, work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)
