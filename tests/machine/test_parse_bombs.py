"""Files designed to exhaust a parser: work grows linearly with file size, and limits are named in the error."""

from __future__ import annotations

import contextlib
import io
import json
import re
import time
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.stages.chunk import chunk
from assets.stages.normalize import MAX_NAME, MAX_STACKED, BlockDraft, assemble, clean, dehyphenate
from assets.stages.parse import parse
from assets.stages.profiles import resolve
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError
from resources.embedding import tokenizer

OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = OFFICE + "wordprocessingml.document"
PPTX = OFFICE + "presentationml.presentation"
XLSX = OFFICE + "spreadsheetml.sheet"
CONVERSATION = "application/vnd.concordance.conversation+json"
SMALL = 20_000
FACTOR = 4
LEAST_SECONDS = 0.5
"""Processor time in seconds below which growth is not meaningful."""
MOST_GROWTH = 10
"""Linear work grows by `FACTOR` (4), quadratic work by its square (16)."""

Pattern = tuple[str, str, str]
REPEATED: dict[str, list[Pattern]] = {
    "text/plain": [
        ("", "a-\nb", ""), ("", "a-\n", ""), ("", "ä-\n", ""), ("- ", " ", "x"), ("1. ", "\t", "x"), ("", "\n \t", ""),
        ("", "\u0301\u0323", ""), ("", "a.", ""), ("", "A.B. ", ""), ("", "。", ""), ("", "• a\n", ""), ("", "1. a\n", ""),
    ],
    "text/markdown": [
        ("", "import x from\n", "{/*"), ("", "{/*", ""), ("", "import x from {/*", ""), ("# a", " ", "x"), ("# a", "{#", "x"),
        ("---\ntitle: x", " ", "y\n---\n"), (":::note x", " ", "y\n"), ("", ":::note [", ""), ("", "<!--", ""), ("", "<script ", ""),
        ("", "<a ", ""), ("", "[", ""), ("", "![", ""), ("", "[a](", ""), ("", "`", ""), ("", "*a **b", ""), ("", "> ", ""),
        ("", "- ", ""), ("", "# a\n", ""), ("", "|a", "\n|-\n"), ("", "&#1", ""), ("", "[a]: <", ""),
    ],
    "text/html": [
        ("", "<div>", ""), ("", "<ul><li>", ""), ("", "<pre>", ""), ("", "<b></p>", ""), ("", "<section><h1>", ""), ("<pre>", " ", "x"),
        ("", "<table><tr><td>", ""), ("", "<svg><td>", "</x>"), ("", "<p><font size=1>", ""), ("", "<!--", ""), ("", "<a b=", ""),
    ],
    "text/csv": [("", '"\n', "x"), ("", ",", "x"), ('a,b\n"', '""', "x"), ("", "','", ""), ("", ",\n", "x")],
    "application/json": [("", "[", ""), ("", '{"a":', ""), ("", "[],", ""), ("", "1\n", ""), ('"', "\\\\", '"')],
    "application/yaml": [("x: 1", "\n", ""), ("x: 1", "\n", "  y: 2"), ("x: 1\n", " ", "\ny: 2"), ("", "\n ", "y: 2")],
    CONVERSATION: [("```", " ", "x"), ("", "```", "x"), ("- ", " ", "x"), ("", "a\n", "")],
}  # fmt: skip
CASES = [(mime_type, pattern) for mime_type, patterns in REPEATED.items() for pattern in patterns]


def made(mime_type: str, pattern: Pattern, size: int) -> bytes:
    before, repeated, after = pattern
    text = before + repeated * (size // len(repeated)) + after
    if mime_type == CONVERSATION:
        return json.dumps({"messages": [{"name": "Ada", "text": text, "anchor": "m1"}]}).encode()
    return text.encode()


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of the work, whether or not the file is refused."""
    started = time.process_time()
    with contextlib.suppress(SkipDocumentError):
        work()
    return time.process_time() - started


def assert_grows_linearly(small: Callable[[], object], large: Callable[[], object]) -> None:
    seconds(small)  # libraries are loaded now
    most = max(LEAST_SECONDS, MOST_GROWTH * max(seconds(small), seconds(small)))
    # A busy machine only adds processor time, to one run more than to another: the shortest of three counts.
    assert any(seconds(large) < most for _ in range(3))


@pytest.mark.parametrize(("mime_type", "pattern"), CASES, ids=[f"{kind}-{pattern}" for kind, pattern in CASES])
def test_work_grows_with_the_size_of_the_file(mime_type: str, pattern: Pattern) -> None:
    small, large = made(mime_type, pattern, SMALL), made(mime_type, pattern, FACTOR * SMALL)
    assert_grows_linearly(lambda: parse(small, mime_type, title="x"), lambda: parse(large, mime_type, title="x"))


CHUNKED = [
    "a",
    "a ",
    "a. ",
    "a.",
    "。",
    "漢",
    ".",
    "- a\n",
    "\n\n",
    "a\n\n",
    "ab,",
    "😀",
    "x" * 99 + " ",
    "1 | 2\n",
    '"a." ',
]


@pytest.mark.parametrize("repeated", CHUNKED)
@pytest.mark.parametrize("kind", ["paragraph", "list", "code"])
def test_chunking_grows_with_the_size_of_the_text(kind: str, repeated: str) -> None:
    tokens, profile = tokenizer(), resolve("auto", 256)

    def work(size: int) -> Callable[[], object]:
        text, blocks = assemble([BlockDraft(kind=kind, text=repeated * (size // len(repeated)))])  # pyright: ignore[reportArgumentType] - parametrised
        return lambda: chunk(ParsedDocument(text=text, blocks=blocks), tokens, profile)

    assert_grows_linearly(work(SMALL), work(FACTOR * SMALL))


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(REPEATED)),
    st.text("<>/{}[]()*_`#:-!&;.,\"' \t\nab1é\u0301", min_size=1, max_size=5),
    st.text("<{[`#-:a \n", max_size=3),
)
def test_any_repeated_pattern_is_read_or_refused(mime_type: str, repeated: str, before: str) -> None:
    small, large = (made(mime_type, (before, repeated, "x"), size) for size in (SMALL, FACTOR * SMALL))
    assert_grows_linearly(lambda: parse(small, mime_type, title="x"), lambda: parse(large, mime_type, title="x"))


def office(part: str, xml: str, base: bytes) -> bytes:
    """Return an Office file with one of its parts replaced."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(base)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, xml if entry.filename == part else old.read(entry))
    return target.getvalue()


def docx(body: str) -> bytes:
    from docx import Document

    target = io.BytesIO()
    Document().save(target)
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    return office("word/document.xml", f"<w:document {space}><w:body>{body}</w:body></w:document>", target.getvalue())


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"


def test_a_cell_that_claims_to_span_a_hundred_million_columns_is_read_once() -> None:
    row = "<w:tr>" + cell("wide", '<w:gridSpan w:val="100000000"/>') + cell("next") + "</w:tr>"
    assert parse(docx(f"<w:tbl>{row}{row}</w:tbl>"), DOCX, title="x").text == "wide | next\nwide | next"


def test_a_cell_over_several_rows_is_repeated_up_to_a_length() -> None:
    first = "<w:tr>" + cell("A" * 5000, '<w:vMerge w:val="restart"/>') + cell("one") + "</w:tr>"
    below = "<w:tr>" + cell("", "<w:vMerge/>") + cell("two") + "</w:tr>"
    text = parse(docx(f"<w:tbl>{first}{below * 100}</w:tbl>"), DOCX, title="x").text
    assert text.count("two") == 100
    assert f"{'A' * 200} | two" in text
    assert len(text) < 5000 + 100 * 250


def test_a_list_item_of_an_absurd_level_is_indented_a_little() -> None:
    item = '<w:p><w:pPr><w:numPr><w:ilvl w:val="1000000000"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>'
    assert parse(docx(item), DOCX, title="x").text.strip() == "- x"


def test_a_deck_that_names_a_slide_many_times_has_it_once() -> None:
    from pptx import Presentation

    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Only once"  # pyright: ignore[reportOptionalMemberAccess]
    target = io.BytesIO()
    deck.save(target)
    with zipfile.ZipFile(target) as archive:
        xml = archive.read("ppt/presentation.xml").decode()
    found = re.search(r'<p:sldId [^>]*r:id="(\w+)"[^>]*/>', xml)
    assert found is not None
    again = "".join(f'<p:sldId id="{300 + n}" r:id="{found.group(1)}"/>' for n in range(5000))
    document = parse(
        office("ppt/presentation.xml", xml.replace(found.group(), again), target.getvalue()), PPTX, title="x"
    )
    assert (document.text, document.page_count) == ("Only once", 1)


def test_a_sheet_with_two_cells_at_its_corners_is_refused() -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active["A1"] = "first"  # pyright: ignore[reportOptionalSubscript]
    book.active["XFD1048576"] = "last"  # pyright: ignore[reportOptionalSubscript]
    target = io.BytesIO()
    book.save(target)
    with pytest.raises(SkipDocumentError, match="more than 50,000,000 cells"):
        parse(target.getvalue(), XLSX, title="x")


def test_a_sheet_with_a_wide_empty_row_is_read() -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active["A1"] = "first"  # pyright: ignore[reportOptionalSubscript]
    book.active["XFD3"] = "last"  # pyright: ignore[reportOptionalSubscript]
    target = io.BytesIO()
    book.save(target)
    text = parse(target.getvalue(), XLSX, title="x").text
    assert "first" in text
    assert text.endswith("last")


def test_a_page_nested_too_deeply_is_plain_text() -> None:
    page = "<title>T</title>" + "<div>" * 200_000 + "one<p>two &amp; three</p><script>no</script>"
    document = parse(page.encode(), "text/html", title="x")
    assert document.title == "T"
    assert [document.text[block.start : block.end] for block in document.blocks][-2:] == ["one", "two & three"]
    assert "nested too deeply" in document.warnings[0]
    assert "no" not in document.text.split()


@pytest.mark.parametrize(
    ("data", "mime_type", "text"),
    [
        (b"<ol start=" + b"9" * 6000 + b"><li>x</ol>", "text/html", "1. x"),
        ("<ol start=²><li>x</ol>".encode(), "text/html", "1. x"),
        (b"<div>&#" + b"9" * 6000 + b";x</div>", "text/markdown", "x"),
    ],
)
def test_absurd_numbers_are_no_fault_of_ours(data: bytes, mime_type: str, text: str) -> None:
    assert parse(data, mime_type, title="x").text == text


def test_more_text_than_a_document_may_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.stages.normalize.MAX_CHARACTERS", 1000)
    with pytest.raises(SkipDocumentError, match="more than 1,000 characters"):
        parse(b"word " * 300, "text/plain", title="x")


def test_what_each_block_carries_of_its_headings_is_bounded() -> None:
    document = parse(("# " + "long " * 50_000 + "\n\n" + "text\n\n" * 100).encode(), "text/markdown", title="x")
    assert all(len(name) <= MAX_NAME for block in document.blocks for name in block.section_path)
    assert all(len(block.anchor or "") <= MAX_NAME for block in document.blocks)
    assert len(document.title or "") <= MAX_NAME


@given(st.text("ae\u0301\u0323\u0344 x", max_size=200))
def test_stacked_marks_are_bounded_and_cleaning_stays_idempotent(text: str) -> None:
    stacked = clean(text + "a" + "\u0344\u0323" * 100)
    assert clean(stacked) == stacked
    assert len(stacked) <= len(text) * 2 + 3 * MAX_STACKED


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("exam-\nple", "example"),
        ("It is well-known and well-\nknown.", "It is well-known and well-known."),
        ("reelect and re-elect: re-\nelect", "reelect and re-elect: reelect"),
        ("Anglo-\nSaxon", "Anglo-Saxon"),
    ],
)
def test_a_hyphen_that_the_text_uses_is_kept(text: str, joined: str) -> None:
    assert dehyphenate(text) == joined


@pytest.mark.parametrize(
    ("doctype", "body"),
    [
        ('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', "<x>&e;</x>"),
        ('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', "<x><y>before &e; after</y></x>"),
        ('<!DOCTYPE x [<!ENTITY e SYSTEM "http://127.0.0.1:9/x">]>', "<x><y/>&e;</x>"),
        ('<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY e "&a;&a;&a;&a;">]>', "<x>&e;</x>"),
    ],
)
def test_xml_with_entities_is_skipped_with_a_reason(doctype: str, body: str) -> None:
    with pytest.raises(SkipDocumentError, match="refers to the entity 'e', which is not loaded"):
        parse(f"{doctype}{body}".encode(), "application/xml", title="x.xml")
    parsed = parse(f"{doctype}<x><y>Nothing refers to it.</y></x>".encode(), "application/xml", title="x.xml")
    assert "Nothing refers to it." in parsed.text
