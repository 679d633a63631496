"""The places that the sentences of an answer quote, in the passages that they cite."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from serving.answers.support import Verdict
from serving.search.citations.quote import Extent, locate, without_headers
from serving.search.retrieval.highlight import best_piece
from serving.search.retrieval.passage import Passage


class Mark(NamedTuple):
    """Where a sentence of an answer was taken from: characters of the source's passage, `end` exclusive."""

    sentence: int
    source: int
    start: int
    end: int


class Quoted(msgspec.Struct, frozen=True):
    """What a sentence of the answer quotes: `chunk_text[start:end]` of a source.

    What a language model wrote in its own words is the sentence or row of the source that is nearest to it."""

    sentence: int
    """Position of the sentence in `sentences`, from 0."""
    source: int
    """Number of the source, from 1."""
    start: int
    """First character in `chunk_text`, from 0."""
    end: int
    """The character after the last one."""
    page: int | None
    """Page or slide of the quote, from 1; null for documents without pages."""


def quoted(sentences: Sequence[Verdict], sources: Mapping[int, Passage], marks: Sequence[Mark] = ()) -> list[Quoted]:
    """Return what the sentences quote, in their order. `sources`: passages by their number. `marks`: places that are known."""
    found: list[Quoted] = []
    for index, sentence in enumerate(sentences):
        for number in sentence.citations:
            if (passage := sources.get(number)) is None:
                continue
            known = [Extent(one.start, one.end) for one in marks if (one.sentence, one.source) == (index, number)]
            ranges = known or _located(sentence.text, passage)
            found += [Quoted(index, number, one.start, one.end, passage.place(one.start).page) for one in ranges]
    return found


def _located(text: str, passage: Passage) -> list[Extent]:
    """Return where the passage says what a sentence does, or else the piece that answers the query best."""
    if found := without_headers(locate(text, passage.chunk_text), passage.chunk_text):
        return found
    piece = best_piece(passage.chunk_text, passage.matches, passage.headings)
    return [Extent(piece.start, piece.end)] if piece and passage.matches else []


def first_of_each(found: Iterable[Quoted]) -> dict[int, Extent]:
    """Return the first quote of each source."""
    ranges: dict[int, Extent] = {}
    for one in found:
        ranges.setdefault(one.source, Extent(one.start, one.end))
    return ranges
