"""Read the lines of a PDF's page with PDFium, without text whose characters are unknown."""

import ctypes
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import pairwise
from statistics import median
from typing import Any

import msgspec

from assets.stages.parse.marks import raised
from assets.stages.parse.symbols import PRIVATE, is_symbol

_HYPHENS = "\ufffe\x02"
"""What PDFium gives for a hyphen at the end of a line, without the line's end, in its newer and older versions."""
_PIECES = re.compile(f"([^{_HYPHENS}]+)([{_HYPHENS}]?)")
_BOLD = re.compile(rb"bold|black|heavy|semibold|demi", re.IGNORECASE)
_BOLD_WEIGHT = 600
_SYMBOLS = str.maketrans(
    dict.fromkeys("\uf0b7\uf0a7\uf0d8\uf076\uf0fc\uf02d\uf0a8\uf06e\uf071", "•")
    | {"\uf0ae": "→", "\uf0ac": "←", "\uf0e0": "→", "\uf0df": "←", "\xad": "-"}
)
"""Bullets and arrows of the fonts Symbol and Wingdings, whose characters are in the private use area, and the soft hyphen: fonts name their
hyphen so, and a PDF has it only where it is drawn."""
_TEX = str.maketrans(
    dict(zip(range(0x80, 0xC0), "ĂĄĆČĎĚĘĞĹĽŁŃŇŊŐŔŘŚŠŞŤŢŰŮŸŹŽŻĲİđ§ăąćčďěęğĺľłńňŋőŕřśšşťţűůÿźžżĳ¡¿£", strict=True))
    | dict(zip(map(ord, "\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16×÷ÿ"), "ﬀﬁﬂﬃﬄ“”„«»–—Œœß", strict=True))
    | dict(zip(range(0x1B, 0x20), "ﬀﬁﬂﬃﬄ", strict=True))
)
"""Characters of TeX's bitmapped fonts, which name only their codes: those of the encoding T1, and the ligatures of OT1. Source: LaTeX2e,
t1enc.dfu and ot1enc.def"""
_TEX_SIGNS = re.compile("[\x0b\x0c\x0e-\x16\x1b-\x1f]")
"""Ligatures, quotation marks and dashes, of which few pages have none: without them, it is no font of TeX."""
_PRIVATE = re.compile("[\uf020-\uf0ff]")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"})
_AFTER_BULLETS = " \t\x01"
_WORDS = re.compile(r"[^\W\d_]{3,40}")
_WORD = re.compile(r"[^\W\d_]?[a-z\u00df-\u024f]*[aeiouy\u00e0-\u00ff][a-z\u00df-\u024f]*")
_SMALL_WORDS = re.compile(r"\b[A-Za-z]?[a-z]{2,}\b")
_VOWELS = re.compile("[AEIOUYaeiouy]")
_ENOUGH_WORDS = 8
_FEW_UNDECODED = 20
"""Characters without a mapping that a page may have without being reported: bullets and formulas."""
_UNDECODED = re.compile("[\x00-\x08\x0e-\x1f\ufffd\ud800-\udfff\ue000-\uf8ff]")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")
"""Characters that PDFium counts as two: letters of formulas, emoji, old scripts."""
_SPACES = re.compile(r"(?<=\S) +(?=\S)")
_LINE_STEP = 0.3
"""Least distance between lines, as a share of the font size: a raised number at the beginning of a line is near the one above."""
_CELL_GAP = 1.0
"""Gap between the cells of a row, as a share of the font size."""
_MARK_ENDS = re.compile(r"(?<=\S)[\d*†‡§](?![\d*†‡§])")
_MARK_SIZE = 0.9
"""Raised type is smaller than the text's by at least this factor: browsers take 0.83, Word and TeX less."""
_MIN_RISE, _MAX_RISE = 0.15, 0.8
"""How far raised type is above the line, as a share of the font size."""
_LONGEST_MARK = 12
_IN_MARKS = frozenset("0123456789*†‡§,;–-−+ ")
_SLASHES = ("/", "\u2044")
_ENDS = re.compile(r"(?<=\S)\r\n *(?=\S)")
_JOINED = "\x03\x03"
"""Takes the place of a line's end within a line, and is left out with other characters that are none."""
_DIGITS = re.compile(f"(?<=\\d)(?:{_JOINED})?(?=\\d)")
_DIGIT_GAP = 1.5
"""Least gap between cells that one string fills, as a share of the font size: the digits of a date in boxes are closer."""
_SAMPLES = 12
"""Characters of a line that are checked for a missing mapping to Unicode, and of a page that are checked for their direction."""
_MOST = 0.8
_SPACED_WORDS = 5
_FEW_LETTERS = 2.2
"""Average length of the words of a line whose letters are spaced out."""
_LETTER_GAP = 0.9
"""Widest usual gap between such letters, as a share of the font size; wider ones separate columns."""
_WORD_GAP = 0.12
"""By how much more words are apart than letters, as a share of the font size."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points of the page before it is turned."""
Shown = Callable[[float, float], tuple[float, float]]
"""How the coordinates of a page turn with it."""


class Line(msgspec.Struct, kw_only=True):
    """A line of a page. Coordinates are points of the page as shown; `baseline` grows upwards."""

    text: str
    left: float = 0.0
    right: float = 0.0
    baseline: float = 0.0
    size: float = 0.0
    """Points; 0 if unknown, as for the values of form fields."""
    bold: bool = False
    vertical: bool = False
    """True if its characters are below each other, as in Japanese."""
    slanted: bool = False
    """True if it rises or falls, as a watermark does."""
    row: int = 0
    """Lines of a page with the same number are beside each other; they become one."""


def turned(raw: Any, page: Any) -> int:
    """Turn a page until most of its text is upright, and return its quarter turns. Otherwise PDFium reverses the lines."""
    text = page.get_textpage()
    try:
        count = text.count_chars()
        places = range(0, count, max(1, count // _SAMPLES))
        angles = [round(raw.FPDFText_GetCharAngle(text, place) / (math.pi / 2)) for place in places]
    finally:
        text.close()
    turns = page.get_rotation() // 90
    if angles:
        turn, times = Counter(-angle % 4 for angle in angles).most_common(1)[0]
        if turn != turns and _MOST * len(angles) <= times:
            page.set_rotation(90 * turn)
            return turn
    return turns


class PageText:
    """The text of one page."""

    def __init__(self, raw: Any, page: Any, shown: Shown) -> None:
        self._raw = raw
        self._page = page
        self._shown = shown
        self._text: Any = page.get_textpage()
        self._beyond: list[int] = []
        self._rows = 0

    def read(self, *, split: bool, hidden: Set[int] = frozenset(), crop: Box | None = None) -> tuple[list[Line], bool]:
        """Return the lines, and whether some were left out because their characters are unknown.

        With `split`, wide gaps separate lines of the same row. `hidden`: addresses of text objects that are left out. `crop`: the part of
        the page that is shown, outside of which text is left out; None: all.
        """
        try:
            text: str = self._text.get_text_range(errors="surrogatepass") if self._text.count_chars() else ""
            self._beyond = [match.start() for match in _BEYOND.finditer(text)]
            if hidden or crop:
                text = "".join(
                    " " if self._object(place) in hidden or self._is_outside(place, character, crop) else character
                    for place, character in enumerate(text)
                )
            text = _PRIVATE.sub(self._symbol, text)
            text = _ENDS.sub(self._continued, text)
            parts: list[tuple[str, int]] = []
            start = 0
            for part in text.split("\r\n"):
                if part.strip():
                    parts.append((part.translate(_SYMBOLS), start))
                start += len(part) + 2
            unmapped = {start: part for part, start in parts if self._is_unmapped(part, start)}
            if _is_readable(unmapped.values()):
                of_tex = {start for start, part in unmapped.items() if _has_few_signs(part)}
                if any(_TEX_SIGNS.search(unmapped[start]) for start in of_tex):
                    parts = [(part.translate(_TEX) if start in of_tex else part, start) for part, start in parts]
                unmapped = {}
            fonts: dict[bytes, list[tuple[int, str]]] = {}
            for part, start in parts:
                fonts.setdefault(self._font(self._index(start + len(part) - len(part.lstrip()))), []).append(
                    (start, part)
                )
            for own in fonts.values():
                if _is_garbled(part for _, part in own):
                    unmapped.update(own)
            lines = [
                line for part, start in parts if start not in unmapped for line in self._lines(part, start, split=split)
            ]
            if 2 * sum(line.vertical for line in lines) > len(lines):
                lines.sort(key=lambda line: -line.left)
            return lines, sum(len(part) for part in unmapped.values() if len(set(part)) > 2) > _FEW_UNDECODED
        finally:
            self._text.close()

    def _index(self, place: int) -> int:
        return self._raw.FPDFText_GetCharIndexFromTextIndex(self._text, place + bisect_left(self._beyond, place))

    def _object(self, place: int) -> int:
        """Return the address of the text object of a character; 0 for one that PDFium has added."""
        found = self._raw.FPDFText_GetTextObject(self._text, self._index(place))
        return ctypes.addressof(found.contents) if found else 0

    def _is_outside(self, place: int, character: str, crop: Box | None) -> bool:
        if crop is None or character.isspace():
            return False
        left, bottom, right, top = crop
        x, y = ctypes.c_double(), ctypes.c_double()
        self._raw.FPDFText_GetCharOrigin(self._text, self._index(place), x, y)
        return not (left - 1 <= x.value <= right + 1 and bottom - 1 <= y.value <= top + 1)

    def _lines(self, part: str, start: int, *, split: bool) -> Iterator[Line]:
        """Yield the lines of a part of the page's text, of which hyphens and spaces may have joined several."""
        for match in _PIECES.finditer(part):
            for begin, end in self._rows_of(match.group(1), start + match.start()):
                self._rows += 1
                whole, above = match.group(1)[begin:end], start + match.start() + begin
                spans = self._cells(whole, above) if split else [(0, len(whole))]
                for number, (first, last) in enumerate(spans, start=1):
                    text = whole[first:last]
                    bare = text.strip()
                    if not bare:
                        continue
                    place = above + first + len(text) - len(text.lstrip())
                    line = self._placed(bare, place, place + len(bare) - 1)
                    if not line.text.strip():
                        continue
                    line.row = self._rows
                    line.text += "-" if match.group(2) and (end, number) == (len(match.group(1)), len(spans)) else ""
                    yield line

    def _rows_of(self, text: str, start: int) -> list[tuple[int, int]]:
        """Return the spans of the lines in a part: PDFium takes some ends of lines for spaces."""
        bare = text.strip()
        if not bare:
            return []
        first = start + len(text) - len(text.lstrip())
        size = max(self._size(self._index(first)), 1.0)

        def step(before: int, after: int) -> tuple[float, float]:
            (left, above), (right, below) = self._origin(self._index(before)), self._origin(self._index(after))
            return (right - left) / size, abs(above - below) / size

        if step(first, first + len(bare) - 1)[1] < _LINE_STEP:
            return [(0, len(text))]
        spans: list[tuple[int, int]] = []
        begin = 0
        for gap in _SPACES.finditer(text):
            across, down = step(start + gap.start() - 1, start + gap.end())
            if across < -1 and down >= _LINE_STEP:
                spans.append((begin, gap.start()))
                begin = gap.end()
        return [*spans, (begin, len(text))]

    def _cells(self, text: str, start: int) -> list[tuple[int, int]]:
        """Return the spans of the parts of a line that wide gaps separate."""
        spans: list[tuple[int, int]] = []
        first = 0
        for gap in _SPACES.finditer(text):
            before, after = self._index(start + gap.start() - 1), self._index(start + gap.end())
            left, right = self._span(before)[1], self._span(after)[0]
            if right - left > _CELL_GAP * max(self._size(before), 1.0):
                spans.append((first, gap.start()))
                first = gap.end()
        return [*spans, (first, len(text))]

    def _is_unmapped(self, part: str, start: int) -> bool:
        letters = [place for place, character in enumerate(part) if not character.isspace()]
        step = max(1, len(letters) // _SAMPLES)
        wrong = sum(
            bool(_UNDECODED.match(part[place]))
            or self._raw.FPDFText_HasUnicodeMapError(self._text, self._index(start + place)) == 1
            for place in letters[::step]
        )
        return 2 * wrong > len(letters[::step])

    def _placed(self, text: str, first: int, last: int) -> Line:
        """Return a line with its place; `first` and `last` are the places of its outer characters in the page's text."""
        raw, start, end = self._raw, self._index(first), self._index(last)
        is_bullet = text[1:2] in _AFTER_BULLETS and raw.FPDFText_HasUnicodeMapError(self._text, start) == 1
        line = Line(text="", size=self._size(start))
        edited = self._edited(text, first, line.size)
        if is_bullet:
            edited = f"• {edited[1:].lstrip(_AFTER_BULLETS)}"
        line.text = _UNDECODED.sub("", edited).translate(_LIGATURES)
        if start < 0 or end < 0:
            return line
        line.left, line.baseline = self._origin(start)
        box = [ctypes.c_double() for _ in range(4)]
        raw.FPDFText_GetCharBox(self._text, end, *box)
        line.right = max(self._shown(box[0].value, box[2].value)[0], self._shown(box[1].value, box[3].value)[0])
        right, bottom = self._origin(end)
        line.vertical = abs(right - line.left) < line.size / 2 < line.baseline - bottom
        line.slanted = 2 * abs(line.baseline - bottom) > abs(right - line.left)
        line.bold = self._is_bold(start) and self._is_bold(end)
        if _is_spaced_out(text):
            line.text = self._respaced(text, first, line.size)
        return line

    def _edited(self, text: str, first: int, size: float) -> str:
        """Return a line with spaces between figures of cells or sizes, and with raised numbers as they are written on one line."""
        edits = {place: (place, " ") for place in self._gaps(text, first, size)}
        edits |= {start: (end, mark) for start, end, mark in self._marks(text, first)}
        for start, (end, replacement) in sorted(edits.items(), reverse=True):
            text = f"{text[:start]}{replacement}{text[end:]}"
        return text

    def _size(self, index: int) -> float:
        """Return the font size in points. The size in the file counts in units that the text's matrix scales."""
        matrix = self._raw.FS_MATRIX()
        known = self._raw.FPDFText_GetMatrix(self._text, index, matrix)
        scale = math.hypot(matrix.c, matrix.d) if known else 1.0
        return self._raw.FPDFText_GetFontSize(self._text, index) * (scale or 1.0)

    def _origin(self, index: int) -> tuple[float, float]:
        x, y = ctypes.c_double(), ctypes.c_double()
        self._raw.FPDFText_GetCharOrigin(self._text, index, x, y)
        return self._shown(x.value, y.value)

    def _is_bold(self, index: int) -> bool:
        return self._raw.FPDFText_GetFontWeight(self._text, index) >= _BOLD_WEIGHT or bool(
            _BOLD.search(self._font(index))
        )

    def _font(self, index: int) -> bytes:
        name = ctypes.create_string_buffer(128)
        known = self._raw.FPDFText_GetFontInfo(self._text, index, name, 128, ctypes.c_int())
        return name.value if known else b""

    def _gaps(self, text: str, first: int, size: float) -> Iterator[int]:
        """Yield the places between digits of cells or sizes: PDFium sees no space within a string, however wide its spacing."""
        for match in _DIGITS.finditer(text):
            before, after = (self._index(first + place) for place in (match.start() - 1, match.end()))
            small, large = sorted((self._size(before), self._size(after)))
            gap = self._span(after)[0] - self._span(before)[1]
            if small < _MARK_SIZE * large or gap > _DIGIT_GAP * max(size, 1.0):
                yield match.end()

    def _symbol(self, code: re.Match[str]) -> str:
        """Return the character of a code that a font of symbols has, or the code."""
        is_known = is_symbol(self._font(self._index(code.start())).decode("latin-1"))
        return code.group().translate(PRIVATE) if is_known else code.group()

    def _marks(self, text: str, first: int) -> Iterator[tuple[int, int, str]]:
        """Yield the spans of raised numbers and signs in a line, each with how it is written."""
        begun = len(text)
        for match in reversed(list(_MARK_ENDS.finditer(text))):
            last, start, end = self._index(first + match.start()), match.start(), match.end()
            if end > begun:
                continue
            own, height = self._size(last), self._origin(last)[1]
            least = max(match.start() - _LONGEST_MARK, 0)
            while start > least and text[start - 1] in _IN_MARKS and self._is_like(first + start - 1, own, height):
                start -= 1
            above = text[:start].rstrip(_JOINED)
            before = self._index(first + len(above) - 1)
            size, rise = self._size(before), height - self._origin(before)[1]
            if above and own < _MARK_SIZE * size and _MIN_RISE * size < rise < _MAX_RISE * size:
                begun, mark, is_fraction = (
                    start,
                    text[start:end],
                    text[end : end + 3].lstrip(_JOINED).startswith(_SLASHES),
                )
                yield start, end, f" {mark}" if is_fraction else raised(above, mark)

    def _is_like(self, place: int, size: float, height: float) -> bool:
        """Return True if a character has a size and a baseline."""
        index = self._index(place)
        return abs(self._size(index) - size) < 0.1 * size and abs(self._origin(index)[1] - height) < 0.1 * size

    def _continued(self, end: re.Match[str]) -> str:
        """Return the end of a line, or as many other characters if the line goes on.

        PDFium ends one beside raised and lowered type, and at the slash of a fraction.
        """
        before, after = self._index(end.start() - 1), self._index(end.end())
        small, size = sorted((self._size(before), self._size(after)))
        at_slash = end.string[end.start() - 1] in _SLASHES or end.string[end.end()] in _SLASHES
        if small >= _MARK_SIZE * size and not at_slash:
            return end.group()
        rise = self._origin(before)[1] - self._origin(after)[1]
        gap = self._span(after)[0] - self._span(before)[1]
        if abs(rise) >= _MAX_RISE * size or not -size / 2 < gap < size:
            return end.group()
        return end.group().replace("\r\n", _JOINED if gap < _WORD_GAP * size else " " + _JOINED[1:])

    def _respaced(self, text: str, first: int, size: float) -> str:
        """Return a line whose letters are spaced out with spaces only where gaps are wider than between letters."""
        letters = [(place, character) for place, character in enumerate(text) if character != " "]
        spans = [self._span(self._index(first + place)) for place, _ in letters]
        gaps = [after[0] - before[1] for before, after in pairwise(spans)]
        usual = median(gaps)
        if usual > _LETTER_GAP * size or min(gaps) < -size:
            return text
        pieces = [letters[0][1]]
        for gap, (_, character) in zip(gaps, letters[1:], strict=True):
            pieces.append(f" {character}" if gap > usual + _WORD_GAP * size else character)
        return "".join(pieces)

    def _span(self, index: int) -> tuple[float, float]:
        """Return the left and right of a character with its side bearings."""
        box = self._raw.FS_RECTF()
        self._raw.FPDFText_GetLooseCharBox(self._text, index, box)
        ends = self._shown(box.left, box.bottom)[0], self._shown(box.right, box.top)[0]
        return min(ends), max(ends)


def _is_readable(parts: Iterable[str]) -> bool:
    """Return True if text without a mapping to Unicode consists of words: some fonts need none, since their codes are ASCII."""
    words = [word for part in parts for word in _WORDS.findall(part)]
    return sum(_WORD.fullmatch(word) is not None for word in words) > 0.7 * len(words)


def _has_few_signs(part: str) -> bool:
    """Return True if a line has at most half as many of TeX's signs as letters, as words do."""
    return 2 * len(_TEX_SIGNS.findall(part)) <= sum(map(str.isalpha, part))


def _is_garbled(parts: Iterable[str]) -> bool:
    """Return True if most words of a font, and most different ones, have no vowel: it shows other characters than its codes name."""
    words = [word for part in parts for word in _SMALL_WORDS.findall(part)]
    different = set(words)
    return len(different) >= _ENOUGH_WORDS and all(
        2 * sum(bool(_VOWELS.search(word)) for word in each) < len(each) for each in (words, different)
    )


def _is_spaced_out(text: str) -> bool:
    """Return True if spaces separate letters instead of words. Rows of figures, and letters in order, are what they look like."""
    words = text.split()
    single = sum(len(word) == 1 for word in words)
    return (
        len(words) >= _SPACED_WORDS
        and 3 * single > len(words)
        and sum(map(len, words)) < _FEW_LETTERS * len(words)
        and text.replace(" ", "").isalpha()
        and sorted(set(words)) != words
    )
