"""Count the results that a search shows by default for queries with and without an answer in the index.

`python -m bench.relevance FOLDER FOLDER ...` takes test collections (as `concordance eval` does), indexes each into a temporary vector
server and asks it its own queries, those of the others (at most 200), and the sample company's unanswerable questions. Printed for each:
the mean number of ten results that are shown, and how recall@10 of its own queries changes. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from orchestration.evaluation.collection import JudgedCollection, read_collection
from orchestration.evaluation.quality import READER, Searcher, index, open_searcher, vector_server
from resources.logging import configure
from resources.settings import Settings
from serving.search.retrieval.query import MAX_QUERY, search_query
from tests.fixtures import sample_questions

FOREIGN = 200
TOP = 10


class Shown(NamedTuple):
    """What a collection shows."""

    own: float
    foreign: float
    unanswerable: float
    recall_before: float
    recall_after: float


def main() -> None:
    """Measure each collection and print the figures."""
    configure("error", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    collections = [read_collection(folder) for folder in parser.parse_args().folders]
    figures: dict[str, dict[str, float]] = {}
    print(
        f"{'collection':12} {'own':>6} {'of others':>10} {'unanswerable':>13} {'recall@10 of all':>17} {'of shown':>9}"
    )
    for collection in collections:
        foreign = [query.text for one in collections if one is not collection for query in one.queries]
        chosen = random.Random(7).sample(foreign, min(FOREIGN, len(foreign)))
        with tempfile.TemporaryDirectory() as home:
            settings = Settings(_env_file=None, home=Path(home))  # type: ignore[call-arg]
            with vector_server(settings) as pointed:
                shown = asyncio.run(_measure(pointed, collection, chosen))
        print("{:12} {:6.2f} {:10.2f} {:13.2f} {:17.4f} {:9.4f}".format(collection.name, *shown))
        figures[collection.name] = {name: round(value, 4) for name, value in shown._asdict().items()}
    print(json.dumps(figures))


async def _measure(settings: Settings, collection: JudgedCollection, foreign: Sequence[str]) -> Shown:
    indexed = index(settings, collection, lambda _: None)
    own: list[int] = []
    before: list[float] = []
    after: list[float] = []
    async with open_searcher(settings, indexed) as found:
        for query in collection.queries:
            wanted = {doc_id for doc_id, grade in collection.judgements[query.id].items() if grade > 0}
            everything, kept = await _shown(found, settings, query.text)
            own.append(len(kept))
            before.append(len(wanted & {indexed.ids[one] for one in everything}) / len(wanted))
            after.append(len(wanted & {indexed.ids[one] for one in kept}) / len(wanted))
        others = [len((await _shown(found, settings, text))[1]) for text in foreign]
        unanswerable = [
            len((await _shown(found, settings, one.question))[1]) for one in sample_questions.unanswerable()
        ]
    return Shown(fmean(own), fmean(others) if others else 0.0, fmean(unanswerable), fmean(before), fmean(after))


async def _shown(found: Searcher, settings: Settings, text: str) -> tuple[list[str], list[str]]:
    """Return the documents of the first ten results, and of those that a search shows."""
    text = " ".join(text.split())
    query = search_query(text[:MAX_QUERY], READER, settings, limit=TOP)._replace(text=text)
    everything, kept = [
        [one.doc_id for one in (await found.retriever.search(query._replace(relevant_only=only))).passages]
        for only in (False, True)
    ]
    return everything, kept


if __name__ == "__main__":
    main()
