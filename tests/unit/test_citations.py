"""Citation texts, links, snippets and rebuilt texts from tables."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.citations.format import Cited, citation
from serving.citations.links import is_web, link
from serving.documents import rebuild
from serving.retrieval.highlight import SNIPPET_CHARACTERS, snippet, terms

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
        (None, "upload", "application/pdf", 3, None, "https://s.example/documents/d?chunk=4"),
        ("javascript:alert(1)", "files", "text/html", None, None, "https://s.example/documents/d?chunk=4"),
        ("file:///etc/passwd", "files", "text/plain", None, None, "https://s.example/documents/d?chunk=4"),
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
    made = snippet(text, terms("What is the vacation policy on days?"))
    assert "vacation policy" in made.text
    assert len(made.text) <= SNIPPET_CHARACTERS
    assert {made.text[start:end] for start, end in made.spans} == {"vacation", "policy", "days"}


@given(text=st.text(max_size=400), query=st.text(max_size=60))
def test_snippets_are_stretches_of_the_text_with_true_spans(text: str, query: str) -> None:
    made = snippet(text, terms(query))
    assert len(made.text) <= SNIPPET_CHARACTERS
    original = text[made.start : made.start + len(made.text)]
    assert [a if not a.isspace() else " " for a in original] == list(made.text)
    assert all(0 <= start < end <= len(made.text) for start, end in made.spans)


def test_inflected_words_are_highlighted() -> None:
    made = snippet("Employees requested holidays.", terms("employee request holiday"))
    assert [made.text[start:end] for start, end in made.spans] == ["Employees", "requested", "holidays"]


@given(text=st.text(min_size=1, max_size=300), size=st.integers(1, 50), overlap=st.integers(0, 10), data=st.data())
def test_text_rebuilt_from_overlapping_chunks_is_the_text(
    text: str, size: int, overlap: int, data: st.DataObject
) -> None:
    step = max(1, size - overlap)
    chunks = [
        {"chunk_text": text[at : at + size], "start_char": at, "end_char": min(len(text), at + size)}
        for at in range(0, len(text), step)
    ]
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert rebuild(chunks, start, end) == (text[start:end], start)


def test_a_gap_between_chunks_keeps_the_offsets() -> None:
    chunks = [
        {"chunk_text": "One.", "start_char": 0, "end_char": 4},
        {"chunk_text": "Two.", "start_char": 6, "end_char": 10},
    ]
    assert rebuild(chunks, 2, 9) == ("e.\n\nTwo", 2)
    assert rebuild(chunks, 20, 30) == ("", 20)
