"""A bucket's listing on disk is what the store said, in order."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from resources.sources.bucket_listing import BucketObject, open_listing

NAMES = st.lists(st.text(alphabet="ab/.ü\0", min_size=1, max_size=4), unique=True)
AT = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)


@given(NAMES, NAMES)
def test_objects_come_back_in_order(names: list[str], others: list[str]) -> None:
    objects = [BucketObject(name, number, f"v{number}", AT) for number, name in enumerate(names)]
    with open_listing() as listing:
        assert listing.empty
        listing.add(objects[:2])
        listing.add(objects[2:])
        assert listing.empty == (not names)
        assert [one for page in listing.pages() for one in page] == sorted(objects)
        assert listing.versions(others) == {one.path: one.version for one in objects if one.path in others}


@given(st.permutations([0, 7]))
def test_an_empty_object_that_stands_for_a_folder_replaces_no_other(sizes: list[int]) -> None:
    with open_listing() as listing:
        for size in sizes:
            listing.add([BucketObject("a", size, f"v{size}", AT)])
        assert [one.version for page in listing.pages() for one in page] == ["v7"]
