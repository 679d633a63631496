"""Parsing and chunking of conversations: each passage links to its message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assets.stages.chunk import chunk
from assets.stages.parse import parse
from assets.stages.profiles import resolve
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError
from resources.embedding import tokenizer
from serving.search.citations.links import link

MIME = "application/vnd.concordance.conversation+json"
URL = "https://larkmoor.slack.com/archives/C1/p1731234567000100"


def _parsed(*texts: str, files: list[str] | None = None) -> ParsedDocument:
    """Parse a talk of these messages; the first has the files."""
    messages: list[dict[str, Any]] = [
        {
            "ts": f"1731234567.{number:06d}",
            "user": "U1",
            "name": "Ada Byron",
            "text": text,
            "thread_ts": None,
            "permalink": "https://larkmoor.slack.com/…",
            "anchor": f"p1731234567{number:06d}",
            "files": (files or []) if number == 0 else [],
        }
        for number, text in enumerate(texts)
    ]
    return parse(json.dumps({"channel": "C1", "messages": messages}).encode(), MIME, title="#mill: talk")


def _blocks(document: ParsedDocument) -> list[tuple[str, str, str | None]]:
    return [(block.kind, document.text[block.start : block.end], block.anchor) for block in document.blocks]


def test_each_message_says_who_and_leads_to_itself() -> None:
    assert _blocks(_parsed("Good morning", "Two\n\nparagraphs")) == [
        ("paragraph", "Ada Byron: Good morning", "p1731234567000000"),
        ("paragraph", "Ada Byron: Two", "p1731234567000001"),
        ("paragraph", "paragraphs", "p1731234567000001"),
    ]


def test_code_and_lists_stay_what_they_are() -> None:
    document = _parsed("Try this:\n```\nif a:\n    b()\n```\nor\n\n• one\n• two", "```x = 1```", "- a\n- b")
    assert [(kind, text) for kind, text, _ in _blocks(document)] == [
        ("paragraph", "Ada Byron: Try this:"),
        ("code", "if a:\n    b()"),
        ("paragraph", "or"),
        ("list", "- one\n- two"),
        ("paragraph", "Ada Byron:"),
        ("code", "x = 1"),
        ("paragraph", "Ada Byron:"),
        ("list", "- a\n- b"),
    ]


def test_files_are_named() -> None:
    assert [text for _, text, _ in _blocks(_parsed("Look", files=["plan.md"]))] == [
        "Ada Byron: Look",
        "Shared: plan.md",
    ]
    assert [text for _, text, _ in _blocks(_parsed("", files=["a.md", "b.md"]))] == ["Ada Byron shared a.md, b.md"]


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"messages": [1]}', b"\xff", b'{"messages": []}'])
def test_what_no_connector_made_is_skipped(data: bytes) -> None:
    with pytest.raises(SkipDocumentError):
        parse(data, MIME, title="x")


def test_short_messages_share_a_chunk_and_each_has_its_place() -> None:
    document = _parsed("Good morning", "The mill opens at nine", "Thanks")
    (piece,) = chunk(document, tokenizer(), resolve("auto", 256))
    assert piece.anchor == "p1731234567000000"
    assert [place.anchor for place in piece.places] == [f"p1731234567{number:06d}" for number in range(3)]
    for place in piece.places:
        assert document.text[place.start_char :].startswith("Ada Byron: ")


def test_a_long_talk_is_cut_between_its_sentences_and_every_chunk_knows_its_message() -> None:
    document = _parsed(
        *(f"Message {number} tells of the mill and of the rye that was ground there. " * 3 for number in range(40))
    )
    pieces = chunk(document, tokenizer(), resolve("auto", 256))
    assert len(pieces) > 3
    for piece in pieces:
        (first,) = {block.anchor for block in document.blocks if block.start <= piece.start_char < block.end}
        assert piece.anchor == first
        for place in piece.places:
            assert place.anchor in {
                block.anchor for block in document.blocks if block.start <= place.start_char < block.end
            }


def _link(anchor: str | None, url: str = URL, source: str = "slack") -> str:
    return link(
        base_url="http://h", doc_id="d", chunk_index=1, url=url, source_type=source, mime_type=MIME, anchor=anchor
    )


@pytest.mark.parametrize(
    ("anchor", "opened"),
    [
        (None, "p1731234567000100"),
        ("p1731234599000000", "p1731234599000000"),
        (
            "p1731234599000000?thread_ts=1731234567.000100&cid=C1",
            "p1731234599000000?thread_ts=1731234567.000100&cid=C1",
        ),
        ("a-heading", "p1731234567000100"),
        ("p1731234599000000?thread_ts=1&cid=C1#x", "p1731234567000100"),
        ("p1731234599000000/../../x", "p1731234567000100"),
    ],
)
def test_a_citation_opens_the_very_message(anchor: str | None, opened: str) -> None:
    assert _link(anchor) == f"https://larkmoor.slack.com/archives/C1/{opened}"


def test_a_continued_thread_opens_its_own_messages_too() -> None:
    anchor = "p1731234600000000?thread_ts=1731234567.000100&cid=C1"
    url = "https://larkmoor.slack.com/archives/C1/p1731234599000000?thread_ts=1731234567.000100&cid=C1"
    assert _link(anchor, url) == f"https://larkmoor.slack.com/archives/C1/{anchor}"


def test_files_shared_in_slack_keep_their_own_address() -> None:
    url = "https://larkmoor.slack.com/files/U1/F1/plan.md"
    assert _link("p1731234599000000", url) == url
    assert _link("p1731234599000000", URL, "files") == f"{URL}#p1731234599000000"
