"""Cut a snippet of 100 characters from the sentence or row of a chunk that answers the query best.

The best one holds most of the query's words, those rare within the chunk counting more: a page on vacations says "vacation" in
every sentence and "Lisbon" in one. A heading's words count for what stands below it. The snippet's start is also the place that a citation
points at.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

from serving.search.retrieval.terms import stem

SNIPPET_CHARACTERS = 100
MOST_PLACES = 200
"""Words of a piece among which a snippet's start is looked for: a row may hold thousands, which would take quadratic time."""
_SPACE = re.compile(r"\s")
_SENTENCE_END = re.compile(r"[.!?。！？｡।۔؟](?:(?<=[.!?।۔؟])[\"'”’)\]]*\s+|(?<=[。！？｡])[。！？｡”’」』）】》〉)\]]*)")
"""It begins with one set of characters, which the regular expression engine looks for faster than for alternatives."""
_LAST_WORD = re.compile(r"(?<![\w.'’])[\w.]{1,8}\Z|(?<=\b[dlDL]['’])[\w.]{2,8}\Z")
_ABBREVIATION = re.compile(
    r"etc|vs|cf|approx|ca|Dr|Mr|Mrs|Ms|Prof|Rev|Gen|St|Inc|Ltd|Co|bzw|[Vv]gl|[Gg]gf|[Ii]nkl|[Ee]xkl|zzgl|[Ee]vtl|[Bb]spw|zB|sog"
    r"|Mio|Mrd|Hr|Fr|Dipl|Ing|[Dd]hr|Mme|Sra?|Sig|[^\W\d_]"
)
_SHORT = 4
"""Characters of the longest word whose full stop ends no sentence before a small letter: usw., dept. Some write small letters only."""
_LONGEST = 6
"""Letters of the longest abbreviation."""
_BEFORE_NUMBER = re.compile(
    r"[Nn]os?|Nr|[Aa]rt|Abs|Ziff|[Ff]igs?|pp|[Pp]ág|Sec|Eq|Ref|[Vv]ol|[Cc]h|T[eé]l|Bd|Str|Ste|Stat|[Mm]ax|[Mm]in|mind"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|janv|févr|avr|juil|déc"
)
_MONTHS = (
    "Jan(?:uar)?|Jänner|Feb(?:ruar)?|März?|Apr(?:il)?|Mai|Juni?|Juli?|Aug(?:ust)?|Sept?(?:ember)?"
    "|Okt(?:ober)?|Nov(?:ember)?|Dez(?:ember)?"
)
_MONTH = re.compile(rf"\s*(?:{_MONTHS})\b")
ITEM_NUMBER = rf"\d{{1,3}}(?:\)|\.(?!\s*(?:{_MONTHS}|und|oder|bis)\b))"
"""The number of a list's item, as a pattern: 3. is none in 3. Mai."""
_NUMBER = re.compile(r"\s*\d")
_BEFORE_ORDINAL = re.compile(r"\b(?:[ai]m|vom|zum|de[rsmn]|die|das|bis|ab|seit|jede[rsnm])\s\d\d?\Z", re.IGNORECASE)
_ORDERED = re.compile(
    r"\s+(?!(?:Alle|Bei|Bitte|Da|Danach|Dann|Das|Der|Die|Ein|Eine|Er|Es|Für|Ich|Im|In|Sie|Wenn|Wer|Wir)\b)[A-ZÄÖÜ]"
)
"""What follows a German ordinal: no word that mostly begins a sentence."""
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|(?P<number>\d{1,3})[.)])\s")
_ENDED = re.compile(r"[.!?:;。！？｡।۔؟：；][\"'”’)\]」』）*_]*\s*\Z")
DATED = re.compile(r"\s*(?:\[?\d{1,2}:\d\d\b|\[?\d{4}-\d\d-\d\d\b|\d{1,2}[/.]\d{1,2}[/.](?:\d\d){1,2}\b)")
"""A message or entry with its time or date, of which two follow each other: `[14:02] Ada: yes`."""
_CELL = " | "
_RULE = re.compile(r"(?:\|\s*)?:?-+:?(?:\s*\|\s*:?-+:?)+\s*\|?")
"""The line below a table's header in Markdown."""
_FOOTNOTE = re.compile(r"\(\d{1,2}\)")
_FIGURE = re.compile(r"\d")


class Piece(NamedTuple):
    """A sentence or a row of a table: `text[start:end]`. `header`: the first of several rows, which may stand above an empty line."""

    start: int
    end: int
    row: bool = False
    header: bool = False


class Snippet(NamedTuple):
    """`text == chunk_text[start:start + len(text)]` but for white space; `spans` are offsets within `text`."""

    text: str
    start: int
    spans: list[tuple[int, int]]


def pieces(text: str, *, sheet: bool = False) -> Iterator[Piece]:
    """Yield the text's sentences, list items, headings and table rows, in order; wrapped lines of prose are joined.

    `sheet`: the text is of a sheet or CSV file, whose header has an empty line below it, and which may begin at any row.
    """
    begun: int | None = None
    at, rows, header = 0, False, False  # whether a row goes on with a table, and whether the row before is a header
    number = 0  # of the last item of a list
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        row = _is_row(line)
        item = None if begun is not None and _continued(lines, index, number) else _LIST_ITEM.match(line)
        number = int(item["number"]) if item and item["number"] else number
        if begun is not None and (row or line.isspace() or item or _dated(lines, index)):
            yield from _sentences(text, begun, at)
            begun = None
        if row:
            header = _heads_rows(lines, index, apart=sheet) if not rows else header and _goes_on(line)
            yield Piece(at, at + len(line.rstrip()), row=True, header=header)
        elif begun is None and not line.isspace():
            begun = at
        rows = row or (header and line.isspace())
        header = header and rows
        at += len(line)
    if begun is not None:
        yield from _sentences(text, begun, at)


def _is_row(line: str) -> bool:
    return _CELL in line or _RULE.fullmatch(line.strip()) is not None


def _heads_rows(lines: Sequence[str], index: int, *, apart: bool) -> bool:
    """Return True if another row follows a row, after empty lines perhaps: `Hours: 9-17 | Phone: 112` alone heads nothing.

    `apart`: an empty line must be between them.
    """
    if apart and not "".join(lines[index + 1 : index + 2]).isspace():
        return False
    below = (lines[at] for at in range(index + 1, len(lines)) if not lines[at].isspace())
    return _is_row(next(below, ""))


def _continued(lines: Sequence[str], index: int, number: int) -> bool:
    """Return True if a line that begins with a number goes on with the prose above: on / 24. Dezember. `number`: of the item before it."""
    found = _LIST_ITEM.match(lines[index])
    if found is None or not found["number"] or _ENDED.search(lines[index - 1]):
        return False
    if any(map(_numbered, (lines[index - 1], *lines[index + 1 : index + 2]))):
        return False
    return int(found["number"]) not in (1, number + 1) or _MONTH.match(lines[index], found.end()) is not None


def _numbered(line: str) -> bool:
    found = _LIST_ITEM.match(line)
    return found is not None and found["number"] is not None


def _dated(lines: Sequence[str], index: int) -> bool:
    """Return True if a line begins with its time or date, and the one before or after it."""
    beside = (*lines[index - 1 : index], *lines[index + 1 : index + 2])
    return DATED.match(lines[index]) is not None and any(map(DATED.match, beside))


def _goes_on(line: str) -> bool:
    """Return True if a row below a header is its second line: its first cell is empty, and it has no figure but a footnote's."""
    return line.startswith("|") and not _FIGURE.search(_FOOTNOTE.sub("", line))


def abbreviated(text: str, start: int, at: int) -> bool:
    """Return True if the full stop at a place of a sentence that begins at `start` belongs to an abbreviation or a German ordinal."""
    if text.endswith("str.", start, at + 1) and _NUMBER.match(text, at + 1):  # Hauptstr. 5
        return True
    if text[at] != "." or (at - start > _LONGEST and text[at - _LONGEST - 1 : at].isalpha()):
        return False
    found = _LAST_WORD.search(text, max(start, at - 8), at)
    if found is None:
        return False
    word = found.group().rpartition(".")[2]
    if len(word) <= (2 if word.isdecimal() else _SHORT) and text[at + 1 : at + 4].lstrip()[:1].islower():
        return True
    if word.isdecimal():
        ordered = _ORDERED if _BEFORE_ORDINAL.search(text, max(start, at - 9), at) else _MONTH
        return len(word) < 3 and ordered.match(text, at + 1) is not None
    if _BEFORE_NUMBER.fullmatch(word):
        return _NUMBER.match(text, at + 1) is not None
    return _ABBREVIATION.fullmatch(word) is not None


def _sentences(text: str, start: int, end: int) -> Iterator[Piece]:
    mark = _LIST_ITEM.match(text, start, end)  # the full stop after the number of an item ends no sentence
    for match in _SENTENCE_END.finditer(text, mark.end() if mark else start, end):
        if match.end() < end and not abbreviated(text, start, match.start()):
            yield Piece(start, match.end())
            start = match.end()
    yield Piece(start, end)


def _best(text: str, parts: Sequence[Piece], found: Sequence[tuple[int, int]], headings: Collection[str]) -> Piece:
    """Return the piece whose words weigh most, the first of equals; for a table's header its best row, which answers.

    The words of headings count for the pieces below them. A heading is returned where the best piece below it has no words of its own.
    """
    own: list[set[str]] = [set() for _ in parts]
    at = 0
    for start, end in found:  # both in order
        while at < len(parts) and parts[at].end <= start:
            at += 1
        if at < len(parts) and parts[at].start <= start:
            own[at].add(stem(text[start:end]))
    body = [one.row or text[one.start : one.end].strip() not in headings for one in parts]
    held, above = _inherited(own, body)
    counts = Counter(chain.from_iterable(held))
    rarity = {one: math.log(1 + len(parts) / count) for one, count in counts.items()}

    def weight(stems: set[str]) -> float:
        return sum(map(rarity.__getitem__, sorted(stems))) if stems else 0.0

    weights = [(weight(held[index]), weight(own[index] & held[index])) for index in range(len(parts))]
    best = weights.index(max(weights))
    if parts[best].header:
        rows = list(takewhile(lambda index: parts[index].row and not parts[index].header, range(best + 1, len(parts))))
        answer = max(rows, key=weights.__getitem__, default=best)
        best = answer if own[answer] else best
    return parts[best if own[best] else above[best]]


def _inherited(own: Sequence[set[str]], body: Sequence[bool]) -> tuple[Sequence[set[str]], Sequence[int]]:
    """Return the words of each piece and of all headings above it, and the index of the heading next above it, or else its own.

    `body`: whether a piece is no heading. Headings above one have no words. Of several that follow each other, the first counts.
    """
    if all(body) or not any(body):
        return own, range(len(own))
    last = max(index for index, said in enumerate(body) if said)
    held, above = [set[str]() if index < last else own[index] for index in range(len(own))], list(range(len(own)))
    words, first = set[str](), None
    for index, said in enumerate(body[: last + 1]):
        if said:
            held[index], above[index] = own[index] | words, index if first is None else first
            continue
        words = words | own[index]
        first = index if index == 0 or body[index - 1] else first
    return held, above


def best_piece(text: str, found: Sequence[tuple[int, int]], headings: Collection[str]) -> Piece | None:
    """Return the piece with most of the words that `spans` found; None for a text without any. `headings`: those that it may hold."""
    parts = list(pieces(text))
    return _best(text, parts, found, headings) if parts else None


def _start(text: str, piece: Piece, inside: Sequence[tuple[int, int]]) -> int:
    """Return where the snippet begins: the piece's start if its words are near it, else a cell or word before them."""
    if not inside or inside[-1][1] <= piece.start + SNIPPET_CHARACTERS:
        return piece.start
    best, most, last = piece.start, 0, piece.start
    for start in (piece.start, *(s for s, _ in inside)):
        within = [(s, e) for s, e in inside if s >= start and e <= start + SNIPPET_CHARACTERS]
        stems = {stem(text[s:e]) for s, e in within}
        if len(stems) > most:
            best, most, last = start, len(stems), max(e for _, e in within)
    if best == piece.start:
        return best
    if piece.row:
        cell = text.rfind(_CELL, piece.start, best)
        cell = piece.start if cell < 0 else cell + len(_CELL)
        return cell if last <= cell + SNIPPET_CHARACTERS else best
    earliest = max(piece.start, best - (SNIPPET_CHARACTERS - (last - best)) // 2)
    space = _SPACE.search(text, earliest, best)
    return earliest if earliest == piece.start else space.end() if space else best


def snippet(text: str, found: Sequence[tuple[int, int]], headings: Collection[str] = ()) -> Snippet:
    """Return at most `SNIPPET_CHARACTERS` of the piece with most of the words that `spans` found; of a table never more than a row.

    `headings`: those that the text may hold, for which what stands below them is shown.
    """
    parts = list(pieces(text))
    if not parts:
        return Snippet("", 0, [])
    piece = _best(text, parts, found, headings)
    start = _start(text, piece, [(s, e) for s, e in found if piece.start <= s and e <= piece.end][:MOST_PLACES])
    while start < piece.end and (text[start].isspace() or (piece.row and text[start] == "|")):
        start += 1
    stop = piece.end if piece.row else next((p.start for p in parts if p.row and p.start >= piece.end), len(text))
    end = min(stop, start + SNIPPET_CHARACTERS)
    if end < stop and not text[end].isspace():
        cut = end - 1
        while cut > start and not text[cut].isspace():
            cut -= 1
        end = cut if not any(s < end and e > cut for s, e in found if e <= end) and cut > start else end
    passage = _SPACE.sub(" ", text[start:end]).rstrip(" |" if piece.row else None)
    shown = [(s - start, e - start) for s, e in found if s >= start and e <= start + len(passage)]
    return Snippet(passage, start, shown)
