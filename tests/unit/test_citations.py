"""Citation texts, links, snippets and text rebuilt from chunks."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core.domain import TextLocation
from serving.answers.words import content
from serving.documents.text import rebuild
from serving.search.citations.format import Cited, citation
from serving.search.citations.links import is_web, link
from serving.search.results import results
from serving.search.retrieval.highlight import SNIPPET_CHARACTERS, pieces, snippet
from serving.search.retrieval.passage import AskedWords, Passage
from serving.search.retrieval.terms import held, spans, terms
from sql.serving_rows import ChunkText

TODAY = date(2025, 11, 20)
LINK = "https://drive.google.com/file/d/1XyZ"
DOC = Cited("Q4 Strategy Doc", "google_drive", datetime(2025, 11, 10, 15, 30, tzinfo=UTC), ("Plan", "Markets"), LINK)


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("inline", "[1] Q4 Strategy Doc (Google Drive, Nov 10)"),
        ("key", "[1] 2025-11-10 | Google Drive | Q4 Strategy Doc"),
        ("footnote", f"[^1]: Q4 Strategy Doc. Google Drive, 10 Nov 2025. {LINK}"),
        ("endnote", f"1. Q4 Strategy Doc. Google Drive, 10 Nov 2025. {LINK}"),
        ("prose", "According to [Plan - Markets]"),
    ],
)
def test_formats(style: str, text: str) -> None:
    assert citation(DOC, 1, style, TODAY) == text  # type: ignore[arg-type]


def test_the_year_is_shown_when_it_is_not_this_year() -> None:
    assert citation(DOC, 2, "inline", date(2026, 1, 2)) == "[2] Q4 Strategy Doc (Google Drive, Nov 10, 2025)"


@pytest.mark.parametrize(
    ("style", "text"),
    [("inline", "[1] Notes (Upload)"), ("key", "[1] undated | Upload | Notes"), ("prose", "According to [Notes]")],
)
def test_without_a_date_or_headings(style: str, text: str) -> None:
    assert citation(Cited("Notes", "upload", None, (), ""), 1, style, TODAY) == text  # type: ignore[arg-type]


def test_one_heading_follows_the_title_and_line_breaks_never_survive() -> None:
    assert (
        citation(DOC._replace(section_path=("Intro",)), 1, "prose", TODAY) == "According to [Q4 Strategy Doc - Intro]"
    )
    assert "\n" not in citation(DOC._replace(title="A\n[2] B"), 1, "inline", TODAY)


@pytest.mark.parametrize(
    ("url", "source", "mime", "page", "anchor", "expected"),
    [
        (None, "upload", "application/pdf", 3, None, "https://s.example/documents/d?chunk=4#place"),
        ("javascript:alert(1)", "files", "text/html", None, None, "https://s.example/documents/d?chunk=4#place"),
        ("file:///etc/passwd", "files", "text/plain", None, None, "https://s.example/documents/d?chunk=4#place"),
        ("https://x.example/a.pdf", "files", "application/pdf", 3, None, "https://x.example/a.pdf#page=3"),
        (
            "https://x.example/book#top",
            "files",
            "text/markdown",
            None,
            "über-uns",
            "https://x.example/book#%C3%BCber-uns",
        ),
        (LINK, "google_drive", "application/pdf", 2, None, LINK + "#page=2"),
        (LINK, "google_drive", "text/markdown", None, "head", LINK),
        ("https://[HOST]/a.pdf#s2", "push", "application/pdf", 3, None, "https://[HOST]/a.pdf#page=3"),
        ("https://[HOST]/book#s2", "files", "text/markdown", None, "top", "https://[HOST]/book#top"),
        ("https://[HOST]/p1", "slack", "text/markdown", None, "p1", "https://[HOST]/p1"),
        ("https://x.example/a\n[2] B", "push", "text/html", None, None, "https://s.example/documents/d?chunk=4#place"),
    ],
)
def test_links(url: str | None, source: str, mime: str, page: int | None, anchor: str | None, expected: str) -> None:
    made = link(
        base_url="https://s.example",
        doc_id="d",
        chunk_index=4,
        url=url,
        source_type=source,
        mime_type=mime,
        page=page,
        anchor=anchor,
    )
    assert made == expected
    assert is_web(made)


def test_a_snippet_shows_the_querys_words_where_they_are_densest() -> None:
    text = (
        "vacation is far away. "
        + "Filler words here. " * 20
        + "The vacation policy grants days of paid vacation."
        + " More." * 30
    )
    made = snippet(text, spans(text, terms("What is the vacation policy on days?")))
    assert "vacation policy" in made.text
    assert len(made.text) <= SNIPPET_CHARACTERS
    assert {made.text[start:end] for start, end in made.spans} == {"vacation", "policy", "days"}


def starts(text: str, query: str) -> str:
    made = snippet(text, spans(text, terms(query)))
    assert len(made.text) <= SNIPPET_CHARACTERS
    return made.text


PRICES = (
    "Plan | Item | Remark\n3 | One SIM profile LK-K12-S | for sensors that never move\n"
    "4 | Two SIM profiles LK-K24-S | for gateways and for all that moves\n" + "x" * 120 + " | Cable | " + "y" * 40
)


def test_a_snippet_of_a_table_is_one_row_from_its_start() -> None:
    assert starts(PRICES, "two SIM profiles") == "4 | Two SIM profiles LK-K24-S | for gateways and for all that moves"
    assert starts(PRICES, "gateways") == "4 | Two SIM profiles LK-K24-S | for gateways and for all that moves"
    assert starts(PRICES, "which plan") == "Plan | Item | Remark"
    assert starts(PRICES, "which plan item remark for sensors").startswith("3 | One SIM")
    assert starts(PRICES, "cable") == "Cable | " + "y" * 40
    assert starts("| 4 | Two SIM | \n| 5 | Three", "two sim") == "4 | Two SIM"


def test_prose_before_a_table_does_not_run_into_it() -> None:
    assert starts(f"Prices of all plans.\n\n{PRICES}", "prices") == "Prices of all plans."


def test_a_snippet_of_prose_begins_with_its_sentence_or_a_word() -> None:
    text = "We have offices. The office in Lisbon closes at six\non Fridays. The office in Rome never closes."
    assert starts(text, "When does the office in Lisbon close?").startswith("The office in Lisbon closes at six on")
    long = "The office, " + "which is large and bright and new, " * 8 + "closes at six in the evening, says Ann."
    made = starts(long, "closes six")
    assert "closes at six" in made
    assert f" {made.split(' ')[0]} " in f" {long}"


CLAIM = (
    "Litigation hold: Osprey Marine\n\nPrivileged and confidential. Gwen Farrow, 4 May 2026.\n\nThe claim\n\n"
    "Osprey Marine says that the gauge read too high. They claim 287,000 euros.\n\nNotice\n\nThe letter came in April.\n\nRefunds"
)


@pytest.mark.parametrize(
    ("query", "begins"),
    [
        ("How much does Osprey Marine claim?", "Osprey Marine says that"),
        ("claim in euros", "They claim 287,000 euros."),
        ("litigation hold", "Litigation hold: Osprey Marine  Privileged"),
        ("notice", "Notice  The letter came"),
        ("confidential", "Privileged and confidential."),
        ("refunds", "Refunds"),
    ],
)
def test_the_words_of_headings_count_for_what_stands_below_them(query: str, begins: str) -> None:
    headings = ["Litigation hold: Osprey Marine", "The claim", "Notice", "Refunds"]
    assert snippet(CLAIM, spans(CLAIM, terms(query)), headings).text.startswith(begins)


def test_rare_words_weigh_more_than_common_ones() -> None:
    text = "Vacation days are days of vacation. Vacation days carry over. In Lisbon there are more vacation days."
    assert starts(text, "vacation days Lisbon").startswith("In Lisbon")
    assert starts("Nothing here. Nor here.", "zebra") == "Nothing here. Nor here."


def passage(text: str, **more: Any) -> Passage:
    return Passage(
        chunk_id="c", doc_id="d", chunk_index=4, chunk_text=text, text_hash="h", section_path=["Book", "Hours"], anchor="hours",
        page_start=1, page_end=2, title="T", source_type="files", source_id="s", collection_id=None, path="",
        owner=None, tags={}, created_at=None, modified_at=None, acl_checked_at=None,
        **{"url": None, "mime_type": "text/markdown", "start_char": 100, **more},
    )  # fmt: skip


def cited(found: Passage, query: str) -> str:
    now = datetime(2025, 11, 20, tzinfo=UTC)
    (made,) = results(
        [msgspec.structs.replace(found, asked=AskedWords(terms(query)))],
        style="inline",
        base_url="https://s.example",
        now=now,
    )
    assert (made.page_start, made.page_end, made.section_path) == (1, 2, ["Book", "Hours"])
    return made.citation.link


def test_a_citation_points_at_the_sentence_that_answers() -> None:
    text = "Hours\n\nWe open at nine.\n\nParking\n\nBehind the house."
    second = 100 + text.index("Parking")
    pages = [TextLocation(start_char=100, page=1), TextLocation(start_char=second, page=2)]
    pdf = passage(text, url="https://x.example/a.pdf", mime_type="application/pdf", places=pages)
    assert cited(pdf, "When do you open?") == "https://x.example/a.pdf#page=1"
    assert cited(pdf, "Is it behind the house?") == "https://x.example/a.pdf#page=2"
    sections = [TextLocation(start_char=100, anchor="hours"), TextLocation(start_char=second, anchor="parking")]
    book = passage(text, url="https://x.example/book", places=sections)
    assert cited(book, "parking") == "https://x.example/book#parking"
    assert cited(book, "zebra") == "https://x.example/book#hours"
    assert cited(passage(text, url="https://x.example/book"), "parking") == "https://x.example/book#hours"


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("Item | Price\nPump | 9\nSeal | 2\n\nItem | Price\nHose | 4", ["Item | Price", "Item | Price"]),
        ("Item | Price\n| of one(1) | in euros\nPump | 9\n| 8", ["Item | Price", "| of one(1) | in euros"]),
        ("Item | Price\n\nPump | 9\nSeal | 2\n\nItem | Price\n\nHose | 4", ["Item | Price", "Item | Price"]),
        ("Item | Price\n\nPump | 9\n\nItem | Price\n\nHose | 4", ["Item | Price", "Item | Price"]),
        ("Item | Price\n\nOf today:\n\nPump | 9\nSeal | 2", ["Pump | 9"]),
        ("|Item | Price|\n|---|:-:|\n|Pump | 9|", ["|Item | Price|", "|---|:-:|"]),
        ("Acme | Mill Road 1 | Harwick\n\nWe mill.\n\nHours: 9-17 | Phone: 030 1234567", []),
        ("return x | 3", []),
    ],
)
def test_the_header_of_a_table_may_stand_alone(text: str, headers: list[str]) -> None:
    """A sheet's header is a block of its own, before each block of rows."""
    found = list(pieces(text))
    assert [text[one.start : one.end] for one in found if one.header] == headers


@given(text=st.text(st.sampled_from("ab |\n.- 。\u2028"), max_size=60))
def test_pieces_cover_the_text_in_order(text: str) -> None:
    at = 0
    for piece in pieces(text):
        assert at <= piece.start < piece.end
        assert not text[at : piece.start].strip()
        at = piece.end
    assert not text[at:].strip()


@given(text=st.text(max_size=400), query=st.text(max_size=60))
def test_snippets_are_stretches_of_the_text_with_true_spans(text: str, query: str) -> None:
    made = snippet(text, spans(text, terms(query)))
    assert len(made.text) <= SNIPPET_CHARACTERS
    original = text[made.start : made.start + len(made.text)]
    assert [a if not a.isspace() else " " for a in original] == list(made.text)
    assert all(0 <= start < end <= len(made.text) for start, end in made.spans)


def test_inflected_words_are_highlighted() -> None:
    text = "Employees requested holidays."
    made = snippet(text, spans(text, terms("employee request holiday")))
    assert [made.text[start:end] for start, end in made.spans] == ["Employees", "requested", "holidays"]


def chunk(text: str, start: int) -> ChunkText:
    return ChunkText(
        chunk_index=0,
        chunk_text=text,
        start_char=start,
        end_char=start + len(text),
        section_path=[],
        anchor=None,
        page_start=None,
        page_end=None,
        places=[],
    )


@given(text=st.text(min_size=1, max_size=300), size=st.integers(1, 50), overlap=st.integers(0, 10), data=st.data())
def test_text_rebuilt_from_overlapping_chunks_is_the_text(
    text: str, size: int, overlap: int, data: st.DataObject
) -> None:
    step = max(1, size - overlap)
    chunks = [chunk(text[at : at + size], at) for at in range(0, len(text), step)]
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert rebuild(chunks, start, end) == (text[start:end], start)


def test_a_gap_between_chunks_keeps_the_offsets() -> None:
    chunks = [chunk("One.", 0), chunk("Two.", 6)]
    assert rebuild(chunks, 2, 9) == ("e.\n\nTwo", 2)
    assert rebuild(chunks, 20, 30) == ("", 20)


WORDS = st.sampled_from(
    [
        "Policy",
        "policies",
        "Straße",
        "strasse",
        "İzmir",
        "ﬁsh",
        "fish",
        "ΣΑΣ",
        "snake_case",
        "2026",
        "C",
        "Σ",
        "ſpan",
        "spans",
    ]
)
GAPS = st.sampled_from([" ", ", ", "\n", " - ", ". ", "/ "])
OTHERS = st.text(st.characters(categories=["Ll", "Zs", "Po"], codec="latin-1"), max_size=6)


@given(
    words=st.lists(st.tuples(WORDS | OTHERS, GAPS), max_size=20),
    query=st.lists(WORDS, min_size=1, max_size=3),
)
def test_the_words_of_a_query_are_found_wherever_they_stand(words: list[tuple[str, str]], query: list[str]) -> None:
    """As if every word of the text were asked for by itself."""
    text, wanted = "".join(word + gap for word, gap in words), terms(" ".join(query))
    each = [match for match in re.finditer(r"\w+", text) if terms(match.group()) <= wanted]
    assert spans(text, wanted) == [match.span() for match in each]


def test_half_a_character_hides_no_word() -> None:
    assert spans("\ud83d the wi-fi works", terms("wifi")) == [(6, 11)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Dr. Miller pays approx. 50 EUR, i.e. half of it.",
        "See No. 5 of Art. 3 Abs. 2, z. B. am 3. Mai.",
        "Filed on Sept. 25, 2018 (vol. 26, no. 4), max. 20 pages.",
        "Evtl. steigt der Umsatz bis zum 5. Jan. 2027 auf 50 Mio. Euro, bspw. durch mind. 300 Kunden in der Ulmer Str. 14.",
        "J. R. Smith came from the U.S. by boat.",
    ],
)
def test_an_abbreviation_ends_no_sentence(sentence: str) -> None:
    text = f"It is so. {sentence} Is it? No. We can't. It ends."
    cut = [text[one.start : one.end].strip() for one in pieces(text)]
    assert cut == ["It is so.", sentence, "Is it?", "No.", "We can't.", "It ends."]


@pytest.mark.parametrize(
    ("between", "sentences"),
    [
        ("", ["他说：“好。”", "然后走了。"]),
        ("", ["彼は「はい。」", "と言った。", "（終わり。）", "以上｡", "次だ！？", "はい"]),
        (" ", ["सामान नीचे है।", "वह लाल है।"]),
        (" ", ["یہ نیچے ہے۔", "کیا یہ سرخ ہے؟", "ہاں۔"]),
        (" ", ["Es gibt Strom usw. und das Wasser.", "Am 3. und 4. Mai ist zu.", "The dept. of roads opens at 9."]),
        (" ", ["Das Büro schließt am\n24. Dezember um 12 Uhr.", "Es öffnet\nwieder am\n1. Januar."]),
        (" ", ["The team has grown to\n12.", "That was in spring."]),
        ("\n", ["Steps", "1. Open the lid\n   and wait", "2. Close it\n   and wait", "3. Go", "- home"]),
        ("\n", ["Feiertage:", "1. Januar Neujahr", "1. Mai Tag der Arbeit", "3. Oktober Einheit"]),
        ("\n", ["Zu ist an", "24. Dezember", "26. Dezember"]),
        ("\n", ["It is so.", "3. Then it ends", "- all of it", "4. and more.", "It was so:", "7. here"]),
    ],
)
def test_sentences_end_at_their_marks_and_not_within(between: str, sentences: list[str]) -> None:
    text = between.join(sentences)
    assert [text[one.start : one.end].strip() for one in pieces(text)] == sentences


@pytest.mark.parametrize(
    ("query", "text", "places", "unrelated"),
    [
        ("छुट्टी की नीति", "नई छुट्टी नीति यह है।", ["छुट्टी", "नीति"], "पानी का बिल, टीना"),
        ("ছুটির নীতি", "এই ছুটির নীতি", ["ছুটির", "নীতি"], "পানির বিল"),
        ("การลาพักร้อน", "สิทธิลาพักร้อน 10 วัน", ["ลาพักร้อน"], "ราคาค่าไฟ"),
        ("விடுமுறை கொள்கை", "விடுமுறை கொள்கை இது", ["விடுமுறை", "கொள்கை"], "தண்ணீர் கட்டணம்"),
    ],
)
def test_words_keep_their_vowel_signs(query: str, text: str, places: list[str], unrelated: str) -> None:
    assert [text[start:end] for start, end in spans(text, terms(query))] == places
    assert spans(unrelated, terms(query)) == []
    assert held(text, terms(query)) >= content(places[0]) == terms(places[0])
