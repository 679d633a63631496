"""A limit on concurrent calls, with a fair queue: people take turns, and the calls of one person run in the order of their arrival."""

import asyncio
from collections import deque


class Turns:
    """Lets `limit` calls run at a time. For one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """The first key is the person whose turn is next."""

    async def take(self, person: str) -> None:
        """Wait for a place. A call that is cancelled while it waits has none."""
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(person, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # it was given the place at the same moment
            else:
                self._forget(person, place)
            raise

    def leave(self) -> None:
        """Hand the place to the next person; one who has more calls waiting goes to the end."""
        while self._waiting:
            person = next(iter(self._waiting))
            queue = self._waiting.pop(person)
            place = queue.popleft()
            if queue:
                self._waiting[person] = queue
            if not place.done():  # a cancelled call may not have left the queue yet
                place.set_result(None)
                return
        self._free += 1

    def _forget(self, person: str, place: asyncio.Future[None]) -> None:
        queue = self._waiting.get(person, deque())
        if place in queue:
            queue.remove(place)
        if not queue:
            self._waiting.pop(person, None)
