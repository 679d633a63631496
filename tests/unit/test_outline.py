"""The outline and the pages of a document, and where its page shows them."""

from serving.documents.html import headings, render
from serving.documents.outline import Heading, outline, page_starts
from sql.serving_rows import ChunkText, SectionStart


def chunk(index: int, start: int, page: int | None = None, *places: tuple[int, int | None]) -> ChunkText:
    return ChunkText(
        chunk_index=index,
        start_char=start,
        end_char=start + 10,
        section_path=[],
        anchor=None,
        page_start=page,
        page_end=page,
        chunk_text="x" * 10,
        places=[{"start_char": at, "page": number, "anchor": None, "section_path": []} for at, number in places],
    )


def test_the_outline_names_each_heading_where_its_section_begins() -> None:
    sections = [
        (0, []),
        (5, ["Travel", "By plane"]),
        (20, ["Travel", "By train"]),
        (30, ["Food"]),
        (40, ["Food", "By train"]),
    ]
    assert outline([SectionStart(start, path) for start, path in sections]) == [
        Heading(1, "Travel", 5),
        Heading(2, "By plane", 5),
        Heading(2, "By train", 20),
        Heading(1, "Food", 30),
        Heading(2, "By train", 40),
    ]
    assert outline([]) == []


def test_pages_begin_where_a_later_one_is_named_first() -> None:
    chunks = [chunk(0, 0, 1), chunk(1, 8, 1, (8, 1), (15, 2)), chunk(2, 14, 2), chunk(3, 24, 3), chunk(4, 34)]
    assert page_starts(chunks) == {0: 1, 15: 2, 24: 3}


def test_signs_stand_before_the_block_that_they_belong_to() -> None:
    text = "Travel\n\nBook early.\n\nFood"
    signs = {8: "<i>b</i>", 0: "<i>a</i>", 25: "<i>d</i>", 12: "<i>c</i>"}
    assert render(text, headings([["Travel"]]), signs=signs) == (
        "<i>a</i><h2>Travel</h2><i>b</i><i>c</i><p>Book early.</p><p>Food</p>"
    )
