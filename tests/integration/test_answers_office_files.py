"""Questions about files as offices keep them, answered in quotes: the quote holds the figure, and its citation leads to its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

from assets.stages.parse import ocr
from resources.core.domain import SourceName
from tests.fixtures import papers
from tests.fixtures.desk import ADA, Desk

FILES = {
    "invoices-march.pdf": papers.invoices,
    "registration.pdf": papers.form,
    "resale-prices.xlsx": papers.price_list,
    "maintenance-agreement.docx": papers.contract,
    "stations.html": papers.wiki_page,
    "delivery.pdf": papers.scan,
}


class Asked(NamedTuple):
    """A question, the file that answers it, what the first quote holds, and its page or the heading above it."""

    question: str
    file: str
    phrase: str
    page: int | None = None
    heading: str | None = None


QUESTIONS = (
    Asked("What is the amount due of invoice 1003?", "invoices-march.pdf", "Amount due: 1,347.50 EUR", page=3),
    Asked("How much does Quarry Ford Mill have to pay?", "invoices-march.pdf", "Amount due: 1,347.50 EUR", page=3),
    Asked("Which meals did Ana Ruiz choose for the summer school?", "registration.pdf", "☒ vegetarian ☐ vegan", page=1),
    *(
        Asked(
            f"What is the margin of the {item}?",
            "resale-prices.xlsx",
            f"Product | Price | Margin | Valid from: {item} | {price} | {margin} | 2026-07-01",
            heading="Resale",
        )
        for item, price, margin in (("Heron gauge", "990.00 €", "18.50 %"), ("Dipper probe", "415.80 €", "2.50 %"))
    ),
    Asked(
        "Up to which amount is the supplier liable?",
        "maintenance-agreement.docx",
        "The supplier is liable up to 750,000 EUR for each event.",
        heading="Liability",
    ),
    Asked(
        "With how much notice can the maintenance agreement be ended?",
        "maintenance-agreement.docx",
        "Either side may end the agreement with three months of notice.",
        heading="Notice",
    ),
    Asked("Who keeps the station Quarry Ford?", "stations.html", "Quarry Ford | Ben Ito | Thursday", heading="Visits"),
)
SCANNED = Asked("What was broken when the parcel arrived?", "delivery.pdf", "seal of the parcel was broken", page=2)


@pytest.fixture
def office(desk: Desk) -> Desk:
    for name, make in FILES.items():
        desk.installation.write(name, make())
    assert desk.installation.sync().counts.synced == len(FILES)
    return desk


def ask(desk: Desk, asked: Asked, tell: Callable[[str], None]) -> None:
    """Ask, and fail unless the first quote is from the file, holds the phrase, and is marked in its place on the document's page."""
    response = desk.running.request("POST", "/api/ask", ADA, json={"query": asked.question})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    tell(f"{asked.question}\n  {answer['answer'].splitlines()[0]}")
    assert (answer["found"], answer["mode"]) == (True, "extractive")
    first = answer["sentences"][0]["text"]
    assert asked.phrase in first
    quote = answer["quotes"][0]
    source = answer["sources"][quote["source"] - 1]
    assert (source["path"], quote["page"]) == (asked.file, asked.page)

    link = urlsplit(source["citation"]["link"])
    assert link.fragment == "place"
    page = desk.running.request("GET", f"{link.path}?{link.query}", ADA)
    assert page.status_code == 200, page.text
    place, marked = where(LexborHTMLParser(page.text))
    assert letters(marked) in letters(first)
    assert letters(asked.phrase.rpartition(": ")[2]) in letters(marked)  # of a table, the row is marked
    assert place == (f"Page {asked.page}" if asked.page else asked.heading)


def where(page: LexborHTMLParser) -> tuple[str | None, str]:
    """Return the page number or heading that is next above the quote, and all that is marked as quoted."""
    above, parts = None, []
    for node in page.css("h2, h3, h4, p.page, mark.quote"):
        if node.tag == "mark":
            parts.append(node.text())
        elif not parts:
            above = node.text().strip()
    return above, " ".join(parts)


def letters(text: str) -> str:
    return re.sub(r"[^a-z0-9☒☐%]", "", text.casefold())


def ask_all(desk: Desk, questions: Iterable[Asked], show: Callable[[str], None], subtests: pytest.Subtests) -> None:
    printed: list[str] = []
    for asked in questions:
        with subtests.test(asked.question):
            ask(desk, asked, printed.append)
    show("\n".join(printed))


def test_figures_of_office_files_are_quoted_from_their_place(
    office: Desk, show: Callable[[str], None], subtests: pytest.Subtests
) -> None:
    ask_all(office, QUESTIONS, show, subtests)


@pytest.mark.skipif(not ocr.languages(), reason="text recognition is not installed; make setup OCR=1 installs it")
def test_the_text_of_a_scanned_page_is_quoted_from_its_page(
    office: Desk, show: Callable[[str], None], subtests: pytest.Subtests
) -> None:
    ask_all(office, [SCANNED], show, subtests)


@pytest.mark.skipif(bool(ocr.languages()), reason="text recognition is installed")
def test_without_text_recognition_the_scanned_page_is_named(office: Desk) -> None:
    (row,) = office.installation.rows(
        "SELECT notes FROM documents WHERE source = %s AND source_id = 'docs/delivery.pdf'", SourceName.FILES.value
    )
    assert [note["text"] for note in row["notes"]] == ["Page 2 holds no text."]
