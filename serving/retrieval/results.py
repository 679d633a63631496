"""From ranked passages to the results of an answer: snippets, highlights, citations, neighbours, explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import UNSET

from serving.citations.format import Cited, Format, citation
from serving.citations.links import link
from serving.retrieval.highlight import snippet, terms
from serving.retrieval.hits import Hit
from serving.retrieval.rank import Ranked
from serving.schemas import Citation, Explanation, Neighbour, Place, Result, Span

SCORE_DIGITS = 6


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
    cited = Cited(hit.title, hit.source_type, hit.modified_at, hit.place(offset).section_path, address)
    return Citation(index, citation(cited, index, style, now.date()), address, style)


def explanation(ranked: Ranked, expansions: Sequence[str] = ()) -> Explanation:
    """Return how the passage came by its rank, and what was added to the query."""
    candidate = ranked.candidate
    return Explanation(
        dense_score=candidate.dense_score,
        dense_rank=candidate.dense_rank,
        keyword_score=candidate.keyword_score,
        keyword_rank=candidate.keyword_rank,
        fused_score=candidate.fused,
        boosts={"recency": ranked.boost},
        rerank_score=ranked.rerank_score,
        expansions=list(expansions) or UNSET,
    )


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
    made: list[Result] = []
    for index, one in enumerate(ranked, start=1):
        hit = one.hit
        shown = snippet(hit.chunk_text, wanted)
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
                relevance_score=round(one.score, SCORE_DIGITS),
                created_at=hit.created_at,
                modified_at=hit.modified_at,
                acl_checked_at=hit.acl_checked_at,
                also_in=[
                    Place(other.doc_id, other.title, other.source_type, link_of(other, base_url, shown.start))
                    for other in one.also_in
                ],
                citation=cite(hit, index, style, base_url, now, shown.start),
                neighbours=neighbours.get((hit.doc_id, hit.chunk_index), []) if neighbours is not None else UNSET,
                explain=explanation(one, expansions) if explain else UNSET,
            )
        )
    return made
