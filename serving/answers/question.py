"""Prepare a question for answering: make it standalone, search, apply the answer gate and choose the sources."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from resources.core.domain import Access
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.logging import logger
from resources.settings import Settings
from serving.answers.context import gather
from serving.answers.extractive import headings
from serving.answers.gate import POOL, Evidence, Judged, gate_of, judge
from serving.answers.model import LanguageModel
from serving.answers.prompt import condensing
from serving.answers.schemas import MAX_HISTORY, AskRequest, Message
from serving.retrieval.plan import normalise
from serving.retrieval.rank import Ranked
from serving.retrieval.retriever import Passages
from serving.schemas import MAX_QUERY, Filters, SearchRequest

log = logger("serving")


class FindsPassages(Protocol):
    """The one search service, as answers use it."""

    async def passages(self, request: SearchRequest, access: Access) -> Passages:
        """Return passages that the caller may read, best first."""
        ...


class PreparedQuestion(NamedTuple):
    """A question with its sources; without sources there is no answer. `searched`: the standalone form that was searched."""

    question: str
    searched: str
    history: list[Message]
    sources: list[Ranked]
    judged: Judged
    warnings: list[tuple[str, str]]
    held_back: int
    registry: bool
    model_ms: float


class QuestionPreparer:
    """Turns requests into prepared questions."""

    def __init__(
        self,
        settings: Settings,
        retriever: FindsPassages,
        model: LanguageModel | None,
        count: Callable[[str], int],
        embedding_model: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._retriever = retriever
        self._model = model
        self._count = count
        self._embedding_model = embedding_model
        self._clock = clock

    async def prepare(self, request: AskRequest, access: Access) -> PreparedQuestion:
        """Return the question with its sources. Raises `InvalidRequestError` or `ServiceUnavailableError`."""
        question = normalise(request.query)
        history = request.conversation_history[-MAX_HISTORY:]
        searched, model_ms = await self._standalone(question, history)
        found = await self._retriever.passages(self._search(request, searched), access)
        evidence = [
            Evidence(f"{headings(one.hit.title, one.hit.section_path)} {one.hit.chunk_text}", one.candidate.dense_score)
            for one in found.ranked
        ]
        about = f"{searched} {request.selection.text}" if request.selection else searched
        judged = judge(about, evidence, gate_of(self._embedding_model(), self._settings.answer_gate))
        sources: list[Ranked] = []
        if judged.passed:
            sources = gather(
                found.ranked,
                documents=request.top_k,
                passages=request.passages,
                budget=self._settings.answer_context_tokens,
                count=self._count,
            )
        return PreparedQuestion(
            question, searched, history, sources, judged, found.warnings, found.held_back, found.registry, model_ms
        )

    async def _standalone(self, question: str, history: list[Message]) -> tuple[str, float]:
        """Return the question as it is understood without the conversation, and the model's time in ms."""
        if not history:
            return question, 0.0
        began = self._clock()
        if self._model is not None:
            try:
                lines = (await self._model.complete(condensing(question, history))).strip().splitlines()
                if lines and 0 < len(lines[0]) <= MAX_QUERY:
                    return normalise(lines[0]), (self._clock() - began) * 1000
            except ConcordanceError as error:
                log.warning("question_not_condensed", error=str(error))
        before = next((one.content for one in reversed(history) if one.role == "user"), "")
        joined = f"{before[: MAX_QUERY - len(question) - 1]} {question}"
        return normalise(joined[:MAX_QUERY]), (self._clock() - began) * 1000 if self._model else 0.0

    @staticmethod
    def _search(request: AskRequest, searched: str) -> SearchRequest:
        filters, query = request.filters, searched
        if request.selection is not None:
            doc_id = _document(request.selection.document_id)
            filters = msgspec.structs.replace(filters or Filters(), document_ids=[doc_id], include_archived=True)
            query = f"{searched} {request.selection.text}"[:MAX_QUERY]
        return SearchRequest(
            query=query,
            top_k=POOL,
            mode=request.mode,
            fusion=request.fusion,
            threshold=request.threshold,
            group_by_document=False,
            filters=filters,
        )


def _document(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidRequestError(f"selection.document_id: {text!r} is no document id.") from None
