"""Count what searches find while somebody types, or writes a word in another way: beginnings, typing errors, accents, separators.

`python -m bench.spelling [--list]`: queries are made of real titles and words of two sets of documents, those that installed packages ship
and a company's handbook in `../shared/data/handbook` (left out where it is absent): the same ones each time, as long as the documents do
not change. A third, chosen by a hash, is kept aside: nothing is fitted on it. A query is found if a document that holds its
words is among the first five results. Meaningless letters should have no result. `--list` prints the others that were not found. The
last line is JSON, shares of 1.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
import string
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.answer import indexed
from bench.answer_sets import HANDBOOK, package_documents, reader, root_of
from resources.core.spelling import folded, spelled
from resources.logging import configure
from resources.settings import Settings
from resources.stores.postgres import session
from serving.search.retrieval.query import search_query
from serving.services import Services

EACH = 60
"""Queries of each kind and set of documents."""
MOST_HOLDERS = 3
"""Documents that hold a rare word."""
FIRST = 5
ACCENTS = {"a": "á", "c": "ç", "e": "é", "i": "í", "n": "ñ", "o": "ö", "u": "ü"}
_WORD = re.compile(r"[A-Za-z]+")


class Case(NamedTuple):
    """A query, and the documents that hold its words in their usual spelling; none for gibberish."""

    kind: str
    query: str
    documents: frozenset[str]

    @property
    def aside(self) -> bool:
        """True for the third that is kept aside."""
        return int(hashlib.sha256(self.query.encode()).hexdigest(), 16) % 3 == 0


def cut(word: str, rng: random.Random) -> str:
    """Return the beginning of a word: three letters at least, and at least half of it."""
    return word[: rng.randint(max(3, (len(word) + 1) // 2), len(word) - 1)]


def mistyped(word: str, rng: random.Random) -> str:
    """Return the word with one edit: a letter left out, doubled, replaced, or swapped with the next."""
    at = rng.randrange(1, len(word) - 1)
    edits = (
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + rng.choice(string.ascii_lowercase) + word[at + 1 :],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    )
    return next((one for one in rng.sample(edits, len(edits)) if one != word), f"{word}{word[-1]}")


def accented(word: str, rng: random.Random) -> str:
    """Return the word with an accent, or without those that it has."""
    if (plain := folded(word)) != word:
        return plain
    places = [at for at, letter in enumerate(word) if letter in ACCENTS]
    at = rng.choice(places) if places else None
    return word if at is None else f"{word[:at]}{ACCENTS[word[at]]}{word[at + 1 :]}"


def separated(token: str, rng: random.Random) -> str:
    """Return the token with its parts joined, or apart."""
    plain = folded(token)
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|[-_.'/]", " ", plain)
    together = re.sub(r"[-_.'/]", "", plain)
    return rng.choice([one for one in (apart, together) if one != plain] or [plain])


def gibberish(rng: random.Random) -> str:
    """Return one to three words that are none."""
    words = ("".join(rng.choices(string.ascii_lowercase, k=rng.randint(6, 11))) for _ in range(rng.randint(1, 3)))
    return " ".join(words)


def cases(titles: Mapping[str, str], texts: Mapping[str, str], rng: random.Random) -> Iterator[Case]:
    """Yield the queries about documents, by path."""
    holders: dict[str, set[str]] = defaultdict(set)
    tokens: dict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        for word in _WORD.findall(f"{titles[path]} {text}"):
            holders[word.lower()].add(path)
        for token in text.split():
            token = token.strip("\"'`()[]{}<>.,:;!?*|")
            if re.fullmatch(r"[A-Za-z]+(?:[-'][A-Za-z]+|[A-Z][a-z]+)", token) and any(spelled(folded(token))):
                tokens[token].add(path)
    rare = sorted(word for word, paths in holders.items() if len(paths) <= MOST_HOLDERS and 7 <= len(word) <= 15)
    own = sorted({titles[path] for path in titles if len(_WORD.findall(titles[path])) > 1})
    joined = sorted(token for token, paths in tokens.items() if len(paths) <= MOST_HOLDERS and 6 <= len(token) <= 30)
    named = {title: frozenset(path for path in titles if titles[path] == title) for title in own}

    def last(title: str, change: Callable[[str, random.Random], str], least: int) -> str | None:
        words = title.split()
        return (
            " ".join([*words[:-1], change(words[-1], rng)]) if words[-1].isalpha() and len(words[-1]) >= least else None
        )

    def inside(title: str, change: Callable[[str, random.Random], str], least: int) -> str | None:
        words = title.split()
        places = [at for at, word in enumerate(words) if word.isalpha() and len(word) >= least]
        if not places:
            return None
        at = rng.choice(places)
        return " ".join([*words[:at], change(words[at], rng), *words[at + 1 :]])

    for kind, chosen, change in (
        ("beginning of a title", own, lambda one: last(one, cut, 5)),
        ("title with an error", own, lambda one: inside(one, mistyped, 5)),
        ("title with an accent", own, lambda one: inside(one, accented, 3)),
    ):
        made = [(one, query) for one in rng.sample(chosen, len(chosen)) if (query := change(one)) and query != one]
        yield from (Case(kind, query, named[one]) for one, query in made[:EACH])
    for kind, words, change in (
        ("beginning of a word", rare, cut_late),
        ("word with an error", rare, mistyped),
        ("word with an accent", rare, accented),
        ("other separators", joined, separated),
    ):
        for word in rng.sample(words, min(EACH, len(words))):
            query = change(word, rng)
            if query != word:
                others = [one for one in holders if kind == "beginning of a word" and one.startswith(query)]
                wanted = set[str]().union(*(holders[one] for one in others)) or holders.get(word) or tokens[word]
                yield Case(kind, query, frozenset(wanted))
    for _ in range(EACH):
        yield Case("gibberish", gibberish(rng), frozenset())


def cut_late(word: str, rng: random.Random) -> str:
    """Return the beginning of a word without its last one to three letters."""
    return word[: -rng.randint(1, 3)]


async def shown(services: Services, query: str) -> list[str]:
    """Return the paths of the results that a search shows."""
    reading = await services.search.understanding.read(query, reader(), None, True)
    wanted = search_query(
        reading.text,
        reader(),
        services.http.settings,
        limit=10,
        narrowing=reading.narrowing,
        relevant_only=True,
        respell=True,
    )
    outcome = await services.search.retriever.search(wanted)
    return [one.path for passage in outcome.matches[:10] for one in (passage, *passage.also_in)]


def documents(settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """Return the first heading and the text of each document, by path."""
    with session(settings.postgres_dsn) as connection:
        rows = connection.execute(
            "SELECT d.path, d.title, string_agg(c.chunk_text, E'\n' ORDER BY c.chunk_index) AS text"
            " FROM documents AS d INNER JOIN active_chunks AS c USING (doc_id) GROUP BY d.path, d.title ORDER BY d.path"
        ).fetchall()
    texts = {row["path"]: row["text"] for row in rows}
    return {path: _heading(text) for path, text in texts.items()}, texts


def _heading(text: str) -> str:
    """Return the first line, without Markdown's marks."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return " ".join(re.sub(r"[#*_`\[\]]|\(.*?\)|<.*?>", " ", line).split())[:80]


async def measured(folder: Path) -> list[tuple[Case, list[str]]]:
    """Return each query about a folder of documents, with the paths of its results."""
    with indexed(root_of(folder)) as settings:
        titles, texts = documents(settings)
        services = Services(settings)
        await services.open()
        try:
            made = list(dict.fromkeys(cases(titles, texts, random.Random(7))))
            return [(case, await shown(services, case.query)) for case in made]
        finally:
            await services.close()


def right(case: Case, paths: Sequence[str]) -> bool:
    """Return True if a wanted document is among the first results; for gibberish, if there are none."""
    return bool(case.documents & set(paths[:FIRST])) if case.documents else not paths


def main() -> None:
    """Run the queries and print the figures."""
    configure("error", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the queries that are not kept aside and went wrong")
    arguments = parser.parse_args()
    printed: dict[str, dict[str, Any]] = {}
    print(f"{'set':18} {'queries':>8} {'found':>6} {'gibberish':>10} {'with results':>13}   by kind")
    with tempfile.TemporaryDirectory() as folder:
        package_documents(Path(folder))
        for name, place in (("packages", Path(folder)), ("handbook", HANDBOOK / "docs")):
            if not place.is_dir():
                print(f"{name}: skipped, because its documents are not in ../shared/data/{name}")
                continue
            done = asyncio.run(measured(place))
            for aside in (False, True):
                part = f"{name} (aside)" if aside else name
                printed[part] = _figures([one for one in done if one[0].aside is aside])
                print("{:18} {:8} {:6.3f} {:10} {:13}   {}".format(part, *printed[part].values()))
            for case, paths in done if arguments.list else ():
                if not case.aside and not right(case, paths):
                    print(f"- {case.kind}: {case.query}: {sorted(case.documents)[:2]}; found {paths[:2]}")
    print(json.dumps({"sets": printed}))


def _figures(done: Sequence[tuple[Case, list[str]]]) -> dict[str, Any]:
    words = [one for one in done if one[0].documents]
    none = [one for one in done if not one[0].documents]
    kinds: dict[str, list[bool]] = defaultdict(list)
    for case, paths in words:
        kinds[case.kind].append(right(case, paths))
    return {
        "queries": len(words),
        "found": round(sum(right(*one) for one in words) / max(1, len(words)), 3),
        "gibberish": len(none),
        "gibberish_with_results": sum(not right(*one) for one in none),
        "kinds": {kind: round(sum(found) / len(found), 2) for kind, found in kinds.items()},
    }


if __name__ == "__main__":
    main()
