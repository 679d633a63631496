"""The sample company's questions are cited at the page and section that answer them, not at the start of the chunk."""

from __future__ import annotations

import pytest

from assets.stages.chunk import chunk
from assets.stages.parse import parse
from assets.stages.profiles import resolve
from orchestration.demo import sample
from resources.core import filetypes
from resources.core.domain import Chunk, TextLocation
from resources.embedding import tokenizer
from serving.search.retrieval.highlight import snippet
from serving.search.retrieval.terms import held, spans, terms

QUESTIONS = [question for question in (*sample.questions(), *sample.questions(more=True)) if question.source_id]
PAGED = [question for question in QUESTIONS if question.place.page is not None]
SECTIONED = [question for question in QUESTIONS if question.place.section is not None]
KNOWN_MISSES = {"What does Helen Marsh earn, according to the board?"}
"""Another section repeats more of the question's words than the sentence that answers."""


def cited(question: sample.SampleQuestion) -> tuple[Chunk, TextLocation]:
    """Return the chunk that holds the answer, and the place that a citation of it names."""
    assert question.source_id is not None
    assert question.phrase is not None
    path = sample.FOLDER / question.source_id
    data = path.read_bytes()
    document = parse(data, filetypes.mime_type(path.name, data[: filetypes.HEAD_BYTES]), title=path.stem)
    pieces = chunk(document, tokenizer(), resolve("auto", 256))
    piece = next(piece for piece in pieces if question.phrase in " ".join(piece.text.split()))
    headings = {*piece.section_path, *(heading for place in piece.places for heading in place.section_path)}
    at = piece.start_char + snippet(piece.text, spans(piece.text, terms(question.question)), headings).start
    whole = TextLocation(start_char=0, page=piece.page_start, anchor=piece.anchor, section_path=piece.section_path)
    return piece, [whole, *(place for place in piece.places if place.start_char <= at)][-1]


@pytest.mark.parametrize("question", PAGED, ids=lambda question: question.question)
def test_the_page_is_the_one_that_answers(question: sample.SampleQuestion) -> None:
    assert cited(question)[1].page == question.place.page


@pytest.mark.parametrize("question", SECTIONED, ids=lambda question: question.question)
def test_the_section_is_the_one_that_answers(question: sample.SampleQuestion) -> None:
    _, place = cited(question)
    assert (question.place.section in place.section_path) == (question.question not in KNOWN_MISSES)


def test_chunks_of_one_page_say_so() -> None:
    paged = [cited(question)[0] for question in PAGED]
    assert sum(piece.page_start == piece.page_end for piece in paged) >= len(paged) // 2


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("ｶﾞｽの料金", "ガス", ["ｶﾞｽ"]),
        ("料金はﾒｶﾞです", "メガ", ["ﾒｶﾞ"]),
        ("ﾊﾟｽﾎﾟｰﾄ Straße", "パスポート strasse", ["ﾊﾟｽﾎﾟｰﾄ", "Straße"]),
        ("ガス", "ｶﾞｽ", ["ガス"]),
        ("Die Kündigungsfristen", "kuendigungsfristen", ["Kündigungsfristen"]),
        ("An Frau Mueller", "müller", ["Mueller"]),
        ("Århus, AARHUS", "Aarhus", ["Århus", "AARHUS"]),
    ],
)
def test_letters_are_found_as_they_are_written(text: str, query: str, shown: list[str]) -> None:
    assert [text[start:end] for start, end in spans(text, terms(query))] == shown
    assert held(text, terms(query)) == terms(query)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("release notes", "You should not send it"),
        ("terms of use", "It told us and the US office"),
        ("one", "Turn it on"),
        ("money", "Open Mon to Fri, Mon amour"),
        ("apply", "Open the app"),
        ("many", "A man and no men"),
        ("the key", "A k of tea, see s. 5"),
        ("see me", "s m"),
        ("they", "the them"),
    ],
)
def test_words_that_end_alike_are_not_the_same(query: str, text: str) -> None:
    assert spans(text, terms(query)) == []


@pytest.mark.parametrize(
    "words",
    [
        "not", "us", "note notes", "use uses", "one ones", "key keys", "day days", "city cities", "family families", "reply replies",
        "process processes processed processing", "class classes", "address addresses addressed", "bonus bonuses", "bus buses",
        "policy policies", "supply supplies", "apply applies", "employee employees", "make making", "file files filed",
        "hire hired hiring", "GPU GPUs", "CPU CPUs", "menu menus", "bureau bureaus", "own owns owned", "get gets",
        "agree agrees agreed", "free freed", "tree trees", "play plays played", "campus campuses", "status statuses",
        "case cases", "house houses", "month monthly", "valley valleys", "survey surveys", "fee fees", "pay paying", "Tag Tage",
    ],
)  # fmt: skip
def test_forms_of_a_word_are_the_same(words: str) -> None:
    for word in words.split():
        assert len(spans(words, terms(f"{word} x"))) == len(words.split()), word


def test_a_word_without_letters_has_a_place_only_where_it_is_written() -> None:
    assert spans("a :", terms("_")) == spans("豈:", terms("_")) == []
    assert spans("a _ b", terms("_")) == [(2, 3)]
