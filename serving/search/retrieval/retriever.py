"""The search service: find candidates, check permissions, rank, and look deeper when too few passages remain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from resources import tracing
from resources.core.durations import duration
from resources.core.errors import StorageFullError, TemporaryError
from resources.logging import logger
from resources.settings import Settings
from serving.http.database import RegistryDownError
from serving.identity.withheld import WithheldReads
from serving.search.embedding import QueryEmbedder
from serving.search.retrieval.agree import agreed
from serving.search.retrieval.cache import Candidate, CandidateCache, Candidates
from serving.search.retrieval.depth import ROUNDS, complete, deeper, first_depth
from serving.search.retrieval.engines import POSTGRES_DOWN, Embedded, Engines, Retrieved
from serving.search.retrieval.expand import UNAVAILABLE, Expander
from serving.search.retrieval.known import known_items, with_phrases, without
from serving.search.retrieval.paging import page_of, ranked_for
from serving.search.retrieval.passage import AskedWords, Passage, Scale, SearchOutcome, Warning_
from serving.search.retrieval.query import LeftOut, Respelled, SearchQuery
from serving.search.retrieval.rank import rank
from serving.search.retrieval.registry import Checked, Registry, from_payloads
from serving.search.retrieval.relevance import relevant
from serving.search.retrieval.rerank import NO_RERANKER, Reranker
from serving.search.retrieval.respell import (
    LONGEST_WORD,
    LOOK_UP_SECONDS,
    SHORTEST_WORD,
    beginnings,
    completions,
    corrections,
    inflected,
    is_last,
    missing,
    one_edit,
    respelled,
    spellings,
    unclear,
    words_of,
    written,
)
from serving.search.retrieval.terms import stem, terms

INDEX_INCOMPLETE = Warning_(
    "index_incomplete",
    "The index lacks a part of what was indexed, so documents may be missing here. Syncs write it again.",
)
GROUPS_OMITTED = Warning_(
    "groups_omitted",
    "Your company's sign-in does not say which groups you are in, because they are too many. What is shared with you through a group "
    "is missing here. Ask the person who manages sign-in to send only the groups that are assigned to Concordance.",
)
DIRECTORY_UNREAD = Warning_(
    POSTGRES_DOWN.code,
    "Postgres did not answer when your groups and workspaces were looked up, so what is shared with them is missing here. Search again.",
)
HELD_BACK = "held_back"

log = logger("serving")


class _Ranking(NamedTuple):
    passages: list[Passage]
    candidates: Sequence[Candidate]
    found: Retrieved
    checked: Checked
    scale: Scale
    asked: AskedWords
    cached: bool = False
    cacheable: bool = False
    registry: bool = True


def held_back_warning(documents: int, limit: str) -> Warning_:
    """Return the warning that documents are left out because of the age of their permissions."""
    subject, it = ("1 document is", "it") if documents == 1 else (f"{documents} documents are", "them")
    message = (
        f"{subject} left out for now: who may read {it} was last checked more than {limit} ago. "
        "The next sync that reaches the source brings back what you may read."
    )
    return Warning_(HELD_BACK, message)


class Retriever:
    """Answers searches; every interface translates to it and from it."""

    def __init__(
        self,
        settings: Settings,
        engines: Engines,
        registry: Registry,
        embedder: QueryEmbedder,
        *,
        cache: CandidateCache | None = None,
        withheld: WithheldReads | None = None,
        reranker: Reranker | None = None,
        expander: Expander | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        incomplete: Callable[[], bool] = lambda: False,
        passages_per_document: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """`incomplete` returns True while the index lacks passages that the registry lists.

        Without `withheld`, there are no searches while Postgres is down.
        """
        self._engines = engines
        self._registry = registry
        self._embedder = embedder
        self._cache = cache
        self._withheld = withheld
        self._reranker = reranker
        self._expander = expander
        self._clock = clock
        self._incomplete = incomplete
        self._passages_per_document = passages_per_document
        self._limit = settings.acl_max_age
        self._max_age = duration(settings.acl_max_age)

    async def search(self, query: SearchQuery) -> SearchOutcome:
        """Return the passages that the caller may read. Raises `ServiceUnavailableError` if no engine answers."""
        now, asked = self._clock(), query
        query = query._replace(limit=ranked_for(query))
        reranking = query.rerank and self._reranker is not None and self._reranker.ready
        threshold = query.threshold
        if reranking:  # which applies to the scores of the reranker
            query = query._replace(threshold=None)
        try:
            ranking = await self._checked_by_registry(query, now)
        except (RegistryDownError, StorageFullError) as error:
            # No connection for a while, or no disk space for what a statement sorts. A busy Postgres raises `OverloadedError`: 503.
            if self._withheld is None:
                raise
            log.warning("search_without_registry", error=str(error))
            ranking = await self._checked_by_payloads(query, self._withheld, now)
        query, ranking, lost = await self._respelled(query, ranking, now)
        query = query._replace(threshold=threshold)
        reranked = None
        if reranking:
            scores = await self._scores(query, ranking)
            ranking = await self._checked_again(query, ranking, now)
            reranked = None if scores is None else self._reranked(query, ranking, now, scores)
        passages = ranking.passages if reranked is None else reranked
        if reranking and reranked is None and threshold is not None:
            passages = rank(ranking.candidates, ranking.checked.passages, query, now, ranking.asked, ranking.scale)
        expansions = ranking.found.candidates.expansions  # what they find need not be near the query itself
        matches = passages
        if query.relevant_only and threshold is None and reranked is None and not expansions:
            matches = self._relevant(query, ranking, now)
        if lost:
            passages = matches = []
        page = page_of(passages, matches, asked)
        saturated = ranking.found.candidates.saturated
        shown = page.passages
        if query.neighbours:
            shown = await self._with_neighbours(query, shown, ranking, now)
        degradations = [*ranking.found.degradations, *([INDEX_INCOMPLETE] if self._incomplete() else [])]
        if query.access.groups_omitted:
            degradations.append(GROUPS_OMITTED)
        if query.access.directory_unread and ranking.registry:
            degradations.append(DIRECTORY_UNREAD)
        if query.rerank and reranked is None:
            degradations.append(self._reranker.missing if self._reranker is not None else NO_RERANKER)
        if ranking.checked.held_back:
            degradations.append(held_back_warning(len(ranking.checked.held_back), self._limit))
        return SearchOutcome(
            passages=shown,
            matches=matches,
            exact=not saturated and len(passages) < query.limit,
            seen=page.seen,
            more=page.more,
            degradations=degradations,
            held_back=len(ranking.checked.held_back),
            cached=ranking.cached,
            registry=ranking.registry,
            expansions=expansions,
            saturated=saturated,
            text=query.text,
            respelled=query.also,
        )

    async def _respelled(
        self, query: SearchQuery, ranking: _Ranking, now: datetime
    ) -> tuple[SearchQuery, _Ranking, bool]:
        """Return the search with its words completed and corrected, and whether it has no words: letters that no passage holds.

        Words are compared by light stems. A keyword score tells that the stemmer of a language has found one that is inflected otherwise.
        """
        if not query.respell or not ranking.registry or query.mode == "vector":
            return query, ranking, False
        readable = ranking.checked.passages
        candidates = [one for one in ranking.found.candidates.ranked if one.chunk_id in readable]
        unheld = missing(ranking.asked, candidates, readable)
        if not unheld:
            return query, ranking, False
        found_by_stem = any(one.keyword for one in candidates)
        several = len(ranking.asked.words) > 1
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                looked_up = await asyncio.gather(
                    *(
                        self._instead(
                            query,
                            word,
                            ranking,
                            now,
                            correct=not found_by_stem or (several and not inflected(word, candidates, readable)),
                        )
                        for word in unclear(query.text, unheld)
                    )
                )
            if found := tuple(one for one in looked_up if one is not None):
                changed = query._replace(text=respelled(query.text, found), also=found)
                return changed, await self._checked_by_registry(changed, now), False
        except (TimeoutError, TemporaryError) as error:  # what was found without them is right, if less
            log.warning("words_not_looked_up", error=str(error) or "It took too long.")
            return query, ranking, False
        letters = written(query.text, unheld)
        meant = found_by_stem or ranking.found.candidates.expansions or set(map(stem, letters)) != terms(query.text)
        return query, ranking, not meant and self._embedder.meaningless(letters)

    async def _instead(
        self, query: SearchQuery, word: str, ranking: _Ranking, now: datetime, *, correct: bool
    ) -> Respelled | None:
        """Return the words that a word of the query may stand for: what begins with it if it is the last, else what is one edit away.

        `correct`: False for completions only.
        """
        collection, fresh_since = ranking.found.candidates.collection, now - self._max_age
        if is_last(query.text, word):
            lexemes = " | ".join(map(beginnings, spellings(word)))
            holders = await self._registry.words((), lexemes, query.access, fresh_since, collection)
            if (found := completions(word, holders)) is not None:
                return found
        if not correct or not SHORTEST_WORD <= len(word) <= LONGEST_WORD or self._embedder.knows(word):
            return None
        forms = frozenset[str]().union(*map(one_edit, spellings(word)))
        holders = await self._registry.words(forms, "", query.access, fresh_since, collection)
        return corrections(word, holders)

    async def _checked_by_registry(self, query: SearchQuery, now: datetime) -> _Ranking:
        known = self._cache.lookup(query, self._embedder.model) if self._cache is not None else None
        candidates = known.candidates if known is not None else None
        fresh_since = now - self._max_age

        async def check(found: Retrieved) -> Checked:
            return await self._registry.readable(query, found.candidates, fresh_since)

        ranking = await self._searched(query, now, check, candidates)
        if (
            self._cache is not None
            and known is not None
            and ranking.cacheable
            and not ranking.found.degradations
            and not self._incomplete()
        ):
            self._cache.store(known, ranking.found.candidates)
        return ranking

    async def _checked_by_payloads(self, query: SearchQuery, withheld: WithheldReads, now: datetime) -> _Ranking:
        async def check(found: Retrieved) -> Checked:
            return from_payloads(
                found.payloads,
                query.access,
                now - self._max_age,
                await withheld.of(found.payloads.values()),
                collection_ids=query.narrowing.collection_ids,
            )

        # nothing else leaves out archived documents here
        query = query._replace(left_out=LeftOut(archived=not query.narrowing.include_archived))
        ranking = await self._searched(query, now, check, with_payload=True)
        found = ranking.found._replace(degradations=[*ranking.found.degradations, POSTGRES_DOWN])
        return ranking._replace(found=found, registry=False)

    async def _searched(
        self,
        query: SearchQuery,
        now: datetime,
        check: Callable[[Retrieved], Awaitable[Checked]],
        candidates: Candidates | None = None,
        *,
        with_payload: bool = False,
    ) -> _Ranking:
        """Return the ranked passages, looking deeper while too few remain. `candidates` are those of the cache."""
        found = Retrieved(candidates, [], {}) if candidates is not None else None
        wanted = query._replace(depth=first_depth(query, self._passages_per_document()))
        embedded: Embedded | None = None
        held_back: frozenset[str] = frozenset()
        rounds = 0
        while True:
            rounds, cached = rounds + 1, found is not None
            if found is None:
                embedded = embedded or await self._embedded(query)
                found = await self._engines.find(wanted, embedded, with_payload=with_payload)
            with tracing.span("permission_check", candidates=len(found.candidates.ranked)) as checking:
                checked = await check(found)
                checking.set(readable=len(checked.passages))
            held_back |= checked.held_back
            ranking = self._rank(query, found, checked._replace(held_back=held_back), now)
            readable, passages = checked.passages, ranking.passages
            if rounds == ROUNDS or complete(query, found.candidates, readable, ranking.candidates, passages):
                break
            stale = ()
            if checked.held_back and not with_payload and not wanted.left_out.partitions:
                stale = await self._registry.stale_partitions(now - self._max_age)
            following = deeper(wanted, found.candidates, readable, passages, stale)
            if following is None:
                break
            wanted, found = following, None
        # what was left out because of the registry may be back with the next search
        cacheable = not cached and not wanted.left_out.chunk_ids and not wanted.left_out.partitions
        return ranking._replace(cached=cached, cacheable=cacheable)

    async def _embedded(self, query: SearchQuery) -> Embedded:
        """Return the query's vectors, with what a language model adds, or the warning that it added nothing."""
        if self._expander is None or query.expansion == "off":
            return await self._engines.embed(query)
        expansion = await self._expander.expand(query)
        embedded = await self._engines.embed(query, expansion)
        return (
            embedded if expansion is not None else embedded._replace(degradations=[UNAVAILABLE, *embedded.degradations])
        )

    async def _with_neighbours(
        self, query: SearchQuery, passages: Sequence[Passage], ranking: _Ranking, now: datetime
    ) -> list[Passage]:
        if not ranking.registry:
            return [msgspec.structs.replace(one, neighbours=[]) for one in passages]
        collection = ranking.found.candidates.collection
        return await self._registry.neighbours(
            query.access, passages, query.neighbours, now - self._max_age, collection=collection
        )

    def _rank(self, query: SearchQuery, found: Retrieved, checked: Checked, now: datetime) -> _Ranking:
        readable = checked.passages
        candidates = with_phrases(agreed(found.candidates, readable), readable, query.text)
        candidates = without(candidates, readable, query.narrowing.without)
        asked = AskedWords(words_of(query.text, query.also), query.text)
        if query.mode == "hybrid":
            candidates = known_items(candidates, readable, query.text, asked)
        scale = Scale.of(query, candidates, self._embedder.scale)
        passages = rank(candidates, readable, query, now, asked, scale)
        return _Ranking(passages, candidates, found, checked, scale, asked)

    def _relevant(self, query: SearchQuery, ranking: _Ranking, now: datetime) -> list[Passage]:
        """Return the passages that are about the query. Another passage stands for a document whose best one is not.

        Which one is best follows the word statistics of the whole index: hidden documents would decide whether a document is found.
        """
        kept = [one for one in ranking.passages if relevant(one, query.text)]
        if not query.group or len(kept) == len(ranking.passages):
            return kept
        readable, shown = ranking.checked.passages, {one.doc_id: one for one in kept}
        listed = shown.keys() | {other.doc_id for one in kept for other in one.also_in}
        left = {one.doc_id for one in ranking.passages} - listed
        others = [one for one in ranking.candidates if readable[one.chunk_id].doc_id in left]
        every = query._replace(group=False, limit=len(others))
        for one in rank(others, readable, every, now, ranking.asked, ranking.scale):
            if one.doc_id not in shown and relevant(one, query.text):
                shown[one.doc_id] = one
        return [shown[one.doc_id] for one in ranking.passages if one.doc_id in shown]

    async def _scores(self, query: SearchQuery, ranking: _Ranking) -> dict[str, float] | None:
        """Return what the cross-encoder says of the passages; None if there is none, or if it fails."""
        if self._reranker is None:
            return None
        return await self._reranker.scores(query.text, ranking.candidates, ranking.checked.passages)

    async def _checked_again(self, query: SearchQuery, ranking: _Ranking, now: datetime) -> _Ranking:
        """Leave out what the caller may not read any more: the cross-encoder takes up to ten seconds."""
        if not ranking.registry:
            return ranking
        checked = await self._registry.readable(query, ranking.found.candidates, now - self._max_age)
        readable = {key: one for key, one in ranking.checked.passages.items() if key in checked.passages}
        again = self._rank(query, ranking.found, ranking.checked._replace(passages=readable), now)
        return ranking._replace(passages=again.passages, candidates=again.candidates, checked=again.checked)

    def _reranked(
        self, query: SearchQuery, ranking: _Ranking, now: datetime, scores: dict[str, float]
    ) -> list[Passage]:
        """Return the passages in the order of the cross-encoder."""
        if query.threshold is None and self._reranker is not None:
            query = query._replace(threshold=self._reranker.threshold)
        return rank(ranking.candidates, ranking.checked.passages, query, now, ranking.asked, ranking.scale, scores)
