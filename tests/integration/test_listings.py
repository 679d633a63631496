"""Which documents a listing has shown, whether its pages have cursors or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from assets.intake import batch as module
from assets.intake.batch import Listing
from resources.core.domain import Batch, Item, SourceName
from resources.stores.clients import Stores
from resources.stores.postgres import connect
from tests.fixtures.installation import Installation
from tests.fixtures.shelf import Shelf


@pytest.fixture
def stores(installation: Installation) -> Iterator[Stores]:
    shelf = Shelf()
    for name in ("a", "b", "c", "d"):
        shelf.put(name)
    installation.sync(SourceName.SLACK, port=shelf)
    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        yield Stores(installation.settings, SourceName.SLACK, connection)


def shown(
    listing: Listing,
    names: str,
    cursor: str | None = None,
    kind: Literal["page", "complete"] = "page",
    *,
    begins: bool = False,
) -> tuple[list[str], int | None]:
    """Take and save a batch of documents with these names; return those that are gone, and the number listed."""
    shelf = Shelf()
    items: list[Item] = [shelf.put(name) for name in names]
    batch = Batch(partition="pond", seen=items, listing=kind, cursor=cursor, begins=begins)
    return sorted(listing.take(batch)), listing.save(batch)


def test_pages_without_a_cursor(stores: Stores) -> None:
    listing = Listing(stores, "pond", begun=False)
    shown(listing, "ac")
    assert shown(listing, "a", kind="complete") == (["b", "d"], 2)
    assert shown(listing, "abcd", kind="complete") == ([], 4)


def test_pages_before_the_first_cursor_are_saved_with_it(stores: Stores) -> None:
    listing = Listing(stores, "pond", begun=False)
    shown(listing, "a")
    shown(listing, "b", "1")
    listing = Listing(stores, "pond", begun=True)  # of another process
    assert shown(listing, "ca", "2", kind="complete") == (["d"], 3)


def test_too_many_pages_before_the_first_cursor_are_refused(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNSAVED", 1)
    listing = Listing(stores, "pond", begun=False)
    for name in "abc":
        shown(listing, name)
    with pytest.raises(ValueError, match="first cursor"):
        shown(listing, "d", "1")


def test_pages_without_a_cursor_after_syncs_with_one(stores: Stores) -> None:
    listing = Listing(stores, "pond", begun=True)
    shown(listing, "a")
    shown(listing, "b")
    assert shown(listing, "c", "1", kind="complete") == (["d"], 3)


def test_the_last_batch_of_a_listing_in_pages_needs_no_cursor(stores: Stores) -> None:
    listing = Listing(stores, "pond", begun=False)
    shown(listing, "a", "1")
    shown(listing, "b", "2")
    assert shown(listing, "c", kind="complete") == (["d"], 3)
    shown(Listing(stores, "pond", begun=False), "ab", "1")
    assert shown(Listing(stores, "pond", begun=True), "c", kind="complete") == (["d"], 3)


def test_what_an_interrupted_listing_has_shown_does_not_count_for_one_that_starts_over(stores: Stores) -> None:
    shown(Listing(stores, "pond", begun=False), "ab", "1")
    listing = Listing(stores, "pond", begun=True)
    shown(listing, "b", "1", begins=True)
    shown(listing, "c", "2")
    assert shown(listing, "", kind="complete", cursor="3") == (["a", "d"], 2)
    shown(Listing(stores, "pond", begun=False), "abcd", "1")
    assert shown(Listing(stores, "pond", begun=True), "bc", "2", "complete", begins=True) == (["a", "d"], 2)


def test_a_listing_that_starts_over_is_not_taken_for_the_one_before_if_it_is_killed(stores: Stores) -> None:
    shown(Listing(stores, "pond", begun=False), "abcd", "1")
    stores.partitions.save_cursor(partition="pond", cursor="1", title=None, whole=False, by=0, count=None)
    shelf = Shelf()
    batch = Batch(partition="pond", seen=[shelf.put("b")], listing="page", cursor="1", begins=True)
    Listing(stores, "pond", begun=True).take(batch)  # and killed before it is saved
    assert stores.partitions.saved_cursor(partition="pond").cursor is None
