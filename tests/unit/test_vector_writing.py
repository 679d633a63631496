"""What the engine keeps comes from the heap of one thread, and what a search needs for a moment from another's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from resources.servers.vector import updates
from resources.servers.vector.compaction import compact
from resources.servers.vector.routes import points
from resources.servers.vector.store import CollectionStore

BODY = updates.Upsert(points=[updates.PointStruct(id=number, vector=[float(number), 1.0]) for number in range(3)])


class Shard:
    """The engine's shard, which notes the threads of its calls."""

    def __init__(self, shard: Any, calls: dict[str, str]) -> None:
        self._shard, self._calls = shard, calls

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self._calls[name] = threading.current_thread().name
            return getattr(self._shard, name)(*arguments)

        return call


def test_points_are_made_and_kept_in_a_thread_of_their_own(tmp_path: Path) -> None:
    calls: dict[str, str] = {}

    def made(layout: Any, body: updates.Upsert) -> Iterable[updates.Update]:
        calls["made"] = threading.current_thread().name
        return updates.upsert(layout, body)

    async def write() -> tuple[int, int]:
        store = CollectionStore(tmp_path, compact_from=0, graph_from=1000, flush_seconds=60)
        store.open()
        assert "writing_0" in {one.name for one in threading.enumerate()}, (
            "it has its heap before the engine has threads"
        )
        store.create("one", {"vectors": {"size": 2, "distance": "Dot"}})
        collection = store.get("one")
        collection.shard = Shard(collection.shard, calls)  # type: ignore[assignment]
        await points._apply(SimpleNamespace(collection=collection), made, BODY)  # type: ignore[arg-type]
        before, after = collection.info()["points_count"], await compact(collection)
        await store.close()
        return before, after

    assert asyncio.run(write()) == (3, 3)
    writer = calls["update"]
    assert (calls["made"], calls["info"]) == (writer, "MainThread")
    assert writer != "MainThread"
