"""Tests that every connector passes. A package subclasses `Conformance` in its own tests and names its fake or server.

    class TestWiki(Conformance):
        @pytest.fixture
        def world(self) -> Iterator[World]:
            yield WikiWorld(...)

The tests change the source through `World`, sync into an `Index` that applies batches as the pipeline does, and compare. Importing
this module needs pytest, which Concordance itself does not install.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

import msgspec
import pytest

from resources.core.domain import Batch, Item, SourceName
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    ChangedDocumentError,
    ConcordanceError,
    LostPartitionError,
    RetryLaterError,
)
from resources.core.permissions import normalize
from resources.core.ports import Memory, Source
from resources.sources import capabilities

WORD = re.compile(rb"\bqz\d+q\b")
MANY = 7
"""Documents in a source whose sync is killed."""
ATTEMPTS = 3

Fault = Literal["unavailable", "rate_limit", "unauthorized"]


class World(Protocol):
    """A source under test, and what people do in it. A document is named by the handle that `add` returns."""

    faults: frozenset[Fault]
    """The faults that `fail` can cause."""

    def open(self, memory: Memory) -> Source:
        """Return a new connector, as each sync does. With small pages and without waits, if it has any."""
        ...

    def add(self, text: str) -> str:
        """Create a document with this text that at least one person may read."""
        ...

    def change(self, document: str, text: str) -> None:
        """Replace the text of a document."""
        ...

    def delete(self, document: str) -> None:
        """Delete a document."""
        ...

    def give(self, document: str, reader: str) -> None:
        """Let one more person read the document, given by email. Others may gain access to other documents with it."""
        ...

    def take(self, document: str, reader: str) -> None:
        """Undo `give`."""
        ...

    def readers(self, document: str) -> set[str]:
        """Return the principals that may read the document now."""
        ...

    def fail(self, fault: Fault | None, *, times: int = 0) -> None:
        """Make the next calls fail, or all until the next `fail` if `times` is 0. None: no longer."""
        ...


class Index:
    """Record of what a connector reported: documents with their bytes, cursors and memory. Batches are applied as the raw stage does."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.contents: dict[str, bytes] = {}
        self.fetched: list[str] = []
        """Documents that the last sync fetched."""
        self.listings: list[str] = []
        """The kinds of listing of the last sync's batches."""
        self._cursors: dict[str, str | None] = {}
        self._memory: dict[str, dict[str, Any]] = {}
        self._listed: dict[str, set[str]] = {}
        self._unread: dict[str, Item] = {}
        """Documents that had changed when they were fetched, and could not be looked at again: the next sync does."""

    def read(self, source: SourceName, partition: str, low: str = "", high: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what the connector saved; see `Memory.read`."""
        kept = self._memory.get(partition, {})
        return {key: kept[key] for key in sorted(kept, key=str.encode) if low <= key and (high is None or key < high)}

    def sync(self, source: Source, *, batches: int | None = None, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Run a sync, or only so many batches, as if the process were killed then. Return True if it came to its end.

        `meanwhile` is called after the first batch.
        """
        self.fetched, self.listings = [], []
        source.directory()
        available = source.partitions()
        self._drop(
            lambda item: item.partition in {*source.lost(list(self._cursors)), *source.retired(list(self._cursors))}
        )
        for partition in available:
            cursor = self._cursors.get(partition)
            unread = [item for item in self._unread.values() if item.partition == partition]
            if cursor is None:
                self._listed[partition] = set()
            try:
                for batch in source.changes(partition, cursor):
                    if batches is not None and len(self.listings) >= batches:
                        return False
                    self._apply(source, batch)
                    if len(self.listings) == 1:
                        meanwhile()
                for item in unread:
                    if item.source_id in self._unread and (now := source.look_again(item)) is not None:
                        self._apply(source, Batch(partition=partition, seen=[now], cursor=self._cursors[partition]))
            except LostPartitionError:
                self._drop(lambda item, gone=partition: item.partition == gone)
        return True

    def words(self) -> dict[str, set[str]]:
        """Return the words of all documents, each with the principals that find it."""
        found: dict[str, set[str]] = {}
        for source_id, item in self.items.items():
            for word in WORD.findall(self.contents[source_id]):
                found.setdefault(word.decode(), set()).update(item.permissions)
        return found

    def _apply(self, source: Source, batch: Batch) -> None:
        shown = {one.source_id for one in (*batch.seen, *batch.refused)}
        assert len(shown) == len(batch.seen) + len(batch.refused), "a batch names a document twice"
        assert not shown & set(batch.deleted), "a batch shows a document and deletes it"
        absent = {one for one in self._absent(batch) if not set(batch.closed) & set(self.items[one].collection_ids)}
        if absent and (there := source.missing(batch.partition, absent)):
            seen = [*batch.seen, *(one for one in there if isinstance(one, Item))]
            refused = [*batch.refused, *(one for one in there if not isinstance(one, Item))]
            batch = msgspec.structs.replace(batch, seen=seen, refused=refused)
            shown |= {one.source_id for one in there}
        for item in batch.seen:
            self._keep(source, item)
        if batch.permissions is not None:
            for key, item in self.items.items():
                if item.partition == batch.partition:
                    self.items[key] = msgspec.structs.replace(item, permissions=batch.permissions)
        refused_ids = {refusal.source_id for refusal in batch.refused}
        self._drop(
            lambda item: (
                item.source_id in refused_ids
                or (
                    item.source_id not in shown
                    and (not batch.own or item.partition == batch.partition)
                    and (
                        item.source_id in absent
                        or item.source_id in batch.deleted
                        or not set(batch.emptied).isdisjoint(item.collection_ids)
                    )
                )
            )
        )
        kept = self._memory.setdefault(batch.partition, {}) | json.loads(json.dumps(batch.memory))
        self._memory[batch.partition] = {key: value for key, value in kept.items() if value is not None}
        self._cursors[batch.partition] = batch.cursor
        self.listings.append(batch.listing)

    def _absent(self, batch: Batch) -> set[str]:
        """Note what a listing shows, and return the documents that it has not shown when it is complete."""
        if batch.begins:
            self._listed.pop(batch.partition, None)
        listed = self._listed.setdefault(batch.partition, set())
        if batch.listing != "delta":
            listed |= {one.source_id for one in (*batch.seen, *batch.refused) if one.partition == batch.partition}
        if batch.listing != "complete":
            return set()
        del self._listed[batch.partition]
        return {key for key, item in self.items.items() if item.partition == batch.partition} - listed

    def _keep(self, source: Source, item: Item) -> None:
        """Record a document, fetched if it is new or changed. One that has changed since it was listed is looked at again."""
        before = self.items.get(item.source_id)
        if before is None or before.version != item.version:
            found = _fetch(source, item)
            if found is None:
                self.items.pop(item.source_id, None)
                self._unread[item.source_id] = item
                return
            item, self.contents[item.source_id] = found
            self.fetched.append(item.source_id)
        self.items[item.source_id] = item
        self._unread.pop(item.source_id, None)

    def _drop(self, gone: Callable[[Item], bool]) -> None:
        self.items = {key: item for key, item in self.items.items() if not gone(item)}
        self._unread = {key: item for key, item in self._unread.items() if not gone(item)}


def _fetch(source: Source, item: Item) -> tuple[Item, bytes] | None:
    """Return a document and its bytes; None if it has changed since it was listed and is left to the next sync."""
    for _ in range(ATTEMPTS):
        try:
            return item, b"".join(source.fetch(item))
        except RetryLaterError:
            continue
        except ChangedDocumentError:
            now = source.look_again(item)
            if now is None:
                return None
            item = now
    raise AssertionError(f"{item.source_id} could not be fetched in {ATTEMPTS} attempts")


class Stage:
    """A world with documents, each with a word of its own, and the index that follows it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.index = Index()
        self.documents: dict[str, str] = {}
        self._numbers = itertools.count()

    def word(self) -> str:
        """Return a word that occurs nowhere else."""
        return f"qz{next(self._numbers)}q"

    def add(self, number: int = 1) -> list[str]:
        """Add documents and return their handles."""
        added = {self.world.add(f"The word is {(word := self.word())}."): word for _ in range(number)}
        self.documents |= added
        return list(added)

    def change(self, document: str) -> None:
        """Give a document another word."""
        self.documents[document] = self.word()
        self.world.change(document, f"The word is now {self.documents[document]}.")

    def delete(self, document: str) -> None:
        """Delete a document."""
        self.world.delete(document)
        del self.documents[document]

    def sync(self) -> Index:
        """Sync with a new connector."""
        assert self.index.sync(self.world.open(self.index))
        return self.index

    def check(self, index: Index | None = None) -> None:
        """Fail unless exactly what the source has is found, by exactly those who may read it."""
        truth = {word: self.world.readers(document) for document, word in self.documents.items()}
        assert (index or self.index).words() == truth

    def followed(self) -> None:
        """Sync and check."""
        self.sync()
        self.check()


class Conformance:
    """The tests. A subclass defines the fixture `world`."""

    @pytest.fixture
    def stage(self, world: World) -> Stage:
        """Return the world with three documents."""
        made = Stage(world)
        made.add(3)
        return made

    def test_a_first_sync_finds_every_document_for_its_readers(self, stage: Stage) -> None:
        stage.followed()
        assert all(readers for readers in stage.index.words().values())

    def test_documents_are_described_completely(self, stage: Stage) -> None:
        source = stage.world.open(stage.sync())
        assert stage.index.items
        for source_id, item in stage.index.items.items():
            assert item.source_id == source_id
            assert item.partition in source.partitions()
            assert item.title
            assert item.version
            assert "/" in item.mime_type
            assert tuple(item.permissions) == normalize(item.permissions)
            for moment in (item.created_at, item.modified_at):
                assert moment is None or moment.tzinfo is not None
            offers = capabilities(source.name)
            if offers.private_folders and not offers.named_by_path:
                hidden = [one.name for one in item.folders if one.name and not set(item.permissions) <= {*one.readers}]
                assert not [name for name in hidden if name in source_id], (
                    "ids are shown to readers who may not know them"
                )

    def test_ids_stay_the_same(self, stage: Stage) -> None:
        stage.sync()
        again = Index()
        again.sync(stage.world.open(again))
        assert again.items.keys() == stage.index.items.keys()

    def test_without_changes_nothing_is_fetched(self, stage: Stage) -> None:
        stage.sync()
        stage.sync()
        assert stage.index.fetched == []
        if capabilities(stage.world.open(stage.index).name).change_feed:
            assert "complete" not in stage.index.listings
        stage.check()

    def test_changes_are_followed(self, stage: Stage) -> None:
        stage.followed()
        (added,) = stage.add()
        stage.followed()
        stage.change(added)
        stage.followed()
        stage.change(next(iter(stage.documents)))
        stage.add(2)
        stage.followed()

    def test_deletions_are_followed(self, stage: Stage) -> None:
        stage.followed()
        for document in list(stage.documents):
            stage.delete(document)
            stage.followed()
        stage.add()
        stage.followed()

    def test_permissions_are_followed(self, stage: Stage) -> None:
        stage.followed()
        document, reader = next(iter(stage.documents)), "zoe@acme.example"
        stage.world.give(document, reader)
        assert reader in stage.world.readers(document)
        stage.followed()
        stage.world.take(document, reader)
        assert reader not in stage.world.readers(document)
        stage.followed()

    def test_readers_who_are_taken_away_during_a_listing_lose_access_with_the_next_sync(self, stage: Stage) -> None:
        document, reader, index = next(iter(stage.documents)), "zoe@acme.example", Index()
        stage.add(MANY)
        stage.world.give(document, reader)
        assert index.sync(stage.world.open(index), meanwhile=lambda: stage.world.take(document, reader))
        index.sync(stage.world.open(index))
        stage.check(index)

    def test_a_killed_sync_resumes(self, stage: Stage) -> None:
        stage.add(MANY)
        for batches in itertools.count():
            index = Index()
            if index.sync(stage.world.open(index), batches=batches):
                assert batches > 0
                return
            stage.delete(next(iter(stage.documents)))
            stage.add()
            index.sync(stage.world.open(index))
            stage.check(index)

    def test_a_killed_sync_of_changes_resumes(self, stage: Stage) -> None:
        stage.add(MANY)
        stage.sync()
        for batches in itertools.count():
            stage.delete(next(iter(stage.documents)))
            stage.change(next(iter(stage.documents)))
            stage.add(2)
            if stage.index.sync(stage.world.open(stage.index), batches=batches):
                break
            stage.followed()
        stage.check()

    def test_a_source_that_does_not_answer_loses_nothing(self, stage: Stage) -> None:
        for _ in self._failing(stage, "unavailable"):
            with pytest.raises((RetryLaterError, AbortSyncError)) as raised:
                stage.sync()
            assert not isinstance(raised.value, AuthorizationError), "the source would stay paused"

    def test_refused_credentials_pause_the_source_and_lose_nothing(self, stage: Stage) -> None:
        for _ in self._failing(stage, "unauthorized"):
            with pytest.raises(AuthorizationError, match="CONCORDANCE_"):
                stage.sync()

    @pytest.mark.parametrize("fault", ["unavailable", "rate_limit"])
    def test_passing_faults_lose_nothing(self, stage: Stage, fault: Fault) -> None:
        self._needs(stage, fault)
        stage.sync()
        stage.change(next(iter(stage.documents)))
        stage.add()
        stage.world.fail(fault, times=1)
        for _ in range(ATTEMPTS):
            try:
                stage.followed()
            except (RetryLaterError, AbortSyncError):
                continue
            break
        stage.check()

    def test_an_unknown_partition_is_not_an_empty_one(self, stage: Stage) -> None:
        stage.sync()
        source = stage.world.open(stage.index)
        batches: list[Batch] = []
        with contextlib.suppress(ConcordanceError):
            batches = list(source.changes("no-such-partition", None))
        assert all(batch.listing == "delta" for batch in batches)

    def _failing(self, stage: Stage, fault: Fault) -> Iterator[None]:
        """Yield while the fault lasts, after a sync, and check that nothing is lost during and after it."""
        self._needs(stage, fault)
        stage.sync()
        before = stage.index.words()
        stage.change(next(iter(stage.documents)))
        stage.world.fail(fault)
        yield
        assert stage.index.words() == before
        stage.world.fail(None)
        stage.followed()

    def _needs(self, stage: Stage, fault: Fault) -> None:
        if fault not in stage.world.faults:
            pytest.skip(f"this world cannot cause the fault {fault}")
