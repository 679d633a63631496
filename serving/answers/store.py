"""Store answers with the passages they were made from, and load them with the current state of those passages.

Only the user who asked may read an answer again, and once it is shared, others who are signed in. It is shown while every source is
readable for the person who looks, with a flag on sources that have changed. Once one is not (deleted, access withdrawn), the text that
was made from it is withheld, for others the question too, and nothing else about that source is returned. For others, text and question
are also withheld once a source has changed: the answer may hold what was taken out before they were let in.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from resources.core.domain import Access
from resources.core.permissions import is_unshared
from serving.answers.cautions import repeated
from serving.answers.quoted import Mark, first_of_each, quoted
from serving.answers.schemas import AnswerResponse, KeptAnswer, KeptSource
from serving.answers.support import Verdict
from serving.http.background import Background
from serving.http.database import Database
from serving.search.citations.quote import Extent
from serving.search.results import link_of
from serving.search.retrieval.passage import Passage
from serving.search.retrieval.registry import recheck
from sql.serving import WebQueue, WebReads


class Used(msgspec.Struct, frozen=True):
    """A passage as it was when it was answered from."""

    index: int
    chunk_id: str
    doc_id: str
    text_hash: str
    cited: bool
    marks: list[Mark] = []
    """What the answer quotes of it."""


def keep(
    background: Background,
    answer: AnswerResponse,
    question: str,
    access: Access,
    sources: Sequence[Passage],
    *,
    completed: bool,
    shareable: bool,
) -> None:
    """Queue an answer to be written. `shareable`: it rests on its sources alone, and so may be shared with who may read them."""
    used = [
        Used(
            index,
            passage.chunk_id,
            passage.doc_id,
            passage.text_hash,
            index in answer.cited,
            [Mark(one.sentence, one.source, one.start, one.end) for one in answer.quotes if one.source == index],
        )
        for index, passage in enumerate(sources, start=1)
    ]
    WebQueue(background).answer_insert(
        answer_id=answer.answer_id,
        query_id=answer.query_id,
        email=access.email,
        principals=sorted(access.principals),
        question=question,
        standalone=answer.standalone,
        answer=answer.answer,
        found=answer.found,
        mode=answer.mode,
        model=answer.model,
        sources=msgspec.json.encode(used).decode(),
        sentences=msgspec.json.encode(answer.sentences).decode(),
        unsupported=sum(not sentence.supported for sentence in answer.sentences),
        removed_citations=answer.removed_citations,
        removed_links=answer.removed_links,
        warnings=[warning.code for warning in answer.warnings],
        cached=answer.cached,
        completed=completed,
        shareable=shareable,
        latency_ms=answer.latency_ms,
        model_ms=answer.model_ms,
    )


async def load(
    database: Database, answer_id: str, access: Access, *, fresh_since: datetime, base_url: str
) -> KeptAnswer | None:
    """Return an answer of this caller's own, or a shared one, with its sources as they are now; None when there is none.

    Raises `ServiceUnavailableError`.
    """
    statements = WebReads(database)
    kept = await statements.answer_by_id(answer_id=answer_id, email=access.email)
    if kept is None:
        return None
    used = msgspec.convert(kept.sources, list[Used])
    sentences = msgspec.convert(kept.sentences, list[Verdict])
    checked = await recheck(
        database, access, [one.chunk_id for one in used], fresh_since, archived=True, collection_ids=()
    )
    own = kept.email == access.email
    readable: set[str] = set()
    if used:
        documents = await statements.document(
            doc_ids=sorted({one.doc_id for one in used}), principals=sorted(access.principals), fresh_since=fresh_since
        )
        readable = {one.doc_id for one in documents if own or not is_unshared(one.tags)}
    allowed = {
        one.index: checked.passages[one.chunk_id]
        for one in used
        if one.doc_id in readable and one.chunk_id in checked.passages
    }
    same = [one for one in used if one.index in allowed and allowed[one.index].text_hash == one.text_hash]
    quotes = quoted(sentences, allowed, [mark for one in same for mark in one.marks])
    marked = first_of_each(quotes)
    sources = [_today(one, allowed.get(one.index), readable, base_url, marked.get(one.index)) for one in used]
    changed = any(one.status == "changed" for one in sources)
    revoked = kept.erased or any(one.status == "revoked" for one in sources)
    withheld = revoked or (changed and not own)
    return KeptAnswer(
        answer_id=kept.answer_id,
        query_id=kept.query_id,
        own=own,
        asked_by=kept.email,
        shared_at=kept.shared_at,
        query=None if withheld and not own else kept.question,
        # it may contain earlier messages, and so earlier answers
        standalone=None if revoked or not own else kept.standalone,
        answer=None if withheld else kept.answer,
        found=kept.found,
        mode=kept.mode,
        model=kept.model,
        created_at=kept.created_at,
        completed=kept.completed,
        changed=changed,
        revoked=revoked,
        sources=sources,
        sentences=[] if withheld else sentences,
        quotes=[] if withheld else quotes,
        removed_citations=kept.removed_citations,
        warnings=[] if withheld else repeated(kept.warnings, kept.question),
        latency_ms=kept.latency_ms,
    )


def _today(used: Used, passage: Passage | None, readable: set[str], base_url: str, quote: Extent | None) -> KeptSource:
    if used.doc_id not in readable:
        return KeptSource(used.index, "revoked", used.cited)
    if passage is None:
        return KeptSource(used.index, "changed", used.cited, used.doc_id)
    status: Literal["current", "changed"] = "current" if passage.text_hash == used.text_hash else "changed"
    link = link_of(passage, base_url, quote.start if quote else 0, quote)
    return KeptSource(
        used.index,
        status,
        used.cited,
        passage.doc_id,
        passage.chunk_id,
        passage.chunk_index,
        passage.title,
        link,
    )
