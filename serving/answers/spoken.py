"""Recognise the language of a question that the embedding model has not learned. Pure.

A question is too short for a language identifier, so its letters and its stop words decide; both must be clear.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from qdrant_edge import Bm25, Bm25Config

from resources.core.bm25 import ENGLISH, LANGUAGES

LEAST_WORDS = 2
"""Stop words of a language that a question needs: one alone is often a name, or a word of several languages."""
_SCRIPTS = {
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "CJK": "Chinese",
    "ARABIC": "Arabic",
    "GREEK": "Greek",
    "HEBREW": "Hebrew",
    "THAI": "Thai",
    "DEVANAGARI": "Hindi",
}
"""Languages by the scripts that are mostly theirs, the one that decides first: Japanese is written with Chinese characters, too."""
_CYRILLIC = "CYRILLIC"
_WORD = re.compile(r"[^\W\d_]+")
_NAMES = sorted({*LANGUAGES.values()} - {LANGUAGES[ENGLISH]})


def foreign_language(text: str) -> str | None:
    """Return the name of the language of a text if it is clearly another one than English."""
    letters = [character for character in text if character.isalpha()]
    scripts = Counter(unicodedata.name(one, "").partition(" ")[0].partition("-")[0] for one in letters)
    for script, name in _SCRIPTS.items():
        if scripts[script] > len(letters) / 5:
            return name
    spoken = _by_stop_words(text)
    if spoken is None and scripts[_CYRILLIC] > len(letters) / 2:
        return "a language in Cyrillic letters"
    return spoken


def _by_stop_words(text: str) -> str | None:
    words = [word.lower() for word in _WORD.findall(text)]
    counts = {name: sum(_is_stopped(word, name) for word in words) for name in _NAMES}
    most = max(counts.values())
    english = sum(_is_stopped(word, LANGUAGES[ENGLISH]) for word in words)
    best = [name.capitalize() for name, count in counts.items() if count == most]
    return " or ".join(best) if most >= LEAST_WORDS and most > english and len(best) <= LEAST_WORDS else None


@lru_cache(4096)
def _is_stopped(word: str, language: str) -> bool:
    return not _reader(language).embed_document(word).indices


@lru_cache(len(LANGUAGES))
def _reader(language: str) -> Bm25:
    return Bm25(Bm25Config(language=language))
