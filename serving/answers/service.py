"""The answer service: search, write an answer from the passages found, and check each of its sentences.

`ask` returns the whole answer, `stream` each step. If the gate finds no answer in the passages, the answer is "No data found"
and no model is called. If the model fails, or its sources support nothing that it wrote, the best sentences are quoted instead, with a
warning. Every answer is kept (`store`), queued and never waited for, also when the reader leaves before its end; but not if its caller is
signed out, or may no longer read a source, before it is complete (`access_check`).
"""

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any

from msgspec import UNSET, UnsetType

from resources import tracing
from resources.core.domain import Access
from resources.core.errors import ConcordanceError, ServiceUnavailableError, TemporaryError
from resources.core.permissions import is_unshared
from resources.logging import logger
from serving.answers import store
from serving.answers.access_check import AccessCheck, CurrentAccess
from serving.answers.cautions import MODEL_DOWN, OTHER_LANGUAGE, UNCERTAIN, UNSUPPORTED
from serving.answers.certainty import REFUSED, SURE, certainty, holds_own
from serving.answers.checking import Checker
from serving.answers.draft import Draft
from serving.answers.extractive import Quote, choose, compose, marks, measured, shortlist, without_strays
from serving.answers.metrics import AnswerMetrics
from serving.answers.model import LanguageModel
from serving.answers.parts import cut
from serving.answers.prompt import NO_DATA
from serving.answers.question import Focus, PreparedQuestion, QuestionPreparer
from serving.answers.quoted import first_of_each, quoted
from serving.answers.schemas import AnswerEvent, AnswerResponse, AskRequest, PromptMessage
from serving.answers.spoken import foreign_language
from serving.answers.unanswered import close, count_readable, not_understood, unanswered
from serving.answers.writing import Writer, supported
from serving.http.audit import AuditEvent
from serving.search.citations.quote import Extent
from serving.search.results import Result, documents_of, results
from serving.search.retrieval.passage import Passage
from serving.search.service import SearchServices

COUNTED = 4096
"""Passages whose number of tokens is cached."""
log = logger("serving")


class Answers:
    """Answers questions; every interface translates to it and from it."""

    def __init__(self, search: SearchServices, model: LanguageModel | None) -> None:
        self.http = http = search.http
        self.identity = search.identity
        self.search = search
        settings, database, background = http.settings, http.database, http.background
        self._settings = settings
        self._max_age = http.acl_max_age
        self._database = database
        self._embedder = search.embedder
        self._checker = Checker(search.embedder)
        self._background = background
        self._audit = http.audit
        self._metrics = AnswerMetrics(http.metrics.registry)
        self._clock = http.clock
        self._model = model
        self._writer = Writer(settings, database, background, self._checker, self._model) if self._model else None
        self._preparer = QuestionPreparer(
            settings,
            search.retriever,
            search.understanding,
            self._model,
            lru_cache(COUNTED)(self._tokens),
            time.perf_counter,
        )

    @property
    def model(self) -> str | None:
        return self._model.name if self._model else None

    async def ask(
        self, request: AskRequest, access: Access, current: CurrentAccess, *, fallback: bool = True
    ) -> AnswerResponse:
        """Return the whole answer. Raises `InvalidRequestError`, or `ServiceUnavailableError` when nothing can be searched.

        `current` returns the caller's access again, at least before the answer is complete; it raises for one who may no longer ask.
        With `fallback` false a language model that fails raises as well, instead of being replaced by quotes.
        """
        async for event in self._events(request, access, current, live=False, fallback=fallback):
            if isinstance(event.data, AnswerResponse):
                return event.data
        raise ServiceUnavailableError("The answer was not completed. Try again.")

    def stream(
        self, request: AskRequest, access: Access, current: CurrentAccess, *, fallback: bool = True
    ) -> AsyncGenerator[AnswerEvent]:
        """Yield `sources`, then `token`s, `check`, and `done` with the answer. After a `restart`, the tokens before it are void.

        `current` is as for `ask`, and called every few seconds.
        """
        return self._events(request, access, current, live=True, fallback=fallback)

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()

    async def _events(
        self, request: AskRequest, access: Access, current: CurrentAccess, *, live: bool, fallback: bool
    ) -> AsyncGenerator[AnswerEvent]:
        began = time.perf_counter()
        asked = await self._preparer.prepare(request, access, current)
        access = asked.access
        answer_id, query_id = str(uuid.uuid4()), str(uuid.uuid4())
        closest = close(asked)
        shown_ids = documents_of(asked.sources) or [one.doc_id for one in closest]
        await self._audit.record(
            # as it was asked: what it was rewritten to may hold what earlier answers say, which auditors must not see
            AuditEvent(email=access.email, action="ask", query_id=query_id, query=asked.question, doc_ids=shown_ids)
        )
        now = self._clock()

        def shown(quotes: Mapping[int, Extent]) -> list[Result]:
            return listed(asked.sources, quotes)

        def listed(passages: Sequence[Passage], quotes: Mapping[int, Extent]) -> list[Result]:
            style, base_url = request.citation_format, self._settings.base_url
            return results(passages, style=style, base_url=base_url, now=now, quotes=quotes)

        draft = Draft(model_ms=asked.model_ms, warnings=list(asked.outcome.degradations))
        first: dict[str, Any] = {
            "answer_id": answer_id,
            "query_id": query_id,
            "sources": shown({}),
            "understood": asked.understood,
        }
        check = AccessCheck(
            self._database,
            self.identity.withheld,
            asked.sources,
            current,
            self.http.fresh_since,
            registry=asked.outcome.registry,
        )
        try:
            yield AnswerEvent("sources", first | {"warnings": list(draft.warnings)})
            with tracing.apart("answer", sources=len(asked.sources)) as answering:
                async with aclosing(self._write(request, asked, access, draft, live=live, fallback=fallback)) as events:
                    async for event in events:
                        await check.if_due()
                        yield event
                answering.set(mode=draft.mode, cached=draft.cached)
            access = await check.now()
            if draft.mode == "none":
                readable = await count_readable(self._database, access, now - self._max_age)
                draft.unanswered = unanswered(request, asked, readable, listed(closest, {}))
            foreign = not_understood(asked.question, self._embedder.model)
            if foreign is not None and (draft.mode == "none" or UNCERTAIN in draft.warnings):
                draft.warnings.append(foreign)
            draft.completed = True
            yield AnswerEvent(
                "check",
                {
                    "sentences": draft.sentences,
                    "removed_citations": draft.removed_citations,
                    "removed_links": draft.removed_links,
                },
            )
        finally:
            prompt = [PromptMessage(**one) for one in asked.prompt] if request.show_prompt else UNSET
            answer = self._answer(asked, draft, shown, prompt, answer_id, query_id, began)
            if not check.failed:
                self._keep(answer, asked, access, completed=draft.completed, alone=not request.conversation_history)
        yield AnswerEvent("done", answer)

    async def _write(
        self, request: AskRequest, asked: PreparedQuestion, access: Access, draft: Draft, *, live: bool, fallback: bool
    ) -> AsyncGenerator[AnswerEvent]:
        if not asked.sources:
            draft.text = NO_DATA
            yield AnswerEvent("token", {"text": NO_DATA})
            return
        if self._writer is not None:
            try:
                async with aclosing(self._writer.write(request, asked, access, draft, live=live)) as events:
                    async for event in events:
                        yield event
            except ConcordanceError as error:
                log.warning("language_model_failed", error=str(error))
                self._metrics.failed(error)
                if not fallback:  # the error itself names a host and settings
                    wait = error.retry_after if isinstance(error, TemporaryError) else None
                    raise ServiceUnavailableError(
                        "The language model does not answer. Try again shortly.", wait
                    ) from error
                draft.warnings.append(MODEL_DOWN)
            else:
                if draft.mode != "model" or supported(draft):
                    if any(one.reason == "language" for one in draft.sentences):
                        draft.warnings.append(OTHER_LANGUAGE)
                    return
                draft.warnings.append(UNSUPPORTED)
            if draft.text:
                yield AnswerEvent("restart", {"warnings": list(draft.warnings)})
        await self._quote(asked, draft)
        yield AnswerEvent("token", {"text": draft.text})

    async def _quote(self, asked: PreparedQuestion, draft: Draft) -> None:
        draft.mode, draft.removed_citations, draft.removed_links = "extractive", 0, 0
        passages = [(one.heading, one.chunk_text) for one in asked.sources]
        focus = asked.focus
        pieces, by_meaning = await self._pieces(focus, asked.sources)
        sure = asked.judged.sure
        if by_meaning and asked.sources and asked.sources[0].scores.rerank is None:
            known = certainty(focus.text, pieces, asked.sources)
            sure = known >= SURE
            if known < REFUSED and self._may_refuse(asked):
                pieces = []
        chosen = choose(pieces, passages, [one.page_starts for one in asked.sources])
        chosen = without_strays(chosen, sure=sure)
        draft.text, draft.sentences = compose(chosen)
        draft.marks = marks(chosen, passages)
        if not draft.sentences:
            draft.text, draft.mode = NO_DATA, "none"
            return
        if focus.own:
            sure = sure and holds_own(asked.question, focus.own, asked.sources[draft.sentences[0].citations[0] - 1])
        if not sure:
            draft.warnings.append(UNCERTAIN)

    def _may_refuse(self, asked: PreparedQuestion) -> bool:
        """Return True for a question of its own in English, in which the certainty is fitted, while no gate is set."""
        own = not asked.focus.own and not asked.focus.said and not asked.shares.selection
        return own and self._settings.answer_gate is None and foreign_language(asked.question) is None

    async def _pieces(self, focus: Focus, sources: Sequence[Passage]) -> tuple[list[Quote], bool]:
        """Return the pieces of the sources that may answer, and whether their meaning was compared: the model may be down."""
        scale = self._embedder.scale
        nearness = [scale.relative(one.scores.dense or 0.0) for one in sources] if scale is not None else None
        passages = [(one.heading, one.chunk_text) for one in sources]
        found = shortlist(focus.text, passages, nearness, own=focus.own, said=focus.said, cut=[*map(cut, sources)])
        cosines = await self._checker.cosines([(focus.text, piece.whole) for piece in found])
        if scale is None or cosines is None:
            return found, False
        return measured(found, [scale.relative(cosine) for cosine in cosines]), True

    def _answer(
        self,
        asked: PreparedQuestion,
        draft: Draft,
        shown: Callable[[Mapping[int, Extent]], list[Result]],
        prompt: list[PromptMessage] | UnsetType,
        answer_id: str,
        query_id: str,
        began: float,
    ) -> AnswerResponse:
        cited = sorted({number for sentence in draft.sentences for number in sentence.citations})
        quotes = quoted(draft.sentences, dict(enumerate(asked.sources, start=1)), draft.marks)
        return AnswerResponse(
            answer_id=answer_id,
            query_id=query_id,
            answer=draft.text,
            found=draft.mode != "none",
            unanswered=draft.unanswered,
            mode=draft.mode,
            model=self.model if draft.mode == "model" or (asked.sources and draft.mode == "none") else None,
            standalone=asked.searched if asked.searched != asked.question else None,
            understood=asked.understood,
            sources=shown(first_of_each(quotes)),
            cited=cited,
            sentences=draft.sentences,
            quotes=quotes,
            removed_citations=draft.removed_citations,
            removed_links=draft.removed_links,
            cached=draft.cached,
            held_back=asked.outcome.held_back,
            latency_ms=round((time.perf_counter() - began) * 1000, 2),
            model_ms=round(draft.model_ms, 2),
            warnings=list(draft.warnings),
            prompt=prompt,
        )

    def _keep(
        self, answer: AnswerResponse, asked: PreparedQuestion, access: Access, *, completed: bool, alone: bool
    ) -> None:
        self._metrics.answered(answer)
        if asked.outcome.registry:
            shareable = alone and completed and answer.found and not any(is_unshared(one.tags) for one in asked.sources)
            store.keep(
                self._background,
                answer,
                asked.question,
                access,
                asked.sources,
                completed=completed,
                shareable=shareable,
            )
        log.info(
            "answer",
            query_id=answer.query_id,
            mode=answer.mode,
            sources=len(asked.sources),
            cached=answer.cached,
            unsupported=sum(not one.supported for one in answer.sentences),
            gate_score=round(asked.judged.score, 3),
            completed=completed,
            model_ms=answer.model_ms,
            duration_ms=answer.latency_ms,
        )

    def _tokens(self, text: str) -> int:
        from resources.embedding import tokenizer

        return tokenizer(self._settings).estimate(text)
