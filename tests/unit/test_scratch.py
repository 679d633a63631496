"""Tables on disk: what does not fit is told with the folder that is full."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from obstore.store import MemoryStore

from resources.core.errors import AbortSyncError
from resources.core.scratch import scratch_database, told_when_full
from resources.sources import bucket_listing
from resources.sources.buckets import Bucket

if TYPE_CHECKING:
    from collections.abc import Generator

FULL = r"temporary files is full \(database or disk is full\).*TMPDIR"


@contextmanager
def small() -> Generator[Any]:
    with scratch_database() as database:
        database.execute("PRAGMA max_page_count = 4")
        yield database


def test_a_full_folder_is_named() -> None:
    with small() as database:
        database.execute("CREATE TABLE texts (text)")
        with pytest.raises(AbortSyncError, match=FULL), told_when_full():
            database.executemany("INSERT INTO texts VALUES (?)", [["x" * 100]] * 1000)


def test_a_listing_that_does_not_fit_is_no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for number in range(500):
        store.put(f"{number:0100}.txt", b"text")
    monkeypatch.setattr(bucket_listing, "scratch_database", small)
    with pytest.raises(AbortSyncError, match=FULL):
        list(Bucket(store, name="b", max_bytes=1000).walk())
