"""Excerpts of passages as the pages show them: whole sentences, no marks of Markdown, true highlights."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.search.citations.excerpt import CUT, LONGEST, excerpt, plain
from serving.search.retrieval.terms import spans, terms

DOORS = "Four doors need a real key: the chemical store, the server room, the roof and the boat shed."
CABINET = "Keys hang in the cabinet next to the workshop and are signed out with a badge."
LOST = "Whoever loses the boat shed key pays for the coffee of the whole workshop for a week."
KEYS = f"Keys\n\nDoors open with the badge. {DOORS} {CABINET} {LOST} Whoever loses another reports it.\n\nParking\n\nTwelve places."
LIST = "## What we *will* do\n\n- A **second** pair from [January](http://x.example/a_b) 2027\n- Use `snake_case_name` and 5 * 3 * 2\n"
OIL = "Pump care\n\nAsk Ada."
NOTES = "Dogs are allowed on Fridays only\n\nThe gate code changes every month"
TABLE = "Our prices:\n\nitem | price\n--- | ---\nLantern | 40 euros\nWick | 2 euros\n\nThey hold for a year."


@pytest.mark.parametrize(
    ("text", "query", "headings", "shown"),
    [
        (KEYS, "server room", ["Keys"], f"{DOORS} {CABINET} {LOST}"),
        (KEYS, "parking places", ["Keys"], "Twelve places."),
        (KEYS.replace(f"{CABINET} {LOST} ", ""), "server", [], f"Doors open with the badge. {DOORS} Whoever loses another reports it."),
        (LIST, "second pair", ["What we will do"], "A second pair from January 2027 · Use snake_case_name and 5 * 3 * 2"),
        (TABLE, "lantern price", [], "Lantern | 40 euros"),
        (TABLE, "items", [], "item | price · Lantern | 40 euros · Wick | 2 euros"),
        (f"item | price\nLantern | {'x' * LONGEST}", "items", [], "item | price"),
        (f"{OIL}\n\nHow often\n\nThe pump needs little care.", "pump care", ["Pump care"], "The pump needs little care."),
        ("Pump care", "pump", ["Pump care"], "Pump care"),
        ("# Pump care\n\nOil it.", "pump care", [], "Oil it."),
        (NOTES, "dogs", [], NOTES.replace("\n\n", " ")),
        ("Ada: The pump moves to Kiel\n\nBo: Thanks.", "pump", None, "Ada: The pump moves to Kiel Bo: Thanks."),
        ("", "pump", [], ""),
        ("~~~\nmake pump\n~~~", "pump", [], "make pump"),
    ],
)  # fmt: skip
def test_an_excerpt_is_whole_sentences_without_marks(
    text: str, query: str, headings: list[str] | None, shown: str
) -> None:
    made = excerpt(text, terms(query), headings)
    assert made.text == shown
    assert made.spans == spans(shown, terms(query))


def test_a_long_sentence_is_cut_around_the_words_and_says_so() -> None:
    text = "word " * 60 + "kettle boils at noon " + "other " * 60
    made = excerpt(text, terms("kettle noon"))
    assert (made.text.startswith(f"{CUT} word"), made.text.endswith(f"other {CUT}")) == (True, True)
    assert "kettle boils at noon" in made.text
    assert len(made.text) <= LONGEST
    assert excerpt("漢字" * 300, frozenset()).text.endswith(f"漢字 {CUT}")


@pytest.mark.parametrize(("begin", "end"), [("", ""), ("", " 以上"), ("", " 以上" * 99), (" 一 二 ", "漢字" * 99)])
def test_a_long_text_without_spaces_is_cut_around_the_words(begin: str, end: str) -> None:
    made = excerpt(f"{'漢字' * 160}{begin}{'漢' * 40}大阪支店は{'漢字' * 30}{end}", terms("大阪支店"))
    assert "大阪支店" in made.text
    assert made.spans
    assert len(made.text) <= LONGEST


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**bold _both_ x** and ~~gone~~", "bold both x and gone"),
        ("def __init__(self): `__name__` of __bold words__", "def __init__(self): __name__ of bold words"),
        ("a__b__c 2*3*4 snake_case", "a__b__c 2*3*4 snake_case"),
        (r"\*star\* and \_", "*star* and _"),
        ("![a pump](p.png) <b>here</b>", "a pump here"),
        ("> quoted\n> [x] text", "quoted [x] text"),
        ("- [x] done", "done"),
        ("+ 25 EUR", "+ 25 EUR"),
        ("3 < 4 and 5 > 2", "3 < 4 and 5 > 2"),
        ("0<a and b>5, <b class='x'>so</b><br />", "0<a and b>5, so"),
        ('<p class=x data-y>a</p> <table border>b <p class="a"id="b">c <script async src=x crossorigin>d', "a b c d"),
        ("deploy <environment> to List<String><br/>", "deploy <environment> to List<String>"),
    ],
)
def test_marks_are_taken_out_and_signs_stay(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text(max_size=600), st.text(max_size=30))
def test_any_text_has_an_excerpt_of_bounded_length_with_true_highlights(text: str, query: str) -> None:
    made = excerpt(text, terms(query))
    assert len(made.text) <= LONGEST
    assert "\n" not in made.text
    assert made.spans == spans(made.text, terms(query))
