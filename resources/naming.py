"""What a passage is found by beyond its text: its document's names enter, words that keyword search reads before the text leave.

People look for a file by its name, which its text need not hold: `budget_2026-final.xlsx` is found by "budget 2026". The first passage
carries the words, so that such a search leads to the document's beginning, and a long document does not fill the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from resources.filetypes import SUPPORTED_EXTENSIONS, extension

MOST_WORDS = 40
"""Words of a name that count: a title may have thousands of characters, and would outweigh the passage."""

_JOINTS = re.compile(r"[_\-./\\]+")
_WORD = re.compile(r"[^\W_]+")


def names_of(document: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what a document is called, of its registry row: its title as it is shown, its name at the source, its file's name."""
    return document["title"], document["source_title"], document["path"].rpartition("/")[2]


def name_words(names: Sequence[str], chunk_index: int, text: str) -> str:
    """Return the words of the names, each once, parted by spaces, for the first passage; nothing for the others.

    A name that the passage begins with is left out, so that a heading does not count twice.
    """
    if chunk_index > 0:
        return ""
    known = set[str]()
    counted: list[str] = []
    for name in names:
        words = _words(name)
        heads = _begins(text, words)
        for word in words:
            plain = "".join(_WORD.findall(word.casefold()))
            if plain and plain not in known:
                known.add(plain)
                counted += [] if heads else [word]
    return " ".join(counted[:MOST_WORDS])


def keyword_text(words: str, text: str) -> str:
    """Return what keyword search reads of a passage."""
    return f"{words}\n{text}" if words else text


def parted(query: str) -> str:
    """Return the query with its joined words parted as well: `budget_2026.xlsx` also asks for `budget`, `2026` and `xlsx`."""
    joined = [word for word in query.split() if _JOINTS.search(word)]
    return " ".join([query, *(_JOINTS.sub(" ", word).strip() for word in joined)])


def _words(name: str) -> list[str]:
    end = extension(name)
    stem = name[: -len(end)] if end in SUPPORTED_EXTENSIONS else name
    return _JOINTS.sub(" ", stem).split()


def _begins(text: str, words: list[str]) -> bool:
    """Tell whether the text begins with the words, whatever their case and punctuation."""
    title = _WORD.findall(" ".join(words).casefold())
    start = _WORD.findall(text[: 2 * sum(map(len, words)) + 100].casefold())
    return start[: len(title)] == title
