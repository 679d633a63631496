"""Cut a passage into the parts that an answer may quote, and tell headings, introductions and mere marks from them. Pure."""

import re
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from resources.core.filetypes import SHEETS
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.search.citations.heading import ITEM, is_heading, is_title, known_of
from serving.search.retrieval.highlight import pieces
from serving.search.retrieval.passage import Passage

_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?$|__[^_]+__:?$)")
_LINK_ONLY = re.compile(r"^\W*(?:!?\[[^\]]*\]\([^)]*\)|<?https?://\S+>?)\W*$", re.IGNORECASE)
_FOOTER = re.compile(
    r"^(?:.{,100}[·•|].{,100}\b|.{,100}[,–—-]\s*)?(?:page|seite) \d+(?: ?(?:of|von|sur|/) ?\d+)?$", re.IGNORECASE
)
"""What stands below each page: Annual report 2025 · Page 1."""
_RULE = re.compile(r"^[\s|:=-]*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
COLON = re.compile(r"[:：][*_\s]*$")
_QUESTION_MARKS, _AROUND = ("?", "？", "؟"), "*_ \"”'’」』）"
_LISTED = 280
"""Characters from which lines are a list, of which each says something: what is shorter, as the lines of an invoice, is quoted as one."""
_LINE = re.compile(r"\S[^\n]*")

Span = tuple[int, int]


class TextPart(NamedTuple):
    """A sentence, list item or row of a passage: `text[start:end]`, in one line."""

    start: int
    end: int
    text: str
    row: bool
    header: bool
    above: str
    """The nearest heading, question or introduction above."""

    title: bool = False
    listed: bool = False
    """True for a line of a list without marks."""

    @property
    def quotable(self) -> bool:
        """True unless it is a heading, a question, a table's header, a page's footer, or nothing but links."""
        return not (
            self.header
            or self.title
            or _HEADING.match(self.text)
            or _asks(self.text)
            or _LINK_ONLY.match(self.text)
            or _RULE.match(self.text)
            or _FOOTER.match(self.text)
            or _FENCE.match(self.text)
        )


def cut(passage: Passage) -> list[TextPart]:
    """Return the parts of a passage, in order, each with what is above it."""
    known = None if passage.mime_type == CONVERSATION else known_of(passage.headings)
    return parts_of(passage.chunk_text, known, sheet=passage.mime_type in SHEETS)


def parts_of(text: str, known: AbstractSet[str] | None = frozenset(), *, sheet: bool = False) -> list[TextPart]:
    """Return the parts of a text, in order. `sheet`: it is of a sheet or CSV file.

    `known`: what `known_of` returns for its headings; None for a conversation, in which a line without the mark of a heading is none.
    """
    found: list[TextPart] = []
    heading = intro = ""
    for piece in pieces(text, sheet=sheet):
        answers = bool(found) and _asks(found[-1].text)
        titles, said = ([], [(piece.start, piece.end)])
        if not piece.row:
            titles, said = _lines(text, piece.start, piece.end, titled=known is not None and not answers)
        for start, end in (*titles, *said):
            flat = " ".join(text[start:end].split())
            if not flat:
                continue
            title = (start, end) in titles or (not (piece.row or answers) and is_heading(text, start, end, known))
            listed = not title and len(said) > 1
            part = TextPart(start, end, flat, piece.row, piece.header, f"{heading} {intro}".strip(), title, listed)
            found.append(part)
            if title or _HEADING.match(flat) or _asks(flat):
                heading, intro = flat, ""
            elif COLON.search(flat) or piece.header:
                intro = flat
            elif not ITEM.match(flat) and not piece.row:
                intro = ""
    return found


def _asks(text: str) -> bool:
    return text.rstrip(_AROUND).endswith(_QUESTION_MARKS)


def _lines(text: str, start: int, end: int, *, titled: bool) -> tuple[list[Span], list[Span]]:
    """Return the lines that a piece begins with and that are headings, and what it says below them: a sentence, or lines of a list.

    `titled`: one of the headings may lack the mark of one.
    """
    found: list[Span] = []
    at = start
    if text[:start].rstrip(" \t")[-1:] not in ("", "\n"):  # a sentence that begins within a line
        return [], _listed(text, start, end)
    while (line_end := text.find("\n", at, end)) >= 0:
        line, below = text[at:line_end].strip(), text[line_end:end].lstrip()
        marked = not line or _HEADING.match(line) is not None
        if not below or not (marked or (titled and is_title(line, below))):
            break
        titled = titled and marked
        found += [(at, line_end)] if line else []
        at = line_end + 1
    return found, _listed(text, at, end)


def _listed(text: str, start: int, end: int) -> list[Span]:
    """Return the lines of what is long and no sentence, as of a table in a PDF: none goes on in lower case. Else the whole."""
    lines = [(match.start(), match.end()) for match in _LINE.finditer(text, start, end)]
    listed = end - start > _LISTED and all(text[at].isupper() or text[at].isdigit() for at, _ in lines)
    return lines if listed else [(start, end)]
