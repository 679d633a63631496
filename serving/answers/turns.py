"""A limit on concurrent calls over all processes of the service, with a fair queue.

People take turns, and the calls of one person run in the order of their arrival. Each call in the queue has a round: a person's next
call is in the round after that of the person's last one and after the round being served. Rounds are served in order, and the calls of a
round in the order of their arrival.
"""

import asyncio
import contextlib
import struct
from collections.abc import Iterator

from resources.core.errors import ServiceUnavailableError
from resources.servers.shared import LOOK_SECONDS, Shared

_CALLS = 512
"""Calls that may wait: more than the limits on requests let in."""
_CALL = struct.Struct("=BB6xQQ16s")
_FREE, _WAITING, _GRANTED = 0, 1, 2
_ROUND, _ARRIVALS = 0, 1


class Turns:
    """Lets `limit` calls run at a time. For one event loop in each process."""

    def __init__(self, limit: int, shared: Shared) -> None:
        self._limit = limit
        self._shared = shared
        self._region = shared.region("turns", _CALLS * _CALL.size + 8 * (2 + shared.workers))
        end = _CALLS * _CALL.size
        self._figures = self._region.view(end, 16, "Q")
        self._running = self._region.view(end + 16, 8 * shared.workers, "Q")
        self._places: dict[int, asyncio.Future[None]] = {}
        """The calls of this process that wait, by their position in the queue."""
        self._watch: asyncio.Task[None] | None = None
        shared.on_clear(self._clear)

    async def take(self, person: str) -> None:
        """Wait for a place. A call that is cancelled while it waits has none. Raises `ServiceUnavailableError` if too many wait."""
        with self._region:
            if sum(self._running) < self._limit:
                self._running[self._shared.worker] += 1
                return
            position = self._enqueue(self._shared.digest(person))
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._places[position] = place
        if self._shared.workers > 1 and (self._watch is None or self._watch.done()):
            self._watch = asyncio.create_task(self._look())
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # it was given the place at the same moment
            else:
                self._forget(position, place)
            raise

    def leave(self) -> None:
        """Hand the place to the next call."""
        with self._region:
            # a process that was killed while it handed over a place may not have counted it
            self._running[self._shared.worker] = max(0, self._running[self._shared.worker] - 1)
            self._grant()
        self._deliver()

    def _enqueue(self, person: bytes) -> int:
        free, last = None, self._figures[_ROUND]
        for position, (state, _, round_, _, waiting) in self._calls():
            if state == _FREE:
                free = position if free is None else free
            elif state == _WAITING and waiting == person:
                last = max(last, round_)
        if free is None:
            raise ServiceUnavailableError("Too many questions wait for the language model. Try again shortly.", 5.0)
        self._figures[_ARRIVALS] += 1
        call = (_FREE, self._shared.worker, last + 1, self._figures[_ARRIVALS], person)
        _CALL.pack_into(self._region.memory, free * _CALL.size, *call)
        self._region.memory[free * _CALL.size] = _WAITING  # last, should this process be killed meanwhile
        return free

    def _grant(self) -> None:
        """Give free places to the calls whose turn it is. Hold the lock."""
        while sum(self._running) < self._limit:
            waiting = [
                (round_, arrival, position, worker)
                for position, (state, worker, round_, arrival, _) in self._calls()
                if state == _WAITING
            ]
            if not waiting:
                return
            self._figures[_ROUND], _, position, worker = min(waiting)
            self._region.memory[position * _CALL.size] = _GRANTED
            self._running[worker] += 1

    def _deliver(self) -> None:
        """Wake the calls of this process that were given a place."""
        for position, place in list(self._places.items()):
            if self._region.memory[position * _CALL.size] == _GRANTED:
                self._remove(position)
                if place.done():  # cancelled, and has not left the queue yet
                    self.leave()
                else:
                    place.set_result(None)

    def _forget(self, position: int, place: asyncio.Future[None]) -> None:
        """Take a cancelled call out of the queue. Another process may have given it a place at the same moment."""
        if self._places.get(position) is not place:  # it has left already, with its place
            return
        with self._region:
            granted = self._region.memory[position * _CALL.size] == _GRANTED
            self._remove(position)
        if granted:
            self.leave()

    def _remove(self, position: int) -> None:
        self._region.memory[position * _CALL.size] = _FREE
        del self._places[position]

    async def _look(self) -> None:
        """Look for places that other processes have handed to calls of this one, while any waits."""
        with contextlib.suppress(asyncio.CancelledError):
            while self._places:
                await asyncio.sleep(LOOK_SECONDS)
                self._deliver()

    def _calls(self) -> Iterator[tuple[int, tuple[int, int, int, int, bytes]]]:
        return enumerate(_CALL.iter_unpack(self._region.memory[: _CALLS * _CALL.size]))

    def _clear(self, worker: int) -> None:
        with self._region:
            for position, (state, owner, *_) in self._calls():
                if state != _FREE and owner == worker:
                    self._region.memory[position * _CALL.size] = _FREE
            self._running[worker] = 0
            self._grant()
        self._deliver()
