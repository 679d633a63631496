"""What an answer quotes is found in its passage, however it is written there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.search.citations.quote import locate

PASSAGE = """# Gauges

The **gauge** hangs under the bridge, and is read
every   15 minutes. See [the manual](https://wiki.example/m) for more. It was built in Straße 5. Read `g[0]` first.

- Call *before* ten.
- Keep the key.

gauge | bridge | installed
G-1 | Mill | 2025-03-01
G-2 | Weir | 2026-04-09

水位計は橋の下にあります。毎日読み取られます。"""


@pytest.mark.parametrize(
    ("quote", "marked"),
    [
        (
            "The gauge hangs under the bridge, and is read every 15 minutes.",
            "The **gauge** hangs under the bridge, and is read\nevery   15 minutes.",
        ),
        ("“it was built in strasse 5”", "It was built in Straße 5."),
        ("Call before ten.", "Call *before* ten."),
        ("Read g［0］ first.", "Read `g[0]` first."),
        ("G-2 | Weir | 2026-04-09", "G-2 | Weir | 2026-04-09"),
        ("Weir 2026-04-09", "G-2 | Weir | 2026-04-09"),
        ("See the manual for more.", "See [the manual](https://wiki.example/m) for more."),
        (
            "See the manual (link removed) for more. It was built in Straße 5.",
            "See [the manual](https://wiki.example/m) for more. It was built in Straße 5.",
        ),
        ("(link removed) for more. It was", "for more. It was"),
        ("毎日読み取られます。", "毎日読み取られます。"),
        ("The gauge hangs under the bridge, and is …", "The **gauge** hangs under the bridge, and is"),
        ("Every 15 minutes the gauge under the bridge is read.", "The **gauge** hangs under the bridge, and is read\nevery   15 minutes."),
    ],
)  # fmt: skip
def test_a_quote_is_found_whatever_its_white_space_case_and_marks(quote: str, marked: str) -> None:
    assert [PASSAGE[start:end] for start, end in locate(quote, PASSAGE)] == [marked]


def test_a_quote_that_joins_pieces_is_found_in_each() -> None:
    found = locate("gauge | bridge | installed: G-2 | Weir | 2026-04-09", PASSAGE)
    assert [PASSAGE[start:end] for start, end in found] == ["gauge | bridge | installed", "G-2 | Weir | 2026-04-09"]


@pytest.mark.parametrize(
    ("quote", "row"),
    [
        ("Plant | Liters: Palm | 5", "Palm | 5"),
        ("“Plant | Liters: Oil | 6”", "Oil | 6"),
        ("Plant | Liters: Ilm | 5", "Ilm | 5"),
    ],
)
def test_a_short_row_is_found_below_its_header(quote: str, row: str) -> None:
    passage = "Plant | Liters\nFern | 12\nIlm | 5\nPalm | 5\nOil | 6"
    found = locate(quote, passage)
    assert [passage[start:end] for start, end in found] == ["Plant | Liters", row]


@pytest.mark.parametrize("quote", ["", "…", "Nothing of this is said anywhere.", "ridge"])
def test_what_the_passage_does_not_say_is_not_found(quote: str) -> None:
    assert locate(quote, PASSAGE) == []


@given(st.text(), st.text(min_size=1))
def test_places_are_within_the_passage(quote: str, passage: str) -> None:
    for start, end in locate(quote, passage):
        assert 0 <= start < end <= len(passage)
