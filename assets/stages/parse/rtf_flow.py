"""Put into the flow of an RTF file what readers of its text skip: boxes, notes, comments, numbers of lists, ticks, headers and footers.

An RTF file is a tree of groups, and a group whose first word is a destination is skipped by `striprtf`. Boxes, notes and comments
follow the paragraph or table that they are anchored in. Text that is deleted under review, or hidden, is left out.
"""

import re
from dataclasses import dataclass, field, replace

from striprtf.striprtf import destinations

from assets.stages.parse.marks import gap
from assets.stages.parse.symbols import PRIVATE, SYMBOLS

_TOKEN = re.compile(
    r"\\bin(\d{1,9}) ?|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'[0-9a-fA-F]{2}|\\.|[{}]|[\r\n]+|[^\\{}\r\n]+", re.DOTALL
)
_HEAD = re.compile(r"\{\s*(\\\*\s*)?\\([a-zA-Z]{1,32})(?:-?\d{1,10})? ?")
_WORD_ART = re.compile(r"\{\\sp\s*\{\\sn\s+gtextUNICODE\s*\}\s*\{\\sv\s+([^{}]*)\}\s*\}")
_FIELD = re.compile(r"\\ff(res|defres)(\d{1,3})")
_SYMBOL_FONT = re.compile(r"\{\\f(\d{1,5})\\[^;]{0,200}?[ }]Symbol;")
_FONT_TABLE = 200_000
"""Characters from the beginning of the table of fonts in which fonts are looked for."""
_SYMBOL_FIELD = re.compile(r"\bSYMBOL (\d{1,5}) [^{}]{0,50}?\bSymbol\b")
_WRAPPERS = frozenset({"shp", "shpinst", "shpgrp", "do", "object", "result", "pntext", "ud", "upr"})
"""Destinations that hold text of the document."""
_BOXES = frozenset({"shptxt", "dptxbxtext"})
_NOTES = frozenset({"footnote", "annotation"})
_MARGINS = frozenset(f"{part}{page}" for part in ("header", "footer") for page in ("", "l", "r", "f"))
MARGINS = "\ufdd0"
"""Before each header and footer: a character that no text has. Source: Unicode, section 23.7, Noncharacters"""
_NO_CHARACTER = re.compile(r"(?<!\\)((?:\\\\)*)\\u(?:-0*560|0*64976)(?!\d)")
"""`MARGINS` in a file."""
_LEFT_OUT = frozenset({"pict", "nonshppict", "shprslt"})
"""Pictures, and the second rendering of a shape."""
_HIDING = {"deleted": 1, "v": 2}
_SHOWN = frozenset({"u", "tab", "line", "par"})
"""Words that are text, so that hidden ones are left out."""
_SPACING = frozenset({"par", "line", "tab", "cell", "row"})
_LINE_ENDS = frozenset({"par", "line", "\\\n", "\\\r"})
_CELL_ENDS = frozenset({"pard", "row", "sect", "sectd", "page"})
_PARAGRAPH_ENDS = frozenset({"par", "sect", "page"})
_LONGEST_FIELD = 2_000
_UNDECIDED = 25
"""The result of a box that nobody touched; its default counts."""


@dataclass
class _Group:
    """The state of a group; that of the group around it comes back at its end."""

    sink: list[str]
    gone: bool = False
    aside: bool = False
    """True if readers skip it: properties, bookmarks."""
    hidden: int = 0
    struck: bool = False
    symbols: bool = False
    """True in the font Symbol."""
    instead: int = 1
    """Characters after each `\\u` for readers that do not know Unicode."""
    first_gone: bool = False
    """True if the next group in it is for readers that do not know Unicode."""
    after: str = ""
    """What follows the group."""


@dataclass
class _Flow:
    """The text so far, and the boxes and notes that wait for the end of a paragraph."""

    out: list[str] = field(default_factory=list)
    waiting: list[list[str]] = field(default_factory=list)
    margins: list[str] = field(default_factory=list)
    """Headers and footers."""
    in_row: bool = False
    in_cell: bool = False
    """True in the text of a cell, until its row or the paragraph's format ends."""
    after_row: bool = False
    notes: int = 0
    author: list[str] = field(default_factory=list)
    struck: str = ""
    """The struck text before the place that is read."""

    def box(self, begin: str = "") -> list[str]:
        made = [begin]
        self.waiting.append(made)
        return made

    def release(self) -> None:
        """Put what waits into the text, as paragraphs of its own."""
        self.after_row = False
        for box in self.waiting:
            self.out += [r"{\pard ", *box, r"\par }"]
        self.waiting.clear()

    def end(self) -> None:
        """End the last paragraph if something waits for that, and begin headers and footers."""
        if self.waiting:
            self.out.append(r"\par ")
            self.release()
        if self.margins:
            self.out += [r"\pard\par ", *self.margins]
            self.margins.clear()


def flowing(source: str) -> str:
    """Return the RTF with all of its text in the flow of the document; headers and footers follow it, each after `MARGINS`."""
    source = _NO_CHARACTER.sub(r"\1\\u65533", source)
    flow = _Flow()
    group, around = _Group(flow.out), list[_Group]()
    table = max(source.find("{\\fonttbl"), 0)
    symbols = set(_SYMBOL_FONT.findall(source, table, table + _FONT_TABLE))
    at = instead = 0
    while match := _TOKEN.match(source, at):
        piece, word = match.group(), match[2]
        at = match.end() + int(match[1] or 0)
        instead = 0 if piece in "{}" else instead
        if piece == "{":
            around.append(group)
            group, at = _opened(source, match.start(), group, flow)
        elif piece == "}" and around:
            inner, group = group, around.pop()
            _close(inner, group, flow, last=not around)
        elif group.gone or match[1] or (piece == "\\*" and not _begins(group.sink)):
            continue
        elif word in _HIDING:
            bit = _HIDING[word]
            group.hidden = group.hidden & ~bit if match[3] == "0" else group.hidden | bit
        elif not group.hidden or (word not in _SHOWN if word else piece == "\\*"):
            in_flow = not group.aside and (group.sink is flow.out or group.sink is flow.margins)
            if in_flow:
                _follow(word or "", match[3], piece, flow)
            group.hidden = 0 if word == "plain" else group.hidden
            _strike(group, flow, piece, word or "", match[3])
            if word in ("f", "plain"):
                group.symbols = word == "f" and match[3] in symbols
            if word == "uc":
                group.instead = max(int(match[3] or 1), 0)
            if in_flow and flow.in_cell and (word in _LINE_ENDS or piece in _LINE_ENDS):
                piece = "{ }"  # a row is one line
            group.sink.append(_symbols(piece, word or "", instead) if group.symbols and not group.aside else piece)
            instead = group.instead if word == "u" else 0 if word else _left(piece, instead)
            if word in _PARAGRAPH_ENDS and not (flow.in_row or group.aside) and group.sink is flow.out:
                flow.release()
    flow.end()
    return "".join(flow.out)


def _strike(group: _Group, flow: _Flow, piece: str, word: str, value: str | None) -> None:
    """Follow which text is struck, and put a space between it and what replaces it."""
    if word in ("strike", "striked", "plain"):
        group.struck = word != "plain" and value != "0"
    elif word in _SPACING:
        flow.struck = ""
    elif not (word or group.aside) and (text := piece.strip("\r\n")):
        if not group.struck and gap(flow.struck, text):
            group.sink.append("{ }")
        flow.struck = text if group.struck else ""


def _symbols(piece: str, word: str, instead: int) -> str:
    """Return text in the font Symbol in Unicode. Its first `instead` characters are for readers that do not know it, and stay."""
    if word == "u" and piece[2:].strip():
        found = chr(int(piece[2:].strip()) & 0xFFFF).translate(PRIVATE)
        return rf"\u{ord(found)} "
    if word or (instead and piece.startswith("\\")):
        return piece
    text = bytes.fromhex(piece[2:]).decode("latin-1") if piece.startswith("\\'") else piece
    if text.startswith("\\"):
        return piece
    return text[:instead] + "".join(
        one if (found := one.translate(SYMBOLS)) == one else _unicode(ord(found)) for one in text[instead:]
    )


def _left(piece: str, instead: int) -> int:
    """Return how many of the characters that follow a `\\u` come after a piece."""
    return max(instead - (1 if piece.startswith("\\") else len(piece.strip("\r\n"))), 0)


def _unicode(code: int) -> str:
    return rf"{{\uc1\u{code}?}}"


def _begins(sink: list[str]) -> bool:
    """Return True at the beginning of a group, where `\\*` names a destination. StarOffice writes it before styles, too."""
    return bool(sink) and (sink[-1] == "{" or (sink[-1].isspace() and sink[-2:-1] == ["{"]))


def _opened(source: str, start: int, outer: _Group, flow: _Flow) -> tuple[_Group, int]:
    """Return the group that begins at `start`, and where its content begins."""
    inner = replace(outer, first_gone=False, after="", gone=outer.gone or outer.first_gone)
    outer.first_gone = False
    head = _HEAD.match(source, start)
    word, content = (head[2], head.end()) if head else ("", start + 1)
    art = _WORD_ART.match(source, start)
    apart = art is not None or word in _BOXES or word in _NOTES or word == "atnauthor"
    if inner.gone or inner.aside:
        return _kept(inner), start + 1
    if apart or word in _LEFT_OUT:
        outer.sink.append("{}")  # the space after the word before is not text
    if word in _LEFT_OUT or (apart and outer.hidden):
        inner.gone = True
        return inner, content
    if outer.sink is flow.margins and (apart or word in _MARGINS):
        inner.gone = art is not None or word == "atnauthor"
        inner.sink.append(rf"\par {{{art[1]}}}" if art else r"\par ")
    elif word in _MARGINS:
        inner.sink = flow.margins
        inner.sink.append(rf"\par\pard {_unicode(ord(MARGINS))}\par ")
    elif art:
        flow.box(f"{{{art[1]}}}")
    elif word in _BOXES:
        inner.sink = flow.box()
    elif word == "atnauthor":
        inner.sink = flow.author = []
    elif word in _NOTES:
        inner.sink = _note(word, outer, flow)
    elif word in _WRAPPERS:
        inner.first_gone = word == "upr"
    else:
        inner.aside = head is not None and (head[1] is not None or word in destinations)
        inner.after = _of_field(source, start) if word == "fldinst" else ""
        content = start + 1
    return _kept(inner), content


def _kept(group: _Group) -> _Group:
    if not group.gone:
        group.sink.append("{")
    return group


def _close(inner: _Group, outer: _Group, flow: _Flow, *, last: bool) -> None:
    if inner.gone:
        return
    if last and inner.sink is flow.out:
        flow.end()
    inner.sink.append("}")
    if inner.after and not outer.hidden:
        outer.sink.append(inner.after)


def _note(word: str, outer: _Group, flow: _Flow) -> list[str]:
    """Return where the content of a note goes: below the paragraph, with the number or author that the paragraph shows."""
    if word == "annotation":
        author = "".join(flow.author)
        return flow.box(f"Comment by {author}: " if author else "Comment: ")
    flow.notes += 1
    outer.sink.append(f"{{ [{flow.notes}]}}")
    return flow.box(f"[{flow.notes}] ")


def _follow(word: str, value: str | None, piece: str, flow: _Flow) -> None:
    """Keep account of rows. What waits for the end of a table comes before the next text."""
    if word in ("trowd", "intbl"):
        flow.in_cell = value != "0"
    elif word in _CELL_ENDS:
        flow.in_cell = False
    if word in ("trowd", "intbl"):
        flow.in_row, flow.after_row = True, False
    elif word == "pard":
        flow.in_row = False
    elif word == "row":
        flow.in_row, flow.after_row = False, True
    elif flow.after_row and not flow.in_row and (word in _SHOWN or (not word and piece.strip())):
        flow.release()


def _of_field(source: str, start: int) -> str:
    """Return the box of a form, ticked or not, or a character of the font Symbol; nothing for another field."""
    end = source.find("}", start, start + _LONGEST_FIELD)
    if symbol := _SYMBOL_FIELD.search(source, start, end):
        return _unicode(ord(SYMBOLS.get(int(symbol[1]), " ")))
    if "FORMCHECKBOX" not in source[start:end]:
        return ""
    found = {name: int(value) for name, value in _FIELD.findall(source, start, end)}
    result = found.get("res", _UNDECIDED)
    ticked = found.get("defres", 0) if result == _UNDECIDED else result
    return _unicode(ord("☒" if ticked else "☐"))
