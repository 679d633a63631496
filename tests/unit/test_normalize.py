"""Normalisation: idempotent, without unsearchable characters, with correct offsets."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.stages.identify import own_title
from assets.stages.normalize import BlockDraft, assemble, clean, dehyphenate, squeeze
from assets.stages.sentences import starts

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
KINDS = st.sampled_from(["heading", "paragraph", "list", "table", "code"])


@given(ANY_TEXT)
def test_clean_text_is_stable_storable_and_composed(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert "\x00" not in cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    assert not {"\r", "\v", "\f", "\u2028"} & set(cleaned)


@given(ANY_TEXT)
def test_squeezing_twice_changes_nothing(text: str) -> None:
    squeezed = squeeze(clean(text))
    assert squeeze(squeezed) == squeezed
    assert "".join(squeezed.split()) == "".join(clean(text).split())


@given(st.lists(st.builds(BlockDraft, kind=KINDS, text=ANY_TEXT, level=st.integers(1, 6)), max_size=12))
def test_blocks_lie_in_order_and_hold_all_of_the_text(drafts: list[BlockDraft]) -> None:
    text, blocks = assemble(drafts)
    position = 0
    for block in blocks:
        assert text[position : block.start] == ("\n\n" if position else "")
        assert text[block.start : block.end].strip()
        position = block.end
    assert position == len(text)


def test_sections_nest_by_level() -> None:
    drafts = [
        BlockDraft(kind="heading", text=name, level=level)
        for name, level in (("A", 1), ("B", 2), ("C", 3), ("D", 2), ("E", 1))
    ]
    _, blocks = assemble(drafts)
    assert [block.section_path for block in blocks] == [(), ("A",), ("A", "B"), ("A",), ()]


def test_a_heading_without_text_ends_the_sections_of_its_level() -> None:
    names = (("A", 1), ("B", 2), ("", 2), ("", 1))
    drafts = [
        draft
        for name, level in names
        for draft in (BlockDraft(kind="heading", text=name, level=level), BlockDraft(kind="paragraph", text="x"))
    ]
    _, blocks = assemble(drafts)
    paths = [block.section_path for block in blocks if block.kind == "paragraph"]
    assert paths == [("A",), ("A", "B"), ("A",), ()]


def test_dehyphenation_keeps_hyphens_that_the_text_uses() -> None:
    assert dehyphenate("exam-\nple") == "example"
    assert dehyphenate("a well-known fact; well-\n  known") == "a well-known fact; well-known"
    assert dehyphenate("Vor-\nund Nachteile, pre-\nand post-merger") == "Vor- und Nachteile, pre- and post-merger"
    assert dehyphenate("the state-\nof-the-art pump") == "the state-of-the-art pump"
    assert dehyphenate("a thous-\nand of a thousand") == "a thousand of a thousand"
    assert dehyphenate("Anglo-\nSaxon and 3-\n4 and x -\ny") == "Anglo-Saxon and 3-\n4 and x -\ny"


@given(st.text('aB .!?\n"é。', max_size=200))
def test_sentence_starts_ascend_from_the_first_character(text: str) -> None:
    found = starts(text)
    assert found == sorted(set(found))
    assert found[:1] == ([0] if text else [])
    assert all(start < len(text) for start in found)


def test_abbreviations_end_no_sentence() -> None:
    text = "Dr. Smith paid $3.50 to J. R. Tolkien Inc. for it. See Fig. 3. Yes!"
    cuts = starts(text)
    assert [text[first:last].strip() for first, last in zip(cuts, [*cuts[1:], None], strict=True)] == [
        "Dr. Smith paid $3.50 to J. R. Tolkien Inc. for it.",
        "See Fig. 3.",
        "Yes!",
    ]


def test_titles_and_names_of_sheets_are_clean() -> None:
    assert own_title("Plan\0 of the \ud83dherons") == "Plan of the herons"
    (block,) = assemble([BlockDraft(kind="paragraph", text="Herons", sheet="Plan\0\ud83d")])[1]
    assert block.sheet == "Plan"


@pytest.mark.parametrize(
    "title",
    [
        "PowerPoint Presentation", "PowerPoint-Präsentation", "Présentation PowerPoint", "Presentación de PowerPoint",
        "Presentazione standard di PowerPoint", "Apresentação do PowerPoint", "Презентация PowerPoint", "PowerPoint プレゼンテーション",
        "Untitled", "untitled-1", "Untitled document", "(anonymous)", "Unspecified", "Microsoft Word - plan", "Folie 1", "plan.docx",
    ],
)  # fmt: skip
def test_what_a_program_filled_in_is_no_title(title: str) -> None:
    assert own_title(title) is None


@pytest.mark.parametrize(
    "title", ["PowerPoint for teachers", "Presentation of results", "Untitled masterpieces", "Anonymous tips"]
)
def test_a_title_may_begin_like_one_that_a_program_filled_in(title: str) -> None:
    assert own_title(title) == title
