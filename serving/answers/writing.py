"""Write an answer with the language model: prompt, cleaning as it streams, check against the sources, cache."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import lru_cache

from resources.core.domain import Access
from resources.core.errors import ServiceUnavailableError, TemporaryError
from resources.settings import Settings
from serving.answers import cache
from serving.answers.checking import Checker
from serving.answers.citations import sentences
from serving.answers.cleaning import Cleaner
from serving.answers.draft import Draft
from serving.answers.leaks import Leaks
from serving.answers.model import LanguageModel
from serving.answers.no_data import says_no_data
from serving.answers.prompt import NO_DATA, ours
from serving.answers.question import PreparedQuestion
from serving.answers.schemas import AnswerEvent, AskRequest
from serving.answers.support import Verdict
from serving.http.background import Background
from serving.http.database import Database


class Writer:
    """Writes answers with one model."""

    def __init__(
        self, settings: Settings, database: Database, background: Background, checker: Checker, model: LanguageModel
    ) -> None:
        self._settings = settings
        self._database = database
        self._background = background
        self._checker = checker
        self._model = model

    async def write(
        self, request: AskRequest, asked: PreparedQuestion, access: Access, draft: Draft, *, live: bool
    ) -> AsyncGenerator[AnswerEvent]:
        """Fill the draft and yield its events. Raises as the model does. The caller replaces a draft that nothing supports."""
        seconds = self._settings.answer_cache_seconds if asked.outcome.registry else 0
        cache_key = cache.key(request, asked.question, asked.searched, access, self._model.name, asked.sources)
        if seconds and (written := await self._cached(cache_key)) is not None:
            draft.mode, draft.cached = "model" if written.found else "none", True
            draft.text, draft.sentences = written.answer, written.sentences
            draft.removed_citations, draft.removed_links = written.removed_citations, written.removed_links
            yield AnswerEvent("token", {"text": draft.text})
            return
        draft.mode = "model"
        async with aclosing(self._clean(request, asked, access, draft, live=live)) as texts:
            async for text in texts:
                draft.text += text
                yield AnswerEvent("token", {"text": text})
        if not draft.text.strip():
            raise ServiceUnavailableError("The language model returned an empty answer.")
        draft.sentences = await self._checker.check(sentences(draft.text), asked.sources, asked.question)
        if not supported(draft) and any(map(_denies, draft.sentences)):
            if draft.text != NO_DATA:
                yield AnswerEvent("restart", {"warnings": list(draft.warnings)})
                yield AnswerEvent("token", {"text": NO_DATA})
            draft.text, draft.mode, draft.sentences = NO_DATA, "none", []
        if seconds and not draft.warnings and (draft.mode == "none" or supported(draft)):
            written = cache.Written(
                draft.text, draft.mode == "model", draft.sentences, draft.removed_citations, draft.removed_links
            )
            cache.store(self._background, cache_key, written, seconds)

    async def _clean(
        self, request: AskRequest, asked: PreparedQuestion, access: Access, draft: Draft, *, live: bool
    ) -> AsyncGenerator[str]:
        """Yield what may be shown of the model's answer, and count in the draft what was removed and how long it took."""
        style = request.written._replace(max_tokens=asked.shares.answer)
        cleaner = Cleaner(len(asked.sources), Leaks(_ours()))
        prompt = asked.prompt
        began, spent = time.perf_counter(), asked.model_ms / 1000
        try:
            if live:
                pieces = self._model.stream(prompt, person=access.email, style=style, spent=spent)
                async with aclosing(pieces):
                    async for piece in pieces:
                        if text := cleaner.feed(piece):
                            yield text
            else:
                yield cleaner.feed(await self._model.complete(prompt, person=access.email, style=style, spent=spent))
        finally:
            draft.model_ms += (time.perf_counter() - began) * 1000
        if text := cleaner.finish():
            yield text
        draft.removed_citations, draft.removed_links = cleaner.citations, cleaner.links

    async def _cached(self, cache_key: str) -> cache.Written | None:
        try:
            return await cache.lookup(self._database, cache_key)
        except TemporaryError:
            return None


_ours = lru_cache(1)(ours)


def _denies(sentence: Verdict) -> bool:
    return says_no_data(sentence.text, cited=bool(sentence.citations), supported=sentence.supported)


def supported(draft: Draft) -> bool:
    """Return True if a source supports a sentence that says more than that there is no answer, or cannot be compared with it."""
    return any((one.supported or one.reason == "language") and not _denies(one) for one in draft.sentences)
