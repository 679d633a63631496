"""The index of the tests for connectors applies batches as the raw stage does."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from resources.core.domain import Batch, Item, Refusal, SourceName
from resources.core.errors import ChangedDocumentError
from resources.core.ports import Source
from resources.sources.conformance import Index

ADA, BOB = "ada@acme.example", "bob@acme.example"


def item(source_id: str, partition: str = "a", version: str = "1", readers: tuple[str, ...] = (ADA, BOB)) -> Item:
    return Item(
        source_id=source_id, partition=partition, title="x", path="x", mime_type="text/plain", version=version, permissions=readers
    )  # fmt: skip


def refusal(source_id: str) -> Refusal:
    return Refusal(source_id=source_id, partition="a", title="x", path="x", reason="It is empty.")


class Told(Source):
    """A source that reports these batches; the document `qz1q` has another version now."""

    def __init__(self, *batches: Batch, now: Item | None = None, there: tuple[Item | Refusal, ...] = ()) -> None:
        self._batches, self._now, self._there = batches, now, there

    @property
    def name(self) -> SourceName:
        return SourceName.FILES

    def partitions(self) -> list[str]:
        return sorted({batch.partition for batch in self._batches})

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:  # noqa: ARG002
        return iter([batch for batch in self._batches if batch.partition == partition])

    def fetch(self, item: Item) -> Iterator[bytes]:
        if item.version == "outdated":
            raise ChangedDocumentError
        yield f"The word is {item.source_id}.".encode()

    def missing(self, partition: str, source_ids: Collection[str]) -> list[Item | Refusal]:  # noqa: ARG002
        return [one for one in self._there if one.source_id in source_ids]

    def look_again(self, item: Item) -> Item | None:  # noqa: ARG002
        return self._now


def synced(*sources: Source) -> dict[str, set[str]]:
    index = Index()
    for source in sources:
        index.sync(source)
    return index.words()


def batch(partition: str = "a", **more: Any) -> Batch:
    return Batch(partition=partition, cursor="1", **more)


def test_a_document_that_moved_to_another_partition_is_not_deleted_by_what_its_own_reports() -> None:
    first, moved = Told(batch(seen=[item("qz1q")])), batch("b", seen=[item("qz1q", "b")])
    assert synced(first, Told(moved), Told(batch(deleted=["qz1q"], own=True))) == {"qz1q": {ADA, BOB}}
    assert synced(first, Told(moved), Told(batch(deleted=["qz1q"]))) == {}


def test_a_document_that_changed_before_it_was_fetched_has_the_readers_of_the_version_fetched() -> None:
    listed, now = batch(seen=[item("qz1q", version="outdated")]), item("qz1q", version="2", readers=(ADA,))
    assert synced(Told(listed, now=now)) == {"qz1q": {ADA}}
    assert synced(Told(listed)) == {}
    assert synced(Told(listed), Told(batch(), now=now)) == {"qz1q": {ADA}}


def test_a_document_that_a_complete_listing_lacks_stays_if_the_source_says_that_it_is_there() -> None:
    first, empty = Told(batch(seen=[item("qz1q")])), batch(listing="complete")
    assert synced(first, Told(empty)) == {}
    assert synced(first, Told(empty, there=(item("qz1q", readers=(ADA,)),))) == {"qz1q": {ADA}}
    assert synced(first, Told(empty, there=(refusal("qz1q"),))) == {}


def test_a_document_that_is_refused_is_not_found() -> None:
    assert synced(Told(batch(seen=[item("qz1q")])), Told(batch(refused=[refusal("qz1q")]))) == {}


def test_a_listing_that_lacks_a_closed_folder_deletes_no_document_in_it() -> None:
    first = Told(batch(seen=[item("qz1q"), msgspec.structs.replace(item("qz2q"), collection_ids=("a/known",))]))
    assert synced(first, Told(batch(listing="complete", closed=["a/new"]))) == {}
    assert synced(first, Told(batch(listing="complete", closed=["a/known"]))).keys() == {"qz2q"}
