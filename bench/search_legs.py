"""Measure how the time of a search is spent: run the HTTP service's components in a separate process, each wrapped in a stopwatch.

Run `python -m bench.search_legs FILE` with the environment of the HTTP service. The file contains a token, queries and `top_k`. The
output is JSON: the median milliseconds of each step, the mean number of results, and the mean number of rounds (a search whose
candidates are in too few documents looks deeper). `rest` is fusion, ranking and rendering: a search without its waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the HTTP service does, before numpy is imported

import msgspec
import numpy as np
import uvloop

from resources.logging import configure
from resources.settings import load
from serving.http.database import Database
from serving.identity.authentication import access_from
from serving.identity.scopes import KeyScope
from serving.search.embedding import QueryEmbedder
from serving.search.results import results
from serving.search.retrieval.cache import CandidateCache
from serving.search.retrieval.engines import Engines
from serving.search.retrieval.query import search_query
from serving.search.retrieval.registry import Registry
from serving.search.retrieval.retriever import Retriever
from serving.search.searches import recorded_search
from serving.services import Services
from sql.family import Declared

WARM = 20
LEGS = ("sign_in", "embed", "qdrant", "recheck", "rest", "encode")
T = TypeVar("T")


class Stopwatch:
    """Seconds by step of the current search, and the number of calls of all searches."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()

    async def time(self, leg: str, work: Awaitable[T]) -> T:
        """Await the work and record its duration."""
        began = time.perf_counter()
        try:
            return await work
        finally:
            self.spent[leg] += time.perf_counter() - began
            self.calls[leg] += 1


class _Timed:
    """Wraps a component and times its named methods; everything else is forwarded."""

    def __init__(self, part: Any, watch: Stopwatch, legs: Mapping[str, str]) -> None:
        self._part, self._watch, self._legs = part, watch, legs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name not in self._legs:
            return found
        return lambda *given, **named: self._watch.time(self._legs[name], found(*given, **named))


class _TimedDatabase:
    """Wraps the database and times each statement."""

    def __init__(self, database: Database, watch: Stopwatch) -> None:
        self._database, self._watch = database, watch

    async def run(self, declared: Declared, parameters: Mapping[str, Any]) -> Any:
        """Run a statement."""
        leg = "recheck" if declared.name == "recheck" else "other_sql"
        return await self._watch.time(leg, self._database.run(declared, parameters))


async def _measure(token: str, questions: list[str], top_k: int) -> dict[str, Any]:
    services, watch = Services(load()), Stopwatch()
    await services.open()
    try:
        embedder: QueryEmbedder = _Timed(services.search.embedder, watch, {"query": "embed"})  # type: ignore[assignment]
        qdrant: Any = _Timed(services.search.searches, watch, {"query": "qdrant"})
        database: Database = _TimedDatabase(services.http.database, watch)  # type: ignore[assignment]
        services.search.retriever = Retriever(
            services.http.settings,
            Engines(qdrant, database, embedder),
            Registry(database),
            embedder,
            cache=CandidateCache(services.identity.directory, services.http.settings.search_cache_seconds),
            withheld=services.identity.withheld,
        )
        seen: list[dict[str, float]] = []
        counts: list[int] = []
        for question in questions:
            watch.spent.clear()
            access = await watch.time("sign_in", access_from(services.identity, token, None, KeyScope.READ))
            began = time.perf_counter()
            query = search_query(question, access, services.http.settings, limit=top_k)
            _, outcome = await recorded_search(services.search, query)
            answer = results(
                outcome.passages, style="inline", base_url=services.http.settings.base_url, now=services.http.clock()
            )
            searched = time.perf_counter() - began
            msgspec.json.encode(answer)
            whole = time.perf_counter() - began
            waited = sum(took for leg, took in watch.spent.items() if leg != "sign_in")
            counts.append(len(answer))
            seen.append(dict(watch.spent) | {"rest": searched - waited, "encode": whole - searched})
        legs = {leg: round(float(np.median([one[leg] for one in seen[WARM:]])) * 1000, 2) for leg in LEGS}
        found = {"legs": legs, "results": round(float(np.mean(counts)), 2)}
        return found | {"rounds": round(watch.calls["qdrant"] / len(questions), 2)}
    finally:
        await services.close()


def main() -> None:
    """Read the file, measure and print."""
    configure("warning", "bench")
    given = json.loads(Path(sys.argv[1]).read_text())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(_measure(**given))))


if __name__ == "__main__":
    main()
