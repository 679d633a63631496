"""Chunking: no chunk exceeds the window, no text is lost, and splits follow natural boundaries."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.stages.chunk import chunk
from assets.stages.measure import PART, PIECE, Measure
from assets.stages.normalize import BlockDraft, assemble
from assets.stages.parse import parse
from assets.stages.profiles import CHUNKING_VERSION, PROFILES, Profile, resolve
from resources.core.domain import Chunk, ParsedDocument
from resources.core.errors import ConfigurationError
from resources.embedding import tokenizer

TOKENS = tokenizer()
AUTO = resolve("auto", 256)
WORDS = st.text("abcdefghij XYZ.,!?-\té漢😀ก각\u0301", max_size=80)
LONG = st.builds(
    lambda word, times: word * times, st.text("ab,漢각😀ก \t", min_size=1, max_size=4), st.integers(1, 300)
)
DRAFTS = st.lists(
    st.builds(
        BlockDraft,
        kind=st.sampled_from(["heading", "paragraph", "list", "table", "code"]),
        text=st.one_of(WORDS, LONG, st.lists(WORDS, max_size=6).map("\n".join)),
        level=st.integers(1, 3),
        page=st.integers(1, 3),
        row_start=st.sampled_from([None, 0, 7]),
    ),
    max_size=10,
)
SIZES = st.sampled_from([resolve("auto", 8), resolve("auto", 24), resolve("auto", 64), resolve("e2000", 512)])


def document_of(drafts: list[BlockDraft]) -> ParsedDocument:
    text, blocks = assemble(drafts)
    return ParsedDocument(text=text, blocks=blocks)


def assert_sound(document: ParsedDocument, chunks: list[Chunk], profile: Profile) -> None:
    covered = 0
    for index, item in enumerate(chunks):
        assert item.chunk_index == index
        assert item.text == document.text[item.start_char : item.end_char]
        assert item.text.strip() == item.text or document.text[item.start_char] != "\n"
        assert item.tokens == TOKENS.count(item.text)
        assert item.tokens <= profile.limit
        assert len(item.text) <= profile.characters
        assert not document.text[covered : item.start_char].strip()
        assert item.end_char > covered
        covered = item.end_char
    assert not document.text[covered:].strip()


@settings(max_examples=150)
@given(DRAFTS, SIZES)
def test_every_chunk_fits_and_nothing_is_lost(drafts: list[BlockDraft], profile: Profile) -> None:
    document = document_of(drafts)
    chunks = chunk(document, TOKENS, profile)
    assert_sound(document, chunks, profile)
    assert chunks == chunk(document, TOKENS, profile)


@settings(max_examples=100)
@given(st.text("ab .,漢😀ก각é\u0301-\n", max_size=200), st.data())
def test_counts_are_exact_where_words_part(text: str, data: st.DataObject) -> None:
    measure = Measure(text, TOKENS)
    places = [place for place in range(len(text) + 1) if measure.parts(place)]
    start, end = sorted((data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))))
    exact = TOKENS.count(text[start:end])
    assert measure.tokens(start, end) == exact
    assert measure.weight(start, end) >= exact


SENTENCES = [f"This is sentence number {number} of a text that goes on for a while." for number in range(120)]


def test_prose_is_cut_between_sentences_with_overlap() -> None:
    document = document_of([BlockDraft(kind="paragraph", text=" ".join(SENTENCES))])
    chunks = chunk(document, TOKENS, AUTO)
    assert len(chunks) > 3
    assert_sound(document, chunks, AUTO)
    for item in chunks:
        assert item.text.startswith("This is sentence")
        assert item.text.endswith("a while.")
    for before, after in pairwise(chunks):
        shared = before.end_char - after.start_char
        assert shared > 0 or after is chunks[-1]
        assert TOKENS.count(document.text[after.start_char : before.end_char]) <= AUTO.overlap


def test_headings_stay_with_what_follows_and_name_the_section() -> None:
    source = "\n\n".join(f"## Part {number}\n\n{' '.join(SENTENCES[:12])}" for number in range(5))
    document = parse(f"# Book\n\n{source}".encode(), "text/markdown", title="x")
    chunks = chunk(document, TOKENS, AUTO)
    assert [item.section_path for item in chunks] == [("Book", f"Part {number}") for number in range(5)]
    assert [item.anchor for item in chunks] == [f"part-{number}" for number in range(5)]
    assert chunks[0].text.startswith("Book\n\nPart 0\n\nThis")
    assert all(item.text.endswith("while.") for item in chunks)


def test_small_sections_share_a_chunk_and_a_small_last_one_joins_its_neighbour() -> None:
    source = "\n\n".join(f"## Part {number}\n\nA few words." for number in range(6))
    document = parse(source.encode(), "text/markdown", title="x")
    assert len(chunk(document, TOKENS, AUTO)) == 1
    tail = parse(f"{' '.join(SENTENCES[:12])}\n\n## End\n\nBye.".encode(), "text/markdown", title="x")
    assert len(chunk(tail, TOKENS, AUTO)) == 1


def test_a_small_rest_takes_sentences_from_its_neighbour() -> None:
    for count in range(14, 40):
        document = document_of([BlockDraft(kind="paragraph", text=" ".join(SENTENCES[:count]))])
        chunks = chunk(document, TOKENS, AUTO)
        assert_sound(document, chunks, AUTO)
        assert len(chunks) == 1 or chunks[-1].tokens >= AUTO.minimum


def test_tables_and_code_are_whole_where_they_fit() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(20))
    source = f"{' '.join(SENTENCES[:11])}\n\n```\n{code}\n```\n\nAfter."
    document = parse(source.encode(), "text/markdown", title="x")
    assert sum(code in item.text for item in chunk(document, TOKENS, AUTO)) == 1


def test_isolated_tables_share_a_chunk_with_their_heading_alone() -> None:
    source = f"Before it.\n\n## Prices\n\n| Item | Price |\n|---|---|\n| Tea | 2 |\n\n{SENTENCES[0]}"
    document = parse(source.encode(), "text/markdown", title="x")
    chunks = chunk(document, TOKENS, resolve("b1000", 8191))
    assert [item.text for item in chunks] == ["Before it.", "Prices\n\nItem | Price\nTea | 2", SENTENCES[0]]
    assert [item.is_table for item in chunks] == [False, True, False]


def test_csv_chunks_know_their_rows_and_start_with_the_header() -> None:
    rows = "\n".join(f"person {number},town {number}" for number in range(1, 301))
    document = parse(f"name,city\n{rows}".encode(), "text/csv", title="x")
    chunks = chunk(document, TOKENS, AUTO)
    assert_sound(document, chunks, AUTO)
    expected = 1
    for item in chunks:
        assert item.is_table
        assert item.text.startswith("name | city")
        assert item.row_start == expected
        assert f"person {item.row_start} | town {item.row_start}" in item.text
        assert item.row_end is not None
        assert item.text.endswith(f"person {item.row_end} | town {item.row_end}")
        expected = item.row_end + 1
    assert expected == 301


def test_pages_span_the_chunk() -> None:
    document = document_of([BlockDraft(kind="paragraph", text=SENTENCES[page], page=page) for page in (1, 2, 3)])
    (item,) = chunk(document, TOKENS, AUTO)
    assert (item.page_start, item.page_end) == (1, 3)


LINES = [f"Line {number} of this page tells a little more of the very same thing." for number in range(60)]


def paged(*pages: list[str]) -> ParsedDocument:
    return document_of(
        [BlockDraft(kind="paragraph", text=" ".join(page), page=n) for n, page in enumerate(pages, start=1)]
    )


def test_a_page_ends_a_chunk_that_has_the_minimum() -> None:
    chunks = chunk(paged(LINES[:8], LINES[8:16], LINES[16:24]), TOKENS, AUTO)
    assert [(item.page_start, item.page_end, item.places) for item in chunks] == [(1, 1, ()), (2, 2, ()), (3, 3, ())]
    short = chunk(paged(LINES[:2], LINES[2:4], LINES[4:12]), TOKENS, AUTO)
    assert [(item.page_start, item.page_end) for item in short] == [(1, 3)]


def test_a_sentence_that_runs_on_over_the_page_keeps_its_chunk() -> None:
    document = paged([*LINES[:8], "The rent is due"], ["on the third of each month.", *LINES[8:10]])
    (item,) = chunk(document, TOKENS, AUTO)
    assert "is due\n\non the third" in item.text
    assert [(place.page, document.text[place.start_char :][:8]) for place in item.places] == [
        (1, "Line 0 o"),
        (2, "on the t"),
    ]


def test_profiles_that_ignore_headings_ignore_pages() -> None:
    profile = resolve("b1000", 8191)
    (item,) = chunk(paged(LINES[:12], LINES[12:24]), TOKENS, profile)
    assert [place.page for place in item.places] == [1, 2]


def test_a_chunk_of_several_sections_knows_where_each_begins() -> None:
    source = "# Book\n\n## Opening hours\n\nWe open at nine.\n\n## Parking\n\nBehind the house.\n\nIt is free."
    document = parse(source.encode(), "text/markdown", title="x")
    (item,) = chunk(document, TOKENS, AUTO)
    assert (item.section_path, item.anchor) == (("Book", "Opening hours"), "opening-hours")
    assert [(place.start_char, place.anchor, place.section_path) for place in item.places] == [
        (0, "opening-hours", ("Book", "Opening hours")),
        (document.text.index("Parking"), "parking", ("Book", "Parking")),
    ]


@settings(max_examples=60)
@given(DRAFTS, SIZES)
def test_places_are_in_order_and_each_differs_from_the_one_before(drafts: list[BlockDraft], profile: Profile) -> None:
    for item in chunk(document_of(drafts), TOKENS, profile):
        assert len(item.places) != 1
        assert not item.places or item.places[0].start_char == item.start_char
        for before, after in pairwise(item.places):
            assert before.start_char < after.start_char < item.end_char
            assert (before.page, before.anchor, before.section_path) != (after.page, after.anchor, after.section_path)


def test_hash_ignores_white_space() -> None:
    first, second = (document_of([BlockDraft(kind="code", text=text)]) for text in ("a  b\nc", "a b c"))
    assert chunk(first, TOKENS, AUTO)[0].text_hash == chunk(second, TOKENS, AUTO)[0].text_hash


@pytest.mark.parametrize(
    "text",
    [
        " ".join(SENTENCES * 250),
        "x" * 1_000_000,
        "abc def, " * 60_000,
        "一二三四五。" * 30_000,
        "각" * 50_000,
        "😀" * 50_000,
    ],
    ids=["2 MB of prose", "1 MB word", "no sentence end", "Chinese", "Korean", "emoji"],
)
def test_large_texts_are_cut_recursively(text: str) -> None:
    document = parse(text.encode(), "text/plain", title="x")
    assert_sound(document, chunk(document, TOKENS, AUTO), AUTO)


@pytest.mark.parametrize("kind", ["list", "code"])
@pytest.mark.parametrize("blank", [" ", "\t", "\n", " \t", "\n\t"])
def test_white_space_makes_no_passage_large(kind: Literal["list", "code"], blank: str) -> None:
    document = document_of([BlockDraft(kind=kind, text=f"- a = 1{blank * 50_000}b = 2{blank * 3_000}c")])
    chunks = chunk(document, TOKENS, AUTO)
    assert_sound(document, chunks, AUTO)
    assert "".join("".join(item.text.split()) for item in chunks) == "-a=1b=2c"


UNKNOWN = {
    "Thai": "พนักงานทุกคนมีสิทธิลาพักร้อนสามสิบวันต่อปี ต้องแจ้งล่วงหน้าสองสัปดาห์ ",
    "Lao": "ພະນັກງານທຸກຄົນມີສິດພັກຜ່ອນສາມສິບວັນຕໍ່ປີ ຕ້ອງແຈ້ງລ່ວງໜ້າສອງອາທິດ ",
    "Khmer": "បុគ្គលិកគ្រប់រូបមានសិទ្ធិឈប់សម្រាកសាមសិបថ្ងៃក្នុងមួយឆ្នាំ។ ",
    "Burmese": "ဝန်ထမ်းတိုင်းသည် တစ်နှစ်လျှင် ခွင့်ရက်သုံးဆယ် ခံစားခွင့်ရှိသည်။ ",
    "Amharic": "እያንዳንዱ ሰራተኛ በዓመት የሰላሳ ቀናት የዓመት ዕረፍት የማግኘት መብት አለው። ",
    "of more than a hundred letters": "ພະນັກງານ" * 20 + " ",
}


@pytest.mark.parametrize("language", UNKNOWN)
@pytest.mark.parametrize("name", ["auto", "d1000"])
def test_words_that_the_tokenizer_does_not_know_count_by_their_length(language: str, name: str) -> None:
    profile = resolve(name, 8191)
    document = parse((UNKNOWN[language] * 400).encode(), "text/plain", title="x")
    chunks = chunk(document, TOKENS, profile)
    assert_sound(document, chunks, profile)
    assert max(len("".join(item.text.split()).encode()) for item in chunks) <= 5 * profile.limit


@pytest.mark.parametrize(
    "text",
    [
        "Every employee is entitled to thirty days of annual leave; telecommunications allowances are uncharacteristically high.",
        "Jede Mitarbeiterin hat Anspruch auf dreißig Tage Jahresurlaub – die Geschäftsführung genehmigt „Überstundenausgleich“.",
        "每位员工每年享有三十天年假。須提前兩週申請；特殊情況由總經理批准：😀 ✓ → •",
        "Каждый сотрудник имеет право на отпуск.",
    ],
    ids=["English", "German", "Chinese", "Russian"],
)
def test_other_words_count_as_their_tokens(text: str) -> None:
    measure = Measure(text, TOKENS)
    assert measure.weight(0, len(text)) == measure.tokens(0, len(text)) == TOKENS.count(text)


def test_a_profile_of_ones_own() -> None:
    profile = resolve("200/20/50", 256)
    assert (profile.size, profile.overlap, profile.minimum, profile.limit) == (200, 20, 50, 200)
    assert profile.version == f"{CHUNKING_VERSION}-200/20/50-200"
    with pytest.raises(ConfigurationError, match="the embedding model sees 254"):
        resolve("255/0/0", 256)


@pytest.mark.parametrize("name", ["15/0/0", "100/51/0", "100/0/101"])
def test_a_profile_out_of_bounds_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="Write SIZE/OVERLAP/MINIMUM"):
        resolve(name, 512)


def test_profiles_follow_the_window() -> None:
    assert (AUTO.size, AUTO.overlap, AUTO.version) == (254, 25, "c3-auto-254")
    assert resolve("auto", 8191).size == 500
    for name in PROFILES:
        profile = resolve(name, 8191)
        assert profile.name == name
        assert profile.limit >= profile.tokens
    assert resolve("e2000", 512).limit == 510


@pytest.mark.parametrize(
    ("name", "window", "largest"),
    [("a500", 256, "auto"), ("b1000", 512, "a500"), ("e2000", 256, "auto"), ("d1000", 1001, "a500")],
)
def test_profile_larger_than_the_window_is_refused(name: str, window: int, largest: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"largest profile that fits is {largest}"):
        resolve(name, window)


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Known: auto, a500"):
        resolve("big", 256)


class Recording:
    """A tokenizer that records the longest text it received."""

    longest = 0

    def weighed(self, text: str) -> list[tuple[int, int]]:
        self.longest = max(self.longest, len(text))
        return TOKENS.weighed(text)


@pytest.mark.parametrize(
    ("repeated", "spaced"),
    [
        ("Thirty days' leave, d\u00e9cid\u00e9 on {}.\n", True),
        ("\u5047\u671f\u4e09\u5341\u5929\u3002", False),
    ],
)
def test_a_long_text_is_counted_in_parts_that_change_nothing(repeated: str, spaced: bool) -> None:
    size = int(1.2 * (PIECE if spaced else PART))
    text = "".join(repeated.format(number) for number in range(size // len(repeated)))
    recording = Recording()
    measure = Measure(text, recording)
    whole = [start for start, _ in TOKENS.weighed(text)]
    assert measure.tokens(0, len(text)) == len(whole)
    for number in range(0, len(whole), 97):
        start = whole[number]
        if not spaced or start == 0 or text[start - 1].isspace():
            assert measure.tokens(0, start) == number
    assert recording.longest < len(text)
