"""A set of source ids as hashes equals a set of texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assets.intake import shown
from assets.intake.shown import ShownDocuments

IDS = st.lists(st.text(alphabet="ab/ü\0", max_size=3))


@given(IDS, IDS, st.integers(1, 5))
def test_it_equals_a_set_of_texts(listed: list[str], held: list[str], page: int) -> None:
    before, shown.PAGE = shown.PAGE, page
    try:
        found = ShownDocuments()
        found.add(listed)
        assert len(found) == len(set(listed))
        assert list(found.lacking(held)) == [one for one in held if one not in set(listed)]
    finally:
        shown.PAGE = before


def test_two_million_take_16_megabytes() -> None:
    found = ShownDocuments()
    found.add(f"root/folder-{number}" for number in range(20_000))
    assert found.bytes == 20_000 * 8
