"""Results as HTTP shows them: snippets, highlights, citations and explanations of passages."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec
from msgspec import UNSET, UnsetType

from serving.search.citations.format import Cited, Format, citation
from serving.search.citations.links import link
from serving.search.citations.quote import Extent
from serving.search.retrieval.explain import parts
from serving.search.retrieval.highlight import snippet
from serving.search.retrieval.passage import SCORE_DIGITS, Neighbour, Passage
from serving.search.retrieval.relevance import weak
from serving.search.schemas import Citation
from sql.fields import Moment, Tags


class Span(msgspec.Struct, frozen=True):
    """A range of characters, `end` exclusive."""

    start: int
    """The first character, counted from 0."""
    end: int
    """The character after the last one."""


class DocumentReference(msgspec.Struct, frozen=True):
    """Another document with an identical passage, which the caller may read."""

    doc_id: str
    """ID of the document."""
    title: str
    """Title of the document."""
    source_type: str
    """The source of the document."""
    link: str
    """Opens the document at the passage."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of a result's score: the sum of `parts` is `relevance_score`.

    `keyword_score` is the share of the query's words that occur in the passage and its headings; ranks count among the results.
    `dense_weight` is the share of the cosine in `fused_score`, `floor` the cosine that counts as 0. `fusion` and `agreement` (the share of
    similar passages) decide the order only. `expansions` are texts that a language model added to the query."""

    dense_score: float | None
    """Cosine of the query and the passage, -1 to 1. Null in mode `keyword`, and without embeddings."""
    dense_rank: int | None
    """Rank among the results of this response by `dense_score`, from 1; null without it."""
    dense_weight: float
    """Share of the cosine in `fused_score`, 0 to 1."""
    floor: float
    """The cosine that counts as 0."""
    keyword_score: float | None
    """Share of the query's words in the passage, its headings and the title, 0 to 1. Null in mode `vector`."""
    keyword_rank: int | None
    """Rank among the results of this response by `keyword_score`, from 1; null without it."""
    keyword_frequency: float | None
    """How often the query's words occur in the passage, 0 to 1. Null unless words alone were searched."""
    fused_score: float
    """The rescaled cosine and `keyword_score` by their weights, 0 to 1.

    Without cosines, `keyword_score` × (0.5 + 0.4 × `keyword_frequency`)."""
    fusion: str | None
    """How the two searches were combined into the order of the results; null for one search."""
    agreement: float
    """Share of each score that is taken from the most similar passages; 0 for one search."""
    boosts: dict[str, float]
    """Factors of the score by name, such as `recency: 1.05`."""
    rerank_score: float | None
    """The cross-encoder's score, 0 to 1; null if the results were not reranked."""
    parts: dict[str, float]
    """What each step adds to `relevance_score`, which is their sum."""
    expansions: list[str] | UnsetType = UNSET
    """Texts that a language model added to the query; absent if there are none."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One passage. `highlights` are spans of the query's words within `snippet`."""

    doc_id: str
    """ID of the document."""
    chunk_id: str
    """ID of the passage."""
    chunk_index: int
    """Position of the passage in the document, from 0."""
    title: str
    """Title of the document."""
    source_type: str
    """The source of the document, such as `files`."""
    source_id: str
    """ID of the document at its source. For a file in a folder that you may not know, its `doc_id`."""
    collection_id: str | None
    """File root, Drive folder, Slack channel or upload day. Null for a folder that you may not know."""
    path: str
    """The folders that you may know, and the file name."""
    mime_type: str
    """MIME type of the document."""
    owner: str | None
    """Email or name of the document's owner; null if unknown."""
    tags: Tags
    """Tags of the document."""
    chunk_text: str
    """The passage."""
    snippet: str
    """About 100 characters of the passage, around the query's words."""
    highlights: list[Span]
    """The query's words in `snippet`."""
    section_path: list[str]
    """Headings above the passage, outermost first."""
    page_start: int | None
    """First page or slide of the passage, from 1; null for documents without pages."""
    page_end: int | None
    """Last page or slide of the passage; null for documents without pages."""
    relevance_score: float
    """Relevance of the passage, 0 to 1. Results are not always in the order of this score."""
    weak: bool | UnsetType = UNSET
    """True for a result that lacks words of the query and is not near to it either; absent for others."""
    created_at: Moment | None
    """When the document was created; null if unknown."""
    modified_at: Moment | None
    """When the document was last modified; null if unknown."""
    acl_checked_at: Moment | None
    """When permissions were last read from the source; null if unknown."""
    also_in: list[DocumentReference]
    """Other documents with the same passage that you may read."""
    citation: Citation
    """The citation of the passage."""
    neighbours: list[Neighbour] | UnsetType = UNSET
    """The passages around this one, in order; absent unless requested."""
    explain: Explanation | UnsetType = UNSET
    """How the passage was scored; absent unless requested."""


def link_of(passage: Passage, base_url: str, offset: int = 0, quote: Extent | None = None) -> str:
    """Return the link to the place of the passage's character at `offset`; our own page marks `quote`, a range of the passage."""
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
        quote=quote,
    )


def documents_of(passages: Sequence[Passage]) -> list[str]:
    """Return the IDs of the documents that the results of passages name: their own, and those with the same passage."""
    return list(dict.fromkeys(one.doc_id for passage in passages for one in (passage, *passage.also_in)))


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
            keyword_frequency=_rounded(one.frequency),
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
    quotes: Mapping[int, Extent] = MappingProxyType({}),
) -> list[Result]:
    """Return the results in order, numbered from 1 in their citations. `quotes` are what an answer quotes, by these numbers."""
    explained = _explanations(passages, expansions) if explain else [UNSET] * len(passages)
    return [
        _result(one, index, style, base_url, now, explained[index - 1], quotes.get(index))
        for index, one in enumerate(passages, start=1)
    ]


def _result(
    passage: Passage,
    index: int,
    style: Format,
    base_url: str,
    now: datetime,
    explained: Explanation | UnsetType,
    quote: Extent | None,
) -> Result:
    cut = snippet(passage.chunk_text, passage.matches, passage.headings)
    # a citation points at the sentence that answers, not at the chunk's start
    offset = quote.start if quote else cut.start
    address, section_path = link_of(passage, base_url, offset, quote), passage.place(offset).section_path
    cited = Cited.at(passage, address, section_path)
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
        weak=True if weak(passage) else UNSET,
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
