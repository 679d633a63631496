"""Text of PDFs, made by the tests: nothing that a reader sees is lost."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from PIL import Image
from pypdf import PageObject, PdfReader, PdfWriter
from pypdf.errors import DependencyError, DeprecationError, PdfReadError
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    StreamObject,
    TextStringObject,
)
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from assets.stages.parse import ocr, parse
from assets.stages.parse import pdf as pdf_parser
from assets.stages.parse.pdfium import DamagedError
from assets.stages.parse.running import running_lines
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def pdf(pages: list[list[str]]) -> bytes:
    target = io.BytesIO()
    sheet = Canvas(target)
    for lines in pages:
        for number, line in enumerate(lines):
            sheet.drawString(60, 780 - 16 * number, line)
        sheet.showPage()
    sheet.save()
    return target.getvalue()


def read(pages: list[list[str]]) -> ParsedDocument:
    return parse(pdf(pages), "application/pdf", title="x")


def page_text(document: ParsedDocument, page: int) -> str:
    return "\n".join(document.text[block.start : block.end] for block in document.blocks if block.page == page)


def invoices(count: int) -> list[list[str]]:
    return [
        [
            "Heron Ltd.",
            f"Invoice {1000 + number}",
            f"{number} May 2025",
            f"Customer {WORDS[number]}",
            f"{number * 50} EUR",
        ]
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(invoices(5), id="invoices"),
        pytest.param(invoices(12), id="more invoices"),
        pytest.param([["The limit is 500 EUR"]] * 3, id="one line on three pages"),
        pytest.param([["The limit is 500 EUR"]] * 9, id="one line on nine pages"),
        pytest.param([["Rent", "Tenant Ada", "Amount 50 EUR", "Total 50 EUR"]] * 12, id="the same amount each month"),
        pytest.param([[f"Question {number}", "True or false?"] for number in range(1, 11)], id="questions"),
        pytest.param([[f"{1000 + number}", "Admit one", "Row 4"] for number in range(1, 9)], id="tickets"),
        pytest.param([["Fire Safety", WORDS[number], "has passed"] for number in range(1, 9)], id="certificates"),
        pytest.param(
            [[f"Total for month {number}", "x", f"{number * 3} items"] for number in range(1, 9)], id="totals"
        ),
    ],
)
def test_every_page_keeps_its_content(pages: list[list[str]]) -> None:
    document = read(pages)
    for number, lines in enumerate(pages, start=1):
        varying = [line for line in lines if number == 1 or any(map(str.isdigit, line)) or line in WORDS]
        assert [line for line in varying if line not in page_text(document, number)] == []


def book(count: int) -> list[list[str]]:
    return [
        [
            "Acme Handbook",
            f"Body of page {WORDS[number]} is a distin-",
            f"guished text on {WORDS[number]}.",
            f"Page {number} of 9",
        ]
        for number in range(1, count + 1)
    ]


def test_running_lines_of_a_long_document_go_but_for_the_first() -> None:
    document = read(book(9))
    assert document.page_count == 9
    assert [block.page for block in document.blocks] == list(range(1, 10))
    assert document.text.count("Acme Handbook") == 1
    assert "of 9" not in document.text
    assert "Body of page three is a distinguished text on three." in document.text


def test_a_short_document_keeps_all_lines() -> None:
    assert read(book(5)).text.count("Acme Handbook") == 5


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([f"{number}" for number in range(1, 9)], id="bare"),
        pytest.param([f"- {number} -" for number in range(4, 12)], id="offset"),
        pytest.param([f"{number} / 8" for number in range(1, 9)], id="of"),
        pytest.param(["i", "ii", "iii", "iv", "v", "vi", "vii", "viii"], id="roman"),
        pytest.param([f"Seite {number} von 8" for number in range(1, 9)], id="words"),
        pytest.param([f"第{number}页 共8页" for number in range(1, 9)], id="characters"),
    ],
)
def test_page_numbers_go(numbers: list[str]) -> None:
    pages = [
        [f"This is the text of {word}", f"and more about {word}", number]
        for word, number in zip(WORDS, numbers, strict=False)
    ]
    assert running_lines(pages) == [frozenset({2})] * 8


def test_a_line_with_a_page_number_and_other_words_stays_on_its_first_page() -> None:
    pages = [
        [f"This is the text of {word}", f"and more about {word}", f"Contract 4711 - Page {number}"]
        for number, word in enumerate(WORDS[:8], start=1)
    ]
    assert running_lines(pages) == [frozenset(), *[frozenset({2})] * 7]


def test_a_line_inside_of_content_stays() -> None:
    pages = [[f"Chapter {word}", "always the same", f"text about {word}"] for word in WORDS]
    assert running_lines(pages) == [frozenset()] * len(pages)


def read_bytes(data: bytes) -> ParsedDocument:
    return parse(data, "application/pdf", title="x")


def blocks(document: ParsedDocument) -> list[str]:
    return [document.text[block.start : block.end] for block in document.blocks]


def drawn(draw: Callable[[Canvas], None]) -> bytes:
    target = io.BytesIO()
    sheet = Canvas(target)
    draw(sheet)
    sheet.showPage()
    sheet.save()
    return target.getvalue()


def test_values_of_form_fields_are_in_the_row_of_their_label() -> None:
    def draw(sheet: Canvas) -> None:
        form = sheet.acroForm
        sheet.drawString(60, 700, "Name")
        form.textfield(name="f1", value="Ada Heron", x=120, y=694, width=200, height=20)
        sheet.drawString(60, 660, "Contract")
        for x, label, ticked in ((140, "permanent", False), (260, "fixed-term", True)):
            form.checkbox(name=label, checked=ticked, x=x, y=655, size=16)
            sheet.drawString(x + 22, 660, label)
        form.textfield(name="f2", tooltip="Remarks", value="None so far", x=120, y=600, width=200, height=20)
        form.textfield(name="pin", value="4711", x=120, y=560, width=200, height=20, fieldFlags="password")

    text = read_bytes(drawn(draw)).text
    assert "Name Ada Heron" in text
    assert "Contract ☐ permanent ☒ fixed-term" in text
    assert "Remarks: None so far" in text
    assert "4711" not in text


def annotated(subtype: str, **fields: str) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(pdf([["The contract runs until May."]])))
    note = DictionaryObject(
        {NameObject("/Type"): NameObject("/Annot"), NameObject("/Subtype"): NameObject(f"/{subtype}")}
    )
    note[NameObject("/Rect")] = ArrayObject(FloatObject(value) for value in (60, 700, 260, 720))
    for name, value in fields.items():
        note[NameObject(f"/{name}")] = TextStringObject(value)
    writer.add_annotation(0, note)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("subtype", "fields", "expected"),
    [
        ("FreeText", {"Contents": "Extended to June"}, "Extended to June"),
        ("Text", {"Contents": "Is this agreed?", "T": "Ben"}, "- Ben: Is this agreed?"),
        ("Highlight", {"Contents": "check"}, "- check"),
    ],
)
def test_notes_are_text_of_their_page(subtype: str, fields: dict[str, str], expected: str) -> None:
    document = read_bytes(annotated(subtype, **fields))
    assert expected in document.text
    assert {block.page for block in document.blocks} == {1}


def signed(kind: str, *lines: str, form: bool, **fields: str) -> bytes:
    """A page with an annotation that draws lines above the page's own "Place: Rome"."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf([["The contract runs until May.", "Place: Rome"]])))
    page = writer.pages[0]
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    look = DecodedStreamObject()
    look.set_data(f"BT /F 9 Tf 4 60 Td {' '.join(f'({line}) Tj 0 -12 Td' for line in lines)} ET".encode())
    box = ArrayObject(map(FloatObject, (0, 0, 200, 80)))
    look |= {
        NameObject("/Subtype"): NameObject("/Form"),
        NameObject("/BBox"): box,
        NameObject("/Resources"): DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F"): writer._add_object(font)})}
        ),
    }
    note = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Annot"),
            NameObject("/Subtype"): NameObject("/Widget" if kind in {"Sig", "Tx", "Btn"} else f"/{kind}"),
            NameObject("/FT"): NameObject(f"/{kind}"),
            NameObject("/T"): TextStringObject("approval"),
            NameObject("/F"): NumberObject(4),
            NameObject("/Rect"): ArrayObject(map(FloatObject, (60, 700, 260, 780))),
            NameObject("/AP"): DictionaryObject({NameObject("/N"): writer._add_object(look)}),
            **{NameObject(f"/{name}"): NameObject(f"/{value}") for name, value in fields.items()},
        }
    )
    reference = writer._add_object(note)
    page[NameObject("/Annots")] = ArrayObject([reference])
    if form:
        writer.root_object[NameObject("/AcroForm")] = DictionaryObject(
            {NameObject("/Fields"): ArrayObject([reference])}
        )
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("kind", "form"), [("Sig", True), ("Sig", False), ("Tx", True), ("Tx", False), ("FreeText", False), ("Stamp", True)]
)
def test_what_signatures_and_stamps_show_is_text_of_their_page(kind: str, form: bool) -> None:
    document = read_bytes(signed(kind, "Signed by Ada Heron", "Date: 2024-05-02", "Place: Rome", form=form))
    assert "Signed by Ada Heron\nDate: 2024-05-02" in document.text
    assert document.text.count("Place: Rome") == 1
    assert {block.page for block in document.blocks} == {1}


@pytest.mark.parametrize(("fields", "form"), [({}, True), ({"AS": "Yes"}, False)])
def test_what_buttons_show_is_not_indexed(fields: dict[str, str], form: bool) -> None:
    assert "Print" not in read_bytes(signed("Btn", "Print this page", form=form, **fields)).text


def test_headings_are_found_by_their_size() -> None:
    def draw(sheet: Canvas) -> None:
        y = 780
        for size, line in [
            (20, "Travel Policy"), (10, "This policy says who may travel."), (14, "Trains"), (10, "Second class is paid for."),
            (10, "A seat may be reserved."), (14, "Hotels"), (10, "Up to three stars, and breakfast."), (10, "No minibar."),
            (10, "Receipts are needed for all of it."), (10, "They are kept for ten years."),
        ]:  # fmt: skip
            sheet.setFont("Helvetica", size)
            sheet.drawString(60, y, line)
            y -= 2 * size
        sheet.showPage()

    document = read_bytes(drawn(draw))
    paths = {document.text[block.start : block.end].split("\n")[0]: block.section_path for block in document.blocks}
    assert paths["This policy says who may travel."] == ("Travel Policy",)
    assert paths["Up to three stars, and breakfast."] == ("Travel Policy", "Hotels")


def test_text_above_large_tables_in_smaller_type_is_no_heading() -> None:
    said = [
        "Wait twelve minutes before you open the housing. Its screws are",
        "fastened with 4.5 Nm, and never with a power tool.",
    ]

    def draw(sheet: Canvas) -> None:
        y = 780
        for size, line in [(14, "Safety"), *((10, line) for line in said), (14, "Fault codes")]:
            y -= 1.2 * size
            sheet.setFont("Helvetica", size)
            sheet.drawString(60, y, line)
        sheet.setFont("Helvetica", 8)
        for number in range(40):
            sheet.drawString(60, y - 12 * (number + 2), f"E{number:02} Sensor cable broken Replace cable TP-4720")

    document = read_bytes(drawn(draw))
    assert [document.text[one.start : one.end] for one in document.blocks if one.kind == "heading"] == [
        "Safety",
        "Fault codes",
    ]
    assert "\n".join(said) in blocks(document)


def test_bold_lines_above_text_are_headings() -> None:
    def draw(sheet: Canvas) -> None:
        y = 780
        for font, line in [
            ("", "This policy says who may travel, and how."), ("", "It is for all who work here, also part of the time."),
            ("-Bold", "Trains"), ("", "Second class is paid for, and first class on long ways."), ("", "A seat may be reserved."),
            ("-Bold", "Hotels and Flats"), ("", "Up to three stars, breakfast included."), ("-Bold", "Item Nights Price"),
            ("", "Room 2 120"), ("-Bold", "Total 120"), ("", "Paid by card within fourteen days."),
        ]:  # fmt: skip
            y -= 24 if font else 12
            sheet.setFont(f"Helvetica{font}", 10)
            sheet.drawString(60, y, line)

    document = read_bytes(drawn(draw))
    headings = [document.text[one.start : one.end] for one in document.blocks if one.kind == "heading"]
    assert headings == ["Trains", "Hotels and Flats"]


def renamed(draw: Callable[[Canvas], None], letter: str, other: str) -> bytes:
    """Return a PDF whose fonts give a letter's glyph the name of another one, in hexadecimal."""
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))
    writer = PdfWriter(clone_from=io.BytesIO(drawn(draw)))
    fonts = cast("DictionaryObject", cast("DictionaryObject", writer.pages[0]["/Resources"])["/Font"])
    for font in map(DictionaryObject, fonts.values()):
        if "/ToUnicode" in font:
            names = cast("StreamObject", font["/ToUnicode"])
            names.set_data(names.get_data().replace(f"<{letter}>".encode(), f"<{other}>".encode()))
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize(("letter", "shown"), [("D835DC49", "\U0001d449"), ("D835", "")])
def test_lines_below_a_formula_keep_their_places(letter: str, shown: str) -> None:
    def draw(sheet: Canvas) -> None:
        y = 780
        for font, size, line in [
            ("Vera", 10, "The speed is QQQ QQQ QQQ QQQ QQQ."), ("Helvetica", 14, "Trains"), ("Helvetica", 10, "Second class is paid for."),
            ("Helvetica", 14, "Hotels"), ("Helvetica", 10, "Up to three stars."), ("Helvetica", 10, "No minibar."),
            ("Helvetica", 10, "Receipts are needed for all of it."), ("Helvetica", 10, "They are kept for ten years."),
        ]:  # fmt: skip
            sheet.setFont(font, size)
            sheet.drawString(60, y, line)
            y -= 2 * size

    document = read_bytes(renamed(draw, "0051", letter))
    paths = {document.text[block.start : block.end].split("\n")[0]: block.section_path for block in document.blocks}
    assert paths[f"The speed is {' '.join([3 * shown] * 5)}." if shown else "The speed is ."] == ()
    assert paths["Second class is paid for."] == ("Trains",)
    assert paths["Up to three stars."] == ("Hotels",)


def test_hyphens_that_a_font_calls_soft_stay() -> None:
    def draw(sheet: Canvas) -> None:
        sheet.setFont("Vera", 10)
        sheet.drawString(60, 700, "The team in Berlin-Mitte has parts SS-2541-03 and a distin-")
        sheet.drawString(60, 688, "guished guest.")

    text = read_bytes(renamed(draw, "002D", "00AD")).text
    assert text == "The team in Berlin-Mitte has parts SS-2541-03 and a distinguished guest."


def test_a_line_that_begins_with_a_raised_number_is_one() -> None:
    """PDFium takes the end of the line above for a space, since the number is beside that line."""

    def draw(sheet: Canvas) -> None:
        for place, line in enumerate(["Reports", "are in the docket.", "MCAS trims the", "horizontal", "stabilizer."]):
            if line.startswith("MCAS"):
                sheet.setFont("Helvetica", 6)
                sheet.drawString(60, 704 - 8 * place, "8")
            sheet.setFont("Helvetica", 9)
            sheet.drawString(64, 700 - 8 * place, line)

    assert blocks(read_bytes(drawn(draw))) == ["Reports\nare in the docket.\n8MCAS trims the\nhorizontal\nstabilizer."]


def with_marks(*pieces: tuple[str, float]) -> bytes:
    """Return a PDF with a line of pieces, each with its rise, in smaller type if it has one, and a line below it."""

    def draw(sheet: Canvas) -> None:
        at = 60.0
        for piece, rise in pieces:
            size = 7 if rise else 10
            sheet.setFont("Helvetica", size)
            sheet.drawString(at, 700 + rise, piece)
            at += pdfmetrics.stringWidth(piece, "Helvetica", size)
        sheet.setFont("Helvetica", 10)
        sheet.drawString(60, 688, "below it.")

    return drawn(draw)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([("The margin was 4.2", 0), ("1", 4), (" percent", 0)], "The margin was 4.2 [1] percent"),
        ([("The margin was 4.2", 0), ("1,2", 4), (" percent", 0)], "The margin was 4.2 [1,2] percent"),
        ([("In all 10", 0), ("6", 4), (" units and 10", 0), ("-6", 4), (".", 0)], "In all 10^6 units and 10^-6."),
        ([("An area of 50 m", 0), ("2", 4), (", and 2024", 0), ("*", 4)], "An area of 50 m², and 2024 [*]"),
        ([("As reported", 0), ("12", 4)], "As reported [12]"),
        ([("The CO", 0), ("2", -2), (" of 2024", 0)], "The CO2 of 2024"),
        ([("A pipe of 3", 0), ("1", 4), ("/2 inches", 0)], "A pipe of 3 1/2 inches"),
        ([("On the 1", 0), ("st", 4), (" of May", 0)], "On the 1st of May"),
        ([("Sum ", 0), ("12", 4), (" small", 0)], "Sum 12 small"),
    ],
)
def test_raised_numbers_stay_apart_and_powers_readable(pieces: list[tuple[str, float]], expected: str) -> None:
    assert blocks(read_bytes(with_marks(*pieces))) == [f"{expected}\nbelow it."]


def in_sizes(*pieces: tuple[str, float, float]) -> bytes:
    """Return a PDF with a line of pieces, each with its size and rise."""

    def draw(sheet: Canvas) -> None:
        at = 60.0
        for piece, size, rise in pieces:
            sheet.setFont("Helvetica", size)
            sheet.drawString(at, 700 + rise, piece)
            at += pdfmetrics.stringWidth(piece, "Helvetica", size)

    return drawn(draw)


MIX, CUPS = ("Mix 1", 12, 0), (" cups", 12, 0)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([MIX, ("1", 7, 5), ("/", 7, 0), ("2", 7, -3), CUPS], "Mix 1 1/2 cups"),
        ([MIX, ("1", 7, 4), ("/", 7, 2), ("2", 7, -1), CUPS], "Mix 1 1/2 cups"),
        ([MIX, ("1", 7, 4), ("/", 7, 0), ("2", 7, -1), CUPS], "Mix 1 1/2 cups"),
        ([MIX, ("1", 7, 4), ("/", 12, 0), ("2", 7, -1), CUPS], "Mix 1 1/2 cups"),
    ],
)
def test_a_fraction_in_small_type_is_one(pieces: list[tuple[str, float, float]], expected: str) -> None:
    assert read_bytes(in_sizes(*pieces)).text == expected


def test_lines_that_end_or_begin_with_a_slash_stay_lines() -> None:
    assert read([["The address is http://", "example.org/a", "/b and so on"]]).text.count("\n") == 2


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([("Item no. 4", 8, 0), ("100", 20, -7)], "Item no. 4 100"),
        ([("Item no. 4", 8, 0), ("100", 20, 0)], "Item no. 4 100"),
        ([("1", 28, 0), ("49", 14, 10)], "1 [49]"),
        ([("1", 28, 0), ("49", 14, 0)], "1 49"),
        ([("1010", 10, 0), ("2", 7, -2), (" is 10", 10, 0)], "1010 2 is 10"),
        ([("About 10", 10, 0), ("6", 7, 4)], "About 10^6"),
        ([("Fig. 3: ", 7, 0), ("Growth 2019", 12, 0), ("12", 7, 4.5)], "Fig. 3: Growth 2019 [12]"),
        (
            [("Fig. 3: ", 7, 0), ("Growth of 2019", 12, 0), ("*", 7, 4.5), (" in all", 12, 0)],
            "Fig. 3: Growth of 2019 [*] in all",
        ),
        ([("A", 30, 0), ("s of 2019", 10, 0), ("3", 6, 4), (" it rose", 10, 0)], "As of 2019 [3] it rose"),
    ],
)
def test_figures_of_other_sizes_stay_apart(pieces: list[tuple[str, float, float]], expected: str) -> None:
    assert read_bytes(in_sizes(*pieces)).text == expected


def test_columns_beside_a_raised_number_stay_apart() -> None:
    def draw(sheet: Canvas) -> None:
        for place in range(4):
            sheet.setFont("Helvetica", 10)
            sheet.drawString(60, 700 - 12 * place, f"left {WORDS[place]}")
            sheet.setFont("Helvetica", 7)
            sheet.drawString(
                60 + pdfmetrics.stringWidth(f"left {WORDS[place]}", "Helvetica", 10), 704 - 12 * place, "1"
            )
        for place in range(4):
            sheet.setFont("Helvetica", 10)
            sheet.drawString(300, 700 - 12 * place, f"right {WORDS[place]}")

    left, right = (
        "\n".join(f"{side} {word}{mark}" for word in WORDS[:4]) for side, mark in (("left", " [1]"), ("right", ""))
    )
    assert read_bytes(drawn(draw)).text == f"{left}\n{right}"


def test_figures_in_cells_of_one_digit_stay_apart() -> None:
    """Programs that shrink a PDF write such cells as one string with wide spaces between its characters."""

    def draw(sheet: Canvas) -> None:
        for y, space, figures in ((700, 30, "30"), (680, 36, "142"), (640, 8, "20251231")):
            row = sheet.beginText(60, y)
            row.setFont("Helvetica", 10)
            row.textOut("Row 12 ")
            row.setCharSpace(space)
            row.textOut(figures)
            row.setCharSpace(0)
            sheet.drawText(row)

    assert blocks(read_bytes(drawn(draw))) == ["Row 12 3 0\nRow 12 1 4 2", "Row 12 20251231"]


def test_headings_of_the_outline_have_its_levels() -> None:
    def draw(sheet: Canvas) -> None:
        for key, title, level, y in (("a", "Scope", 0, 700), ("b", "Who is meant", 1, 640)):
            sheet.bookmarkPage(key)
            sheet.addOutlineEntry(title, key, level)
            sheet.drawString(60, y, title)
            sheet.drawString(60, y - 16, f"Text below {title.lower()}.")

    document = read_bytes(drawn(draw))
    assert [block.section_path for block in document.blocks] == [(), ("Scope",), ("Scope",), ("Scope", "Who is meant")]


def test_a_word_cut_at_the_end_of_a_line_is_joined_and_a_range_stays() -> None:
    text = read(
        [["The distin-", "guished guest of 1995-", "1996 is a well-known", "guest, and well-", "known to us."]]
    ).text
    assert "The distinguished guest of 1995-1996 is a well-known" in text
    assert "and well-known to us." in text


def test_letters_that_are_spaced_out_are_words() -> None:
    def draw(sheet: Canvas) -> None:
        words = sheet.beginText(60, 700)
        words.setCharSpace(5)
        words.textLine("INVOICE NUMBER")
        sheet.drawText(words)
        sheet.drawString(60, 600, "A B C D E")
        sheet.drawString(60, 500, "1 2 3 4 5 6")

    assert blocks(read_bytes(drawn(draw))) == ["INVOICE NUMBER", "A B C D E", "1 2 3 4 5 6"]


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_rotated_pages_are_read(angle: int) -> None:
    reader = PdfReader(io.BytesIO(pdf([["First line of text", "second line", "third line"]])))
    reader.pages[0].rotate(angle)
    writer = PdfWriter()
    writer.add_page(reader.pages[0])
    target = io.BytesIO()
    writer.write(target)
    assert read_bytes(target.getvalue()).text == "First line of text\nsecond line\nthird line"


def scanned(sheet: Canvas) -> None:
    sheet.drawImage(ImageReader(Image.new("RGB", (40, 40), "white")), 60, 600)
    sheet.showPage()


def test_scanned_pages_of_a_text_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(sheet: Canvas) -> None:
        sheet.drawString(60, 700, "The first page has text.")
        sheet.showPage()
        scanned(sheet)
        scanned(sheet)
        sheet.drawString(60, 700, "The last one, too.")

    monkeypatch.setattr(pdf_parser, "languages", tuple[str, ...])
    document = read_bytes(drawn(draw))
    assert document.page_count == 4
    assert document.warnings == ["Pages 2 and 3 hold no text."]


SHIFTED = bytes.maketrans(b"Salriesofmngbu", b"Rzkqhdrnelmfat")
"""Other codes for some letters, as fonts have that hold a part of their glyphs."""


def undecodable() -> bytes:
    """Return a page in a font that does not say which characters it shows, below a line that does."""
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))

    def draw(sheet: Canvas) -> None:
        sheet.drawString(60, 700, "A line that can be read.")
        sheet.setFont("Vera", 12)
        sheet.drawString(60, 650, "Salaries of all managers, and the bonus of last year")

    writer = PdfWriter(clone_from=io.BytesIO(drawn(draw)))
    page = writer.pages[0]
    fonts = cast("DictionaryObject", cast("DictionaryObject", page["/Resources"])["/Font"])
    for font in fonts.values():
        cast("DictionaryObject", font.get_object()).pop("/ToUnicode", None)
    contents = page.get_contents()
    assert contents is not None
    before, mark, shown = contents.get_data().partition(b"(Sal")
    contents.set_data(before + (mark + shown).translate(SHIFTED))
    page.replace_contents(contents)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def test_text_that_cannot_be_decoded_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_parser, "languages", tuple[str, ...])
    document = read_bytes(undecodable())
    assert document.text == "A line that can be read."
    assert document.warnings == ["Page 1 has text that cannot be decoded."]


@pytest.mark.parametrize(
    "lines",
    [
        [f"{number} <tr><td>See www.hkexnews.hk</td></tr>" for number in range(4)],
        [f"\\bbb{letter} yields {letter.upper()}" for letter in "cdfghklmnp"],
    ],
)
def test_abbreviations_that_recur_are_text(lines: list[str]) -> None:
    def draw(sheet: Canvas) -> None:
        for number, line in enumerate(lines):
            sheet.drawString(60, 700 - 16 * number, line)
        sheet.setFont("Times-Roman", 12)
        sheet.drawString(60, 600, "In another font")

    text = read_bytes(drawn(draw)).text
    assert [one for one in lines if one not in text] == []


def drawn_by_tex(lines: list[bytes]) -> bytes:
    """Return a PDF in a font of bitmaps as pdfTeX writes it: of its characters nothing is said but their codes."""
    codes = sorted(set(b"".join(lines)))
    writer = PdfWriter()
    page = writer.add_blank_page(595, 842)
    glyph, content = DecodedStreamObject(), DecodedStreamObject()
    glyph.set_data(b"50 0 0 0 45 60 d1 0 0 45 60 re f")
    shown = (line.hex() for line in lines)
    content.set_data("BT /F1 10 Tf 60 800 Td 16 TL {} ET".format(" ".join(f"<{one}> Tj T*" for one in shown)).encode())
    names = {code: NameObject(f"/a{code}") for code in codes}
    drawing = writer._add_object(glyph)
    numbers: Callable[..., ArrayObject] = lambda *values: ArrayObject(map(FloatObject, values))  # noqa: E731
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type3"),
            NameObject("/FontMatrix"): numbers(0.01, 0, 0, 0.01, 0, 0),
            NameObject("/FontBBox"): numbers(0, 0, 50, 60),
            NameObject("/FirstChar"): NumberObject(0),
            NameObject("/LastChar"): NumberObject(255),
            NameObject("/Widths"): numbers(*[50] * 256),
            NameObject("/CharProcs"): DictionaryObject(dict.fromkeys(names.values(), drawing)),
            NameObject("/Encoding"): DictionaryObject(
                {
                    NameObject("/Type"): NameObject("/Encoding"),
                    NameObject("/Differences"): ArrayObject(
                        [one for code, name in names.items() for one in (NumberObject(code), name)]
                    ),
                }
            ),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    page[NameObject("/Contents")] = writer._add_object(content)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(
            [
                b"\x10The signi\x1cer\x11 is de\x1cned in the o\x1ece, page 3\x154",
                b"\x1crst, an e\x1bort and a \x1dight \x16 no wa\x1fe",
            ],
            "“The signifier” is defined in the office, page 3–4\nfirst, an effort and a flight — no waffle",
            id="T1",
        ),
        pytest.param(
            [
                b"Die Stra\xffe ist gr\xf6\xffer als \x12neun\x10 Meter",
                b"un c\xf7ur et des \x13\xe9t\xe9s\x14, \xbbadna \xaa\xf3d\xb9",
            ],
            "Die Straße ist größer als „neun“ Meter\nun cœur et des «étés», żadna łódź",
            id="T1 abroad",
        ),
        pytest.param(
            [b"The signi\x0cer is de\x0cned in the o\x0ece and", b"\x0crst, an e\x0bort and a \right, no wa\x0fe"],
            "The signifier is defined in the office and\nfirst, an effort and a flight, no waffle",
            id="OT1",
        ),
        pytest.param(
            [b"The signi\x1cer is de\x1cned here,", b"\x1b\x1c % \x1d3 \x1e"],
            "The signifier is defined here,\n% 3",
            id="a font in codes of its own besides",
        ),
        pytest.param([b"20 \xb0C \xb1 1, 3 \xd7 4"], "20 °C ± 1, 3 × 4", id="other codes"),
    ],
)
def test_letters_of_bitmapped_fonts_are_read(lines: list[bytes], text: str) -> None:
    assert read_bytes(drawn_by_tex(lines)).text == text


def test_characters_of_symbol_that_a_program_maps_to_its_codes() -> None:
    pieces = [(1, "Tolerance 5 "), (2, "\\261"), (1, " 0.2 mm, age "), (2, "\\263"), (1, "18.")]
    content = f"BT 72 700 Td {' '.join(f'/F{font} 12 Tf ({piece}) Tj' for font, piece in pieces)} ET"
    writer = PdfWriter()
    page = writer.add_blank_page(612, 792)
    mapping, stream = DecodedStreamObject(), DecodedStreamObject()
    mapping.set_data(
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def 1 begincodespacerange <00> <FF> "
        b"endcodespacerange 2 beginbfchar <B1> <F0B1> <B3> <F0B3> endbfchar endcmap end end"
    )
    stream.set_data(content.encode())

    def font(kind: str, name: str, **more: Any) -> DictionaryObject:
        entries = {"/Type": NameObject("/Font"), "/Subtype": NameObject(kind), "/BaseFont": NameObject(name)}
        return DictionaryObject({NameObject(key): value for key, value in (entries | more).items()})

    widths = ArrayObject([NumberObject(549)] * 224)
    coded = {
        "/FirstChar": NumberObject(32),
        "/LastChar": NumberObject(255),
        "/Widths": widths,
        "/ToUnicode": writer._add_object(mapping),
    }
    fonts = {"/F1": font("/Type1", "/Helvetica"), "/F2": font("/TrueType", "/ABCDEF+SymbolMT", **coded)}
    page[NameObject("/Resources")] = DictionaryObject(
        {NameObject("/Font"): DictionaryObject({NameObject(key): value for key, value in fonts.items()})}
    )
    page[NameObject("/Contents")] = writer._add_object(stream)
    target = io.BytesIO()
    writer.write(target)
    assert read_bytes(target.getvalue()).text == "Tolerance 5 ± 0.2 mm, age ≥18."


def test_columns_of_vertical_writing_are_read_from_right_to_left() -> None:
    columns = ["FIRSTCOLUMN", "SECONDCOLUMN", "THIRD"]  # letters, since the font that reportlab brings has no others
    face = TTFont("Vera", "Vera.ttf").face
    codes = {letter: face.charToGlyph[ord(letter)] for letter in sorted(set("".join(columns)))}
    writer = PdfWriter()
    page = writer.add_blank_page(612, 792)
    mapping, stream = DecodedStreamObject(), DecodedStreamObject()
    pairs = "".join(f"<{code:04x}> <{ord(character):04x}>" for character, code in codes.items())
    mapping.set_data(
        f"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def 1 begincodespacerange <0000> <FFFF> "
        f"endcodespacerange {len(codes)} beginbfchar {pairs} endbfchar endcmap end end".encode()
    )
    shown = [
        f"1 0 0 1 {500 - 20 * place} 700 Tm <{''.join(f'{codes[one]:04x}' for one in column)}> Tj"
        for place, column in enumerate(columns)
    ]
    stream.set_data(f"BT /F1 12 Tf {' '.join(shown)} ET".encode())

    def named(**entries: Any) -> DictionaryObject:
        return DictionaryObject({NameObject(f"/{key}"): value for key, value in entries.items()})

    system = named(
        Registry=TextStringObject("Adobe"), Ordering=TextStringObject("Identity"), Supplement=NumberObject(0)
    )
    program = DecodedStreamObject()
    program.set_data(Path(face.filename).read_bytes())
    flags = named(
        Type=NameObject("/FontDescriptor"),
        FontName=NameObject("/Tate"),
        Flags=NumberObject(4),
        FontFile2=writer._add_object(program),
    )
    inner = named(
        FontDescriptor=writer._add_object(flags), Type=NameObject("/Font"), Subtype=NameObject("/CIDFontType2"),
        BaseFont=NameObject("/Tate"), CIDSystemInfo=system, DW=NumberObject(1000), CIDToGIDMap=NameObject("/Identity"),
    )  # fmt: skip
    font = named(
        Type=NameObject("/Font"), Subtype=NameObject("/Type0"), BaseFont=NameObject("/Tate"), Encoding=NameObject("/Identity-V"),
        DescendantFonts=ArrayObject([writer._add_object(inner)]), ToUnicode=writer._add_object(mapping),
    )  # fmt: skip
    page[NameObject("/Resources")] = named(Font=named(F1=writer._add_object(font)))
    page[NameObject("/Contents")] = writer._add_object(stream)
    target = io.BytesIO()
    writer.write(target)
    assert read_bytes(target.getvalue()).text.split() == columns


def test_embedded_files_are_read_below_their_names() -> None:
    writer = PdfWriter(clone_from=io.BytesIO(pdf([["See the attachments."]])))
    writer.add_attachment("terms.pdf", pdf([["Payment within 14 days."]]))
    writer.add_attachment("prices.csv", b"Item,Price\nHeron,30 EUR\n")
    writer.add_attachment("program.exe", b"MZ\x90\x00" + bytes(100))
    target = io.BytesIO()
    writer.write(target)
    document = read_bytes(target.getvalue())
    found = {document.text[block.start : block.end]: (block.section_path, block.page) for block in document.blocks}
    assert found["Payment within 14 days."] == (("In attachment terms.pdf",), None)
    assert any("Heron | 30 EUR" in text and path[0] == ("In attachment prices.csv",) for text, path in found.items())
    assert [warning for warning in document.warnings if "program.exe is not read" in warning]


class Engine:
    """Reads the same text in every picture."""

    def SetImage(self, picture: Image.Image) -> None:  # noqa: N802
        assert max(picture.size) <= ocr.MAX_SIDE

    def SetSourceResolution(self, dots: int) -> None:  # noqa: N802
        assert dots == ocr.DOTS_PER_INCH

    def GetUTF8Text(self) -> str:  # noqa: N802
        return "Invoice 4711\nTotal 30 EUR\n"

    def MeanTextConf(self) -> int:  # noqa: N802
        return 90

    def Clear(self) -> None:  # noqa: N802
        pass


@pytest.mark.parametrize("place", ["title", "author", "outline", "attachment"])
def test_half_a_character_in_a_name_loses_no_text(place: str) -> None:
    name = "NAME00000000"
    writer = PdfWriter(clone_from=io.BytesIO(pdf([["Leave is thirty days."]])))
    if place == "outline":
        writer.add_outline_item(title=name, page_number=0)
    elif place == "attachment":
        writer.add_attachment(name, b"MZ\x90\x00" + bytes(100))
    else:
        writer.add_metadata({f"/{place.title()}": name})
    target = io.BytesIO()
    writer.write(target)
    data = target.getvalue().replace(f"/F ({name})".encode(), f"/UF({name})".encode())
    assert f"({name})".encode() in data
    document = read_bytes(data.replace(f"({name})".encode(), b"<FEFFD8350052>"))
    assert document.text.startswith("Leave is thirty days.")
    if place in ("title", "author"):
        assert (document.title if place == "title" else document.author) == "R"


def test_a_line_of_unknown_characters_loses_no_text() -> None:
    def draw(sheet: Canvas) -> None:
        sheet.setFont("Vera", 10)
        sheet.drawString(60, 700, "Leave is thirty days.")
        sheet.drawString(60, 696, "Q")

    assert read_bytes(renamed(draw, "0051", "E000")).text == "Leave is thirty days."


def test_damaged_metadata_lose_no_text_of_a_file_that_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    def unopened(*_: object) -> None:
        raise DamagedError("no header")

    def damaged(_reader: PdfReader) -> None:
        raise PdfReadError("Illegal character in Name Object")

    monkeypatch.setattr(pdf_parser, "Reader", unopened)
    monkeypatch.setattr(PdfReader, "metadata", property(damaged))
    assert read([["Leave is thirty days."]]).text == "Leave is thirty days."


@pytest.mark.parametrize("error", [DependencyError("brotli is required"), DeprecationError("/A85 is removed")])
def test_a_page_that_pypdf_refuses_loses_no_text_of_the_others(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unopened(*_: object) -> None:
        raise DamagedError("no trailer")

    def refused(page: PageObject) -> str:
        if page.page_number == 0:
            raise error
        return "It hums."

    monkeypatch.setattr(pdf_parser, "Reader", unopened)
    monkeypatch.setattr(PageObject, "extract_text", refused)
    document = read([["It clicks."], ["It hums."]])
    assert document.text == "It hums."
    assert document.warnings == ["Page 1 cannot be read."]


def layered(content: str, state: str, *names: str, inner: str = "") -> bytes:
    """Return a PDF whose content marks text as of the layers `L0`, `L1` and so on; `state`: which are on and off. It has a form, `F`."""
    layers = [f"{8 + number} 0 R" for number in range(len(names))]
    properties = "".join(f"/L{number} {layer}" for number, layer in enumerate(layers))
    resources = f"<</Font<</F1 5 0 R>>/Properties<<{properties}>>/XObject<</F 6 0 R>>>>"
    objects = [
        f"<</Type/Catalog/Pages 2 0 R/OCProperties<</OCGs[{' '.join(layers)}]/D<<{state}>>>>>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources {resources}>>",
        f"<</Length {len(content)}>>stream\n{content}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources {resources}/Length {len(inner)}>>stream\n{inner}\nendstream",
        "null",
        *(f"<</Type/OCG/Name({name})>>" for name in names),
    ]
    data, places = "%PDF-1.7\n", list[int]()
    for number, one in enumerate(objects, start=1):
        places.append(len(data))
        data += f"{number} 0 obj\n{one}\nendobj\n"
    entries = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    data += f"xref\n0 {size}\n0000000000 65535 f \n{entries}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{data.rindex('endobj') + 7}\n"
    return f"{data}%%EOF".encode()


def string(words: str, height: int) -> str:
    return f"BT /F1 12 Tf 72 {height} Td ({words}) Tj ET"


def in_layer(content: str, layer: int = 0) -> str:
    return f"/OC /L{layer} BDC {content} EMC "


SHOWN, SECRET = string("Shown.", 700), string("secret", 680)


@pytest.mark.parametrize(
    ("content", "inner", "state", "names"),
    [
        pytest.param(SHOWN + in_layer(SECRET), "", "/OFF[8 0 R]", ["Internal"], id="off"),
        pytest.param(
            in_layer(SHOWN, 1) + in_layer(SECRET), "", "/BaseState/OFF/ON[9 0 R]", ["Internal", "Public"], id="base"
        ),
        pytest.param(
            in_layer(SHOWN, 1) + in_layer("/P <</MCID 0>> BDC " + SECRET + " EMC"),
            "",
            "/OFF[8 0 R]",
            ["In", "Out"],
            id="tag",
        ),
        pytest.param(SHOWN + in_layer("/F Do"), SECRET, "/OFF[8 0 R]", ["Internal"], id="form"),
        pytest.param(SHOWN + "/F Do ", in_layer(SECRET), "/OFF[8 0 R]", ["Internal"], id="in a form"),
    ],
)
def test_layers_that_are_switched_off_are_not_indexed(content: str, inner: str, state: str, names: list[str]) -> None:
    document = read_bytes(layered(content, state, *names, inner=inner))
    assert document.text == "Shown."
    assert document.warnings == ["The PDF has hidden layers that are not indexed."]


@pytest.mark.parametrize(
    ("state", "names"),
    [("", ["One"]), ("/OFF[9 0 R]", ["One", "Two"]), ("/OFF[9 0 R]", ["One", "One"]), ("/OFF 7", ["One"])],
)
def test_layers_that_are_shown_are_indexed(state: str, names: list[str]) -> None:
    document = read_bytes(layered(in_layer(SHOWN), state, *names))
    assert (document.text, document.warnings) == ("Shown.", [])


def test_text_in_hidden_layers_alone_is_no_text() -> None:
    with pytest.raises(SkipDocumentError, match="holds no text"):
        read_bytes(layered(in_layer(SECRET), "/OFF[8 0 R]", "Internal"))


def with_a_scan(sheet: Canvas) -> None:
    sheet.drawString(60, 700, "The first page has text.")
    sheet.showPage()
    scanned(sheet)
    sheet.drawString(60, 700, "The last one, too.")


def test_scanned_pages_are_read_where_text_recognition_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_parser, "languages", lambda: ("eng",))
    monkeypatch.setattr(ocr, "_engine", Engine)
    document = read_bytes(drawn(with_a_scan))
    assert page_text(document, 2) == f"{ocr.READ}\nInvoice 4711\nTotal 30 EUR"
    assert document.warnings == []


def stamped(sheet: Canvas, side: int = 595, stamp: str = "Envelope ID: 7A1B-44", mode: int = 0) -> None:
    sheet.drawImage(ImageReader(Image.new("L", (40, 40), 255)), 0, 0, side, side)
    sheet.drawString(20, 830, stamp, mode=mode)
    sheet.showPage()


def test_a_scan_with_a_stamp_is_recognised_and_keeps_its_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_parser, "languages", lambda: ("eng",))
    monkeypatch.setattr(ocr, "_engine", Engine)
    document = read_bytes(drawn(stamped))
    assert blocks(document) == ["Envelope ID: 7A1B-44", ocr.READ, "Invoice 4711\nTotal 30 EUR"]
    assert document.warnings == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("Our INVOICE: 4711", ["Our INVOICE: 4711", ocr.READ, "Total 30 EUR"], id="some of it"),
        pytest.param("Total 30 EUR, invoice 4711", ["Total 30 EUR, invoice 4711"], id="all of it"),
    ],
)
def test_text_above_a_picture_of_the_page_is_read_once(
    words: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf_parser, "languages", lambda: ("eng",))
    monkeypatch.setattr(ocr, "_engine", Engine)
    document = read_bytes(drawn(partial(stamped, stamp=words)))
    assert (blocks(document), document.warnings) == (expected, [])


def test_pages_without_text_are_recognised_before_those_with_some(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(sheet: Canvas) -> None:
        stamped(sheet)
        scanned(sheet)

    monkeypatch.setattr(pdf_parser, "languages", lambda: ("eng",))
    monkeypatch.setattr(ocr, "_engine", Engine)
    monkeypatch.setattr(ocr.Recogniser, "has_time", property(lambda one: not vars(one).setdefault("read", False)))
    drafts = ocr.Recogniser.drafts

    def once(recogniser: ocr.Recogniser, picture: Any, page: int | None = None) -> Any:
        vars(recogniser)["read"] = True
        return drafts(recogniser, picture, page)

    monkeypatch.setattr(ocr.Recogniser, "drafts", once)
    document = read_bytes(drawn(draw))
    assert page_text(document, 2) == f"{ocr.READ}\nInvoice 4711\nTotal 30 EUR"
    assert document.warnings == ["Page 1 shows a picture whose text, if any, is not read."]


@pytest.mark.parametrize(
    ("page", "warnings"),
    [
        pytest.param({}, ["Page 1 shows a picture whose text, if any, is not read."], id="stamp"),
        pytest.param({"side": 200}, [], id="logo"),
        pytest.param({"stamp": "What it says. " * 20}, [], id="text above a picture"),
        pytest.param({"mode": 3}, [], id="recognised before"),
    ],
)
def test_a_picture_of_a_page_is_named(
    page: dict[str, Any], warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf_parser, "languages", tuple[str, ...])
    assert read_bytes(drawn(partial(stamped, **page))).warnings == warnings


def test_a_scan_in_a_form_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(sheet: Canvas) -> None:
        sheet.beginForm("scan")
        sheet.drawImage(ImageReader(Image.new("L", (40, 40), 255)), 0, 0, 100, 100)
        sheet.endForm()
        sheet.saveState()
        sheet.scale(6, 6)
        sheet.doForm("scan")
        sheet.restoreState()
        sheet.drawString(20, 830, "Bates 000123")

    monkeypatch.setattr(pdf_parser, "languages", tuple[str, ...])
    assert read_bytes(drawn(draw)).warnings == ["Page 1 shows a picture whose text, if any, is not read."]


def test_pages_beyond_the_time_of_text_recognition_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_parser, "languages", lambda: ("eng",))
    monkeypatch.setattr(ocr, "MAX_SECONDS", 0.0)
    assert read_bytes(drawn(with_a_scan)).warnings == ["Page 2 holds no text."]


def test_text_outside_the_crop_box_is_not_indexed() -> None:
    """A sheet that is split into two pages has the text of both in each."""

    def spread(canvas: Canvas) -> None:
        for left in (0, 300):
            canvas.setCropBox((left, 0, left + 300, 800), name="crop")
            canvas.drawString(40, 700, "Left page: the term is one year.")
            canvas.drawString(340, 700, "Right page: the term is two years.")
            canvas.showPage()

    document = read_bytes(drawn(spread))
    assert page_text(document, 1) == "Left page: the term is one year."
    assert page_text(document, 2) == "Right page: the term is two years."


def test_a_slanting_watermark_is_no_heading() -> None:
    def marked(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        for row in range(30):
            canvas.drawString(60, 760 - 14 * row, f"Clause {row} names what either side has to do within a month.")
        canvas.setFont("Helvetica", 60)
        canvas.translate(200, 300)
        canvas.rotate(45)
        canvas.drawString(0, 0, "DRAFT")

    assert not [block for block in read_bytes(drawn(marked)).blocks if block.kind == "heading"]


@pytest.mark.parametrize("box", ["612 792 0 0", "0 792 612 0", "0 0 0 0", "0 0 612", "900 900 990 990"])
def test_an_odd_crop_box_loses_no_text(box: str) -> None:
    def two(canvas: Canvas) -> None:
        for number in (1, 2):
            canvas.setPageSize((612, 792))
            canvas.setCropBox((11, 22, 333, 444), name="crop")
            canvas.drawString(72, 700, f"Text of page {number}.")
            canvas.showPage()

    data = drawn(two)
    odd = re.sub(rb"/CropBox \[[^\]]*\]", lambda match: f"/CropBox [ {box} ]".encode().ljust(len(match.group())), data)
    assert odd != data
    document = read_bytes(odd)
    assert [page_text(document, page) for page in (1, 2)] == ["Text of page 1.", "Text of page 2."]
