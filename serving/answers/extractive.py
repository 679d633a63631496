"""Answer without a language model: quote and cite the sentences of the passages that answer best. Pure.

A piece is a sentence, a list item or a table row. It answers the better, the more of the question's words it and the headings above it
hold, by weight, the nearer it and its passage are to the question in meaning, and the surer it holds what the question asks for: an
amount, a time, a person. A piece is quoted with the neighbour that it needs: the item's introduction, or the sentence that goes on.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from serving.answers.answer_type import counted, expected, holds_type
from serving.answers.cleaning import clean
from serving.answers.extremes import extremes
from serving.answers.gate import coverage, weights
from serving.answers.parts import COLON, TextPart, parts_of
from serving.answers.quoted import Mark
from serving.answers.support import Verdict
from serving.answers.words import content, holds
from serving.search.citations.heading import ITEM
from serving.search.quoting import TAG
from serving.search.retrieval.highlight import DATED, ITEM_NUMBER
from serving.search.retrieval.terms import letters

SHORTLIST = 50
"""Pieces whose meaning is compared, those that hold most of the question's words first."""
WEIGHTS: Mapping[str, float] = {
    "above": -0.26,
    "amount": 0.77,
    "around": 2.18,
    "best": 0.68,
    "beyond": 0.28,
    "colon": -0.48,
    "counted": 0.82,
    "duration": 1.05,
    "headed": 1.04,
    "item": 0.17,
    "long": -0.8,
    "near": 4.22,
    "new": -0.81,
    "passage": 1.24,
    "rank": 0.8,
    "row": 0.68,
    "short": -0.53,
    "type": 1.29,
    "untyped": -0.53,
    "words": 1.17,
}
"""Weight of each feature of a piece, as `python -m bench.answer_weights` prints them."""
QUOTES = 2
BEHIND = 5.0
"""How far the score of a second quote may be behind that of the first."""
HARDLY = 0.4
"""A lead in score that says little."""
FARTHER = 0.3
"""How much farther from the question in meaning a second quote may be, if it is not certain that the first answers."""
OWN = 3.0
"""How much more a question's own words weigh than those that it borrows from the question before."""
SAID = 3.0
"""What a piece loses that an earlier answer quoted, or that the reader selected."""
LONGEST = 400
CUT = 60
"""Characters before the end of a long quote among which it is cut at a space. Chinese has few spaces."""
LONGEST_NAME = 40
"""Longest name of a column."""
WINDOW = 280
"""Longest quote of a piece with neighbours, in characters."""
_MARK = re.compile(r"(?<![\w\])])\[(\d{1,4})\]")
"""What looks like a citation of ours."""
_INDEX = re.compile(r"\[(\s*\d{1,4}(?:\s*(?:,|;|and|&)\s*\d{1,4})*\s*)\]")
"""An index or a range: array[0], [1, 5]."""
_BULLET = r"(?:[-*•]|#{1,6})\s+"
"""The mark of a line. A plus sign counts: + 25 EUR."""
_LINE_MARK = re.compile(rf"^{_BULLET}")
_LIST_MARK = re.compile(rf"^(?:[-*+•]|#{{1,6}}|{ITEM_NUMBER})\s+")
_ENDED = re.compile(r"[.!。！｡।۔][\"'”’)\]*_]*$")
"""The end of a sentence that asks nothing."""
_SAID = re.compile(rf"\s*(?:{_BULLET})?(.*\S)", re.DOTALL)
"""A piece without the mark of its line and the white space around it."""
_ANAPHORA = re.compile(
    r"^\W*(?:it|its|this|these|that|those|they|their|he|she|such|then|however|also|otherwise|so|if so|if not)\b",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"<([\w.+-]+@[\w.-]+)>")
"""An email address in angle brackets, which is no tag."""
_NO_TAG = re.compile(rf"(?!{TAG})<(?=/?[^\W\d_])([^<>\n]*>)?", re.IGNORECASE)
"""A sign before a letter, or angle brackets, that are no tag: x<y, <environment>."""
_NUMBERED = re.compile(r"(?=\S*\d)\w+(?:[.-]\w+)+")
"""A version, or an identifier with a number: 4.6.0, PKZ-0821."""
_GAP = re.compile(r"\n[ \t]*\n")
_CELL, _BARS = " | ", " |"
_VALUE = re.compile(r"\W*\d")
"""A cell that begins with a figure: 40 euros. From 10 pieces (EUR) is none."""
_FIGURES = re.compile(r"\d[\d.,]*")
_LISTED = re.compile(r"(?:item|article|product|no|number|artikel|produkt|nr|pos|position)\b", re.IGNORECASE)
"""What names the first of two columns; Room | B12 is a property and its value."""


class Quote(NamedTuple):
    """A piece of source `number`: `text[start:end]` of its passage, and what is known of it as an answer."""

    number: int
    heading: str
    text: str
    start: int
    end: int
    features: Mapping[str, float]
    asked: frozenset[str] = frozenset()
    """The question's words that it holds."""
    named: bool = True
    """It, or what is above it, holds all versions and numbered identifiers of the question."""
    parts: Sequence[TextPart] = ()
    """All parts of its passage, in order."""

    @property
    def whole(self) -> str:
        """The piece with the headings above it."""
        return f"{self.heading}: {self.text}"

    @property
    def share(self) -> float:
        return self.features["words"]


def shortlist(
    question: str,
    passages: Sequence[tuple[str, str]],
    nearness: Sequence[float] | None = None,
    *,
    own: frozenset[str] = frozenset(),
    said: Sequence[str] = (),
    cut: Sequence[Sequence[TextPart]] | None = None,
) -> list[Quote]:
    """Return the pieces that may answer, the likeliest first. `passages`: (heading, text) of sources 1, 2, …

    `nearness`: how near each passage is to the question in meaning, as `CosineScale.relative`; None if unknown. `own`: the words that
    a question does not borrow from the one before. `said`: earlier answers, and what the reader selected. `cut`: the parts of each
    passage, if more is known of it than its text.
    """
    asked, kind, items = content(question), expected(question), counted(question)
    cut = [parts_of(text) for _, text in passages] if cut is None else cut
    parts = [(number, part) for number, some in enumerate(cut, start=1) for part in some]
    most = {(number, start) for number, some in enumerate(cut, start=1) for start in extremes(question, some)}
    weighed = weights(asked, [content(part.text) for _, part in parts])
    weighed = {term: weight * (OWN if term in own else 1.0) for term, weight in weighed.items()}
    before = [letters(text) for text in said]
    numbered = [
        re.compile(rf"(?<!\w){re.escape(one)}(?![\w]|[.-]\w)", re.IGNORECASE) for one in _NUMBERED.findall(question)
    ]
    found: list[Quote] = []
    for at, (number, part) in enumerate(parts):
        heading = passages[number - 1][0]
        words = content(part.text)
        if not part.quotable or (not part.row and words <= content(heading)) or not words:
            continue
        affirms = len(words) > 2 and all(holds(asked, one) for one in words)
        if affirms and kind != "yes_no" and _repeats(part, asked, content(heading)):
            continue
        near = [other.text for source, other in parts[max(0, at - 2) : at + 3] if source == number]
        headed = words | content(f"{heading} {part.above}")
        follows = at + 1 < len(parts) and parts[at + 1][0] == number and parts[at + 1][1].quotable
        inside = 1.0 if affirms and kind == "yes_no" else holds_type(_LIST_MARK.sub("", part.text), kind)
        beyond = holds_type(parts[at + 1][1].text, kind) if follows else 0.0
        features = {
            "words": coverage(words, weighed),
            "headed": coverage(headed, weighed),
            "around": coverage(content(" ".join(near)) | headed, weighed),
            "above": coverage(content(part.above), weighed),
            "type": inside,
            "untyped": float(kind != "other" and inside == 0),
            "beyond": max(0.0, beyond - inside),
            "counted": float(bool(items) and inside > 0 and any(holds(words, one) for one in items)),
            "new": sum(not holds(asked, one) for one in words) / len(words),
            "rank": 1 / number,
            "passage": nearness[number - 1] if nearness is not None else 0.0,
            "short": float(len(part.text) < 30),
            "long": float(len(part.text) > 250),
            "row": float(part.row),
            "item": float(bool(ITEM.match(part.text))),
            "colon": float(bool(COLON.search(part.text))),
        }
        if kind in ("amount", "duration"):
            features[kind] = inside
        if (number, part.start) in most:
            features["extreme"] = 1.0
        if before and any(letters(part.text) in text for text in before):
            features["said"] = 1.0
        above, both = f"{heading} {part.above}".strip(), frozenset(term for term in asked if holds(words, term))
        named = all(one.search(f"{above} {part.text}") for one in numbered)
        found.append(Quote(number, above, part.text, part.start, part.end, features, both, named, cut[number - 1]))
    return sorted(found, key=lambda one: (-score(one), one.number))[:SHORTLIST]


def _repeats(part: TextPart, asked: frozenset[str], heading: frozenset[str]) -> bool:
    """Return True if a piece in the question's words is the question, without its mark.

    A sentence, an item, or what stands below a name or version, says that it is so.
    """
    if _ENDED.search(part.text) or ITEM.match(part.text):
        return False
    words = content(part.text) | (content(part.above) - heading)
    return all(holds(asked, one) for one in words) and any(one.isalpha() for one in words)


def measured(found: Sequence[Quote], nearness: Sequence[float] | None) -> list[Quote]:
    """Return the pieces with how near each is to the question in meaning, as `CosineScale.relative`; None if unknown."""
    if nearness is None:
        return list(found)
    best = max(nearness, default=0.0)
    return [
        piece._replace(features={**piece.features, "near": near, "best": float(near == best)})
        for piece, near in zip(found, nearness, strict=True)
    ]


def score(piece: Quote) -> float:
    known = sum(weight * piece.features.get(name, 0.0) for name, weight in WEIGHTS.items())
    return known - SAID * piece.features.get("said", 0.0)


def choose(found: Sequence[Quote], passages: Sequence[tuple[str, str]], pages: Sequence[Sequence[int]]) -> list[Quote]:
    """Return the pieces to quote with the neighbours that they need, best first; none twice, nor within another.

    `pages` are the offsets in each passage at which a page begins: a quote has one page, so that a citation can name it."""
    chosen: list[Quote] = []
    for piece in _likeliest_first(found):
        if len(chosen) == QUOTES:
            break
        quoted = [(one.start, one.end) for one in chosen if one.number == piece.number]
        one = _with_neighbours(piece, found, passages[piece.number - 1], pages[piece.number - 1], quoted)
        folded = one.text.casefold()
        if any(folded in other.text.casefold() or piece.text.casefold() in other.text.casefold() for other in chosen):
            continue
        chosen.append(one)
    return chosen


def _likeliest_first(found: Sequence[Quote]) -> list[Quote]:
    """Return the pieces by score, those of what the question numbers before others: 4.6.0 shares most of its figures with 4.4.0.

    First, though, is one that holds what is asked for if the best, of the same passage, is hardly better.
    Rows of a table differ in cells more than in meaning: the best gives way to one with the most or the least if that is asked for, or else
    with the same of the question's words and more.
    """
    ranked = sorted(found, key=lambda piece: (not piece.named, -score(piece)))
    best = next(iter(ranked), None)
    if best is not None and best.features.get("row"):
        rows = [
            one
            for one in ranked
            if one.number == best.number and one.features.get("row") and "said" not in one.features
        ]
        fullest = max((one for one in rows if one.asked > best.asked), key=lambda one: one.share, default=best)
        first = [one for one in rows if "extreme" in one.features] or [fullest]
        return [*first, *(one for one in ranked if one not in first)]
    if best is None or not best.features["untyped"]:
        return ranked
    close = (one for one in ranked if one.number == best.number and score(one) >= score(best) - HARDLY)
    typed = next((one for one in close if one.features["type"] == 1), best)
    return [typed, *(one for one in ranked if one is not typed)]


def without_strays(chosen: Sequence[Quote], *, sure: bool) -> list[Quote]:
    """Return the quotes without a second one that is hardly about the question, of another version than the first, or a row that lacks what
    the first one names.

    `sure`: the first one surely answers.
    """
    if not chosen:
        return []
    first, *others = chosen

    def belongs(one: Quote) -> bool:
        if first.named and not one.named:
            return False
        rows = one.number == first.number and first.features.get("row") and one.features.get("row")
        if rows and (one.asked < first.asked or ("extreme" in first.features and "extreme" not in one.features)):
            return False  # "Palm | 5" answers, and "Fern | 2" is of another
        if sure or "near" not in one.features:
            return score(one) > score(first) - BEHIND
        return one.features["near"] >= first.features["near"] - FARTHER

    return [first, *filter(belongs, others)]


def _with_neighbours(
    piece: Quote,
    found: Sequence[Quote],
    passage: tuple[str, str],
    pages: Sequence[int],
    quoted: Sequence[tuple[int, int]],
) -> Quote:
    """Return the piece with the parts before or after it that it needs, while they are short enough and not quoted already."""
    (heading, text), parts = passage, piece.parts
    at = next((index for index, part in enumerate(parts) if part.start == piece.start), None)
    if at is None:
        return piece
    scores = {(one.number, one.start): score(one) for one in found}
    first = last = at
    ends = _list_ends(text, parts)

    def fits(begin: int, end: int) -> bool:
        inside = parts[begin : end + 1]
        span = " ".join(text[parts[begin].start : parts[end].end].split())
        if any(parts[begin].start < page < parts[end].end for page in pages):
            return False
        if any(parts[begin].start < after and before < parts[end].end for before, after in quoted):
            return False
        if any(f" {part.text} " in f" {heading} " for part in inside):
            return False  # a heading of the passage, which may be long, or have figures
        if any(ends[begin:end]):
            return False
        alike = all((part.row, part.listed) == (parts[at].row, parts[at].listed) for part in inside)
        return len(span) <= WINDOW and alike and all(part.quotable for part in inside)

    if parts[at].row:
        return piece._replace(text=_with_header(parts, at))
    if first > 0 and _ANAPHORA.match(_LIST_MARK.sub("", parts[first].text)) and fits(first - 1, last):
        first -= 1
    if first > 0 and ITEM.match(parts[first].text) and COLON.search(parts[first - 1].text) and fits(first - 1, last):
        first -= 1
    while True:
        options: list[tuple[float, int, int]] = []
        for begin, end in ((first, last + 1), (first - 1, last)):
            if begin >= 0 and end < len(parts) and fits(begin, end):
                other = end if begin == first else begin
                value = scores.get((piece.number, parts[other].start), -99.0)
                options.append((value + (0.2 if begin == first else 0.0), begin, end))
        if not options:
            break
        _, first, last = max(options)
    while last > at and COLON.search(parts[last].text):
        last -= 1  # what it introduces is not quoted
    start, end = parts[first].start, parts[last].end
    return piece._replace(text=_in_lines(text, parts[first : last + 1]), start=start, end=end)


def _in_lines(text: str, parts: Sequence[TextPart]) -> str:
    """Return parts that follow each other in one line, but each list item, dated entry and paragraph in a line of its own."""
    starts: list[int] = []
    for one in parts[1:]:
        ends = text.count("\n", len(text[: one.start].rstrip()), one.start)
        if ends > 1 or (ends and (one.listed or ITEM.match(one.text) or DATED.match(one.text))):
            starts.append(one.start)
    lines = pairwise([parts[0].start, *starts, parts[-1].end])
    return "\n".join(" ".join(text[start:end].split()) for start, end in lines)


def _list_ends(text: str, parts: Sequence[TextPart]) -> list[bool]:
    """Return for each part whether it is the last of a list, below which text of its own follows, not such that refers to the list."""
    within = False
    found: list[bool] = []
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        within = within or ITEM.match(part.text) is not None
        gap = after is not None and _GAP.search(text[part.start : after.start]) is not None
        own = after is not None and not ITEM.match(after.text) and not _ANAPHORA.match(after.text)
        found.append(within and gap and own)
        within = within and not gap
    return found


def _with_header(parts: Sequence[TextPart], at: int) -> str:
    """Return a row after its table's header, if it has one that names as many columns, in words and not in values."""
    row, first = parts[at].text, at
    while first > 0 and parts[first - 1].row and (not parts[first].header or parts[first - 1].header):
        first -= 1
    header = parts[first].text if parts[first].header and first != at else ""
    header, plain = header.strip(_BARS), row.strip(_BARS)
    names, cells = header.split(_CELL), plain.split(_CELL)
    told = len(names) == len(cells) and len(header) + len(row) < LONGEST
    named = all(len(one) <= LONGEST_NAME and not _VALUE.match(one) for one in names)
    alike = any(_FIGURES.sub("0", one) == _FIGURES.sub("0", cell) for one, cell in zip(names, cells, strict=False))
    pair = len(names) == 2 and _FIGURES.search(names[1]) and not _LISTED.match(names[0])
    return f"{header}: {plain}" if told and named and not alike and not pair else row


def _quote(text: str) -> str:
    """Return the text between the quotation marks, without marks, links or tags of the document. What is no tag becomes none: ‹name›.

    A number in front stays: it may count, as in 2. Mahnung."""
    text = _INDEX.sub(r"［\1］", _MARK.sub(r"(\1)", text))
    text = _EMAIL.sub(r"\1", text if "\n" in text else _LINE_MARK.sub("", text))
    text = _NO_TAG.sub(lambda found: f"‹{found[1][:-1]}›" if found[1] else "‹", text)
    if len(text) > LONGEST:
        space = text.rfind(" ", LONGEST - CUT, LONGEST)
        text = text[: LONGEST if space < 0 else space] + " …"
    return clean(text, 0)[0].replace("“", "‘").replace("”", "’")


def compose(chosen: Sequence[Quote]) -> tuple[str, list[Verdict]]:
    """Return the answer, each quote on lines of its own, and its sentences, which their sources support: they are taken from them."""
    lines: list[str] = []
    found: list[Verdict] = []
    at = 0
    for piece in chosen:
        quote = f"“{_quote(piece.text)}”"
        line = f"{quote} [{piece.number}]"
        found.append(Verdict(quote, at, at + len(line), [piece.number], supported=True))
        lines.append(line)
        at += len(line) + 1
    return "\n".join(lines), found


def marks(chosen: Sequence[Quote], passages: Sequence[tuple[str, str]]) -> list[Mark]:
    """Return where the passages say what is quoted. What occurs twice, or differs in signs alone, cannot be found by its text."""
    found: list[Mark] = []
    for index, one in enumerate(chosen):
        if said := _SAID.match(passages[one.number - 1][1], one.start, one.end):
            found.append(Mark(index, one.number, *said.span(1)))
    return found
