"""Measure dense, keyword and hybrid retrieval quality on a test collection.

The production stages index the collection into a temporary vector server, and queries use the production plan, engines, fusion
and grouping. Neither running services nor Postgres are needed: payloads in memory replace the registry. Vectors are kept in
HOME/eval; everything else is deleted at the end.
"""

import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple, cast

from pydantic import SecretStr

from assets.stages.profiles import resolve
from orchestration.evaluation.collection import (
    EvaluationTarget,
    Indexed,
    JudgedCollection,
    index_collection,
    read_collection,
)
from orchestration.evaluation.measures import QueryScores, ndcg, score, summarise
from orchestration.evaluation.report import HYBRID, EvaluationReport, Latency, compared, third, thirds
from orchestration.supervision.environment import bare_environment
from orchestration.supervision.liveness import answers
from resources.core.domain import Access
from resources.core.errors import InvalidRequestError, ServiceUnavailableError
from resources.embedding import embedder, tokenizer
from resources.servers.managed import ManagedProcess
from resources.servers.processes import free_port, tail
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.lake import Lake
from resources.stores.qdrant_search import VectorSearch
from resources.stores.withheld import WithheldNow
from serving.http.database import Database
from serving.identity.withheld import partition_of
from serving.search.embedding import QueryEmbedder
from serving.search.retrieval.cache import Candidates
from serving.search.retrieval.engines import Engines
from serving.search.retrieval.fuse import FUSIONS
from serving.search.retrieval.query import MAX_DEPTH, MAX_QUERY, SearchQuery, search_query
from serving.search.retrieval.registry import Checked, Registry, from_payloads
from serving.search.retrieval.retriever import Retriever

Mode = Literal["vector", "keyword", "hybrid"]
DOCUMENTS = 50
"""Length of a ranking; recall is measured down to rank 50."""
SHOWN = 10
DEEPER = 4
START_SECONDS = 60
STOP_SECONDS = 30
READER = Access(email="evaluation@localhost", principals=frozenset({"public"}))


class Configuration(NamedTuple):
    """One way to search, written FUSION/DEPTH/DENSE_WEIGHT/AGREEMENT; `vector` or `keyword` uses one engine only."""

    mode: Mode
    fusion: str
    depth: int
    dense_weight: float
    agreement: float

    @property
    def label(self) -> str:
        if self.mode != "hybrid":
            return f"{self.mode}/{self.depth}"
        return f"{self.fusion}/{self.depth}/{self.dense_weight:g}/{self.agreement:g}"


def configuration(settings: Settings, text: str = "", *, depth: int | None = None) -> Configuration:
    """Parse a configuration; omitted parts come from the settings. Raises `InvalidRequestError`."""
    given = dict(zip(("fusion", "depth", "dense_weight", "agreement"), text.split("/"), strict=False))
    name = given.get("fusion") or settings.fusion
    if name not in {*FUSIONS, "vector", "keyword"}:
        known = ", ".join([*FUSIONS, "vector", "keyword"])
        raise InvalidRequestError(
            f"{name!r} is not a fusion. Use one of {known}; depth, dense weight and agreement may follow: rrf/100/0.6/0."
        )
    mode = cast("Mode", name if name in {"vector", "keyword"} else "hybrid")
    try:
        wanted = int(given.get("depth") or depth or settings.search_depth)
        weight = float(given.get("dense_weight") or settings.dense_weight)
        agreement = float(given.get("agreement") or settings.agreement)
    except ValueError:
        raise InvalidRequestError(
            f"{text!r} is not a configuration: write FUSION/DEPTH/DENSE_WEIGHT/AGREEMENT, for example weighted/50/0.7/0.3."
        ) from None
    if not SHOWN <= wanted <= MAX_DEPTH or not 0 <= weight <= 1 or not 0 <= agreement <= 1:
        raise InvalidRequestError(
            f"{text or wanted}: the depth must be {SHOWN} to {MAX_DEPTH}, dense weight and agreement 0 to 1."
        )
    return Configuration(mode, settings.fusion if mode != "hybrid" else name, wanted, weight, agreement)


def evaluate(
    settings: Settings,
    folder: Path,
    *,
    hybrid: Configuration,
    others: Sequence[Configuration] = (),
    progress: Callable[[str], None],
) -> EvaluationReport:
    """Index the folder, run every judged query in each mode, and measure."""
    collection = read_collection(folder)
    with _home(settings) as own, vector_server(own) as pointed:
        return asyncio.run(_evaluate(pointed, collection, hybrid, others, progress))


async def _evaluate(
    settings: Settings,
    collection: JudgedCollection,
    hybrid: Configuration,
    others: Sequence[Configuration],
    progress: Callable[[str], None],
) -> EvaluationReport:
    indexed = index(settings, collection, progress)
    progress(
        f"{len(indexed.payloads)} chunks of {len(collection.documents)} documents; {len(collection.queries)} queries …"
    )
    dense, keyword = (hybrid._replace(mode=mode) for mode in ("vector", "keyword"))
    scores: dict[Configuration, dict[str, QueryScores]] = {}
    seconds: list[float] = []
    async with open_searcher(settings, indexed) as searcher:
        for one in dict.fromkeys((dense, keyword, hybrid, *others)):
            rankings: dict[str, list[str]] = {}
            for query in collection.queries:
                rankings[query.id], took = await searcher.search(query.text, one)
                seconds += [took] if one == hybrid else []
            scores[one] = score(collection.judgements, rankings)
    modes = {"dense": scores[dense], "keyword": scores[keyword], HYBRID: scores[hybrid]}
    by_query = {name: ndcg(found) for name, found in modes.items()}
    shortest, longest = thirds({query.id: query.text for query in collection.queries})
    return EvaluationReport(
        collection=collection.name,
        documents=len(collection.documents),
        queries=len(collection.queries),
        dense=summarise(scores[dense]),
        keyword=summarise(scores[keyword]),
        hybrid=summarise(scores[hybrid]),
        latency_ms=_latency(seconds),
        shortest_queries=third(shortest, modes),
        longest_queries=third(longest, modes),
        compare=[compared(hybrid.label, by_query[HYBRID], one.label, ndcg(scores[one])) for one in others],
        ndcg_10_by_query={
            name: {query: round(value, 6) for query, value in found.items()}
            for name, found in (by_query | {one.label: ndcg(scores[one]) for one in others}).items()
        },
    )


class _EveryPassage(Registry):
    """Stands in for the registry: everyone may read every passage of the test collection."""

    def __init__(self, indexed: Indexed) -> None:
        ever = datetime.fromtimestamp(0, UTC)
        partitions = {partition_of(one): ever.timestamp() for one in indexed.payloads.values()}
        now = WithheldNow(readers={}, checked=partitions, held={})
        self._checked = from_payloads(indexed.payloads, READER, ever, now, collection_ids=())

    async def readable(self, query: SearchQuery, candidates: Candidates, fresh_since: datetime) -> Checked:  # noqa: ARG002 (as in the registry)
        return self._checked


class Searcher:
    """Searches the index with the search service, without HTTP, cache, registry and audit."""

    def __init__(self, settings: Settings, indexed: Indexed, engines: Engines, queries: QueryEmbedder) -> None:
        self._settings = settings
        self._ids = indexed.ids
        queries.languages = indexed.languages
        self.retriever = Retriever(settings, engines, _EveryPassage(indexed), queries)

    async def search(self, query: str, wanted: Configuration) -> tuple[list[str], float]:
        """Return the ranked document ids, and the duration of the first page in seconds.

        If the candidates do not fill the ranking, deeper searches append to it, as they would for a user who requests more pages.
        """
        began = time.perf_counter()
        shown, saturated = await self._ranked(query, wanted, wanted.depth)
        took = time.perf_counter() - began
        depth = wanted.depth
        while len(shown) < DOCUMENTS and saturated and depth < MAX_DEPTH:
            depth = min(MAX_DEPTH, depth * DEEPER)
            deeper, saturated = await self._ranked(query, wanted, depth)
            shown |= {doc_id: None for doc_id in deeper if doc_id not in shown}
        return [self._ids[doc_id] for doc_id in shown][:DOCUMENTS], took

    async def _ranked(self, text: str, wanted: Configuration, depth: int) -> tuple[dict[str, None], bool]:
        """Return the documents in order, those with identical text next to each other, and whether a deeper search may find more.

        The HTTP interface's limit on query length does not apply: test queries may be whole abstracts.
        """
        text = " ".join(text.split())
        query = search_query(text[:MAX_QUERY], READER, self._settings, limit=SHOWN, mode=wanted.mode)._replace(
            text=text,
            fusion=wanted.fusion,
            depth=depth,
            deepest=depth,
            limit=depth,
            dense_weight=wanted.dense_weight,
            agreement=wanted.agreement,
        )
        outcome = await self.retriever.search(query)
        if outcome.degradations:
            raise ServiceUnavailableError(f"The evaluation is not complete: {outcome.degradations[0].message}")
        shown = {one.doc_id: None for passage in outcome.passages for one in (passage, *passage.also_in)}
        return shown, outcome.saturated


@asynccontextmanager
async def open_searcher(settings: Settings, indexed: Indexed) -> AsyncGenerator[Searcher]:
    """Yield a searcher of the index that `index` has filled."""
    queries = QueryEmbedder(lambda: embedder(settings))
    await queries.start()
    searches = VectorSearch(settings)
    try:
        # The database is never opened: it would be used only while the vector server is down.
        yield Searcher(
            settings,
            indexed,
            Engines(
                searches,
                Database(settings.postgres_dsn, prepare_threshold=settings.postgres_prepare_threshold),
                queries,
            ),
            queries,
        )
    finally:
        await searches.close()


def index(settings: Settings, collection: JudgedCollection, progress: Callable[[str], None]) -> Indexed:
    """Embed a collection and write it to the vector server that the settings name."""
    model = embedder(settings)
    client = qdrant.client(settings)
    try:
        target = EvaluationTarget(
            qdrant=client,
            lake=Lake((settings.home / "eval" / "lake").as_uri()),
            embedder=model,
            tokenizer=tokenizer(settings),
            profile=resolve(settings.chunk_profile, model.window),
        )
        return index_collection(collection, target, progress)
    finally:
        client.close()


def _latency(seconds: Sequence[float]) -> Latency:
    import numpy as np

    p50, p95 = np.percentile(np.array(seconds) * 1000, [50, 95])
    return Latency(p50=round(float(p50), 2), p95=round(float(p95), 2))


@contextmanager
def _home(settings: Settings) -> Generator[Settings]:
    """Yield settings with a writable HOME: a temporary one if theirs is not writable."""
    try:
        (settings.home / "eval").mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="concordance-eval-") as folder:
            yield settings.model_copy(update={"home": Path(folder)})
        return
    yield settings


@contextmanager
def vector_server(settings: Settings) -> Generator[Settings]:
    """Run an empty vector server for the block and yield settings that point to it. Raises `ServiceUnavailableError`."""
    key = secrets.token_urlsafe(32)
    environment = bare_environment(settings, {"CONCORDANCE_QDRANT_API_KEY": key})
    url = f"http://127.0.0.1:{(port := free_port())}"
    with tempfile.TemporaryDirectory(prefix="concordance-eval-") as folder:
        log = Path(folder, "log")
        command = [sys.executable, "-m", "resources.servers.vector", "--path", f"{folder}/index", "--port", str(port)]
        with log.open("wb") as out:
            process = ManagedProcess(command, stdout=out, stderr=out, env=environment)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not answers(f"{url}/readyz"):
                if process.status is not None or time.monotonic() > deadline:
                    raise ServiceUnavailableError(f"The vector server for the evaluation did not start: {tail(log)}")
                time.sleep(0.05)
            yield settings.model_copy(update={"qdrant_url": url, "qdrant_api_key": SecretStr(key)})
        finally:
            process.ask_to_stop()
            process.end(STOP_SECONDS)
