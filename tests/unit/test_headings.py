"""Names of files that say nothing, and the headings that stand in for them."""

import pytest

from assets.stages.headings import document_title, first_heading, says_nothing
from assets.stages.parse import parse

EMPTY = [
    "README.md", "readme", "index.html", "document1.docx", "Document (2).docx", "New Microsoft Word Document.docx", "scan_0001.pdf",
    "Scan 2024-03-12 14.22.01.pdf", "IMG_20240101_123456.jpg", "DSC00012.JPG", "Untitled.pptx", "Untitled document", "Presentation1.pptx",
    "Book1.xlsx", "Mappe1.xlsx", "20240312.pdf", "4711.pdf", "download (3).pdf", "export.csv", "Screenshot 2024-01-01 at 10.11.12.png",
    "9f86d081884c7d659a2feaa0c55ad015.pdf", "3f9d3c1e-8a55-4c7a-9d0e-5b1f0a2c4d6e.html", "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms",
    "Copy of Untitled document.docx", "CCF_000123.pdf", "default.htm", "page-12.md", "",
]  # fmt: skip
TELLING = [
    "firmware-release-notes.txt", "budget_2026-final.xlsx", "CHANGELOG.md", "LICENSE", "time-off.md", "Q4 Strategy Doc.docx", "facade.pdf",
    "scan of the lease.pdf", "README-postgres.md", "incident-2026-02.md", "H-32077.pdf", "Übersicht.docx", "予算.xlsx",
    "invoice 4711.pdf", "PKZ-0821.pdf",
]  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_names_that_programs_and_devices_give_say_nothing(name: str) -> None:
    assert says_nothing(name)


@pytest.mark.parametrize("name", TELLING)
def test_names_that_people_give_say_something(name: str) -> None:
    assert not says_nothing(name)


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("# Pump care\n\nOil it.", "Pump care"),
        ("Some words first.\n\n## **Pump** care ##\n\nOil it.", "Pump care"),
        ("# README\n\n## Pump care\n\nOil it.", "Pump care"),
        ("# Contents\n\n# 2024\n\n# Pump care\n\nOil it.", "Pump care"),
        ("No heading at all.", None),
        ("# Untitled\n\nOil it.", None),
    ],
)
def test_the_first_heading_that_says_something(text: str, heading: str | None) -> None:
    assert first_heading(parse(text.encode(), "text/markdown", title="README.md")) == heading


def test_what_a_title_is_taken_from() -> None:
    assert document_title("README.md", "Own", "Heading") == "Own"
    assert document_title("README.md", None, "Heading") == "Heading"
    assert document_title("budget.md", None, "Heading") is None
    assert document_title("README.md", None, None) is None
