"""Order candidates: boosts, threshold, duplicate texts, one passage a document. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from resources.core.domain import text_hash
from resources.sources import capabilities
from serving.search.retrieval.boost import boosts
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.passage import OWN, SCORE_DIGITS, AskedWords, Passage, Scale, Scores
from serving.search.retrieval.query import SearchQuery


def rank(
    candidates: Sequence[Candidate],
    readable: Mapping[str, Passage],
    query: SearchQuery,
    now: datetime,
    asked: AskedWords,
    scale: Scale = OWN,
    reranked: Mapping[str, float] | None = None,
) -> list[Passage]:
    """Return the passages with their scores, best first. Candidates that are not readable are left out.

    The threshold applies to the score that is shown, so that trying thresholds reveals no more than that score does.

    With `reranked`, these scores by chunk id replace the fused ones, the threshold applies to them before boosts, and passages without one
    are left out.

    If a better-ranked passage of another document has the same text, only that one is returned, with the other in `also_in`.
    At most `query.limit` passages are returned.
    """
    scored: list[tuple[Scores, Passage]] = []
    reader = query.access.email
    for candidate in candidates:
        passage = readable.get(candidate.chunk_id)
        if passage is None or (reranked is not None and passage.chunk_id not in reranked):
            continue
        rerank = None if reranked is None else reranked[passage.chunk_id]
        scores = Scores(
            fused=candidate.fused,
            agreed=candidate.fused if candidate.agreed is None else candidate.agreed,
            known=candidate.known,
            dense=candidate.dense,
            dense_rank=candidate.dense_rank,
            keyword=candidate.keyword,
            keyword_rank=candidate.keyword_rank,
            rerank=rerank,
            boosts=boosts(passage.source_type, passage.owner, passage.modified_at, reader, now),
            scale=scale,
        )
        if query.threshold is not None:
            seen = _with(passage, scores, asked).relevance if rerank is None else round(rerank, SCORE_DIGITS)
            if seen < query.threshold:
                continue
        scored.append((scores, passage))
    scored.sort(key=lambda one: (-one[0].order, -one[0].agreed, one[1].chunk_id))
    return _distinct(scored, asked, query)


def _with(passage: Passage, scores: Scores, asked: AskedWords) -> Passage:
    return msgspec.structs.replace(passage, scores=scores, asked=asked, also_in=[])


def _distinct(scored: Sequence[tuple[Scores, Passage]], asked: AskedWords, query: SearchQuery) -> list[Passage]:
    distinct: list[Passage] = []
    by_text: dict[str, Passage] = {}
    documents: set[str] = set()
    for scores, passage in scored:
        text = _text(passage)
        first = by_text.get(text)
        if first is not None and first.doc_id != passage.doc_id:
            if all(other.doc_id != passage.doc_id for other in first.also_in):
                first.also_in.append(_with(passage, scores, asked))
            continue
        if len(distinct) == query.limit or (query.group and passage.doc_id in documents):
            continue
        passage = _with(passage, scores, asked)
        by_text.setdefault(text, passage)
        documents.add(passage.doc_id)
        distinct.append(passage)
    return distinct


def _text(passage: Passage) -> str:
    """Return what passages with the same words have in common; the hash of a text that a user supplied includes the owner."""
    return text_hash(passage.chunk_text) if capabilities(passage.source_type).user_supplied else passage.text_hash
