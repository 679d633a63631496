"""From candidates and hits to the passages shown: boost, threshold, duplicates collapsed, grouped by document. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from resources.core.domain import text_hash
from resources.sources import capabilities
from serving.retrieval.boost import boosts
from serving.retrieval.cache import Candidate
from serving.retrieval.fuse import clamp
from serving.retrieval.hits import Hit
from serving.retrieval.scale import OWN, Scale

SCORE_DIGITS = 6
"""Decimals of a score that is shown."""


class Ranked(NamedTuple):
    """One passage to show: the score that ranks it (0..1, never shown), the factors in it by name, other documents with the very same
    text, and the scale of the scores that are shown."""

    hit: Hit
    candidate: Candidate
    score: float
    boosts: Mapping[str, float]
    also_in: list[Hit]
    rerank_score: float | None = None
    scale: Scale = OWN

    @property
    def boost(self) -> float:
        """All factors together."""
        return math.prod(self.boosts.values())


def rank(
    candidates: Sequence[Candidate],
    hits: Mapping[str, Hit],
    *,
    reader: str,
    now: datetime,
    threshold: float | None,
    group: bool,
    scale: Scale = OWN,
    reranked: Mapping[str, float] | None = None,
) -> list[Ranked]:
    """Return the passages, best first. Candidates without a hit (not permitted, gone) are left out. `reader` is who searches.

    The threshold is held against the score that people see, so that trying thresholds tells no more than that score does.

    With `reranked`, these scores by chunk id take the place of the fused ones, the threshold is held against them alone, and what
    was not reranked is left out.

    A passage that a better-ranked one of another document repeats word for word is shown once, listing the other document.
    `hits` holds only what the caller may read, so `also_in` does too.
    """
    scored: list[Ranked] = []
    for candidate in candidates:
        hit = hits.get(candidate.chunk_id)
        if hit is None or (reranked is not None and hit.chunk_id not in reranked):
            continue
        factors = boosts(hit.source_type, hit.owner, hit.modified_at, reader, now)
        factor = math.prod(factors.values())
        relevance = None if reranked is None else reranked[hit.chunk_id]
        score = clamp((candidate.fused if relevance is None else relevance) * factor)
        if threshold is not None:
            seen = clamp(scale.fused(candidate, hit) * factor) if relevance is None else relevance
            if round(seen, SCORE_DIGITS) < threshold:
                continue
        scored.append(Ranked(hit, candidate, score, factors, [], relevance, scale))
    scored.sort(key=lambda ranked: (-ranked.score, -ranked.candidate.fused, ranked.hit.chunk_id))
    shown: list[Ranked] = []
    by_text: dict[str, Ranked] = {}
    documents: set[str] = set()
    for ranked in scored:
        hit = ranked.hit
        text = _text(hit)
        first = by_text.get(text)
        if first is not None and first.hit.doc_id != hit.doc_id:
            if all(other.doc_id != hit.doc_id for other in first.also_in):
                first.also_in.append(hit)
            continue
        if group and hit.doc_id in documents:
            continue
        by_text.setdefault(text, ranked)
        documents.add(hit.doc_id)
        shown.append(ranked)
    return shown


def _text(hit: Hit) -> str:
    """Return what two passages with the same words have in common; the hash that an upload's vector is kept under names its owner."""
    return text_hash(hit.chunk_text) if capabilities(hit.source_type).user_supplied else hit.text_hash
