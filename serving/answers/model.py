"""A client of language models behind any service with OpenAI's chat completions, whole or streamed.

Three retries with exponential backoff are the SDK's, for rate limits, server errors and dropped connections, and only before the
first piece of a stream. The deadline is for the whole answer, so nothing is asked again while a slow server still writes. An answer
that the model did not finish is no answer. Vendor errors end here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from resources.core.errors import ConcordanceError, ConfigurationError, RetryLaterError, ServiceUnavailableError
from resources.core.json import is_list
from resources.settings import Settings
from serving.quoting import ChatMessage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

RETRIES = 3
MAX_ANSWER = 20_000
"""Characters of an answer; a model that goes on beyond is stopped."""
UNFINISHED = {None: "without an end", "length": "at its limit of tokens", "content_filter": "by its content filter"}
"""Reasons why an answer ended that is not whole.
Source: https://platform.openai.com/docs/api-reference/chat/object, `finish_reason`"""


class LanguageModel(Protocol):
    @property
    def name(self) -> str: ...

    async def complete(self, messages: Sequence[ChatMessage], spent: float = 0.0) -> str:
        """Return the whole answer; `spent` seconds of the time for it are used up already.

        Raises `ServiceUnavailableError` or `ConfigurationError`.
        """
        ...

    def stream(self, messages: Sequence[ChatMessage], spent: float = 0.0) -> AsyncGenerator[str]:
        """Yield the answer in pieces. Raises as `complete` does, also in the midst of it."""
        ...

    async def close(self) -> None: ...


class ChatModel:
    def __init__(self, base_url: str, api_key: str | None, model: str, seconds: float, max_tokens: int) -> None:
        """`seconds` and `max_tokens` limit an answer."""
        self._url, self._key, self._model, self._seconds = base_url, api_key, model, seconds
        self._opened: AsyncOpenAI | None = None
        self._options: dict[str, Any] = {"temperature": 0, "max_tokens": max_tokens}

    @property
    def name(self) -> str:
        return self._model

    async def complete(self, messages: Sequence[ChatMessage], spent: float = 0.0) -> str:
        """Return the whole answer."""
        with self._explained():
            async with asyncio.timeout(self._seconds - spent):
                answer = await self._create(messages, stream=False)
            choice = _choice(answer)
            text = _text(choice, "message")
            self._require_end(_reason(choice), len(text))
        return text

    async def stream(self, messages: Sequence[ChatMessage], spent: float = 0.0) -> AsyncGenerator[str]:
        """Yield the answer in pieces, up to `MAX_ANSWER` characters."""
        deadline = asyncio.get_running_loop().time() + self._seconds - spent
        written, finish_reason = 0, None
        with self._explained():
            async with asyncio.timeout_at(deadline):
                answer = await self._create(messages, stream=True)
            try:
                parts = aiter(answer)
                while written <= MAX_ANSWER:
                    async with asyncio.timeout_at(deadline):
                        part = await anext(parts, None)
                    if part is None:
                        break
                    choice = _choice(part)
                    if choice is None:  # figures of use, for example
                        continue
                    finish_reason = _reason(choice) or finish_reason
                    if piece := _text(choice, "delta"):
                        written += len(piece)
                        yield piece
            finally:
                await answer.close()
            self._require_end(finish_reason, written)

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
        while True:
            try:
                return await create(model=self._model, messages=list(messages), stream=stream, **self._options)
            except openai.BadRequestError as error:
                if not self._without(str(error)):
                    raise

    def _without(self, refusal: str) -> bool:
        """Change the options that a model refuses; return False if it refuses something else."""
        if "max_tokens" in refusal and "max_tokens" in self._options:
            # reasoning models limit all that they write, under another name
            self._options["max_completion_tokens"] = self._options.pop("max_tokens")
            return True
        # some models take no temperature but their own
        return "temperature" in refusal and self._options.pop("temperature", None) is not None

    def _require_end(self, reason: str | None, written: int) -> None:
        """Raise `ServiceUnavailableError` unless the model finished its answer."""
        if reason in UNFINISHED or written > MAX_ANSWER:
            how = UNFINISHED.get(reason, f"after {MAX_ANSWER} characters")
            raise ServiceUnavailableError(f"The language model at {self._url} broke off its answer {how}.")

    @contextmanager
    def _explained(self) -> Generator[None]:
        import openai

        try:
            yield
        except (openai.OpenAIError, TimeoutError, json.JSONDecodeError, _MalformedError) as error:
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
            return ServiceUnavailableError(f"{where} took more than {self._seconds:g} s to answer.")
        if isinstance(error, json.JSONDecodeError | _MalformedError):
            return ServiceUnavailableError(f"{where} does not answer as OpenAI's interface does: {error}")
        return ServiceUnavailableError(f"{where} does not answer: check CONCORDANCE_LLM_BASE_URL and the network.")


class _MalformedError(Exception):
    """A reply is not what the interface promises; the SDK does not validate it."""


def _choice(reply: Any) -> Any:
    """Return a reply's only choice, or None if it has none."""
    choices: object = getattr(reply, "choices", None)
    if not is_list(choices):
        raise _MalformedError(f"no choices in a reply of type {type(reply).__name__}")
    return choices[0] if choices else None


def _reason(choice: Any) -> str | None:
    reason = getattr(choice, "finish_reason", None)
    return reason if isinstance(reason, str) else None


def _text(choice: Any, name: str) -> str:
    """Return the text of a choice's `message` or `delta`."""
    content = getattr(getattr(choice, name, None), "content", None) or ""
    if not isinstance(content, str):
        raise _MalformedError(f"the content of {name} is of type {type(content).__name__}")
    return content


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
        settings.llm_max_tokens,
    )
