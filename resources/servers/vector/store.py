"""All collections and aliases below one folder, and their background work: timed flushes and compaction when worthwhile."""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from resources.core.durable import write_atomic
from resources.servers.vector.collection import METADATA, VectorCollection
from resources.servers.vector.compaction import RETRY_SECONDS, compact, worthwhile
from resources.servers.vector.faults import RequestError, bad_request, not_found
from resources.servers.vector.files import (
    FolderError,
    check_name,
    collection_name,
    folder_name,
    remove_folder,
    unopened,
)
from resources.servers.vector.logs import log
from resources.servers.vector.writing import begin_writing_thread

_ALIASES = "aliases.json"


class CreateAlias(msgspec.Struct):
    collection_name: str
    alias_name: str


class DeleteAlias(msgspec.Struct):
    """An alias to delete; a missing one is not an error."""

    alias_name: str


class AliasAction(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one field is set."""

    create_alias: CreateAlias | None = None
    delete_alias: DeleteAlias | None = None


class CollectionStore:
    """Owns the folder. Collections are compacted automatically from `compact_from` points on (0: never), with a graph from `graph_from`."""

    def __init__(self, path: Path, *, compact_from: int, graph_from: int, flush_seconds: float) -> None:
        self.path = path
        self._folders = path / "collections"
        self._compact_from = compact_from
        self._graph_from = graph_from
        self._flush_seconds = flush_seconds
        self.collections: dict[str, VectorCollection] = {}
        self.aliases: dict[str, str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def open(self) -> None:
        """Open every collection and remove leftovers of a failed create or delete."""
        begin_writing_thread()  # before the engine has threads
        self._folders.mkdir(parents=True, exist_ok=True)
        for folder in sorted(self._folders.iterdir()):
            if (folder / METADATA).is_file() and not folder.name.endswith(".removed"):
                name = collection_name(folder.name)
                try:
                    self.collections[name] = VectorCollection.load(name, folder, self._graph_from)
                except (RequestError, msgspec.MsgspecError, OSError) as error:
                    remedy = unopened(error)
                    raise FolderError(f"collection `{name}` in {folder} cannot be opened: {error}. {remedy}") from error
            else:
                remove_folder(folder)
        aliases = self.path / _ALIASES
        if aliases.is_file():
            self.aliases = msgspec.json.decode(aliases.read_bytes(), type=dict[str, str])

    def start(self) -> None:
        """Start the background work; needs a running event loop."""
        self.run(self._maintain())

    async def close(self) -> None:
        """Stop the background work, flush and close."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for collection in self.collections.values():
            async with collection.writing:
                collection.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run work that outlives a request and ends with the store."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def get(self, name: str) -> VectorCollection:
        found = self.collections.get(name) or self.collections.get(self.aliases.get(name, ""))
        if found is None:
            raise not_found(f"Collection `{name}` doesn't exist!")
        return found

    def create(self, name: str, body: dict[str, Any]) -> bool:
        check_name(name)
        if name in self.collections:
            raise RequestError(409, f"Conflict: Wrong input: Collection `{name}` already exists!")
        if name in self.aliases:
            raise RequestError(
                409,
                f"Conflict: Wrong input: Can't create collection with name {name}. Alias with the same name already exists",
            )
        self.collections[name] = VectorCollection.create(name, self.folder(name), body, self._graph_from)
        return True

    def folder(self, name: str) -> Path:
        return self._folders / folder_name(name)

    async def delete(self, name: str) -> bool:
        """Remove a collection and its aliases; False if there is none. A running write finishes first."""
        target = self.aliases.get(name, name)
        collection = self.collections.get(target)
        if collection is None:
            return False
        async with collection.writing:
            collection.close()
            self.collections.pop(target, None)
            self._save_aliases({alias: kept for alias, kept in self.aliases.items() if kept != target})
            remove_folder(collection.folder)
        return True

    def change_aliases(self, actions: list[AliasAction]) -> bool:
        """Apply all actions or none."""
        aliases = dict(self.aliases)
        for action in actions:
            self._change(aliases, action)
        self._save_aliases(aliases)
        return True

    async def compact(self, name: str, *, erase: bool = False) -> int:
        """Compact a collection now and wait for it; with `erase`, leave nothing of deleted points in its files."""
        return await self.run(compact(self.get(name), erase=erase))

    def _change(self, aliases: dict[str, str], action: AliasAction) -> None:
        if action.create_alias is not None:
            alias, target = action.create_alias.alias_name, action.create_alias.collection_name
            if target not in self.collections:
                raise not_found(f"Collection `{target}` doesn't exist!")
            if alias in self.collections:
                raise RequestError(
                    409,
                    f"Conflict: Wrong input: Can't create alias {alias}. Collection with the same name already exists",
                )
            aliases[check_name(alias)] = target
        elif action.delete_alias is not None:
            aliases.pop(action.delete_alias.alias_name, None)
        else:
            raise bad_request("an action needs create_alias or delete_alias")

    def _save_aliases(self, aliases: dict[str, str]) -> None:
        if aliases != self.aliases:
            write_atomic(self.path / _ALIASES, msgspec.json.encode(aliases))
            self.aliases = aliases

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(self._flush_seconds)
            for collection in list(self.collections.values()):
                if self._tend(collection):
                    self.run(self._compact_quietly(collection))
                    # The new task must mark the collection before the next round checks it.
                    await asyncio.sleep(0)

    async def _compact_quietly(self, collection: VectorCollection) -> None:
        try:
            await compact(collection)
        except Exception as error:  # noqa: BLE001 a task's edge, and the engine raises nothing more special
            collection.rests_until = time.monotonic() + RETRY_SECONDS
            log("compaction_failed", level="error", collection=collection.name, reason=str(error))

    def _tend(self, collection: VectorCollection) -> bool:
        """Flush pending writes unless some are being made, and return whether to compact. Another collection does not wait for a fault."""
        try:
            if not collection.writing.locked():
                collection.flush()
            return not collection.closed and worthwhile(collection, self._compact_from)
        except Exception as error:  # noqa: BLE001 likewise; the log of writes has them until the next flush
            log("flush_failed", level="error", collection=collection.name, reason=str(error))
            return False
