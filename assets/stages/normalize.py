"""Normalise the drafts of a parser into one text with blocks and their offsets.

Every parser passes its drafts to `assemble`, so white space, Unicode form and offsets are decided in one place:
`text[start:end]` of a block is exactly what is indexed, cited and highlighted.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Literal

import msgspec

from resources.core.domain import Block
from resources.core.errors import SkipDocumentError

Kind = Literal["heading", "paragraph", "list", "table", "code"]

_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNWANTED = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # control characters: Postgres rejects NUL, and the rest is never searched for
    "\xad\u200b\u2060\ufeff"  # soft hyphen, zero-width space, word joiner, byte order mark: they split words invisibly
    "\u202a-\u202e\u2066-\u2069"  # bidirectional overrides: displayed text would differ from indexed text
    "\ud800-\udfff\ufffe\uffff]"  # lone surrogates and non-characters cannot be stored as UTF-8 or have no meaning in it
)
_ASCII_LINE_ENDS = bytes.maketrans(b"\r\v\f\x1c\x1d\x1e", b"\n" * 6)
_ASCII_UNWANTED = bytes([*range(9), *range(0x0E, 0x1C), 0x1F, 0x7F])
_SPACES = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_UNEVEN = re.compile(r"[ \t]{2}|\t|\n | \n|\n{3}")
_RUNS = re.compile(r"[ \t]+")
_LINE_EDGES = re.compile(r" *\n *")
_BLANK_LINES = re.compile(r"\n{3,}")
_WRAPPED_WORD = re.compile(r"(?<=[^\W\d_])[-\u2010]\n[ \t]*(?=[^\W\d_])")
_WORD_BEFORE = re.compile(r"\w++\Z")
_WORD_AFTER = re.compile(r"\w{1,60}")
_WORD = re.compile(r"\w+")
_SUSPENDED = frozenset({"und", "oder", "bzw", "sowie", "and", "or", "et", "ou", "of", "y", "e", "o"})
"""Words before which a hyphen stands for the rest of a word: `Vor- und Nachteile`. Without "to" and "en", which also end words."""
_COMPOUND = re.compile(r"(\w+)-(?=(\w+))")

MAX_CHARACTERS = 100_000_000
"""Maximum characters of text in one document; twice the largest upload."""
MAX_BLOCKS = 4_000_000
MAX_NAME = 300
"""Characters of a heading kept in the section path of the blocks below it, since every block carries the whole path."""
MAX_STACKED = 30
"""Combining marks kept per character. Composition takes time quadratic in their number, and no writing system needs more.

Source: the Stream-Safe Text Format, Unicode Standard Annex 15, section 13, https://www.unicode.org/reports/tr15/
"""


class BlockDraft(msgspec.Struct, kw_only=True):
    """A block before its offsets are known; fields as in `resources.core.domain.Block`."""

    kind: Kind
    text: str
    level: int | None = None
    anchor: str | None = None
    page: int | None = None
    sheet: str | None = None
    row_start: int | None = None


def clean(text: str) -> str:
    """Return `text` in NFC with `\\n` line ends, plain spaces and without invisible characters that break search. Idempotent."""
    if text.isascii():
        data = text.encode("ascii").replace(b"\r\n", b"\n")
        return data.translate(_ASCII_LINE_ENDS, _ASCII_UNWANTED).decode("ascii")
    text = _UNWANTED.sub("", _LINE_ENDS.sub("\n", text))
    # Removing a character may create a new composable pair: NFC after the removal is stable, NFC before it is not.
    text = _SPACES.sub(" ", text)
    suspect, excess = _stacks()
    if not suspect.search(text):
        return unicodedata.normalize("NFC", text)
    # Composition may also split one mark into two, so the excess is removed before and after it.
    return excess.sub("", unicodedata.normalize("NFC", excess.sub("", text)))


@cache
def _stacks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns for runs of combining marks that may exceed `MAX_STACKED`, and for what exceeds it."""
    marks = "".join(chr(code) for code in range(0x300, 0x1F000) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}]{{{MAX_STACKED // 3}}}"), re.compile(f"(?<=[{marks}]{{{MAX_STACKED}}})[{marks}]+")


def squeeze(text: str) -> str:
    """Collapse runs of white space; line ends stay, at most one blank line in a row. Takes cleaned text. Idempotent."""
    if not _UNEVEN.search(text):
        return text.strip()
    return _BLANK_LINES.sub("\n\n", _LINE_EDGES.sub("\n", _RUNS.sub(" ", text))).strip()


def one_line(text: str) -> str:
    """Collapse all white space to single spaces, for headings and table cells."""
    return " ".join(text.split())


def dehyphenate(text: str) -> str:
    """Join words cut at a line's end (`exam-\\nple`); a hyphen that the text also uses elsewhere is kept,
    and so is one before "and" or "or"."""
    if not _WRAPPED_WORD.search(text):
        return text

    def halves(match: re.Match[str]) -> tuple[str, str]:
        before = _WORD_BEFORE.search(text[max(0, match.start() - 60) : match.start()])
        after = _WORD_AFTER.match(text, match.end())
        return before.group() if before else "", after.group() if after else ""

    # Only the words in question are collected: a set of all words takes ten times the memory of the text.
    wanted = {tuple(half.lower() for half in halves(match)) for match in _WRAPPED_WORD.finditer(text)}
    joined = {left + right for left, right in wanted}
    lowered = text.lower()
    words = {word for match in _WORD.finditer(lowered) if (word := match.group()) in joined}
    compounds = {pair for match in _COMPOUND.finditer(lowered) if (pair := match.groups()) in wanted}

    def join(match: re.Match[str]) -> str:
        left, right = halves(match)
        pair = (left.lower(), right.lower())
        if "".join(pair) not in words:
            if right in _SUSPENDED:
                return "- " if text[match.end() + len(right) : match.end() + len(right) + 1].isspace() else "-"
            if pair in compounds:
                return "-"
        return "-" if right[:1].isupper() else ""

    return _WRAPPED_WORD.sub(join, text)


def _block_text(draft: BlockDraft) -> str:
    text = clean(draft.text)
    match draft.kind:
        case "heading":
            return one_line(text)
        case "code":
            return _without_trailing(text).strip("\n")
        case "table":
            return "\n".join(line for line in (one_line(row) for row in text.split("\n")) if line)
        case "list":
            return _without_trailing(text).strip("\n").rstrip()
        case "paragraph":
            return squeeze(text)


def _without_trailing(text: str) -> str:
    """Remove white space at the ends of lines."""
    if " \n" not in text and "\t\n" not in text:
        return text.rstrip(" \t")
    return "\n".join(line.rstrip(" \t") for line in text.split("\n"))


def assemble(drafts: Iterable[BlockDraft]) -> tuple[str, list[Block]]:
    """Return the text and its blocks in order, omitting empty drafts. An empty heading ends the sections of its level.

    Blocks are separated by a blank line that belongs to none of them; table parts of one sheet by a line end. Raises
    `SkipDocumentError` for more text or blocks than a document may have.
    """
    parts: list[str] = []
    blocks: list[Block] = []
    path: list[tuple[int, str]] = []
    position = 0
    for draft in drafts:
        text = _block_text(draft)
        if draft.kind == "heading":
            level = draft.level or 1
            while path and path[-1][0] >= level:
                path.pop()
        if not text or text.isspace():
            continue
        if blocks:
            parts.append("\n\n")
            position += 2
        blocks.append(
            Block(
                kind=draft.kind,
                start=position,
                end=position + len(text),
                section_path=tuple(name for _, name in path),
                page=draft.page,
                level=draft.level,
                anchor=draft.anchor if draft.anchor is None or len(draft.anchor) <= MAX_NAME else None,
                sheet=clean(draft.sheet) if draft.sheet else draft.sheet,
                row_start=draft.row_start,
            )
        )
        parts.append(text)
        position += len(text)
        if position > MAX_CHARACTERS:
            raise SkipDocumentError(f"The file holds more than {MAX_CHARACTERS:,} characters of text. Split it.")
        if len(blocks) > MAX_BLOCKS:
            raise SkipDocumentError(f"The file holds more than {MAX_BLOCKS:,} paragraphs and tables. Split it.")
        if draft.kind == "heading":
            path.append((draft.level or 1, text[:MAX_NAME]))
    return "".join(parts), blocks
