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
MOST_ALIKE = 2
"""Languages that a text may be in at once: Danish and Norwegian share their stop words."""
SAMPLE = 60
"""Words that are looked at."""
MANY, ENGLISH_SHARE = 20, 0.3
"""A text of so many words with such a share of English stop words is English, whatever other languages count: it saves their count."""
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
_ASKING = {
    "danish": "hvornår hvem hvordan hvorfor hvilken hvilke",
    "dutch": "wanneer waar waarheen waarom hoeveel welke",
    "english": "comment",
    "finnish": "milloin kuinka montako",
    "french": "quand où comment combien pourquoi quel quelle quels quelles quoi lequel laquelle",
    "german": "wann wer wem wen wessen warum weshalb wieso woher wohin wozu womit wofür wieviel",
    "hungarian": "hol hány melyik",
    "italian": "quando quali cosa",
    "portuguese": "onde quanto quantos quanta quantas quais porque",
    "romanian": "când",
    "spanish": "dónde adónde cuándo cuánto cuántos cuánta cuántas cómo quién quiénes cuál cuáles",
    "turkish": "kaç hangi",
}
"""Question words that the stop words of a language lack. French `comment` counts for English, too, where it is a word."""
_NAMES = sorted({*LANGUAGES.values()} - {LANGUAGES[ENGLISH]})


def foreign_language(text: str, least: int = LEAST_WORDS) -> str | None:
    """Return the name of the language of a text if it is clearly another one than English, by at least so many stop words."""
    letters = [character for character in text if character.isalpha()]
    scripts = Counter(unicodedata.name(one, "").partition(" ")[0].partition("-")[0] for one in letters)
    for script, name in _SCRIPTS.items():
        if scripts[script] > len(letters) / 5:
            return name
    spoken = _by_stop_words(text, least)
    if spoken is None and scripts[_CYRILLIC] > len(letters) / 2:
        return "a language in Cyrillic letters"
    return spoken


def _by_stop_words(text: str, least: int) -> str | None:
    words = [word.lower() for word in _WORD.findall(text)[:SAMPLE]]
    english = sum(_is_stopped(word, LANGUAGES[ENGLISH]) for word in words)
    if len(words) >= MANY and english >= len(words) * ENGLISH_SHARE:
        return None
    counts = {name: sum(_is_stopped(word, name) for word in words) for name in _NAMES}
    most = max(counts.values())
    best = [name.capitalize() for name, count in counts.items() if count == most]
    return " or ".join(best) if most >= least and most > english and len(best) <= MOST_ALIKE else None


@lru_cache(50_000)
def _is_stopped(word: str, language: str) -> bool:
    return word in _ASKING.get(language, "").split() or not _reader(language).embed_document(word).indices


@lru_cache(len(LANGUAGES))
def _reader(language: str) -> Bm25:
    return Bm25(Bm25Config(language=language))
