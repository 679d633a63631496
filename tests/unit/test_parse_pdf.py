"""Text of PDFs, made by the tests: nothing that a reader sees is lost."""

from __future__ import annotations

import io

import pytest
from reportlab.pdfgen import canvas

from assets.stages.parse import parse
from assets.stages.parse.running import running_lines
from resources.core.domain import ParsedDocument

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def pdf(pages: list[list[str]]) -> bytes:
    target = io.BytesIO()
    sheet = canvas.Canvas(target)
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
        pytest.param([f"Acme 2024 | Seite {number} von 8" for number in range(1, 9)], id="words"),
    ],
)
def test_page_numbers_go(numbers: list[str]) -> None:
    pages = [
        [f"This is the text of {word}", f"and more about {word}", number]
        for word, number in zip(WORDS, numbers, strict=False)
    ]
    assert running_lines(pages) == [frozenset({2})] * 8


def test_a_line_inside_of_content_stays() -> None:
    pages = [[f"Chapter {word}", "always the same", f"text about {word}"] for word in WORDS]
    assert running_lines(pages) == [frozenset()] * len(pages)
