"""How keyword search spells texts and queries: one spelling for letters that differ in accents or width, and others to add.

Folding needs no further term: José is indexed as Jose, 東京都 as its bigrams. A word that can be written in several ways has further
spellings: PKZ-0821 is found by PKZ0821, wi-fi by wifi, getUserName by its words. Stop words are no terms, except where capitals make
them a name, as in IT and The Who.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

BOND = "\u01c0"
"""Joins words to one term. The tokenizer takes it for a letter, and texts hardly contain it."""

_FORMS = re.compile("[\uf900-\ufdff\ufe30-\ufe4f\ufe70-\ufefe\uff01-\uffee]+")
"""Characters that stand for others: ligatures (ﬁ), Arabic presentation forms, full-width and half-width ones, and compatible ideographs.

Only these are folded: all of NFKC would make "AcmeTM" of "Acme™".
"""
_SPECIAL = {
    "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "ħ": "h", "Ħ": "H", "ı": "i", "ŧ": "t", "Ŧ": "T", "ŋ": "n", "Ŋ": "N", "ĸ": "k", "ŉ": "n",
    "ĳ": "ij", "Ĳ": "IJ", "ſ": "s", "ё": "е", "Ё": "Е", "‐": "-", "‑": "-", "’": "'", "ʼ": "'", "\u00ad": "", "\u200b": "",
    "\u2060": "", "\ufeff": "",
}  # fmt: skip
"""Letters that Unicode does not take apart, hyphens and apostrophes that look like the usual ones, and what is invisible."""
_MARKS = range(0x300, 0x370)
SIGNS = frozenset(filter(lambda one: unicodedata.category(one) in ("Mn", "Mc"), map(chr, range(0x300, 0x2000))))
"""Marks that belong to a word, such as the vowel signs of Hindi or Tamil, but are no letters."""
LETTER = rf"[\w{''.join(sorted(SIGNS))}]"
"""A letter, digit or mark of a word, as a pattern."""
_ACCENTED = [*range(0xC0, 0x250), *range(0x370, 0x400), *range(0x1E00, 0x2000)]
"""Latin and Greek. Marks of other scripts make other letters."""


def _letters() -> dict[str, str]:
    found = dict.fromkeys(map(chr, _MARKS), "")
    for code in _ACCENTED:
        parts = unicodedata.normalize("NFD", chr(code))
        if len(parts) > 1:
            found[chr(code)] = "".join(_SPECIAL.get(one, one) for one in parts if ord(one) not in _MARKS)
    return found | _SPECIAL


_LETTERS = _letters()
_UMLAUTS = {
    "ä": "ae",
    "ö": "oe",
    "ø": "oe",
    "ü": "ue",
    "å": "aa",
    "Ä": "Ae",
    "Ö": "Oe",
    "Ø": "Oe",
    "Ü": "Ue",
    "Å": "Aa",
}
_ONE_LETTER = {"ae": "ä", "oe": "ö", "ue": "ü", "aa": "å"}
_UMLAUT = re.compile(f"[{''.join(_UMLAUTS)}]")
_TWO_LETTERS = re.compile(
    r"(?<![aeiougq])(?:ae|ue)(?![aeiouy]|s?\b|l\b)|(?<![aeiou])oe(?![aeiouy]|s?\b)|\baa|(?<=g)aa(?=rd)", re.IGNORECASE
)
"""Two letters that may stand for an umlaut, unlike those of guest, heroes, Samuel and neue."""
_SHORTEST_SPELLED_OUT = 5
"""Letters of a word that may have them: no fuel and no poet."""
_FIRST_FORM = "\uf900"
_SPACES = frozenset("\u00a0\u2009\u202f")
_GROUPING = re.compile("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")
"""A space that groups the thousands of a number."""

IDEOGRAPHS = re.compile(
    "[\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u109d\u1780-\u17d3\u17dc\u17dd"
    "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0002ffff]+"
)
"""Chinese, Japanese and Korean, which are written without spaces or with endings on each word; likewise Thai, Lao, Burmese and Khmer."""
_TONES = re.compile("[\u0e47-\u0e4e\u0ec8-\u0ecf\u1037\u1039\u103a\u17c9-\u17d3\u17dd]")
"""Their marks that the tokenizer takes for no part of a word."""

_WORD = r"[^\W_]"
_COMPOUND = re.compile(rf"(?<!{_WORD}){_WORD}++(?:[-_./\\:@#+&']++{_WORD}++)+")
"""Begins at a word and never steps back, or a long word without a joint would take quadratic time."""
JOINTS = "-_./\\:@#+&',"
_NO_WORD = re.compile(r"[\W_]+")
_SPECIFIC = re.compile(r"[\d_@.]")
"""What tells an identifier from a hyphenated word."""
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[.:](?=\d)")
"""Joints that matter: 2.13.7 is not 21.3.7."""
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:[,.']\d{3})++(?![\d'])(?![.,]\d{3})")
"""A number with its thousands apart."""
_CLITIC = re.compile(r"'(?:s|t|d|m|re|ve|ll)$", re.IGNORECASE)
_JOINABLE = re.compile(r"[^\W\d_]+(?:[-&'][^\W\d_]+){1,2}")
_CAPITALS = re.compile(rf"{_WORD}*[a-z][A-Z]{_WORD}*")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+")
_NUMBERED = re.compile(r"\W*([^\W\d_]{2,})(\d{2,})\W*")
"""A token of letters and digits and nothing else: not a part of an email address, which would be found by a person's name."""
_SIGNED = re.compile(r"(?<!\w)(?:([A-Za-z])(\+\+|#)(?![\w#+])|\.(net)\b)", re.IGNORECASE)
"""C++, C#, F# and .NET."""
_SIGNS = {"++": "plusplus", "#": "sharp"}
_LONGEST = 40
"""Characters of a token that is looked at for other spellings, and remembered."""
_KNOWN_TOKENS = 50_000


class Spelled(NamedTuple):
    """What a token without white space is also written as."""

    identifiers: tuple[str, ...] = ()
    """Its identifiers, grouped numbers and names with signs, each as one word: PKZ0821 for PKZ-0821."""
    joined: tuple[str, ...] = ()
    """Its hyphenated words and names as one word: wifi for wi-fi, OBrien for O'Brien."""
    parts: tuple[str, ...] = ()
    """The words that it joins: get, User and Name for getUserName."""


_PLAIN = Spelled()


def presented(text: str) -> str:
    """Return the text with ligatures and presentation forms as the letters they show."""
    return text if text.isascii() else _FORMS.sub(lambda form: unicodedata.normalize("NFKC", form.group()), text)


def folded(text: str) -> str:
    """Return the text as `presented`, with Latin and Greek letters without their accents: José as Jose, Straße as Strasse."""
    return text if text.isascii() else _folded(text, _special(text))


def folded_in_place(text: str) -> str | None:
    """Return the folded text if each character is where it was, else None."""
    if text.isascii():
        return text
    special = _special(text)
    if any(one >= _FIRST_FORM or len(_LETTERS.get(one, one)) != 1 for one in special):
        return None
    return _folded(text, special)


def _special(text: str) -> list[str]:
    return [one for one in set(text) if one > "\x7f"]


def _folded(text: str, special: Sequence[str]) -> str:
    if any(one >= _FIRST_FORM for one in special):
        text = presented(text)
        special = _special(text)
    if not _SPACES.isdisjoint(special):
        text = _GROUPING.sub(",", text)
    for one in special:
        if one in _LETTERS:
            text = text.replace(one, _LETTERS[one])
    return text


def bigrams(run: str) -> list[str]:
    """Return each two adjacent characters of a script without spaces; a single one as it is."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def split_ideographs(text: str) -> str:
    """Return the text with scripts without spaces as bigrams, as the tokenizer needs them."""
    if text.isascii():
        return text
    return IDEOGRAPHS.sub(lambda run: f" {' '.join(bigrams(_TONES.sub('', run.group())))} ", text)


def joined(identifier: str) -> str:
    """Return an identifier as one word; a point between digits stays apart unless it groups thousands."""
    if not _GROUPED.fullmatch(identifier):
        identifier = _BETWEEN_DIGITS.sub(BOND, identifier)
    return _NO_WORD.sub("", identifier)


def with_other_umlauts(word: str) -> str | None:
    """Return a word with its umlauts as two letters, or with two letters as umlauts, or None: Mueller for Müller, Århus for Aarhus."""
    if _UMLAUT.search(word):
        return _UMLAUT.sub(lambda one: _UMLAUTS[one[0]], word)
    if len(word) < _SHORTEST_SPELLED_OUT or not _TWO_LETTERS.search(word):
        return None
    return _TWO_LETTERS.sub(lambda two: _ONE_LETTER[two[0].lower()], word)


def spelled(token: str) -> Spelled:
    """Return what a folded token, which has no white space, is also written as."""
    if token.isalpha() and (token.islower() or token.istitle() or token.isupper()):
        return _PLAIN
    return _known(token) if len(token) <= _LONGEST else Spelled(_identifiers(token))


@lru_cache(_KNOWN_TOKENS)
def _known(token: str) -> Spelled:
    compounds = (one for one in _COMPOUND.findall(token) if _JOINABLE.fullmatch(one) and not _CLITIC.search(one))
    parts = [part for one in _CAPITALS.findall(token) for part in _HUMP.findall(one)]
    if (numbered := _NUMBERED.fullmatch(token)) is not None:
        parts += numbered.groups()
    found = Spelled(_identifiers(token), tuple(_NO_WORD.sub("", one) for one in compounds), tuple(parts))
    return found if any(found) else _PLAIN


def _identifiers(token: str) -> tuple[str, ...]:
    found = [joined(one) for one in _COMPOUND.findall(token) if _SPECIFIC.search(one)]
    found += [_NO_WORD.sub("", one) for one in _GROUPED.findall(token) if not _COMPOUND.fullmatch(one)]
    for letter, sign, _ in _SIGNED.findall(token):
        found.append(f"{letter.lower()}{_SIGNS[sign]}" if letter else "dotnet")
    return tuple(found)
