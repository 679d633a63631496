"""Split a parsed document into the smallest passages that a chunk may consist of: sentences, list items, rows, code.

Each unit fits a chunk. Larger passages are split at ever finer boundaries: lines, clauses, words. Only a single word that is
larger than a chunk is split within.
"""

import re
from collections.abc import Iterator

import msgspec

from assets.stages.measure import Measure
from assets.stages.profiles import Profile
from assets.stages.sentences import starts
from resources.core.domain import Block, ParsedDocument

_CLAUSE = re.compile(r"[.!?;:,。！？；：、，।][\"'”’)\]]*\s+|[。！？；：、，।]|\s\|\s")


class Unit(msgspec.Struct, kw_only=True):
    """The passage `text[start:end]` of one block."""

    start: int
    end: int
    block: int
    leads: bool = False
    """A heading or a table header: belongs to the unit after it."""
    prose: bool = False
    """True if it may be repeated as overlap."""
    alone: int = 0
    """Tokens of a piece of a split word. It gets a chunk of its own, because counts next to it would be wrong."""
    row_start: int | None = None
    row_end: int | None = None


class Splitter:
    """Splits the blocks of one document into units that fit the profile."""

    def __init__(self, document: ParsedDocument, measure: Measure, profile: Profile) -> None:
        self.text = document.text
        self.document = document
        self.measure = measure
        self.profile = profile

    def fits(self, start: int, end: int) -> bool:
        return end - start <= self.profile.characters and self.measure.weight(start, end) <= self.profile.limit

    def units(self) -> Iterator[Unit]:
        """Yield the document's units in order; together they contain every character except white space."""
        for index, block in enumerate(self.document.blocks):
            if block.kind == "table":
                yield from self._rows(index, block)
            elif block.kind == "heading":
                yield from self._fitting(block.start, block.end, Unit(start=0, end=0, block=index, leads=True))
            elif block.kind == "code":
                unit = Unit(start=0, end=0, block=index)
                cuts = (
                    [(block.start, block.end)]
                    if self.fits(block.start, block.end)
                    else self._lines(block.start, block.end)
                )
                for start, end in cuts:
                    yield from self._fitting(start, end, unit)
            elif block.kind == "list":
                for start, end in self._lines(block.start, block.end):
                    yield from self._sentences(start, end, index, whole=True)
            else:
                yield from self._sentences(block.start, block.end, index, whole=False)

    def _rows(self, index: int, block: Block) -> Iterator[Unit]:
        first = block.row_start
        if first == 0:
            yield from self._fitting(block.start, block.end, Unit(start=0, end=0, block=index, leads=True))
            return
        if self.fits(block.start, block.end):
            last = first + self.text.count("\n", block.start, block.end) if first is not None else None
            yield Unit(start=block.start, end=block.end, block=index, row_start=first, row_end=last)
            return
        for offset, (start, end) in enumerate(self._lines(block.start, block.end)):
            row = first + offset if first is not None else None
            yield from self._fitting(start, end, Unit(start=0, end=0, block=index, row_start=row, row_end=row))

    def _sentences(self, start: int, end: int, index: int, *, whole: bool) -> Iterator[Unit]:
        """Yield sentences; with `whole`, only if the passage does not fit in one piece."""
        unit = Unit(start=0, end=0, block=index, prose=True)
        if whole and self.fits(start, end):
            yield msgspec.structs.replace(unit, start=start, end=end)
            return
        cuts = [start + cut for cut in starts(self.text[start:end], self.document.language)]
        cuts = [cut for number, cut in enumerate(cuts) if number == 0 or self.measure.parts(cut)]
        for first, last in zip(cuts, [*cuts[1:], end], strict=True):
            yield from self._fitting(first, last, unit)

    def _lines(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        while start < end:
            stop = self.text.find("\n", start, end)
            stop = end if stop < 0 else stop
            if not self.text[start:stop].isspace() and start < stop:
                yield start, stop
            start = stop + 1

    def _fitting(self, start: int, end: int, like: Unit) -> Iterator[Unit]:
        """Yield the trimmed passage in as few parts as fit."""
        while start < end:
            while start < end and self.text[start].isspace():
                start += 1
            while end > start and self.text[end - 1].isspace():
                end -= 1
            if start >= end:
                return
            if self.fits(start, end):
                yield msgspec.structs.replace(like, start=start, end=end)
                return
            cut = self._cut(start, end)
            if cut is None:
                run = self._run_end(start, end)
                yield from self._pieces(start, run, like)
                start = run
                continue
            yield msgspec.structs.replace(like, start=start, end=self._trimmed(start, cut), leads=False)
            start = cut

    def _trimmed(self, start: int, end: int) -> int:
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return end

    def _cut(self, start: int, end: int) -> int | None:
        """Return the best position to split at so that the first part fits, or None if one word is larger than a chunk."""
        reach = min(end, self.measure.reach(start, self.profile.limit), start + self.profile.characters)
        half = start + (reach - start) // 2
        line = self.text.rfind("\n", half, reach)
        if line > start:
            return line + 1
        clauses = [clause.end() for clause in _CLAUSE.finditer(self.text, half, reach)]
        if clauses:
            return clauses[-1]
        for position in range(reach, start, -1):
            if self.text[position - 1].isspace():
                return position
            if position < half and self.measure.parts(position):
                break
        for position in range(reach, start, -1):
            if self.measure.parts(position):
                return position
        return None

    def _run_end(self, start: int, end: int) -> int:
        position = start + 1
        while position < end and not self.measure.parts(position):
            position += 1
        return position

    def _pieces(self, start: int, end: int, like: Unit) -> Iterator[Unit]:
        """Split within a word, counting the tokens of each piece separately."""
        step = self.profile.size if self.profile.unit == "characters" else 4 * self.profile.limit
        while start < end:
            stop = min(end, start + step)
            tokens, weight = self.measure.recount(start, stop)
            while weight > self.profile.limit and stop - start > 1:
                stop = start + (stop - start) // 2
                tokens, weight = self.measure.recount(start, stop)
            yield msgspec.structs.replace(like, start=start, end=stop, alone=max(1, tokens), leads=False)
            start = stop
