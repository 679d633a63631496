"""A client of language models behind any service with OpenAI's chat completions, whole or streamed.

Three retries with exponential backoff are the SDK's, for rate limits, server errors, timeouts and dropped connections, and only
before the first piece of a stream. Vendor errors end here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from resources.core.errors import ConcordanceError, ConfigurationError, RetryLaterError, ServiceUnavailableError
from resources.settings import Settings
from serving.quoting import ChatMessage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

RETRIES = 3
MAX_ANSWER = 20_000
"""Characters of an answer; a model that goes on beyond is stopped."""


class LanguageModel(Protocol):
    @property
    def name(self) -> str: ...

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        """Return the whole answer. Raises `ServiceUnavailableError` or `ConfigurationError`."""
        ...

    def stream(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[str]:
        """Yield the answer in pieces. Raises as `complete` does, also in the midst of it."""
        ...

    async def close(self) -> None: ...


class ChatModel:
    def __init__(self, base_url: str, api_key: str | None, model: str, seconds: float) -> None:
        self._url, self._key, self._model, self._seconds = base_url, api_key, model, seconds
        self._opened: AsyncOpenAI | None = None
        self._options: dict[str, Any] = {"temperature": 0}

    @property
    def name(self) -> str:
        return self._model

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        """Return the whole answer, cut at `MAX_ANSWER` characters."""
        with self._explained():
            # the SDK's limit is for each read; this one is for the whole, retries included
            async with asyncio.timeout(self._seconds * (RETRIES + 1)):
                answer = await self._create(messages, stream=False)
            content = answer.choices[0].message.content if answer.choices else None
        return (content or "")[:MAX_ANSWER]

    async def stream(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[str]:
        """Yield the answer in pieces, up to `MAX_ANSWER` characters."""
        left, deadline = MAX_ANSWER, time.monotonic() + self._seconds * (RETRIES + 1)
        with self._explained():
            answer = await self._create(messages, stream=True)
            try:
                async for part in answer:
                    piece = (part.choices[0].delta.content or "") if part.choices else ""
                    if piece:
                        yield piece[:left]
                    left -= len(piece)
                    if left <= 0:
                        break
                    if time.monotonic() > deadline:
                        raise TimeoutError  # each read came in time, and yet it drips without end
            finally:
                await answer.close()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def _client(self) -> AsyncOpenAI:
        if self._opened is None:
            from openai import AsyncOpenAI

            self._opened = AsyncOpenAI(
                base_url=self._url, api_key=self._key or "none", max_retries=RETRIES, timeout=self._seconds
            )
        return self._opened

    async def _create(self, messages: Sequence[ChatMessage], *, stream: bool) -> Any:
        import openai

        create: Any = self._client().chat.completions.create
        try:
            return await create(model=self._model, messages=list(messages), stream=stream, **self._options)
        except openai.BadRequestError as error:
            # some models take no temperature but their own
            if not self._options or "temperature" not in str(error):
                raise
            self._options = {}
        return await create(model=self._model, messages=list(messages), stream=stream)

    @contextmanager
    def _explained(self) -> Generator[None]:
        import openai

        try:
            yield
        except (openai.OpenAIError, TimeoutError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> ConcordanceError:
        import openai

        where = f"The language model at {self._url}"
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            return ConfigurationError(f"{where} refuses the key ({error.status_code}): check CONCORDANCE_LLM_API_KEY.")
        if isinstance(error, openai.RateLimitError):
            return RetryLaterError(f"{where} limits the rate of requests. Try again shortly.")
        if isinstance(error, openai.InternalServerError):
            return ServiceUnavailableError(f"{where} fails ({error.status_code}). Try again shortly.")
        if isinstance(error, openai.APIStatusError):
            return ConfigurationError(
                f"{where} refuses the request ({error.status_code}): check CONCORDANCE_LLM_BASE_URL and CONCORDANCE_LLM_MODEL."
            )
        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return ServiceUnavailableError(f"{where} took too long to answer.")
        return ServiceUnavailableError(f"{where} does not answer: check CONCORDANCE_LLM_BASE_URL and the network.")


def language_model(settings: Settings) -> LanguageModel | None:
    """Return the model that the settings name; None: answers are extractive."""
    if settings.llm_model is None:
        return None
    key = settings.llm_api_key
    return ChatModel(
        settings.llm_base_url,
        key.get_secret_value() if key else None,
        settings.llm_model,
        settings.llm_timeout_seconds,
    )
