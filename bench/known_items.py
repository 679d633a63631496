"""Make a collection of known-item searches from a test collection: queries that name one exact thing.

`python -m bench.known_items COLLECTION OUTPUT [--seed 7]`; both are folders in BEIR layout, for `concordance eval`. Planted in documents
drawn at random are identifiers of ten shapes and names of people, each with near misses in other documents: one character differs, or
the first or the last name. Titles, rare words and phrases are the collection's own. The id of a query begins with its kind. The same
seed gives the same files.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

IDENTIFIERS, NAMES, TITLES, WORDS, PHRASES = 10, 40, 40, 40, 40
"""Queries of each kind; identifiers: of each shape."""
NEAR_MISSES = 3
MOST_HOLDERS = 3
"""Documents that hold a rare word."""
PHRASE_WORDS = 5
WORD = re.compile(r"[A-Za-z]{5,}")
QUESTIONS = (
    "What do we know about {}?",
    "who is working on {} at the moment",
    "Where is the report that mentions {} and its results?",
    "please find {}",
)
REMARKS = ("See {}.", "This is filed under {}.", "Refer to {} for details.", "It was first reported in {} last year.")
FIRST = [
    "Marta",
    "Jonas",
    "Aisha",
    "Pavel",
    "Ingrid",
    "Tomas",
    "Leila",
    "Henrik",
    "Chiara",
    "Dmitri",
    "Yusuf",
    "Nadia",
    "Oskar",
    "Priya",
    "Rafael",
    "Sanne",
]
LAST = [
    "Okafor",
    "Lindqvist",
    "Haddad",
    "Novak",
    "Brandt",
    "Petrov",
    "Costa",
    "Aalto",
    "Marchetti",
    "Demir",
    "Vasquez",
    "Moreau",
    "Nakata",
    "Iversen",
]


class Text(NamedTuple):
    """A document of the collection; `text` may have sentences planted."""

    id: str
    title: str
    text: str


class Case(NamedTuple):
    """A query and the documents that hold what it names."""

    kind: str
    query: str
    relevant: list[str]


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(string.digits, k=count))


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(string.ascii_uppercase, k=count))


SHAPES: list[Callable[[random.Random], str]] = [
    lambda rng: f"{_letters(rng, 3)}-{_digits(rng, 4)}",  # ticket
    lambda rng: f"E{_digits(rng, 4)}_{rng.choice(('TIMEOUT', 'REFUSED', 'OVERFLOW', 'CONFLICT'))}",  # error
    lambda rng: f"{_letters(rng, 2)}-{_digits(rng, 2)}{_letters(rng, 1)}/{_digits(rng, 3)}",  # part
    lambda rng: f"{rng.randint(1, 9)}.{rng.randint(10, 40)}.{rng.randint(1, 30)}",  # version
    lambda rng: "".join(rng.choices("0123456789abcdef", k=10)),  # commit
    lambda rng: f"{rng.choice(FIRST)}.{rng.choice(LAST)}{_digits(rng, 2)}@example.com".lower(),  # email
    lambda rng: (  # host
        f"{rng.choice(('db', 'web', 'cache'))}-{_digits(rng, 2)}.{rng.choice(('prod', 'test'))}{_digits(rng, 2)}.example.net"
    ),
    lambda rng: f"INV{rng.randint(2019, 2026)}{_digits(rng, 5)}",  # invoice
    lambda rng: (  # path
        f"/srv/{rng.choice(('data', 'share', 'jobs'))}/{_letters(rng, 4).lower()}_{_digits(rng, 3)}.csv"
    ),
    lambda rng: f"{rng.choice(('note', 'minutes', 'draft'))}-{_digits(rng, 4)}",  # file
]


def near_miss(rng: random.Random, identifier: str) -> str:
    """Return the identifier with one digit changed."""
    places = [at for at, one in enumerate(identifier) if one.isdigit()]
    at = rng.choice(places)
    return identifier[:at] + rng.choice([one for one in string.digits if one != identifier[at]]) + identifier[at + 1 :]


def cases(documents: list[Text], rng: random.Random) -> tuple[list[Text], list[Case]]:
    """Return the documents with what was planted, and the queries."""
    planted: dict[str, list[str]] = defaultdict(list)
    found: list[Case] = []
    taken: set[str] = set()

    def plant(what: str, near: list[str]) -> str:
        taken.update([what, *near])
        holders = rng.sample(documents, 1 + len(near))
        for document, one in zip(holders, [what, *near], strict=True):
            planted[document.id].append(rng.choice(REMARKS).format(one))
        return holders[0].id

    for made in SHAPES:
        for number in range(IDENTIFIERS):
            what = made(rng)
            near = {near_miss(rng, what) for _ in range(NEAR_MISSES)}
            if taken & {what, *near}:
                continue
            holder = plant(what, sorted(near))
            asked = what if number % 2 == 0 else rng.choice(QUESTIONS).format(what)
            found.append(Case("identifier" if number % 2 == 0 else "question", asked, [holder]))
    names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], NAMES)
    for number, name in enumerate(names):
        first, last = name.split()
        others = [f"{first} {rng.choice(LAST)}", f"{rng.choice(FIRST)} {last}"]
        holder = plant(name, [one for one in others if one not in names])
        asked = name if number % 2 == 0 else rng.choice(QUESTIONS).format(name)
        found.append(Case("name", asked, [holder]))
    found += _own(documents, rng)
    changed = [one._replace(text=_with(one.text, planted[one.id], rng)) for one in documents]
    return changed, found


def _own(documents: list[Text], rng: random.Random) -> Iterator[Case]:
    """Yield queries for titles, rare words and phrases that the collection has anyway."""
    titles = Counter(one.title.strip().lower() for one in documents)
    titled = [one for one in documents if titles[one.title.strip().lower()] == 1 and len(one.title.split()) > 2]
    for one in rng.sample(titled, min(TITLES, len(titled))):
        yield Case("title", one.title.strip(), [one.id])
    holders: dict[str, set[str]] = defaultdict(set)
    phrases: dict[str, set[str]] = defaultdict(set)
    for one in documents:
        for word in WORD.findall(f"{one.title} {one.text}"):
            holders[word.lower()].add(one.id)
        for line in re.split(r"[.,;:()]", one.text):
            words = line.split()
            for at in range(len(words) - PHRASE_WORDS + 1):
                phrases[" ".join(words[at : at + PHRASE_WORDS]).lower()].add(one.id)
    rare = sorted(word for word, ids in holders.items() if len(ids) <= MOST_HOLDERS)
    for word in rng.sample(rare, WORDS):
        yield Case("word", word, sorted(holders[word]))
    single = sorted(phrase for phrase, ids in phrases.items() if len(ids) == 1 and phrase.replace(" ", "").isalpha())
    for phrase in rng.sample(single, PHRASES):
        yield Case("phrase", f'"{phrase}"', sorted(phrases[phrase]))


def _with(text: str, sentences: list[str], rng: random.Random) -> str:
    """Return the text with each sentence between two of its own."""
    for sentence in sentences:
        ends = [match.end() for match in re.finditer(r" ?\. ", text)] or [len(text)]
        at = rng.choice(ends)
        text = f"{text[:at].rstrip()} {sentence} {text[at:]}".strip()
    return text


def main() -> None:
    """Write the collection and print how many queries there are of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with (given.collection / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    documents = [Text(str(row["_id"]), row.get("title") or "", row.get("text") or "") for row in rows]
    changed, found = cases(documents, random.Random(given.seed))
    given.output.mkdir(parents=True, exist_ok=True)
    corpus = [json.dumps({"_id": one.id, "title": one.title, "text": one.text}) for one in changed]
    named = [(f"{case.kind}-{number}", case) for number, case in enumerate(found)]
    queries = [json.dumps({"_id": name, "text": case.query}) for name, case in named]
    judged = [f"{name}\t{document}\t1" for name, case in named for document in case.relevant]
    for file, content in (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels.tsv", judged)):
        (given.output / file).write_text("\n".join(content) + "\n", encoding="utf-8")
    print(f"{given.output}: {len(changed)} documents,", dict(Counter(case.kind for case in found)))


if __name__ == "__main__":
    main()
