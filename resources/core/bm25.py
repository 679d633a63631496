"""BM25 sparse vectors for keyword search, with the same token IDs and formula as a Qdrant server.

A document's vector holds the term-frequency half of BM25 and a query's the counts of its terms; Qdrant multiplies by
IDF, which it counts over the collection (the sparse vector is declared with `modifier: idf`).

A word is indexed as its stem and, where that differs, also as written: a query for "surveys" finds "surveying" too,
but ranks "surveys" first. The weight of the written form is applied to the query, so it can change without a reindex.

Passages in other languages than English have the stems and stop words of their language. Terms of all languages share
one space of IDs, and a query has the terms of every language of the corpus: see `encode_query`. In a corpus of English
alone, vectors and queries are English.

An identifier is indexed whole besides its parts: PKZ-0821 is three terms, of which PKZ-0822 shares one. What else a word may be
written as, see `resources.core.spelling`, are further terms, in documents of average weight and in queries of little. An umlaut
as two letters is a term of queries alone.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from qdrant_edge import Bm25, Bm25Config, DisabledStemmer

from resources.core.spelling import BOND, folded, presented, spelled, split_ideographs, with_other_umlauts

K1 = 1.2
"""Saturation of term frequency. Source: Robertson & Zaragoza, The Probabilistic Relevance Framework (2009), section
3.4; Qdrant's default.
"""
B = 0.75
"""Weight of the length normalisation. Source: same as `K1`."""

FORM = 0.5
"""Weight of a word's written form relative to its stem; 0.2 to 1 all raise the mean nDCG@10 of three collections by 0.004-0.008."""

SPELLING = 0.05
"""Weight of another spelling of a query's word relative to the word itself; see DECISIONS.md."""

SHORTEST_MEAN = 1.0
"""Least mean length, in words: that of a corpus without texts."""

VERSION = "w7"
"""Version of the keyword vectors; raise it whenever a text may get another vector. The next sync rebuilds them without embedding."""

ENGLISH = "en"
LANGUAGES: Mapping[str, str] = {
    ENGLISH: "english",
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
"""Languages (ISO 639-1) for which the engine has both stop words and a stemmer. Texts in any other are treated as English."""
OTHER_LANGUAGES = LANGUAGES.keys() - {ENGLISH}
_CODES = {name: code for code, name in reversed(LANGUAGES.items())}
_MARKS = "\"'’“”„«»().,;:?!¿¡"
_KNOWN_WORDS = 20_000
"""Words whose languages are kept."""

_LETTERS = re.compile(r"[^\W\d_]+")

_FULL_COUNT = 1e9
"""With `k` this large and `b` 0, BM25's term frequency tf·(k+1)/(tf+k) is the plain count, to six digits."""


class SparseVector(NamedTuple):
    """Indices (ascending, unique) with one value each; both empty for a text of stopwords only."""

    indices: list[int]
    values: list[float]


class _Words(NamedTuple):
    """Two tokenizations of a text, by stem and as written, with equally many terms. A word that equals its stem has the same ID in both."""

    stems: Bm25
    forms: Bm25


def _words(k: float, b: float, avg_len: float, language: str | None) -> _Words:
    name = LANGUAGES.get(language or ENGLISH, LANGUAGES[ENGLISH])
    plain = Bm25Config(k=k, b=b, avg_len=avg_len, language=name, stemmer=DisabledStemmer())
    return _Words(Bm25(Bm25Config(k=k, b=b, avg_len=avg_len, language=name)), Bm25(plain))


@cache
def _documents(avg_len: float, language: str | None) -> _Words:
    return _words(K1, B, avg_len, language)


@cache
def _counter(language: str | None = ENGLISH) -> _Words:
    return _words(_FULL_COUNT, 0.0, 1.0, language)


class _Text(NamedTuple):
    """A text as it is tokenized. What it is also written as does not count in its length."""

    stems: str
    """In the letters of its language, which the stemmer knows."""
    forms: str
    """Folded."""
    more: str
    """Other spellings."""
    names: str
    """Stop words that are names."""


def _read(text: str, language: str | None) -> _Text:
    """Return a text with each identifier in it as one word, and the other spellings of its words."""
    plain = folded(text)
    tokens = plain.split()
    identifiers, more = list[str](), list[str]()
    for token in tokens:
        spelling = spelled(token)
        identifiers += spelling.identifiers
        more += spelling.joined
        more += spelling.parts
    stems = forms = split_ideographs(plain)
    if not text.isascii() and LANGUAGES.get(language or ENGLISH, LANGUAGES[ENGLISH]) != LANGUAGES[ENGLISH]:
        stems = split_ideographs(presented(text))
        forms = _LETTERS.sub(_folded_word, stems)
    end = f" {' '.join(identifiers)}" if identifiers else ""
    return _Text(stems + end, forms + end, " ".join(more), " ".join(_named(tokens)))


def _folded_word(match: re.Match[str]) -> str:
    """Return a word folded, but a stop word as it is, or it would no longer be one."""
    word = match.group()
    plain = word if word.isascii() else folded(word)
    return word if plain == word or _stopped(word.lower()) else plain


def _named(tokens: Sequence[str], *, forced: bool = False) -> list[str]:
    """Return the stop words that are names: in capitals (IT), and after another one with a capital (The Who). `forced`: in any case."""
    found, before = list[str](), ""
    for token in tokens:
        after, before = before, token
        if not forced and (not token[0].isupper() or (token.isupper() and after.isupper())):
            continue  # a text in capitals tells nothing
        word = token.strip(_MARKS).lower()
        if len(word) < 2 or LANGUAGES[ENGLISH] not in _stopped(word):
            continue
        if after and after[-1] not in _MARKS and LANGUAGES[ENGLISH] in _stopped(after.lower()):
            found.append(f"{after.lower()}{BOND}{word}")
        if forced or token.strip(_MARKS).isupper():
            found.append(f"{BOND}{word}")
    return found


def _counts(text: str, reader: Bm25) -> dict[int, float]:
    found = reader.embed_document(text)
    return {index: float(round(value)) for index, value in zip(found.indices, found.values, strict=True)}


def _vector(values: dict[int, float]) -> SparseVector:
    indices = sorted(values)
    return SparseVector(indices, [values[index] for index in indices])


def encode_documents(
    texts: Sequence[str], avg_len: float, languages: Sequence[str | None] | None = None
) -> list[SparseVector]:
    """Return one vector per text, in order, of the texts' languages (ISO 639-1; None: English).

    `avg_len` is the corpus's mean length as `mean_length` counts it, and must be the same for the whole collection.
    Raises `ValueError` if it is not positive.
    """
    return [
        _document(_read(text, language), _documents(float(avg_len), language), language)
        for text, language in zip(texts, languages or [None] * len(texts), strict=True)
    ]


def _document(text: _Text, model: _Words, language: str | None) -> SparseVector:
    stems, forms = model.stems.embed_document(text.stems), model.forms.embed_document(text.forms)
    values = dict(zip(forms.indices, forms.values, strict=True))
    values |= dict(zip(stems.indices, stems.values, strict=True))
    counter = _counter(language)
    for words, reader in ((text.more, counter.stems), (text.more, counter.forms), (text.names, counter.forms)):
        for index in reader.embed_document(words).indices if words else ():
            values.setdefault(index, 1.0)
    return _vector(values)


def encode_query(text: str, languages: Collection[str] = ()) -> SparseVector:
    """Return the query's terms weighted by how often each occurs, and their written forms by `FORM` of that.

    `languages` are those of the corpus. A query is too short to identify its language by its letters, so its stop words decide. An English
    query has English terms only. One in another language has the stems that every language of the corpus makes of its words, without its
    own stop words, which are rare in texts of other languages. A query that remains undecided has all stems and keeps all words.
    """
    others = sorted({LANGUAGES[one] for one in languages if one in LANGUAGES} - {LANGUAGES[ENGLISH]})
    spoken = _spoken(text, others) if others else LANGUAGES[ENGLISH]
    if spoken == LANGUAGES[ENGLISH]:
        others = []
    elif spoken is not None:
        text = " ".join(word for word in text.split() if spoken not in _stopped(word.strip(_MARKS).lower()))
    respelled = filter(None, map(with_other_umlauts, _LETTERS.findall(text)))
    umlauts = " ".join(spelling for other in respelled for spelling in {other, folded(other)})
    stems, forms, more = dict[int, float](), dict[int, float](), dict[int, float]()
    for name in (LANGUAGES[ENGLISH], *others):
        read, counter = _read(text, _CODES[name]), _counter(_CODES[name])
        parts = (stems, read.stems, counter.stems), (forms, read.forms, counter.forms)
        further = f"{read.more} {umlauts}".strip()
        spellings = (more, further, counter.stems), (more, further, counter.forms)
        for found, words, reader in (*parts, *spellings):
            for index, count in _counts(words, reader).items() if words else ():
                found[index] = max(found.get(index, 0.0), count)
    for index, count in forms.items():
        stems[index] = stems.get(index, 0.0) + FORM * count
    for index in more:
        stems.setdefault(index, SPELLING)
    for index in _counts(" ".join(names_in(text)), _counter().forms):
        stems[index] = 1 + FORM
    return _vector(stems)


def stem_ids(text: str, language: str) -> frozenset[int]:
    """Return the terms of a text's words by the stemmer of its language, without stop words."""
    return frozenset(_counter(language).stems.embed_document(split_ideographs(presented(text))).indices)


def names_in(query: str) -> list[str]:
    """Return the stop words that are names in a query. If it has no other words, all of them are."""
    tokens = [word for token in folded(query).split() if (word := token.strip(_MARKS))]
    return _named(tokens, forced=all(LANGUAGES[ENGLISH] in _stopped(token.lower()) for token in tokens))


def _spoken(text: str, others: Sequence[str]) -> str | None:
    """Return the name of the language that most of the stop words belong to; None if there are none or several have as many."""
    counts = dict.fromkeys((LANGUAGES[ENGLISH], *others), 0)
    for word in text.split():
        for name in _stopped(word.strip(_MARKS).lower()):
            if name in counts:
                counts[name] += 1
    most = max(counts.values())
    best = [name for name, count in counts.items() if count == most]
    return best[0] if most and len(best) == 1 else None


@lru_cache(_KNOWN_WORDS)
def _stopped(word: str) -> frozenset[str]:
    """Return the names of the languages in which a word is a stop word."""
    if not word.isalpha():
        return frozenset()
    return frozenset(name for name, code in _CODES.items() if not _counter(code).forms.embed_document(word).indices)


def mean_length(texts: Sequence[str], languages: Sequence[str | None] | None = None) -> float:
    """Return the mean number of words in a text (without stopwords, as in the vectors), at least `SHORTEST_MEAN`."""
    if not texts:
        return SHORTEST_MEAN
    counts = (
        sum(_counts(_read(text, language).stems, _counter(language).stems).values())
        for text, language in zip(texts, languages or [None] * len(texts), strict=True)
    )
    return max(SHORTEST_MEAN, sum(counts) / len(texts))
