"""`POST /ask`, `/ask-local` and `/track`: the book assistant's interface."""

from __future__ import annotations

import uuid
from datetime import UTC
from typing import Any

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from serving.answers.schemas import Selection
from serving.contracts.book import (
    BookAnswer,
    BookQuestion,
    LocalQuestion,
    TrackRequest,
    TrackResponse,
    from_answer,
    to_ask,
)
from serving.deps import Services
from serving.errors import ProblemError
from serving.references import page
from serving.routes.search import enforce_rate_limit


@post("/ask", operation_id="askBook", status_code=200, tags=["answers"], summary="Answer a question, as the book asks")
async def ask_book(
    request: Request[Access, Any, Any], data: JSONBody[BookQuestion], services: NamedDependency[Services]
) -> BookAnswer:
    """Answer from up to three passages that the caller may read, named in prose. A model that stays down is an error."""
    enforce_rate_limit(services, request.user)
    answer = await services.answers.ask(to_ask(data.query, data.collection_id), request.user, fallback=False)
    return from_answer(answer)


@post(
    "/ask-local",
    operation_id="askBookSelection",
    status_code=200,
    tags=["answers"],
    summary="Answer about selected text, as the book asks",
)
async def ask_selection(
    request: Request[Access, Any, Any], data: JSONBody[LocalQuestion], services: NamedDependency[Services]
) -> BookAnswer:
    """Answer a question about selected text from its own file only."""
    enforce_rate_limit(services, request.user)
    reference = page(data.source_file, services.settings.file_roots)
    parameters = msgspec.structs.asdict(reference) | {"collection_id": data.collection_id}
    parameters |= services.readable_by(request.user)
    rows = await services.database.fetch("document_by_page", parameters)
    if not rows:
        raise ProblemError("not-found", "source_file: there is no such file, or you may not see it.")
    ask = to_ask(data.query, None, Selection(rows[0]["doc_id"], data.context))
    return from_answer(await services.answers.ask(ask, request.user, fallback=False))


@post("/track", operation_id="trackConversation", status_code=202, tags=["answers"], summary="Log a conversation")
async def track(
    request: Request[Access, Any, Any], data: JSONBody[TrackRequest], services: NamedDependency[Services]
) -> TrackResponse:
    """Store a reader's question and answer. It is written in the background, whether or not the database answers."""
    asked_at = data.timestamp if data.timestamp.tzinfo else data.timestamp.replace(tzinfo=UTC)
    sources = msgspec.json.encode(data.sources).decode()
    if "\x00" in data.query + data.answer or "\\u0000" in sources:
        raise InvalidRequestError("query, answer and sources must not contain a NUL character.")
    conversation_id = str(uuid.uuid4())
    row = {
        "conversation_id": conversation_id,
        "email": request.user.email,
        "query": data.query,
        "answer": data.answer,
        "sources": sources,
        "asked_at": asked_at,
    }
    services.background.put("conversation_insert", row)
    return TrackResponse(conversation_id)
