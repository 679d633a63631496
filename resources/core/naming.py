"""Words of a document's title and file name, which keyword search matches in addition to a passage's text.

People search for a file by its name, which its text need not contain: `budget_2026-final.xlsx` is found by "budget 2026". Only
the first passage carries the words, so that such a search leads to the beginning and a long document does not fill the results.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from resources.core.filetypes import SUPPORTED_EXTENSIONS, extension

MOST_WORDS = 40
"""Number of words of a name that count: a title may have thousands of characters and would outweigh the passage."""

_JOINTS = re.compile(r"[_\-./\\]+")
_WORD = re.compile(r"[^\W_]+")


def names_of(document: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a document's names from its registry row: the displayed title, the name at the source and the file name."""
    return document["title"], document["source_title"], document["path"].rpartition("/")[2]


def name_words(names: Sequence[str], chunk_index: int, text: str) -> str:
    """Return the distinct words of the names, separated by spaces, for the first passage; empty for the others.

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
    """Return the text of a passage for keyword search."""
    return f"{words}\n{text}" if words else text


def split_compounds(query: str) -> str:
    """Return the query with compounds also split: `budget_2026.xlsx` also searches for `budget`, `2026` and `xlsx`."""
    joined = [word for word in query.split() if _JOINTS.search(word)]
    return " ".join([query, *(_JOINTS.sub(" ", word).strip() for word in joined)])


def _words(name: str) -> list[str]:
    end = extension(name)
    stem = name[: -len(end)] if end in SUPPORTED_EXTENSIONS else name
    return _JOINTS.sub(" ", stem).split()


def _begins(text: str, words: list[str]) -> bool:
    """Return True if the text begins with the words, ignoring case and punctuation."""
    title = _WORD.findall(" ".join(words).casefold())
    start = _WORD.findall(text[: 2 * sum(map(len, words)) + 100].casefold())
    return start[: len(title)] == title
