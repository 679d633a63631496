"""The thread in which the engine is given what it keeps.

The C library serves threads from heaps of their own. What stays for years and what a search needs for a millisecond share none this way: in
one heap, what was freed between what stayed became thousands of gaps, which each search went through for the right size.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")
_LARGE = 1 << 16
"""Bytes that Python asks the C library for."""
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writing")


async def in_writing_thread(work: Callable[[], _Result]) -> _Result:
    """Run work after all that was given to the thread before it."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)


def begin_writing_thread() -> None:
    """Begin the thread and take a heap for it. Whoever comes later shares one, where the number of heaps is limited."""
    _THREAD.submit(bytearray, _LARGE).result()
