"""Turn the lines of a PDF into headings and paragraphs, by their distances, sizes and the file's outline."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from assets.stages.normalize import BlockDraft, clean, dehyphenate, one_line
from assets.stages.parse.pdf_lines import Line
from assets.stages.parse.pdfium import Outline, PdfPage
from assets.stages.parse.text import paragraphs

_PARAGRAPH_GAP = 1.35
"""Lines that are further apart than this multiple of the page's usual distance begin a paragraph."""
_LARGER = 1.15
"""A heading's font is larger than the text's by this factor, unless it is bold."""
_MAX_HEADING = 120
_MAX_BOLD = 80
"""Longest heading in the text's own size."""
_MAX_LEVELS = 4
_MAX_REPEATED = 2
"""A text that occurs more often ("N/A", "None") is no heading."""
_MAX_SHARE = 0.3
"""Where more lines than this look like headings (slides, forms, posters), only the outline's are."""
_PAUSES = ".,;:"
"""What lines of text end with, and headings do not."""
_LETTERS = re.compile(r"[^\W\d_]{2}")
_NUMBER_WRAP = re.compile(r"(?<=\d)[-\u2010]\n(?=\d)")
_SPACES = re.compile(r"\s+")


def blocks(pages: Sequence[PdfPage], outline: Iterable[Outline]) -> list[BlockDraft]:
    """Return the drafts of all pages in order, and the notes of each page below it."""
    levels = _Levels([page.lines for page in pages], outline)
    drafts: list[BlockDraft] = []
    for number, page in enumerate(pages, start=1):
        drafts.extend(_page(page.lines, number, levels))
        drafts.extend(page.recognised)
        if page.notes:
            drafts.append(
                BlockDraft(
                    kind="list", text="\n".join(f"- {one_line(clean(note))}" for note in page.notes), page=number
                )
            )
    return drafts


class _Levels:
    """The levels of headings: the outline's, or else those of the fonts that are larger than the text's."""

    def __init__(self, pages: Sequence[Sequence[Line]], outline: Iterable[Outline]) -> None:
        self._titles = {(entry.page + 1, _key(entry.title)): entry.level for entry in outline}
        sizes: Counter[float] = Counter()
        sentences: Counter[float] = Counter()
        for lines in pages:
            for line in lines:
                length = len(line.text) if line.size else 0
                sizes[_rounded(line)] += length
                if line.text[-1] in _PAUSES:
                    sentences[_rounded(line)] += length
        # Tables in small type can hold more than the text does, which is larger and has the sentences.
        self._body = max(_most(sizes), _most(sentences))
        self._texts = Counter(_key(line.text) for lines in pages for line in lines)
        bold = sum(len(line.text) for lines in pages for line in lines if line.bold)
        self._is_light = bold <= _MAX_SHARE * sizes.total()
        self._fonts = self._ranked(pages)
        if not self._fonts and self._is_light:
            self._is_light = False
            self._fonts = self._ranked(pages)

    def _ranked(self, pages: Sequence[Sequence[Line]]) -> dict[tuple[float, bool], int]:
        """Return the levels of the fonts of headings, or none where too many lines look like some."""
        marked = Counter(
            _font(line) for lines in pages for index, line in enumerate(lines) if self._stands_out(lines, index)
        )
        if marked.total() > _MAX_SHARE * sum(map(len, pages)):
            return {}
        return {font: min(rank, _MAX_LEVELS) for rank, font in enumerate(sorted(marked, reverse=True), start=1)}

    def of(self, lines: Sequence[Line], page: int) -> list[int | None]:
        """Return the level of each line of a page as a heading, or None."""
        found: list[int | None] = [None] * len(lines)
        for index, line in enumerate(lines):
            after = lines[index + 1].text if index + 1 < len(lines) else ""
            if (level := self._titles.get((page, _key(line.text)))) is not None:
                found[index] = level
            elif after and (level := self._titles.get((page, _key(line.text + after)))) is not None:
                found[index] = found[index + 1] = level
            elif found[index] is None and self._stands_out(lines, index):
                found[index] = self._fonts.get(_font(line))
        return found

    def _stands_out(self, lines: Sequence[Line], index: int) -> bool:
        line = lines[index]
        text = line.text
        return (
            (_rounded(line) >= _LARGER * self._body or self._is_bold_above_text(lines, index))
            and _LETTERS.search(text) is not None
            and len(text) <= _MAX_HEADING
            and text[0] not in ",;.(["
            and (text[-1] not in _PAUSES or text[0].isdigit())
            and line.right - line.left > line.size  # text along the margin is turned
            and not line.slanted
            and self._texts[_key(text)] <= _MAX_REPEATED
        )

    def _is_bold_above_text(self, lines: Sequence[Line], index: int) -> bool:
        """Return True for a bold line in the text's size below a gap, and a wider line in light type below it: no sum, no header."""
        line = lines[index]
        if not self._is_light or not line.bold or index + 1 == len(lines) or _rounded(line) < self._body:
            return False
        gap = lines[index - 1].baseline - line.baseline if index else 0.0
        below = lines[index + 1]
        return (
            (gap <= 0 or gap > _PARAGRAPH_GAP * line.size)
            and not below.bold
            and line.baseline - below.baseline > line.size / 2
            and below.right > line.right
            and len(line.text) <= _MAX_BOLD
            and not line.text[-1].isdigit()
        )


def _font(line: Line) -> tuple[float, bool]:
    return _rounded(line), line.bold


def _most(sizes: Counter[float]) -> float:
    """Return the most frequent size, of equally frequent ones the largest; 0 without any."""
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)


def _rounded(line: Line) -> float:
    return round(2 * line.size) / 2


def _key(title: str) -> str:
    return _SPACES.sub("", title).casefold()


def _page(lines: Sequence[Line], number: int, levels: _Levels) -> Iterator[BlockDraft]:
    usual = _usual_distance(lines)
    part: list[str] = []
    previous: Line | None = None
    heading: BlockDraft | None = None
    for line, level in zip(lines, levels.of(lines, number), strict=True):
        begins = previous is None or _begins(previous, line, usual)
        if level is not None:
            yield from _text(part, number)
            part = []
            if heading is not None and heading.level == level and previous is not None and _continues(previous, line):
                heading.text = one_line(f"{heading.text} {clean(line.text)}")
            else:
                if heading is not None:
                    yield heading
                heading = BlockDraft(kind="heading", text=one_line(clean(line.text)), level=level, page=number)
        else:
            if heading is not None:
                yield heading
                heading = None
            if begins:
                yield from _text(part, number)
                part = []
            part.append(line.text)
        previous = line
    if heading is not None:
        yield heading
    yield from _text(part, number)


def _text(lines: list[str], page: int) -> Iterator[BlockDraft]:
    if lines:
        text = clean("\n".join(lines))
        yield from paragraphs(dehyphenate(_NUMBER_WRAP.sub("-", text)), page)


def _usual_distance(lines: Sequence[Line]) -> float:
    """Return the most frequent distance between lines, in points."""
    distances = Counter(
        round(before.baseline - after.baseline)
        for before, after in pairwise(lines)
        if 0 < before.baseline - after.baseline < 4 * max(before.size, 1.0)
    )
    return float(max(distances, key=lambda distance: (distances[distance], -distance), default=0))


def _begins(before: Line, line: Line, usual: float) -> bool:
    """Return True if `line` begins a paragraph. A line that is not below the last one continues it in another column."""
    distance = before.baseline - line.baseline
    if distance <= 0:
        return before.text[-1:] in ".:!?" and -distance > max(line.size, 1.0)
    return distance > _PARAGRAPH_GAP * max(usual, line.size, 1.0)


def _continues(before: Line, line: Line) -> bool:
    """Return True if a heading goes on in the next line."""
    return _rounded(before) == _rounded(line) and 0 < before.baseline - line.baseline < 1.6 * max(line.size, 1.0)
