"""From ranked passages to the results of an answer: snippets, highlights, citations, neighbours, explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import UNSET

from serving.citations.format import Cited, Format, citation
from serving.citations.links import link
from serving.retrieval.fuse import clamp
from serving.retrieval.highlight import held, snippet, terms
from serving.retrieval.hits import Hit
from serving.retrieval.rank import SCORE_DIGITS, Ranked
from serving.retrieval.scale import Shown, heading
from serving.schemas import Citation, DocumentReference, Explanation, Neighbour, Result, Span


def link_of(hit: Hit, base_url: str, offset: int = 0) -> str:
    """Return the link to the place of the passage's character at `offset`."""
    place = hit.place(offset)
    return link(
        base_url=base_url,
        doc_id=hit.doc_id,
        chunk_index=hit.chunk_index,
        url=hit.url,
        source_type=hit.source_type,
        mime_type=hit.mime_type,
        page=place.page,
        anchor=place.anchor,
    )


def cite(hit: Hit, index: int, style: Format, base_url: str, now: datetime, offset: int = 0) -> Citation:
    """Return the citation of a passage at its character `offset`: the sentence that answers, not the chunk's start."""
    address = link_of(hit, base_url, offset)
    cited = Cited(hit.title, hit.source_type, hit.modified_at, hit.place(offset).section_path, address, hit.owner)
    return Citation(index, citation(cited, index, style, now.date()), address, style)


def _explanations(ranked: Sequence[Ranked], shown: Sequence[Shown], expansions: Sequence[str]) -> list[Explanation]:
    """Return how each passage came by its scores, and what was added to the query.

    Ranks are places among these passages by the figures shown: an engine's own ranks would tell its scores apart.
    """
    cosines = [None if one.candidate.dense_score is None else _rounded(one.candidate.dense_score) for one in ranked]
    keywords = [None if one.keyword is None else _rounded(one.keyword) for one in shown]
    return [
        Explanation(
            dense_score=cosine,
            dense_rank=_place(cosine, cosines),
            keyword_score=keyword,
            keyword_rank=_place(keyword or None, keywords),
            fused_score=_rounded(scores.fused),
            boosts=dict(one.boosts),
            rerank_score=one.rerank_score,
            expansions=list(expansions) or UNSET,
        )
        for one, scores, cosine, keyword in zip(ranked, shown, cosines, keywords, strict=True)
    ]


def _place(score: float | None, scores: Sequence[float | None]) -> int | None:
    return None if score is None else 1 + sum(other is not None and other > score for other in scores)


def _rounded(score: float) -> float:
    return round(score, SCORE_DIGITS)


def results(
    ranked: Sequence[Ranked],
    *,
    query: str,
    style: Format,
    base_url: str,
    now: datetime,
    explain: bool,
    neighbours: Mapping[tuple[str, int], list[Neighbour]] | None,
    expansions: Sequence[str] = (),
) -> list[Result]:
    """Return the results in order, numbered from 1 in their citations."""
    wanted = terms(query)
    snippets = [snippet(one.hit.chunk_text, wanted) for one in ranked]
    scores = [
        one.scale.shown(one.candidate, cut.held | held(heading(one.hit), wanted), wanted)
        for one, cut in zip(ranked, snippets, strict=True)
    ]
    explained = _explanations(ranked, scores, expansions) if explain else [UNSET] * len(ranked)
    made: list[Result] = []
    for index, one in enumerate(ranked, start=1):
        hit, shown = one.hit, snippets[index - 1]
        relevance = scores[index - 1].fused if one.rerank_score is None else one.rerank_score
        made.append(
            Result(
                doc_id=hit.doc_id,
                chunk_id=hit.chunk_id,
                chunk_index=hit.chunk_index,
                title=hit.title,
                source_type=hit.source_type,
                source_id=hit.source_id,
                collection_id=hit.collection_id,
                path=hit.path,
                mime_type=hit.mime_type,
                owner=hit.owner,
                tags=hit.tags,
                chunk_text=hit.chunk_text,
                snippet=shown.text,
                highlights=[Span(start, end) for start, end in shown.spans],
                section_path=hit.section_path,
                page_start=hit.page_start,
                page_end=hit.page_end,
                relevance_score=_rounded(clamp(relevance * one.boost)),
                created_at=hit.created_at,
                modified_at=hit.modified_at,
                acl_checked_at=hit.acl_checked_at,
                also_in=[
                    DocumentReference(
                        other.doc_id, other.title, other.source_type, link_of(other, base_url, shown.start)
                    )
                    for other in one.also_in
                ],
                citation=cite(hit, index, style, base_url, now, shown.start),
                neighbours=neighbours.get((hit.doc_id, hit.chunk_index), []) if neighbours is not None else UNSET,
                explain=explained[index - 1],
            )
        )
    return made
