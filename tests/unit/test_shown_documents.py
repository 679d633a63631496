"""A set of source ids as hashes equals a set of texts, and known keys a set of numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assets.intake import shown
from assets.intake.shown import ShownDocuments, UnchangedDocuments

KEYS = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
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


@given(st.lists(KEYS), st.lists(KEYS))
def test_known_keys_equal_a_set_of_numbers(known: list[int], listed: list[int]) -> None:
    found = UnchangedDocuments(np.array(known, dtype=">i8").tobytes(), len(known))
    assert found.listed(listed) == [one in known for one in listed]
    assert found.unlisted() == sorted(set(known) - set(listed))
    assert len(found) == len(set(known) & set(listed))


def test_two_million_take_16_megabytes() -> None:
    found = ShownDocuments()
    found.add(f"root/folder-{number}" for number in range(20_000))
    assert found.bytes == 20_000 * 8
