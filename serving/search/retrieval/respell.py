"""Complete and correct the words of a query that no passage found holds: the last one as the beginning of a word, others by one edit.

The words come from passages that the caller may read and from nowhere else, so neither a completion nor a correction tells of others. Only
a query with such a word costs a statement for each of them and a second search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from resources.core.bm25 import ENGLISH, stem_ids
from resources.core.spelling import folded
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.passage import AskedWords, Passage
from serving.search.retrieval.query import Respelled
from serving.search.retrieval.terms import Words, stem, terms
from sql.serving_rows import Holder

SHORTEST_BEGINNING = 3
"""Letters of the beginning of a word."""
SHORTEST_WORD = 5
"""Letters of a word that one edit is tolerated in."""
LONGEST_WORD = 14
"""The same at most: some 50 strings a letter are looked up, and few words are longer."""
LOOK_UP_SECONDS = 1.0
"""How long a search waits for the words; it has results without them."""
MOST_WORDS = 3
"""Words of a query that are looked up."""
MOST_PASSAGES = 100
"""Passages that the words are taken from."""
MOST_COMPLETIONS = 3
TITLE = 5
"""Weight of a document whose title has the word."""
_STEM_ENDING = 5
"""Letters that a stemmer takes off a word at most."""
_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "αβγδεζηθικλμνξοπρσςτυφχψω",
    "אבגדהוזחטיךכלםמןנסעףפץצקרשת",
)
"""What one edit puts in. A word of another script gets its own letters alone: Arabic and Indic ones have too many forms."""
_WORD = re.compile(r"[^\W\d_]+")
_WHOLE = re.compile(rf"(?<!\w){_WORD.pattern}(?!\w)")


def missing(asked: AskedWords, candidates: Sequence[Candidate], readable: Mapping[str, Passage]) -> frozenset[str]:
    """Return the words of a search, as stems, that none of the readable candidates holds."""
    left: frozenset[str] = asked.words
    for one in sorted(candidates, key=lambda one: -(one.keyword or 0.0)):
        if not left:
            break
        left -= asked.some(readable[one.chunk_id], left)
    return left


def inflected(word: str, candidates: Sequence[Candidate], readable: Mapping[str, Passage]) -> bool:
    """Return True if a passage that keywords have found holds another form of the word, by the stemmer of its language."""
    found = (readable[one.chunk_id] for one in candidates if one.keyword)
    return any(
        stem_ids(word, language) <= stem_ids(f"{one.where} {one.chunk_text}", language)
        for one in found
        for language in [one.language or ENGLISH]
    )


def unclear(text: str, stems: Collection[str]) -> list[str]:
    """Return the words with these stems as they are written in the query, accents included, if they can be looked up, in order."""
    if '"' in text or "“" in text:
        return []
    found = [word for word in _WORD.findall(text) if len(word) >= SHORTEST_BEGINNING and stem(word) in stems]
    return list(dict.fromkeys(found))[:MOST_WORDS]


def written(text: str, stems: Collection[str]) -> list[str]:
    """Return the words of letters with these stems as they are written in the query, without accents, in order."""
    return [word for word in _WORD.findall(folded(text)) if stem(word) in stems]


def is_last(text: str, word: str) -> bool:
    """Return True if the query ends with this word, which may be the beginning of another."""
    return text.endswith(word)


def spellings(word: str) -> list[str]:
    """Return a word in small letters as it is written and, where that differs, without accents: Postgres does not fold what it indexes."""
    return list(dict.fromkeys((word.lower(), folded(word).lower())))


def beginnings(word: str) -> str:
    """Return the lexemes of words that begin with this one, as a tsquery. A lexeme may be shorter than the beginning."""
    shortest = max(SHORTEST_BEGINNING + 1, len(word) - _STEM_ENDING)
    return " | ".join([f"'{word}':*", *(f"'{word[:end]}'" for end in range(shortest, len(word)))])


def one_edit(word: str) -> frozenset[str]:
    """Return what differs from a word by a letter more, less or other, or by two neighbours that are swapped."""
    word = word.lower()
    letters = {*next((one for one in _ALPHABETS if not set(one).isdisjoint(word)), ""), *word}
    halves = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    found = {a + b[1:] for a, b in halves if b}
    found |= {a + b[1] + b[0] + b[2:] for a, b in halves if len(b) > 1}
    found |= {a + letter + b[1:] for a, b in halves if b for letter in letters}
    found |= {a + letter + b for a, b in halves for letter in letters}
    return frozenset(found - {word})


def completions(beginning: str, holders: Sequence[Holder]) -> Respelled | None:
    """Return the words that begin so, those of titles and of most documents first."""
    beginning = folded(beginning).lower()
    counts = _counted(holders, lambda word: word.startswith(beginning) and word != beginning)
    found = [_written(word, holders) for word in _most(counts, MOST_COMPLETIONS)]
    return Respelled(beginning, tuple(found), beginning=True) if found else None


def corrections(word: str, holders: Sequence[Holder]) -> Respelled | None:
    """Return the word that is one edit away, of several the one of titles and of most documents."""
    word = folded(word)
    near = one_edit(word)
    found = [_written(one, holders) for one in _most(_counted(holders, near.__contains__), 1)]
    return Respelled(word, tuple(found), beginning=False) if found else None


def _most(counts: Counter[str], most: int) -> list[str]:
    return sorted(counts, key=lambda word: (-counts[word], word))[:most]


def _written(word: str, holders: Sequence[Holder]) -> str:
    """Return the commonest form, in small letters, of a word without accents."""
    texts = (" ".join([one.title, *one.section_path, one.chunk_text]).lower() for one in holders)
    forms = Counter(form for text in texts for form in _WORD.findall(text) if folded(form) == word)
    return min(forms, key=lambda form: (-forms[form], form), default=word)


def _counted(holders: Sequence[Holder], wanted: Callable[[str], bool]) -> Counter[str]:
    documents: dict[str, set[str]] = {}
    titles: dict[str, set[str]] = {}
    for one in holders:
        _add(documents, one.doc_id, " ".join([*one.section_path, one.chunk_text]), wanted)
        _add(titles, one.doc_id, one.title, wanted)
    counts = Counter({word: len(ids) for word, ids in documents.items()})
    counts.update({word: TITLE * len(ids) for word, ids in titles.items()})
    return counts


def _add(found: dict[str, set[str]], doc_id: str, text: str, wanted: Callable[[str], bool]) -> None:
    for word in set(_WORD.findall(folded(text).lower())):
        if wanted(word):
            found.setdefault(word, set()).add(doc_id)


def respelled(text: str, found: Sequence[Respelled]) -> str:
    """Return the query with the first of the words that stand for each; others stay as they are written."""
    instead = {one.word.lower(): one.instead[0] for one in found}
    return _WHOLE.sub(lambda word: instead.get(folded(word[0]).lower(), word[0]), text)


def words_of(text: str, also: Sequence[Respelled]) -> Words:
    """Return the words of a query; any word that stands for one of them counts as that one."""
    words = terms(text)
    if not also:
        return words
    found = Words(words)
    found.joined = {
        **words.joined,
        **{stem(other): frozenset([stem(one.instead[0])]) & words for one in also for other in one.instead[1:]},
    }
    found.parts, found.names = words.parts, words.names
    return found
