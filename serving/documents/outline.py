"""The headings and pages of a document, and where they begin. Pure. Offsets are characters of the whole text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sql.serving_rows import ChunkText, SectionStart


class Heading(NamedTuple):
    """A heading of the outline."""

    level: int
    """1 for the outermost."""
    name: str
    start: int
    """Where its section begins."""


def outline(sections: Iterable[SectionStart]) -> list[Heading]:
    """Return the headings of a document in order. `sections` are the places where the headings above the text change."""
    found: list[Heading] = []
    above: Sequence[str] = ()
    for section in sections:
        path = section.section_path
        found += [
            Heading(level, name, section.start_char)
            for level, name in enumerate(path, start=1)
            if list(above[:level]) != path[:level]
        ]
        above = path
    return found


def page_starts(chunks: Iterable[ChunkText]) -> Mapping[int, int]:
    """Return the numbers of the pages that begin in these chunks, by where they begin."""
    starts: dict[int, int] = {}
    latest = 0
    for chunk in chunks:
        places = [(place["start_char"], place["page"]) for place in chunk.places]
        for start, page in places or [(chunk.start_char, chunk.page_start)]:
            if page is not None and page > latest:
                starts[start] = latest = page
    return starts
