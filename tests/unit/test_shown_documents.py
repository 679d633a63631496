"""A set of source ids as hashes equals a set of texts, and known keys a set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assets.intake import shown
from assets.intake.shown import ShownDocuments
from tests.fixtures.known_keys import unchanged

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


@given(st.dictionaries(KEYS, st.integers(1, 3)), st.lists(st.tuples(KEYS, st.integers(1, 3))))
def test_known_keys_equal_a_dict_of_counts(known: dict[int, int], listed: list[tuple[int, int]]) -> None:
    found = unchanged(known)
    assert [found.listed(*one) for one in listed] == [known.get(key) == count for key, count in listed]
    there = {key for key, count in listed if known.get(key) == count}
    assert found.unlisted() == sorted(set(known) - there)
    assert len(found) == sum(known[key] for key in there)


def test_two_million_take_16_megabytes() -> None:
    found = ShownDocuments()
    found.add(f"root/folder-{number}" for number in range(20_000))
    assert found.bytes == 20_000 * 8
