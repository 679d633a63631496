"""The words of a query and where a text holds them, as keyword search spells them: `resources.core.spelling` says how.

A stem here is a light one: only what can be compared without knowing the language. Places are those of the text as it is stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from resources.core.bm25 import names_in
from resources.core.spelling import (
    BOND,
    IDEOGRAPHS,
    JOINTS,
    LETTER,
    SIGNS,
    bigrams,
    folded,
    folded_in_place,
    spelled,
    with_other_umlauts,
)

_WORD = re.compile(rf"[^\W\d_](?:\+\+|#)(?![\w#+])|(?<!\w)\.net\b|{LETTER}+", re.IGNORECASE)
"""A word, C++, C#, F# or .NET."""
_SIGN = re.compile(r".[\uff9e\uff9f]?", re.DOTALL)
"""A character; one of half-width katakana with its voicing mark, since both make one letter."""
_TOKEN = re.compile(r"\S+")
_ENDINGS = {"ings": 3, "ing": 3, "edly": 3, "ed": 3, "lies": 4, "ies": 3, "es": 3, "s": 3, "ly": 4}
"""Endings, and how many letters are left at least: family and families have the same stem, app and apply have not."""
_NO_PLURAL = re.compile(r"(?![^\Waeiouy]{2,}+us|.*(?:eaus|menus|gurus)).*(?:ss|us)")
"""Words in -s that are no plurals: access, status; but GPUs, bureaus, menus and gurus are."""
_STOPWORDS = frozenset(
    """
    a about an and are as at be by can do does for from has have how i in is it its my of on or our that the their there this
    to was we were what when where which who why will with you your
    """.split()  # noqa: SIM905 (a list of sixty quoted words says less)
)
_SHORT = frozenset(
    """
    a am an and any are as at be but by can did do does for had has have he her here him his how i if in is it its many may me more my
    no nor not now of off on or our out per she so some than the they thus to too two up us very was we were who why yes yet you
    """.split()  # noqa: SIM905
)
WHOLE = "\u01c1"
"""Ends the stem of a short word that is no other word's stem: not, unlike note."""
_JOINTS = JOINTS.encode()
_ANY = "surrogatepass"
_EDGES = "\"'“”„«»().,;:?!¿¡[]{}<>`*"


class Words(frozenset[str]):
    """The stems of a query's words. It equals any other set of them, but knows how else they are written."""

    joined: Mapping[str, frozenset[str]] = {}
    """What stands for other stems: wifi for both of wi-fi, mueller for muller of Müller."""
    parts: Mapping[str, tuple[str, ...]] = {}
    """What together stands for a stem: get, user and name for getUserName."""
    names: Mapping[str, re.Pattern[str]] = {}
    """Stop words that are names, and how they are written: IT, The Who."""

    def only(self, chosen: frozenset[str]) -> Words:
        """Return the chosen ones of these words."""
        found = Words(self & chosen)
        found.joined = {word: stems & chosen for word, stems in self.joined.items() if stems & chosen}
        found.parts = {stem: parts for stem, parts in self.parts.items() if stem in chosen}
        found.names = {stem: pattern for stem, pattern in self.names.items() if stem in chosen}
        return found


@lru_cache(50_000)
def stem(word: str) -> str:
    """Return the light stem of a word in any spelling."""
    word = folded(word).casefold()
    if word in _SHORT:
        return word + WHOLE
    for ending, least in _ENDINGS.items():
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= least
            and (ending != "s" or not _NO_PLURAL.fullmatch(word))
        ):
            word = word[: -len(ending)]
            break
    else:
        ending = ""
    # policy and policies, employee and employees: the last vowel is part of the ending; but key is no k, and money no mon
    least = 3 if len(word) == 4 and not (ending in ("es", "ed") and word[-1] == "e") else 4  # agree and agreed
    while len(word) > least and word[-1] in "ey":
        word = word[:-1]
    return word


def _words(text: str) -> Iterator[str]:
    """Yield the words of a folded text; scripts without spaces by two characters."""
    for match in _WORD.finditer(text):
        word, at = match.group(), 0
        for run in () if word.isascii() else IDEOGRAPHS.finditer(word):
            yield from filter(None, [word[at : run.start()]])
            yield from bigrams(run.group())
            at = run.end()
        yield from filter(None, [word[at:]])


@lru_cache(2000)
def terms(query: str) -> Words:
    """Return the query's words, light stems, without stopwords. A query of stop words has those that are names, or else all."""
    text = folded(query)
    words = list(_words(text))
    stems = frozenset(stem(word) for word in words if word.casefold() not in _STOPWORDS)
    names = {name: _written(name) for name in names_in(query)} if len(stems) < len(words) else {}
    if not stems and len(words) > 1:  # The Who is neither The nor Who
        names = {name: pattern for name, pattern in names.items() if not name.startswith(BOND)} or names
    found = Words(stems | names.keys() or map(stem, words))
    found.names = names
    joined, parts = dict[str, frozenset[str]](), dict[str, tuple[str, ...]]()
    for token in text.split():
        spelling = spelled(token)
        mine = [stem(word) for word in _words(token) if stem(word) in found]
        if mine:
            whole = frozenset(mine)
            joined |= {stem(one): whole for one in (*spelling.identifiers, *spelling.joined) if stem(one) not in found}
        if spelling.parts and len(mine) == 1:
            parts[mine[0]] = tuple(map(stem, spelling.parts))
        for one in mine:
            if "_" in one and (letters_only := one.replace("_", "")):
                joined[stem(letters_only)] = frozenset([one])
                parts[one] = tuple(stem(part) for part in one.split("_") if part)
    for word in _WORD.findall(query):
        other = with_other_umlauts(word)
        if other is not None and (one := stem(word)) in found and stem(other) not in found:
            joined[stem(other)] = frozenset([one])
    found.joined, found.parts = joined, parts
    return found


def _written(name: str) -> re.Pattern[str]:
    """Return how stop words are written where they are a name: IT, or The Who, the second with a capital."""
    first, _, last = name.partition(BOND)
    return re.compile(rf"\b{last.upper()}\b" if not first else rf"\b(?i:{first})\s+{last[0].upper()}(?i:{last[1:]})\b")


def _aligned(text: str) -> tuple[str, Sequence[tuple[int, int]] | None]:
    """Return the text folded, in lower case, and the start and end of each of its characters in the text; None: the same."""
    if text.isascii():
        return text.lower(), None
    plain = folded_in_place(text)
    if plain is not None and len(plain := plain.casefold()) == len(text):
        return plain, None
    each = [(folded(sign[0]).casefold(), sign.span()) for sign in _SIGN.finditer(text)]
    return "".join(letters for letters, _ in each), [span for letters, span in each for _ in letters]


def spans(text: str, wanted: frozenset[str]) -> list[tuple[int, int]]:
    """Return the positions of the wanted words in the text, in order; none overlaps another."""
    plain, places = _aligned(text)
    words = wanted if isinstance(wanted, Words) else Words(wanted)
    looked = words.union(words.joined, *words.parts.values()) if words.joined or words.parts else words
    cased = text if places is None else ""
    present = [one for one in looked if one.removesuffix(WHOLE) in plain]
    found = {span for one in present for span in _places_of(plain, cased, one, looked)}
    if places is not None:
        found = {(places[start][0], places[end - 1][1]) for start, end in _merged(sorted(found), plain)}
    for pattern in words.names.values():
        found |= {match.span() for match in pattern.finditer(text)}
    absent = words.difference(present)
    squeezed = plain.encode(errors=_ANY).translate(None, _JOINTS).decode(errors=_ANY) if absent else ""
    if apart := [one for one in absent if one.removesuffix(WHOLE) in squeezed]:
        for token in _TOKEN.finditer(text):
            spelling = spelled(folded(token.group()))
            if any(stem(one) in apart for one in (*spelling.identifiers, *spelling.joined)):
                start = token.end() - len(token.group().lstrip(_EDGES.replace(".", "")))
                found.add((start, token.start() + len(token.group().rstrip(_EDGES))))
    return _merged(sorted(found), text)


def _places_of(plain: str, cased: str, one: str, looked: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield where a folded text has a word with this stem. The words of a stem begin with it, so that few words are looked at."""
    one = one.removesuffix(WHOLE)
    at = plain.find(one)
    ideographs = at >= 0 and IDEOGRAPHS.match(one) is not None
    while at >= 0:
        end = at + len(one) if ideographs else _end(plain, cased, at, looked)
        if end is not None:
            yield at, end
        at = plain.find(one, end or at + 1)


def _end(plain: str, cased: str, at: int, looked: frozenset[str]) -> int | None:
    """Return the end of the word that begins here, or of its part: user in getUserName; None if it is not looked for."""
    before = plain[at - 1] if at else " "
    within = _joins(before)
    if within and not _hump(cased, at):
        return None
    if not within and before != "_":
        end = _word_end(plain, at)
        if stem(plain[at:end]) in looked:
            return end
        word = cased[at:end]
        if word.isalpha() and word[1:].islower():  # it has no parts
            return None
    end = _part_end(plain, cased, at)
    return end if plain[end : end + 1] not in ("+", "#") and stem(plain[at:end]) in looked else None


def _word_end(text: str, start: int) -> int:
    word = _WORD.match(text, start)
    if word is None:
        return start + 1
    ideographs = None if text.isascii() else IDEOGRAPHS.search(text, start, word.end())
    return word.end() if ideographs is None else max(start + 1, ideographs.start())


def _joins(character: str) -> bool:
    return character.isalnum() or character in SIGNS


def _hump(cased: str, at: int) -> bool:
    """Return True if a part of a word begins here: Name in userName, 0821 in PKZ0821."""
    if not 0 < at < len(cased):
        return False
    before, here = cased[at - 1], cased[at]
    return (before.islower() and here.isupper()) or (before.isalpha() and cased[at : at + 2].isdigit())


def _part_end(plain: str, cased: str, start: int) -> int:
    for at in range(start + 1, len(plain)):
        if not _joins(plain[at]) or _hump(cased, at):
            return at
    return len(plain)


def _merged(found: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Return the spans without those that begin within the one before; overlapping pairs of ideographs make one span."""
    merged = list[tuple[int, int]]()
    for start, end in found:
        if merged and start < merged[-1][1]:
            if end > merged[-1][1] and IDEOGRAPHS.match(text, start):
                merged[-1] = (merged[-1][0], end)
            elif start == merged[-1][0]:  # the longer of two
                merged[-1] = (start, end)
            continue
        merged.append((start, end))
    return merged


def letters(text: str) -> str:
    """Return the letters and digits of a text, by which it is recognised without its marks and spaces."""
    return "".join(filter(str.isalnum, text.casefold()))


def held(text: str, wanted: frozenset[str]) -> frozenset[str]:
    """Return the wanted words that are in the text."""
    return stems(text, spans(text, wanted), wanted)


def occurrences(text: str, found: Sequence[tuple[int, int]]) -> Counter[str]:
    """Return how often each of the words at these places occurs, by its stem."""
    return Counter(stem(text[start:end]) for start, end in found)


def stems(text: str, found: Sequence[tuple[int, int]], wanted: frozenset[str]) -> frozenset[str]:
    """Return the wanted words that the text has at the places that `spans` found."""
    if not found:
        return frozenset()
    words = wanted if isinstance(wanted, Words) else Words(wanted)
    seen, held = set[str](), set[str]()
    for piece in {folded(text[start:end]) for start, end in found}:
        one = stem(piece)
        seen.add(one)
        if one in words:
            continue
        held |= words.joined.get(one, frozenset())
        if IDEOGRAPHS.match(piece):
            held.update(bigrams(piece))
        elif words.names:
            held.update(name for name, pattern in words.names.items() if pattern.fullmatch(piece))
        if not piece.isalnum():
            spelling = spelled(piece)
            held.update(stem(other) for other in (*spelling.identifiers, *spelling.joined))
    held |= seen
    held.update(one for one, parts in words.parts.items() if held.issuperset(parts))
    return words & held
