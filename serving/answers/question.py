"""Prepare a question for answering: make it standalone, search, apply the answer gate and choose the sources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from resources.core.domain import Access
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.core.permissions import is_local_only
from resources.logging import logger
from resources.settings import Settings
from serving.answers.access_check import CurrentAccess
from serving.answers.condense import standalone
from serving.answers.context import ContextBudget, gather, share_out
from serving.answers.follow_up import FollowUp, follow_up, leaning
from serving.answers.gate import POOL, Judged, judge, together
from serving.answers.model import LanguageModel, is_outside
from serving.answers.prompt import SYSTEM, condensing, messages
from serving.answers.schemas import MAX_HISTORY, AskRequest, Message
from serving.answers.styles import REWRITING
from serving.answers.words import content
from serving.http.fields import parse_id
from serving.search.filters import Filters
from serving.search.quoting import ChatMessage
from serving.search.retrieval.highlight import pieces
from serving.search.retrieval.passage import AskedWords, Passage, SearchOutcome, Warning_
from serving.search.retrieval.query import MAX_QUERY, SearchQuery, normalise, search_query
from serving.search.retrieval.retriever import Retriever
from serving.search.retrieval.terms import terms
from serving.search.understanding.filters import Reading, Understanding, Understood

log = logger("serving")


class Focus(NamedTuple):
    """What quotes are chosen by: a text, the question's own words within it if it borrows others, and what was said before."""

    text: str
    own: frozenset[str]
    said: tuple[str, ...]


class PreparedQuestion(NamedTuple):
    """A question with its sources; without sources there is no answer. `searched`: the standalone form that was searched.

    `shares` is what of the conversation and the selection the model is shown, and how long its answer may be. `prompt` is what a
    language model is sent, empty without sources. `access` is what was searched with.
    """

    question: str
    searched: str
    shares: ContextBudget
    sources: list[Passage]
    judged: Judged
    outcome: SearchOutcome
    model_ms: float
    understood: list[Understood]
    prompt: list[ChatMessage]
    focus: Focus
    access: Access


class _Searched(NamedTuple):
    reading: Reading
    outcome: SearchOutcome
    judged: Judged


@dataclass
class QuestionPreparer:
    _settings: Settings
    _retriever: Retriever
    _understanding: Understanding
    _model: LanguageModel | None
    _count: Callable[[str], int]
    _clock: Callable[[], float]

    async def prepare(self, request: AskRequest, access: Access, current: CurrentAccess) -> PreparedQuestion:
        """Return the question with its sources. Raises `InvalidRequestError` or `ServiceUnavailableError`, and what `current` raises."""
        question = normalise(request.query)
        history = request.conversation_history[-MAX_HISTORY:]
        asked, model_ms = await self._standalone(request, question, history, access)
        if model_ms:  # a model takes up to a minute, in which the caller may be deactivated or leave a group
            access = await current()
        searched = asked.searched
        found = await self._search(request, question, searched, access)
        if asked.leans == "perhaps" and not together(content(question), searched, found.outcome.passages):
            alone = await self._search(request, question, question, access)
            if alone.judged.sure:
                searched, found = question, alone
        reading, outcome, judged = found
        shares = self._shares(request, history, question, searched)
        sources: list[Passage] = []
        if judged.passed:
            sources = gather(
                outcome.passages,
                documents=request.top_k,
                passages=request.passages or request.written.passages,
                budget=shares.sources,
                count=self._count,
            )
        if request.selection:  # found by the selected text, too, but shown with the words of the question
            shown_with = AskedWords(terms(searched))
            sources = [msgspec.structs.replace(one, asked=shown_with) for one in sources]
        prompt: list[ChatMessage] = []
        if sources:
            prompt = messages(
                question,
                sources,
                style=request.written,
                searched=searched,
                history=shares.history,
                selection=shares.selection,
            )
        focus = _focus(request, question, searched, history)
        return PreparedQuestion(
            question, searched, shares, sources, judged, outcome, model_ms, reading.understood, prompt, focus, access
        )

    async def _search(self, request: AskRequest, question: str, searched: str, access: Access) -> _Searched:
        """Search for `searched`, with the filters that the question itself states."""
        reading = await self._read(request, question, access)
        if searched != question:  # the rewritten question is searched for as it is
            reading = reading._replace(text=searched, asked=searched)
        outcome = await self._retriever.search(self._query(request, reading, access))
        if not outcome.passages and reading.narrows:
            reading = reading.without()
            outcome = await self._retriever.search(self._query(request, reading, access))
        outcome = self._without_local(outcome)
        about = f"{reading.text} {request.selection.text}" if request.selection else reading.text
        by_model = self._model is not None
        return _Searched(
            reading, outcome, judge(about, outcome.passages, self._settings.answer_gate, by_model=by_model)
        )

    def _without_local(self, outcome: SearchOutcome) -> SearchOutcome:
        """Leave out what an outside language model may not be shown.

        It is not quoted either: the conversation with its earlier answers is shown to the model, too.
        """
        if self._model is None or not is_outside(self._settings):
            return outcome
        left_out = {one.doc_id for one in outcome.passages if is_local_only(one.tags)}
        if not left_out:
            return outcome
        shown = [one for one in outcome.passages if one.doc_id not in left_out]
        message = (
            f"Left out of this answer: {len(left_out)} {'document' if len(left_out) == 1 else 'documents'} that may not be "
            "shown to an outside language model. Search finds them."
        )
        return outcome._replace(passages=shown, degradations=[*outcome.degradations, Warning_("left_out", message)])

    def _shares(self, request: AskRequest, history: list[Message], question: str, searched: str) -> ContextBudget:
        style = request.written
        return share_out(
            self._settings.llm_context_window,
            prompt=f"{SYSTEM}\n{style.rules}\n{style.instruction}\n{question}\n{searched}",
            history=history,
            selection=request.selection.text if request.selection else None,
            sources=self._settings.answer_context_tokens,
            answer=min(style.max_tokens, self._settings.llm_max_tokens),
            count=self._count,
        )

    async def _standalone(
        self, request: AskRequest, question: str, history: list[Message], access: Access
    ) -> tuple[FollowUp, float]:
        """Return the question as it is understood without the conversation, and the model's time in ms.

        The subject of a question about a selection is the selection."""
        if not history or request.selection is not None:
            return FollowUp(question, "no"), 0.0
        completed = follow_up(question, history)
        if self._model is None:
            return completed, 0.0
        began, rewritten = self._clock(), ""
        try:
            rewritten = await self._model.complete(condensing(question, history), person=access.email, style=REWRITING)
        except ConcordanceError as error:
            log.warning("question_not_condensed", error=str(error))
        searched = standalone(question, rewritten, completed.searched)
        leans = completed.leans if searched == completed.searched else "no"
        return FollowUp(searched, leans), (self._clock() - began) * 1000

    async def _read(self, request: AskRequest, question: str, access: Access) -> Reading:
        """Return what is understood of the user's own words; a selection says itself what is asked about."""
        filters, understand = request.filters, request.understand
        if request.selection is not None:
            doc_id = _document(request.selection.document_id)
            filters = msgspec.structs.replace(filters or Filters(), document_ids=[doc_id], include_archived=True)
            understand = False
        return await self._understanding.read(question, access, filters, understand)

    def _query(self, request: AskRequest, reading: Reading, access: Access) -> SearchQuery:
        text = reading.text
        if request.selection is not None:
            text = f"{text} {request.selection.text}"[:MAX_QUERY]
        query = search_query(
            text,
            access,
            self._settings,
            limit=POOL,
            mode=request.mode,
            fusion=request.fusion,
            dense_weight=request.dense_weight,
            threshold=request.threshold,
            # what a reader selected is asked about whether or not it is the most relevant
            rerank=self._settings.rerank_model is not None and request.selection is None,
            group=False,
            narrowing=reading.narrowing,
        )
        # the selected text may be that of a document which no outside model may be shown
        return query if request.selection is None else query._replace(expansion="off")


def _focus(request: AskRequest, question: str, searched: str, history: Sequence[Message]) -> Focus:
    """Return what the quotes are chosen by. What was quoted or selected is hardly the answer to a question about it."""
    selected = request.selection.text if request.selection else ""
    text = f"{question} {selected}" if selected and leaning(question) == "surely" else searched
    if text == question and not selected:
        return Focus(text, frozenset(), ())
    said = [one.content for one in history if one.role == "assistant"]
    if selected and len(list(pieces(selected))) == 1:
        said.append(selected)
    return Focus(text, content(question) if text != question else frozenset(), tuple(said))


def _document(text: str) -> str:
    return parse_id(text, InvalidRequestError(f"selection.document_id: {text!r} is not a valid document ID."))
