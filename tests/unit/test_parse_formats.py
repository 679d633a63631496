"""Parsers of all formats on small generated files: text, locations and error messages."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable

import pytest
from PIL import Image

from assets.stages.language import identify_language
from assets.stages.parse import SUPPORTED, image, ocr, parse, word_count
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError

OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = OFFICE + "wordprocessingml.document"
PPTX = OFFICE + "presentationml.presentation"
XLSX = OFFICE + "spreadsheetml.sheet"


def shown(document: ParsedDocument) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def pdf(pages: list[list[str]], password: str | None = None) -> bytes:
    from reportlab.lib import pdfencrypt
    from reportlab.pdfgen import canvas

    target = io.BytesIO()
    encrypt = pdfencrypt.StandardEncryption(password, strength=128) if password else None
    sheet = canvas.Canvas(target, encrypt=encrypt)
    for lines in pages:
        for number, line in enumerate(lines):
            sheet.drawString(60, 780 - 16 * number, line)
        sheet.showPage()
    sheet.save()
    return target.getvalue()


def docx() -> bytes:
    from docx import Document

    document = Document()
    document.add_heading("Leave", 1)
    document.add_paragraph("Thirty days a year.")
    document.add_heading("Parental", 2)
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("second", style="List Bullet")
    grid = document.add_table(rows=2, cols=2)
    for row, texts in zip(grid.rows, [("City", "Days"), ("Rome", "30")], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    document.add_paragraph("Last words.")
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def pptx() -> bytes:
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    for title in ("Plan", "Numbers"):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"{title} in short"
        slide.notes_slide.notes_text_frame.text = f"Say {title}"
    grid = slide.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(3), Inches(1)).table
    for row, texts in enumerate([("Year", "Sales"), ("2025", "12")]):
        for column, text in enumerate(texts):
            grid.cell(row, column).text = text
    target = io.BytesIO()
    deck.save(target)
    return target.getvalue()


def xlsx() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    first = book.active
    first.title = "Staff"
    first.append(["Name", "Age"])
    for number in range(100):
        first.append([f"Person {number}", number])
    book.create_sheet("Empty")
    book.create_sheet("More").append(["only", 1.5])
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def picture(form: str = "PNG", size: tuple[int, int] = (8, 6)) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size).save(target, form)
    return target.getvalue()


def test_markdown_keeps_structure_and_anchors() -> None:
    source = """---
title: "The Book"
author: Ada
---
import Tabs from '@theme/Tabs';

# Getting `started`

Some *emphasis* and [a link](https://x.test/y).
Same paragraph.

## Set up {#install}

- one
- two
  - nested

1. first
2. second

| Name | City |
| --- | --- |
| Ada | London |

## Set up

```python
import os

x = 1
```

:::note Careful
Mind the gap.
:::

<!-- hidden --><Tabs>shown</Tabs>

## Set up
"""
    document = parse(source.encode(), "text/markdown", title="x")
    assert document.title == "The Book"
    assert document.author == "Ada"
    assert shown(document) == [
        ("heading", "Getting started"),
        ("paragraph", "Some emphasis and a link.\nSame paragraph."),
        ("heading", "Set up"),
        ("list", "- one\n- two\n  - nested"),
        ("list", "1. first\n2. second"),
        ("table", "Name | City\nAda | London"),
        ("heading", "Set up"),
        ("code", "import os\n\nx = 1"),
        ("paragraph", "Careful"),
        ("paragraph", "Mind the gap."),
        ("paragraph", "shown"),
        ("heading", "Set up"),
    ]
    headings = [block for block in document.blocks if block.kind == "heading"]
    assert [block.anchor for block in headings] == ["getting-started", "install", "set-up", "set-up-1"]
    assert [block.level for block in headings] == [1, 2, 2, 2]
    assert document.blocks[5].section_path == ("Getting started", "Set up")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("```\nnever closed", "never closed"),
        ("# \n\n[a](", "[a]("),
        ("| a |\n|--", "a"),
        ("<div\n\ntext", "text"),
        ("x\n" + ">" * 500, "x"),
        ("**a *b", "**a *b"),
    ],
)
def test_malformed_markdown_is_parsed_as_well_as_it_can_be(source: str, text: str) -> None:
    assert text in parse(source.encode(), "text/markdown", title="x").text


def test_text_joins_cut_words_and_makes_markdown_lists() -> None:
    document = parse(
        "An exam-\nple of well-known text. It is well-\nknown.\n\n• one\n• two\n".encode(), "text/plain", title="x"
    )
    assert shown(document) == [
        ("paragraph", "An example of well-known text. It is well-known."),
        ("list", "- one\n- two"),
    ]


@pytest.mark.parametrize(
    ("data", "warned"),
    [
        ("Grüße aus München".encode(), False),
        ("Grüße aus München".encode("utf-8-sig"), False),
        ("Grüße aus München".encode("utf-16"), False),
        ("Grüße aus München".encode("utf-16-le"), True),
        ("Viele Grüße aus München, wo es heute schön ist und die Bäume blühen.".encode("cp1252"), True),
    ],
)
def test_encodings(data: bytes, warned: bool) -> None:
    document = parse(data, "text/plain", title="x")
    assert "Grüße aus München" in document.text
    assert bool(document.warnings) is warned


def test_control_characters_and_lone_surrogates_never_come_through() -> None:
    document = parse(
        "a\x00b\x07c \ud800d\u202e e".encode("utf-8", "surrogatepass").replace(b"\xed\xa0\x80", b""),
        "text/plain",
        title="x",
    )
    assert document.text == "abc d e"
    escaped = parse(rb'{"a": "x\u0000y\ud800z"}', "application/json", title="x")
    assert escaped.text == "a: xyz"


def test_html_drops_what_is_no_text_and_keeps_structure() -> None:
    source = """<html><head><title>The page</title><meta name=author content=Ada><style>p{}</style></head><body>
    <nav>Menu</nav><script>alert(1)</script><h1 id=top>Hello</h1><p>First <b>bold</b>
    line.<br>Second.</p><ul><li>one<ul><li>nested</li></ul></li><li>two</li></ul>
    <table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table><pre>x\n  y</pre>tail</body></html>"""
    document = parse(source.encode(), "text/html", title="x")
    assert (document.title, document.author) == ("The page", "Ada")
    assert shown(document) == [
        ("heading", "Hello"),
        ("paragraph", "First bold line.\nSecond."),
        ("list", "- one\n  - nested\n- two"),
        ("table", "A | B\n1 | 2"),
        ("code", "x\n  y"),
        ("paragraph", "tail"),
    ]
    assert document.blocks[0].anchor == "top"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_rows_are_lines_with_their_header(delimiter: str) -> None:
    rows = [["name", "city"], *([f"person {number}", f"town {number}"] for number in range(200))]
    document = parse("\n".join(delimiter.join(row) for row in rows).encode(), "text/csv", title="x")
    data = [block for block in document.blocks if block.row_start]
    assert len(data) > 1
    number = 1
    for block in data:
        assert block.row_start == number
        for line in document.text[block.start : block.end].split("\n"):
            assert line == f"person {number - 1} | town {number - 1}"
            number += 1
    assert number == 201
    headers = [document.text[block.start : block.end] for block in document.blocks if block.row_start == 0]
    assert headers == ["name | city"] * len(data)


def test_csv_without_a_header_and_with_quotes() -> None:
    document = parse(b'1,"a, ""b""\nc"\n\n2,d\n', "text/csv", title="x")
    assert document.text == '1 | a, "b" c\n-\n2 | d'
    assert document.blocks[0].row_start == 1


@pytest.mark.parametrize("blank", [b"\n", b"\r\n \r\n", b",,\n"])
def test_blank_lines_above_the_header_of_a_csv(blank: bytes) -> None:
    document = parse(blank + b"name,city\nAda,Rome\n", "text/csv", title="x")
    assert document.text == "name | city\n\nAda | Rome"
    assert [block.row_start for block in document.blocks] == [0, 1]


def test_every_value_of_a_key_that_json_repeats_is_read() -> None:
    document = parse(b'{"a": 1, "b": {"c": "x", "c": {"d": "y"}, "c": "z"}, "a": 2}', "application/json", title="x")
    assert document.text == "a: 1\n\nb:\n  c: x\n  c:\n    d: y\n  c: z\n\na: 2"


def test_numbers_of_json_are_as_they_are_written() -> None:
    data = b'{"price": 19.90, "sum": [123456789012345678.25, 1e400, -0.0, 2]}\n{"price": 1.10}\n'
    text = parse(data, "application/json", title="x").text
    assert text == "price: 19.90\nsum: 123456789012345678.25, 1e400, -0.0, 2\n\nprice: 1.10"
    assert parse(b'{"title": 2.50}', "application/json", title="x").title is None


def test_json_keeps_keys() -> None:
    value = {"title": "Config", "port": 80, "tags": ["a", "b"], "db": {"host": "x", "users": [{"name": "Ada"}, 3]}}
    document = parse(json.dumps(value).encode(), "application/json", title="x")
    assert document.title == "Config"
    assert (
        document.text
        == "title: Config\nport: 80\ntags: a, b\n\ndb:\n  host: x\n  users:\n    -\n      name: Ada\n    - 3"
    )
    lines = parse(b'{"a": 1}\n{"a": 2}\n', "application/json", title="x")
    assert lines.text == "a: 1\n\na: 2"


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a": ', b"[" * 50_000 + b"]" * 50_000])
def test_broken_or_deep_json_is_indexed_as_text(data: bytes) -> None:
    document = parse(data, "application/json", title="x")
    assert document.warnings
    assert document.text == data.decode().strip()


def test_docx_in_document_order() -> None:
    document = parse(docx(), DOCX, title="x")
    assert shown(document) == [
        ("heading", "Leave"),
        ("paragraph", "Thirty days a year."),
        ("heading", "Parental"),
        ("list", "- first\n- second"),
        ("table", "City | Days\nRome | 30"),
        ("paragraph", "Last words."),
    ]
    assert document.blocks[4].section_path == ("Leave", "Parental")


def test_pptx_slides_are_pages_with_notes_and_tables() -> None:
    document = parse(pptx(), PPTX, title="x")
    assert document.page_count == 2
    assert [(block.page, text) for block, (_, text) in zip(document.blocks, shown(document), strict=True)] == [
        (1, "Plan"),
        (1, "Plan in short"),
        (1, "Notes: Say Plan"),
        (2, "Numbers"),
        (2, "Numbers in short"),
        (2, "Year | Sales\n2025 | 12"),
        (2, "Notes: Say Numbers"),
    ]


def test_xlsx_every_sheet_with_row_numbers() -> None:
    document = parse(xlsx(), XLSX, title="x")
    assert [text for kind, text in shown(document) if kind == "heading"] == ["Staff", "More"]
    staff = [block for block in document.blocks if block.sheet == "Staff" and block.row_start]
    assert staff[0].row_start == 1
    for block in staff:
        assert block.row_start is not None
        assert document.text[block.start : block.end].startswith(
            f"Person {block.row_start - 1} | {block.row_start - 1}\n"
        )
    assert document.text.endswith("only | 1.5")


@pytest.mark.parametrize(("form", "mime_type"), [("PNG", "image/png"), ("JPEG", "image/jpeg")])
def test_pictures_are_their_title_and_description(form: str, mime_type: str) -> None:
    document = parse(picture(form), mime_type, title="Org chart", description="Who reports to whom")
    assert document.text.startswith("Org chart\n\nWho reports to whom")
    assert "pixels" not in document.text, "an answer would quote it"


def test_a_truncated_picture_keeps_its_title_and_description(monkeypatch: pytest.MonkeyPatch) -> None:
    class Engine:
        def SetImage(self, picture: Image.Image) -> None:  # noqa: N802
            picture.load()

    monkeypatch.setattr(image, "languages", lambda: ("eng",))
    monkeypatch.setattr(ocr, "_engine", Engine)
    data = picture("JPEG", (800, 600))
    document = parse(data[: len(data) // 2], "image/jpeg", title="Org chart", description="Who reports to whom")
    assert document.text == "Org chart\n\nWho reports to whom"
    assert document.warnings == ["The picture is damaged: its text is not read."]


def test_a_picture_of_which_nothing_is_known_tells_its_size() -> None:
    document = parse(picture(), "image/png", title="Org chart", description=None)
    assert document.text == "Org chart\n\nPicture, 8 x 6 pixels"


def test_description_precedes_the_text_and_words_are_counted() -> None:
    document = parse(b"The text itself.", "text/plain", title="x", description="What it is about")
    assert document.text == "What it is about\n\nThe text itself."
    assert word_count(document) == 7


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The quick brown fox jumps over the lazy dog and runs away from it.", "en"),
        ("Der schnelle braune Fuchs springt über den faulen Hund und läuft davon.", "de"),
        ("x = 1", None),
    ],
)
def test_language(text: str, language: str | None) -> None:
    document = parse(text.encode(), "text/plain", title="x")
    assert identify_language(document.text, document.blocks) == language


def bomb(part: str) -> Callable[[], bytes]:
    def make() -> bytes:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(part, b"0" * 30_000_000)
        return target.getvalue()

    return make


def image_only_pdf() -> bytes:
    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def other_zip() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("readme.txt", "hello")
    return target.getvalue()


REFUSED: list[tuple[str, Callable[[], bytes], str, str]] = [
    ("empty", lambda: b"", "text/plain", "empty"),
    ("white space", lambda: b" \n\t ", "text/markdown", "empty"),
    ("binary", lambda: bytes(range(256)) * 20, "text/plain", "binary"),
    ("elf as csv", lambda: b"\x7fELF\x02\x01\x01" + bytes(300), "text/csv", "binary"),
    ("exe as pdf", lambda: b"MZ\x90\x00" + bytes(500), "application/pdf", "not a PDF"),
    ("broken pdf", lambda: b"%PDF-1.4\ngarbage", "application/pdf", "damaged"),
    ("encrypted pdf", lambda: pdf([["secret"]], password="hush"), "application/pdf", "encrypted"),
    ("image-only pdf", image_only_pdf, "application/pdf", "no text"),
    ("docx bomb", bomb("word/document.xml"), DOCX, "zip bombs"),
    ("xlsx bomb", bomb("xl/workbook.xml"), XLSX, "zip bombs"),
    ("no zip", lambda: b"hello", DOCX, "damaged"),
    ("other zip", other_zip, DOCX, "not a DOCX"),
    ("old office", lambda: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(100), XLSX, "password"),
    ("no picture", lambda: b"hello", "image/png", "damaged"),
    ("cut picture", lambda: picture()[:20], "image/png", "damaged"),
    ("empty html", lambda: b"<html><script>x</script></html>", "text/html", "no text"),
    ("unsupported", lambda: b"x", "video/mp4", "not supported"),
]


@pytest.mark.parametrize(
    ("make", "mime_type", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refused_with_a_reason(make: Callable[[], bytes], mime_type: str, reason: str) -> None:
    with pytest.raises(SkipDocumentError, match=reason):
        parse(make(), mime_type, title="x")


def test_huge_picture_is_refused_without_being_unpacked() -> None:
    with pytest.raises(SkipDocumentError, match="million pixels"):
        parse(_claims(60_000, 60_000), "image/png", title="x")


def _claims(width: int, height: int) -> bytes:
    """Return a PNG whose header claims a false size."""
    import struct
    import zlib

    body = b"IHDR" + struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    header = struct.pack("!I", 13) + body + struct.pack("!I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + header + picture()[33:]


def test_pdf_with_a_broken_cross_reference_is_repaired() -> None:
    data = pdf([["Still readable"]])
    start = data.rindex(b"startxref")
    document = parse(data[:start] + b"startxref\n99999\n%%EOF", "application/pdf", title="x")
    assert document.text == "Still readable"


def test_wide_csv_and_deep_html() -> None:
    wide = ",".join(f"column{number}" for number in range(10_000))
    assert parse(f"{wide}\n{wide}\n".encode(), "text/csv", title="x").text.count("column9999") == 2
    deep = b"<b>" * 50_000 + b"bottom" + b"</b>" * 50_000
    assert parse(deep, "text/html", title="x").text == "bottom"


def test_supported_types_are_all_reachable() -> None:
    assert {"text/markdown", "application/pdf", DOCX, PPTX, XLSX, "image/png", "image/jpeg"} <= SUPPORTED
