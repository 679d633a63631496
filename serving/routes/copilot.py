"""`POST /api/search` and `POST /api/chat`: NeuroDrive's interface."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from resources.core.domain import Access
from serving.answers.gate import gate_of
from serving.contracts.copilot import (
    ChatRequest,
    ChatResponse,
    DriveSearchRequest,
    DriveSearchResponse,
    from_answer,
    from_search,
    to_ask,
    to_search,
)
from serving.deps import Services
from serving.routes.search import enforce_rate_limit


@post("/api/search", operation_id="searchFiles", status_code=200, tags=["search"], summary="Search, as NeuroDrive asks")
async def search_files(
    request: Request[Access, Any, Any], data: JSONBody[DriveSearchRequest], services: NamedDependency[Services]
) -> DriveSearchResponse:
    """Find relevant passages that the caller may read; irrelevant ones are omitted."""
    enforce_rate_limit(services, request.user)
    found = await services.retriever.search(to_search(data), request.user)
    return from_search(data, found, gate_of(services.embedder.model, services.settings.answer_gate))


@post(
    "/api/chat", operation_id="chat", status_code=200, tags=["answers"], summary="Answer a message, as NeuroDrive asks"
)
async def chat(
    request: Request[Access, Any, Any], data: JSONBody[ChatRequest], services: NamedDependency[Services]
) -> ChatResponse:
    """Answer from documents that the caller may read, in the context of up to five earlier messages."""
    enforce_rate_limit(services, request.user)
    return from_answer(await services.answers.ask(to_ask(data), request.user))
