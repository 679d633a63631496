"""Split a parsed document into chunks that fit the embedding model's window, preferably at natural boundaries.

Rules, strongest first: no chunk is larger than the profile's size; no sentence, row, list item or code
block is cut unless it alone is larger; a heading and a table's header stay with what follows; a chunk that has the minimum
ends where a new section begins, or a new page unless a sentence continues across it; neighbours within a section and page
overlap by whole sentences or list items, never by rows or code, and never across headings; a last chunk below the minimum
is merged into its neighbour or takes sentences from it. A chunk that spans pages or sections records where each begins.
Time is linear in the text's length.
"""

from collections.abc import Iterator

import msgspec

from assets.stages.measure import Measure
from assets.stages.profiles import CHUNKING_VERSION, Profile
from assets.stages.units import Splitter, Unit
from resources.core.domain import Block, Chunk, ParsedDocument, TextLocation, text_hash
from resources.core.ports import Tokenizer

__all__ = ["CHUNKING_VERSION", "chunk"]


class Atom(msgspec.Struct, kw_only=True):
    """Units that stay together: headings with the content below them."""

    units: list[Unit]
    start: int
    end: int
    page: int | None
    heading: bool
    table: bool
    prose: bool
    alone: bool


def chunk(document: ParsedDocument, tokenizer: Tokenizer, profile: Profile) -> list[Chunk]:
    """Return the document's chunks in order; the same document, tokenizer and profile give the same chunks."""
    measure = Measure(document.text, tokenizer)
    splitter = Splitter(document, measure, profile)
    atoms = _atoms(splitter.units(), document.blocks, splitter)
    packer = _Packer(atoms, splitter)
    describe = _ChunkBuilder(document, measure)
    return [describe(number, atoms[first:last]) for number, (first, last) in enumerate(packer.pack())]


def _atoms(units: Iterator[Unit], blocks: list[Block], splitter: Splitter) -> list[Atom]:
    atoms: list[Atom] = []
    waiting: list[Unit] = []
    for unit in units:
        if unit.leads:
            waiting.append(unit)
            continue
        # Headings that do not fit together with their content become atoms of their own, the outermost first.
        while waiting and (unit.alone or not splitter.fits(waiting[0].start, unit.end)):
            atoms.append(_atom([waiting.pop(0)], blocks))
        atoms.append(_atom([*waiting, unit], blocks))
        waiting = []
    atoms.extend(_atom([unit], blocks) for unit in waiting)
    return atoms


def _atom(units: list[Unit], blocks: list[Block]) -> Atom:
    return Atom(
        units=units,
        start=units[0].start,
        end=units[-1].end,
        page=blocks[units[0].block].page,
        heading=blocks[units[0].block].kind == "heading",
        table=blocks[units[-1].block].kind == "table",
        prose=len(units) == 1 and units[0].prose,
        alone=units[-1].alone > 0,
    )


class _Packer:
    """Fills chunks with atoms, greedily and in order; a chunk is a half-open range of atoms."""

    def __init__(self, atoms: list[Atom], splitter: Splitter) -> None:
        self._atoms = atoms
        self._splitter = splitter
        self._profile = splitter.profile

    def pack(self) -> list[tuple[int, int]]:
        ranges: list[tuple[int, int]] = []
        first = 0
        for index in range(1, len(self._atoms)):
            apart = self._apart(index)
            ends = self._section_or_page_ends(first, index)
            if apart or ends or not self._fits(first, index + 1):
                ranges.append((first, index))
                fresh = apart or ends or self._atoms[index].heading
                first = index if fresh else self._with_overlap(first, index)
        if self._atoms:
            ranges.append((first, len(self._atoms)))
        return self._tail(ranges)

    def _size(self, first: int, last: int) -> int:
        start, end = self._atoms[first].start, self._atoms[last - 1].end
        return end - start if self._profile.unit == "characters" else self._splitter.measure.weight(start, end)

    def _fits(self, first: int, last: int) -> bool:
        return self._splitter.fits(self._atoms[first].start, self._atoms[last - 1].end)

    def _apart(self, index: int) -> bool:
        """Return True if this atom and the previous one must not share a chunk."""
        before, atom = self._atoms[index - 1], self._atoms[index]
        if before.alone or atom.alone:
            return True
        return self._profile.tables_isolated and before.table != atom.table

    def _section_or_page_ends(self, first: int, index: int) -> bool:
        if not self._profile.heading_aware or not (self._atoms[index].heading or self._page_begins(index)):
            return False
        return self._size(first, index) >= self._profile.minimum

    def _page_begins(self, index: int) -> bool:
        """Return True if a page begins here and not in the middle of a sentence."""
        before, atom = self._atoms[index - 1], self._atoms[index]
        runs_on = before.prose and atom.prose and self._splitter.text[atom.start].islower()
        return before.page != atom.page and not runs_on

    def _with_overlap(self, first: int, index: int) -> int:
        """Return the earliest atom that the chunk beginning at `index` may repeat."""
        start = index
        while (
            start - 1 > first
            and self._atoms[start - 1].prose
            and not self._apart(start)
            and self._size(start - 1, index) <= self._profile.overlap
            and self._fits(start - 1, index + 1)
        ):
            start -= 1
        return start

    def _tail(self, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Merge a last chunk below the minimum into the previous one, or move sentences from there into it."""
        if len(ranges) < 2 or self._size(*ranges[-1]) >= self._profile.minimum:
            return ranges
        (before, end), (first, last) = ranges[-2], ranges[-1]
        if self._apart(end):
            return ranges
        if self._fits(before, last):
            return [*ranges[:-2], (before, last)]
        start = min(first, end)
        if self._atoms[end].heading:
            return ranges
        while (
            self._size(start, last) < self._profile.minimum
            and start - 1 > before
            and self._atoms[start - 1].prose
            and not self._apart(start)
            and self._fits(start - 1, last)
            and self._size(before, start - 1) >= self._profile.minimum
        ):
            start -= 1
        return [*ranges[:-2], (before, start if start < first else end), (start, last)]


class _ChunkBuilder:
    def __init__(self, document: ParsedDocument, measure: Measure) -> None:
        self._document = document
        self._measure = measure
        self._anchors: list[str | None] = []
        anchor = None
        for block in document.blocks:
            # a heading's anchor applies until the next heading; a block with its own anchor (a message) begins a place too
            anchor = block.anchor if block.kind == "heading" or block.anchor is not None else anchor
            self._anchors.append(anchor)

    def __call__(self, index: int, atoms: list[Atom]) -> Chunk:
        blocks = self._document.blocks
        units = [unit for atom in atoms for unit in atom.units]
        start, end = units[0].start, units[-1].end
        text = self._document.text[start:end]
        body = next((n for n, unit in enumerate(units) if blocks[unit.block].kind != "heading"), len(units) - 1)
        head = units[body]
        pages = [page for unit in units if (page := blocks[unit.block].page) is not None]
        rows = [unit for unit in units if unit.row_start is not None]
        bodies = [blocks[unit.block].kind for unit in units if blocks[unit.block].kind != "heading"]
        return Chunk(
            chunk_index=index,
            text=text,
            text_hash=text_hash(text),
            start_char=start,
            end_char=end,
            tokens=units[0].alone or self._measure.tokens(start, end),
            section_path=self._path(head.block),
            anchor=self._anchors[head.block],
            page_start=min(pages, default=None),
            page_end=max(pages, default=None),
            is_table=bool(bodies) and all(kind == "table" for kind in bodies),
            sheet=next((sheet for unit in units if (sheet := blocks[unit.block].sheet) is not None), None),
            row_start=rows[0].row_start if rows else None,
            row_end=rows[-1].row_end if rows else None,
            language=self._document.language,
            places=self._places(units, body),
        )

    def _places(self, units: list[Unit], body: int) -> tuple[TextLocation, ...]:
        """Return where the page or section changes; the headings before `body` count with the content below them."""
        places: list[TextLocation] = []
        block = -1
        for number, unit in enumerate(units):
            if unit.block == block:
                continue
            block, at = unit.block, units[max(number, body)].block
            page = self._document.blocks[block].page
            place = TextLocation(
                start_char=unit.start, page=page, anchor=self._anchors[at], section_path=self._path(at)
            )
            if not places or msgspec.structs.replace(places[-1], start_char=unit.start) != place:
                places.append(place)
        return tuple(places) if len(places) > 1 else ()

    def _path(self, index: int) -> tuple[str, ...]:
        """Return the headings above a block; a heading is part of its own path."""
        block = self._document.blocks[index]
        if block.kind == "heading":
            return (*block.section_path, self._document.text[block.start : block.end])
        return block.section_path
