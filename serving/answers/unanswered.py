"""What is said when the documents do not answer: what was searched, the closest documents, and what to do.

The number counts the documents that the caller may read, and the closest ones come from the search's own permission check, so nothing is
said of any other document.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from resources.core.domain import Access
from resources.core.errors import TemporaryError
from resources.settings import BUNDLED_MODEL
from serving.answers.question import PreparedQuestion
from serving.answers.schemas import AskRequest, Unanswered
from serving.answers.spoken import foreign_language
from serving.http.database import Database
from serving.search.filters import Filters
from serving.search.results import DocumentReference, Result
from serving.search.retrieval.engines import NOTHING_INDEXED
from serving.search.retrieval.passage import Passage, Warning_
from serving.search.retrieval.relevance import GOOD, evidence
from sql.serving import WebReads

MOST_COUNTED = 10_000
"""Documents that are counted; more are "more than 10,000"."""
MOST_CLOSEST = 3
NEAR = 0.2
"""Least evidence of a passage for its document to be named as close, at which a language model is shown it, too."""
HALF = 0.5
"""Least share of the question's words, while no cosine is known."""
ADVICE = "Ask in other words, such as those of the document that you expect"
MISSING = "A document that you miss may not be synced yet, or not be shared with you."
FOREIGN = "question_language"


async def count_readable(database: Database, access: Access, fresh_since: datetime) -> int | None:
    """Return how many documents the caller may read, at most one more than `MOST_COUNTED`; None without Postgres."""
    try:
        return await WebReads(database).readable_count(
            principals=sorted(access.principals), fresh_since=fresh_since, most=MOST_COUNTED + 1
        )
    except TemporaryError:
        return None


def close(asked: PreparedQuestion) -> list[Passage]:
    """Return the best passage of each of the closest documents. A question without a word of theirs needs to be near to them in meaning."""
    found: dict[str, Passage] = {}
    least = GOOD if all(one.share == 0 for one in asked.outcome.passages) else NEAR
    for one in asked.sources or asked.outcome.passages:
        known = evidence(one)
        if known >= least if known is not None else (one.share or 0.0) >= HALF:
            found.setdefault(one.doc_id, one)
    return list(found.values())[:MOST_CLOSEST]


def unanswered(
    request: AskRequest, asked: PreparedQuestion, documents: int | None, closest: Sequence[Result]
) -> Unanswered:
    """Return what is said of a question that is not answered. `documents`: how many the caller may read."""
    if request.selection is not None:
        documents = 1
        message = f"The document that you ask about does not answer this. {ADVICE}, or ask about all documents."
    elif NOTHING_INDEXED in asked.outcome.degradations:  # documents may be known already
        message = NOTHING_INDEXED.message
    elif documents == 0:
        message = "There is no document that you can read yet. Upload a file, connect a source, or ask for access."
    else:
        filters = request.filters not in (None, Filters())
        narrowed = filters or any(one.applied for one in asked.understood)
        message = (
            f"{_searched(documents, narrowed=narrowed)} {ADVICE}{', or remove a filter' if narrowed else ''}. {MISSING}"
        )
    references = [DocumentReference(one.doc_id, one.title, one.source_type, one.citation.link) for one in closest]
    return Unanswered(message=message, documents=documents, closest=references)


def not_understood(question: str, model: str) -> Warning_ | None:
    """Return the warning that a question is in a language that the embedding model has not learned."""
    language = foreign_language(question) if model == BUNDLED_MODEL else None
    if language is None:
        return None
    return Warning_(
        FOREIGN,
        f"The question seems to be in {language}. Search by meaning has learned English only, so texts in other languages are found "
        "by their words alone: use words of the documents, or ask in English.",
    )


def _searched(documents: int | None, *, narrowed: bool) -> str:
    that = "that match the filters" if narrowed else "that you can read"
    of = f", of the {number(documents)} that you can read," if narrowed and documents is not None else ""
    if documents == 1:
        return "The one document that you can read does not answer this."
    if narrowed or documents is None:
        return f"None of the documents {that}{of} answers this."
    return f"None of the {number(documents)} documents {that} answers this."


def number(documents: int) -> str:
    """Return a number of documents in words that say where counting ended."""
    return f"more than {MOST_COUNTED:,}" if documents > MOST_COUNTED else f"{documents:,}"
