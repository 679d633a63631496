"""Results as HTTP shows them: snippets, highlights, citations and explanations of passages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from serving.citations.format import Cited, Format, citation
from serving.citations.links import link
from serving.retrieval.explain import parts
from serving.retrieval.highlight import snippet
from serving.retrieval.passage import SCORE_DIGITS, Neighbour, Passage
from serving.schemas import Citation


class Span(msgspec.Struct, frozen=True):
    """A range of characters, `end` exclusive."""

    start: int
    end: int


class DocumentReference(msgspec.Struct, frozen=True):
    """Another document with an identical passage, which the caller may read."""

    doc_id: str
    title: str
    source_type: str
    link: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """How a result was scored: the sum of `parts` is `relevance_score`.

    `keyword_score` is the share of the query's words that occur in the passage and its headings; ranks count among the results.
    `dense_weight` is the share of the cosine in `fused_score`, `floor` the cosine that counts as 0. `fusion` and `agreement` (the share of
    similar passages) decide the order only. `expansions` are texts that a language model added to the query."""

    dense_score: float | None
    dense_rank: int | None
    dense_weight: float
    floor: float
    keyword_score: float | None
    keyword_rank: int | None
    fused_score: float
    fusion: str | None
    agreement: float
    boosts: dict[str, float]
    rerank_score: float | None
    parts: dict[str, float]
    expansions: list[str] | UnsetType = UNSET


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One passage. `highlights` are spans of the query's words within `snippet`."""

    doc_id: str
    chunk_id: str
    chunk_index: int
    title: str
    source_type: str
    source_id: str
    collection_id: str | None
    path: str
    mime_type: str
    owner: str | None
    tags: dict[str, Any]
    chunk_text: str
    snippet: str
    highlights: list[Span]
    section_path: list[str]
    page_start: int | None
    page_end: int | None
    relevance_score: float
    created_at: datetime | None
    modified_at: datetime | None
    acl_checked_at: datetime | None
    also_in: list[DocumentReference]
    citation: Citation
    neighbours: list[Neighbour] | UnsetType = UNSET
    explain: Explanation | UnsetType = UNSET


def link_of(passage: Passage, base_url: str, offset: int = 0) -> str:
    """Return the link to the place of the passage's character at `offset`."""
    place = passage.place(offset)
    return link(
        base_url=base_url,
        doc_id=passage.doc_id,
        chunk_index=passage.chunk_index,
        url=passage.url,
        source_type=passage.source_type,
        mime_type=passage.mime_type,
        page=place.page,
        anchor=place.anchor,
    )


def _explanations(passages: Sequence[Passage], expansions: Sequence[str]) -> list[Explanation]:
    """Return the parts of each passage's score, and what was added to the query.

    Ranks are places among these passages by the scores shown: an engine's own ranks would reveal its scores. For the same reason, the
    scores that fusion and agreement give are not returned, only how they were set.
    """
    dense = [_rounded(one.scores.dense) for one in passages]
    keyword = [_rounded(one.share) for one in passages]
    return [
        Explanation(
            dense_score=dense[index],
            dense_rank=_rank(dense[index], dense),
            dense_weight=one.scores.scale.weight,
            floor=one.scores.scale.floor,
            keyword_score=keyword[index],
            keyword_rank=_rank(keyword[index] or None, keyword),
            fused_score=round(one.shown, SCORE_DIGITS),
            fusion=one.scores.scale.fusion,
            agreement=one.scores.scale.agreement,
            boosts=dict(one.scores.boosts),
            rerank_score=one.scores.rerank,
            parts=parts(one),
            expansions=list(expansions) or UNSET,
        )
        for index, one in enumerate(passages)
    ]


def _rank(score: float | None, scores: Sequence[float | None]) -> int | None:
    return None if score is None else 1 + sum(other is not None and other > score for other in scores)


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, SCORE_DIGITS)


def results(
    passages: Sequence[Passage],
    *,
    style: Format,
    base_url: str,
    now: datetime,
    explain: bool = False,
    expansions: Sequence[str] = (),
) -> list[Result]:
    """Return the results in order, numbered from 1 in their citations."""
    explained = _explanations(passages, expansions) if explain else [UNSET] * len(passages)
    return [
        _result(one, index, style, base_url, now, explained[index - 1]) for index, one in enumerate(passages, start=1)
    ]


def _result(
    passage: Passage, index: int, style: Format, base_url: str, now: datetime, explained: Explanation | UnsetType
) -> Result:
    cut = snippet(passage.chunk_text, passage.matches)
    # a citation points at the sentence that answers, not at the chunk's start
    address, section_path = link_of(passage, base_url, cut.start), passage.place(cut.start).section_path
    cited = Cited(passage.title, passage.source_type, passage.modified_at, section_path, address, passage.owner)
    return Result(
        doc_id=passage.doc_id,
        chunk_id=passage.chunk_id,
        chunk_index=passage.chunk_index,
        title=passage.title,
        source_type=passage.source_type,
        source_id=passage.source_id,
        collection_id=passage.collection_id,
        path=passage.path,
        mime_type=passage.mime_type,
        owner=passage.owner,
        tags=passage.tags,
        chunk_text=passage.chunk_text,
        snippet=cut.text,
        highlights=[Span(start, end) for start, end in cut.spans],
        section_path=passage.section_path,
        page_start=passage.page_start,
        page_end=passage.page_end,
        relevance_score=passage.relevance,
        created_at=passage.created_at,
        modified_at=passage.modified_at,
        acl_checked_at=passage.acl_checked_at,
        also_in=[
            DocumentReference(other.doc_id, other.title, other.source_type, link_of(other, base_url, cut.start))
            for other in passage.also_in
        ],
        citation=Citation(index, citation(cited, index, style, now.date()), address, style),
        neighbours=UNSET if passage.neighbours is None else passage.neighbours,
        explain=explained,
    )
