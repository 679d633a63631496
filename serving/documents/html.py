"""Turn the plain text of a document back into HTML: headings, lists, tables and paragraphs. Pure; all text is escaped.

Parsers store lists as Markdown and tables as lines of cells (`assets.stages.normalize`, `assets.stages.parse.tables`). Which lines are
headings is known from the section paths of the document's passages.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

_BLOCK = re.compile(r"[^\n]+(?:\n[^\n]+)*")
_LINE = re.compile(r"[^\n]+")
_ITEM = re.compile(r"( *)(?:-|\d{1,9}\.) +")
_CELL = " | "
_INDENT = 2
_WRAPPED, _FULL = 40, 0.75
"""A line that ended where a page was full has at least so many characters, and this share of the longest line's."""
_DEEPEST = 4
_HIGHEST, _LOWEST = 2, 6
"""Levels of HTML headings; the first is the page's title."""
_NAME = 300
"""Characters of a heading that a section path keeps."""

Line = tuple[int, str]
"""The offset of a line and its text."""


class _Marked:
    """A text of which a passage is marked, and more strongly what is quoted of it.

    The first mark of the quote has the id `place`; without a quote, that of the passage.
    """

    def __init__(self, text: str, passage: tuple[int, int], quote: tuple[int, int]) -> None:
        self.text = text
        self._passage, self._quote = passage, quote
        self._id = ' id="place"'
        self.above: list[int] = []
        """Levels of the headings that the text is below."""

    def html(self, start: int, end: int) -> str:
        """Return a range as HTML."""
        first, last = max(start, self._passage[0]), min(end, self._passage[1])
        if first >= last:
            return escape(self.text[start:end])
        place = self._place(here=self._quote[0] >= self._quote[1])
        mark = f"<mark{place}>{self._quoted(first, last)}</mark>"
        return f"{escape(self.text[start:first])}{mark}{escape(self.text[last:end])}"

    def _quoted(self, start: int, end: int) -> str:
        first, last = max(start, self._quote[0]), min(end, self._quote[1])
        if first >= last:
            return escape(self.text[start:end])
        strong = f'<mark class="quote"{self._place(here=True)}>{escape(self.text[first:last])}</mark>'
        return f"{escape(self.text[start:first])}{strong}{escape(self.text[last:end])}"

    def _place(self, *, here: bool) -> str:
        """Return the attribute of the place, once."""
        found = self._id if here else ""
        self._id = "" if here else self._id
        return found


def headings(section_paths: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the level of each heading, from 1, by the section paths of passages."""
    return {name: level for path in section_paths for level, name in enumerate(path, start=1)}


def render(
    text: str,
    known: Mapping[str, int],
    start: int = 0,
    end: int = 0,
    *,
    quote: tuple[int, int] = (0, 0),
    wrapped: bool = True,
    signs: Mapping[int, str] | None = None,
) -> str:
    """Return the text as HTML with the passage from `start` to `end` marked, and more strongly `quote`, a range of it.

    `known` are its headings with their levels. `wrapped`: lines that are about as long as their paragraph's longest were ended by the
    width of a page, so they are joined; otherwise each line is kept, as in a conversation. `signs` are HTML, such as the number of a
    page, by the place where it belongs; each is put before the block that contains it.
    """
    quote = (max(quote[0], start), min(quote[1], end))
    marked = _Marked(text, (start, end), quote)
    ahead = sorted((signs or {}).items(), reverse=True)
    parts: list[str] = []
    for lines in _blocks(text, start, end):
        while ahead and ahead[-1][0] < lines[-1][0] + len(lines[-1][1]):
            parts.append(ahead.pop()[1])
        parts.append(_block(marked, lines, known, wrapped))
    return "".join(parts)


def _blocks(text: str, start: int, end: int) -> Iterator[list[Line]]:
    """Yield the lines of each block. Parts of a table, which repeat its head or whose head stands alone, are one block.

    A repeated head is left out unless what is marked, from `start` to `end`, has some of it.
    """
    table: list[Line] = []
    for block in _BLOCK.finditer(text):
        lines = [(block.start() + line.start(), line.group()) for line in _LINE.finditer(block.group())]
        repeats = table and _is_table(lines) and lines[0][1] == table[0][1]
        if table and _is_table(lines) and (repeats or len(table) == 1):
            at, head = lines[0]
            marked = start < at + len(head) and at < end
            table += lines[1:] if repeats and not marked else lines
            continue
        if table:
            yield table
        table = lines if _is_table(lines) else []
        if not table:
            yield lines
    if table:
        yield table


def _is_table(lines: Sequence[Line]) -> bool:
    return all(_CELL in line for _, line in lines[:1]) and sum(_CELL in line for _, line in lines) * 2 > len(lines)


def _block(marked: _Marked, lines: Sequence[Line], known: Mapping[str, int], wrapped: bool) -> str:
    start, end = lines[0][0], lines[-1][0] + len(lines[-1][1])
    if len(lines) == 1 and (level := known.get(lines[0][1].strip()[:_NAME])):
        while marked.above and marked.above[-1] >= level:
            marked.above.pop()
        marked.above.append(level)  # a part may begin below its chapter's heading
        tag = f"h{min(_LOWEST, _HIGHEST - 1 + len(marked.above))}"
        return f"<{tag}>{marked.html(start, end)}</{tag}>"
    if _is_table(lines):
        return _table(marked, lines)
    if _ITEM.match(lines[0][1]):
        return f"<ul dir=auto>{''.join(_items(marked, lines))}</ul>"
    if any(line.startswith(" ") for _, line in lines):
        return f"<pre><code>{marked.html(start, end)}</code></pre>"
    longest = max(len(line) for _, line in lines)
    parts: list[str] = []
    for at, line in lines:
        full = wrapped and len(line) >= max(_WRAPPED, _FULL * longest)
        parts.append(marked.html(at, at + len(line)) + (" " if full else "<br>"))
    return f"<p>{''.join(parts).removesuffix('<br>').rstrip()}</p>"


def _table(marked: _Marked, lines: Sequence[Line]) -> str:
    rows: list[str] = []
    for start, line in lines:
        at, tag = start, "th" if line == lines[0][1] and len(lines) > 1 else "td"
        cells: list[str] = []
        for cell in line.split(_CELL):
            cells.append(f"<{tag}>{marked.html(at, at + len(cell))}</{tag}>")
            at += len(cell) + len(_CELL)
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<div class=wide dir=auto tabindex=0 role=group aria-label=Table><table>{''.join(rows)}</table></div>"


def _items(marked: _Marked, lines: Sequence[Line]) -> Iterator[str]:
    """Yield the items of a list; a line without a marker belongs to the item before it. Numbers are shown as they are written."""
    at = 0
    while at < len(lines):
        start, line = lines[at]
        at += 1
        while at < len(lines) and not _ITEM.match(lines[at][1]):
            at += 1
        end = lines[at - 1][0] + len(lines[at - 1][1])
        found = _ITEM.match(line)
        depth = min(_DEEPEST, len(found.group(1)) // _INDENT) if found else 0
        numbered = found is not None and not found.group().lstrip().startswith("-")
        begins = start + (0 if found is None else found.start(1) + len(found.group(1)) if numbered else found.end())
        kind = " ".join([f"depth-{depth}", *(["numbered"] if numbered else [])])
        yield f'<li class="{kind}">{marked.html(begins, end)}</li>'
