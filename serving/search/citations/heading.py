"""Tell headings from short paragraphs in the plain text of a passage, which has no marks of them. Pure."""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from serving.search.retrieval.highlight import ITEM_NUMBER
from serving.search.retrieval.terms import letters

TITLE_CHARACTERS, TITLE_WORDS = 60, 8
"""Longest line that may be a heading without the mark of one."""
ITEM = re.compile(rf"^\s*(?:[-*+•]|{ITEM_NUMBER})\s")
_FIGURE = re.compile(r"\d")
_NUMBER = re.compile(
    r"^(?:§+ ?\d+\w?|\d+(?:\.\d+)+\.?|(?i:article|artikel|art\.|section|abschnitt|chapter|kapitel) \d+\w?)(?=\W+[^\W\da-zà-ÿ]\w\w)"
)
"""The number of a heading: § 9, 2.1, Article 5. A quantity is none: 2.1 litres, 2.1 GB."""
_GAP = re.compile(r"[ \t]*\n[ \t]*\n")


def known_of(headings: Iterable[str]) -> frozenset[str]:
    """Return the letters of headings, by which a line is recognised as one of them whatever its marks."""
    return frozenset(filter(None, map(letters, headings)))


def is_heading(text: str, start: int, end: int, known: AbstractSet[str] | None) -> bool:
    """Return True if a line between empty ones is a heading: it begins with a capital letter, or a list follows.

    Several such lines that follow each other are a list, in which each says something, unless the parser says otherwise. `known`: what
    `known_of` returns for the passage's headings; None for a conversation, in which somebody says each line.
    """
    line, below = text[start:end].strip(), text[end:].lstrip()
    if known is None or not _stands_alone(text, start, end) or not _is_short(line):
        return False
    if not _opens(line):
        return ITEM.match(line) is None and ITEM.match(below) is not None
    return letters(line) in known or not _is_alike(below, known)


def is_title(line: str, below: str) -> bool:
    """Return True if a line above another may be its heading: short, without a full stop, and no list item."""
    return _is_short(line) and _opens(line) and not below[0].islower()


def _is_alike(below: str, known: AbstractSet[str]) -> bool:
    """Return True if the next line stands alone and could be a heading, too, and is not known as one."""
    line, _, more = below.partition("\n")
    alone = not more.partition("\n")[0].strip()
    return alone and _is_short(line.strip()) and _opens(line) and letters(line) not in known


def _is_short(line: str) -> bool:
    """Return True if a line could be a heading: few words, no full stop, and no figure but its number, or address: an answer has these."""
    short = len(line) <= TITLE_CHARACTERS and len(line.split()) <= TITLE_WORDS
    return (
        short
        and line[-1] not in ".,;:!?|。！？｡।۔؟…：；"
        and "@" not in line
        and not _FIGURE.search(_NUMBER.sub("", line))
    )


def _opens(line: str) -> bool:
    """Return True if a line begins with a number or a capital letter, or with a letter that has no case, as in Arabic or Chinese."""
    return bool(_NUMBER.match(line)) or (line[0].isalpha() and not line[0].islower())


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return True if empty lines, or the beginning of the passage, surround a piece, and something follows."""
    before, after = text[:start], text[end:]
    alone = not before.strip() or before.rstrip(" \t").endswith("\n\n")
    return (
        alone
        and "\n" not in text[start:end].strip()
        and after.strip() != ""
        and bool(_GAP.match(text, len(text[:end].rstrip())))
    )
