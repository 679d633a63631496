"""A client of language models behind any service with OpenAI's chat completions, whole or streamed.

At most `concurrency` calls run at a time, over all machines, and on each of them people take turns. Three retries with exponential
backoff are the SDK's, for rate limits, server errors and dropped connections, and only before the first piece of a stream. The deadline is
for the whole answer, waiting for a turn included, so nothing is asked again while a slow server still writes. A service that fails is
left alone for a while. An answer that the model did not finish is no answer. Vendor errors end here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from resources import http_clients
from resources.core.breaker import Breaker
from resources.core.errors import ConcordanceError, ConfigurationError, RetryLaterError, ServiceUnavailableError
from resources.rates import bucket
from resources.servers.shared import Shared
from resources.settings import Settings
from serving.answers.replies import MalformedError, choice_of, reason_of, text_of, use_of
from serving.answers.shared_turns import SharedTurns
from serving.answers.styles import Style
from serving.answers.thoughts import Thoughts, answered
from serving.answers.turns import Turns
from serving.search.quoting import ChatMessage
from sql.family import RunsStatements

if TYPE_CHECKING:
    from openai import AsyncOpenAI

RETRIES = 3
CONCURRENCY = 16
"""Calls at a time, where the settings do not say, of a service on another machine; one on this machine gets one at a time."""
MAX_ANSWER = 20_000
"""Characters of an answer; a model that goes on beyond is stopped."""
UNFINISHED = {None: "without an end", "length": "at its limit of tokens", "content_filter": "by its content filter"}
"""Reasons why an answer ended that is not whole.
Source: https://platform.openai.com/docs/api-reference/chat/object, `finish_reason`"""

OPTIONAL = ("max_tokens", "stream_options", "temperature")
"""Options that some models refuse."""


class LanguageModel(Protocol):
    @property
    def name(self) -> str: ...

    async def complete(
        self, messages: Sequence[ChatMessage], *, person: str, style: Style | None = None, spent: float = 0.0
    ) -> str:
        """Return the whole answer to `person`; `spent` seconds of the time for it are used up already.

        Raises `ServiceUnavailableError`, `RetryLaterError` or `ConfigurationError`.
        """
        ...

    def stream(
        self, messages: Sequence[ChatMessage], *, person: str, style: Style | None = None, spent: float = 0.0
    ) -> AsyncGenerator[str]:
        """Yield the answer in pieces. Raises as `complete` does, also in the midst of it."""
        ...

    async def close(self) -> None: ...


class _Attempt:
    """State of a call so far."""

    answering = False


class ChatModel:
    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        seconds: float,
        max_tokens: int,
        concurrency: int,
        clock: Callable[[], float] = time.monotonic,
        shared: Shared | None = None,
        database: RunsStatements | None = None,
    ) -> None:
        """`seconds` and `max_tokens` limit an answer of any style.

        `database` counts the calls of all machines; without it only those of this one are counted.
        """
        self._url, self._key, self._model, self._seconds = base_url, api_key, model, seconds
        self._max_tokens = max_tokens
        self._opened: AsyncOpenAI | None = None
        self._turns = Turns(concurrency, shared or Shared.alone())
        name = bucket(base_url, "model", model)
        self._shared_turns = SharedTurns(database, name, concurrency) if database else None
        self._breaker = Breaker(f"The language model at {base_url}", clock=clock)
        self._refused = frozenset[str]()
        self.used: Callable[[int, int], None] = lambda _read, _written: None
        """Called with the tokens that a call read and wrote, where the service says so."""

    @property
    def name(self) -> str:
        return self._model

    async def complete(
        self, messages: Sequence[ChatMessage], *, person: str, style: Style | None = None, spent: float = 0.0
    ) -> str:
        """Return the whole answer."""
        deadline = asyncio.get_running_loop().time() + self._seconds - spent
        async with self._turn(person, deadline):
            with self._attempt(deadline):
                async with asyncio.timeout_at(deadline):
                    answer = await self._create(messages, style, stream=False)
                self._count(answer)
                choice = choice_of(answer)
                text = answered(text_of(choice, "message"))
                self._require_end(reason_of(choice), len(text))
            return text

    async def stream(
        self, messages: Sequence[ChatMessage], *, person: str, style: Style | None = None, spent: float = 0.0
    ) -> AsyncGenerator[str]:
        """Yield the answer in pieces, up to `MAX_ANSWER` characters."""
        deadline = asyncio.get_running_loop().time() + self._seconds - spent
        written, finish_reason, thoughts = 0, None, Thoughts()
        async with self._turn(person, deadline):
            with self._attempt(deadline) as attempt:
                async with asyncio.timeout_at(deadline):
                    answer = await self._create(messages, style, stream=True)
                try:
                    parts = aiter(answer)
                    while written <= MAX_ANSWER:
                        async with asyncio.timeout_at(deadline):
                            part = await anext(parts, None)
                        if part is None:
                            break
                        self._count(part)
                        choice = choice_of(part)
                        if choice is None:  # figures of use, for example
                            continue
                        finish_reason = reason_of(choice) or finish_reason
                        if piece := text_of(choice, "delta"):
                            attempt.answering = True
                            if known := thoughts.feed(piece):
                                written += len(known)
                                yield known
                finally:
                    await answer.close()
                self._require_end(finish_reason, written)
                if rest := thoughts.close():
                    yield rest

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def _client(self) -> AsyncOpenAI:
        if self._opened is None:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient

            self._opened = AsyncOpenAI(
                base_url=self._url,
                api_key=self._key or "none",
                max_retries=RETRIES,
                timeout=self._seconds,
                http_client=DefaultAsyncHttpxClient(**http_clients.options(self._url)),
            )
        return self._opened

    async def _create(self, messages: Sequence[ChatMessage], style: Style | None, *, stream: bool) -> Any:
        import openai

        create: Any = self._client().chat.completions.create
        refused = self._refused
        while True:
            options = self._options(style, refused, stream=stream)
            try:
                answer = await create(model=self._model, messages=list(messages), stream=stream, **options)
            except openai.BadRequestError as error:
                if (name := _refused(str(error), options)) is None:
                    raise
                refused |= {name}
            else:  # only now: a question may have been refused for another reason, in words that name an option
                self._refused |= refused
                return answer

    def _options(self, style: Style | None, refused: Collection[str], *, stream: bool) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if "max_tokens" in refused:
            # reasoning models limit all that they write, under another name: a style's limit would leave no room for the answer
            options["max_completion_tokens"] = self._max_tokens
        else:
            options["max_tokens"] = min(style.max_tokens, self._max_tokens) if style else self._max_tokens
        if "temperature" not in refused:  # some models take no temperature but their own
            options["temperature"] = style.temperature if style else 0.0
        if stream and "stream_options" not in refused:
            options["stream_options"] = {"include_usage": True}
        return options

    def _count(self, reply: Any) -> None:
        read, written = use_of(reply)
        if read or written:
            self.used(read, written)

    def _require_end(self, reason: str | None, written: int) -> None:
        """Raise `ServiceUnavailableError` unless the model finished its answer."""
        if reason in UNFINISHED or written > MAX_ANSWER:
            how = UNFINISHED.get(reason, f"after {MAX_ANSWER} characters")
            raise ServiceUnavailableError(f"The language model at {self._url} broke off its answer {how}.")

    @asynccontextmanager
    async def _turn(self, person: str, deadline: float) -> AsyncGenerator[None]:
        """Wait for a turn until the deadline, and hold it. A service that failed a moment ago is not waited for."""
        self._breaker.check()
        try:
            async with asyncio.timeout_at(deadline):
                await self._turns.take(person)
        except TimeoutError as error:
            raise self._busy() from error
        try:
            async with AsyncExitStack() as held:
                if self._shared_turns is not None:
                    try:
                        await held.enter_async_context(self._shared_turns.turn(deadline))
                    except TimeoutError as error:
                        raise self._busy() from error
                yield
        finally:
            self._turns.leave()

    def _busy(self) -> ServiceUnavailableError:
        return ServiceUnavailableError(
            f"The language model at {self._url} was busy with other questions for {self._seconds:g} s. Raise"
            " CONCORDANCE_LIMITS__LLM_CONCURRENCY if it can answer more at a time."
        )

    @contextmanager
    def _attempt(self, deadline: float) -> Generator[_Attempt]:
        """Map errors, and report to the circuit breaker."""
        import openai

        attempt = _Attempt()
        left = deadline - asyncio.get_running_loop().time()
        trial = self._breaker.enter(self._seconds)
        try:
            yield attempt
        except (openai.OpenAIError, TimeoutError, json.JSONDecodeError, MalformedError) as error:
            late = isinstance(error, TimeoutError | openai.APITimeoutError)
            # a model that began to answer, or that waiting for a turn left little time, is slow but does not hang
            slow = late and (attempt.answering or left < self._seconds / 2)
            kinds = openai.APIConnectionError | openai.InternalServerError | openai.RateLimitError
            if (late or isinstance(error, kinds)) and not slow:
                self._breaker.failed()
            else:
                self._breaker.succeeded()
            raise self._error(error) from error
        except ConcordanceError:  # an answer that is not whole
            self._breaker.succeeded()
            raise
        except BaseException:  # the person left
            if trial:
                self._breaker.left()
            raise
        else:
            self._breaker.succeeded()

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
        if isinstance(error, json.JSONDecodeError | MalformedError):
            return ServiceUnavailableError(f"{where} does not answer as OpenAI's interface does: {error}")
        return ServiceUnavailableError(f"{where} does not answer: check CONCORDANCE_LLM_BASE_URL and the network.")


def _refused(refusal: str, options: Mapping[str, Any]) -> str | None:
    """Return the name of the option that a model refuses; None if it refuses something else, such as a question that is too long."""
    if "context length" in refusal:
        return None
    return next((name for name in OPTIONAL if name in refusal and name in options), None)


def language_model(
    settings: Settings,
    shared: Shared | None = None,
    database: RunsStatements | None = None,
    used: Callable[[int, int, float], None] = lambda _read, _written, _cost: None,
) -> LanguageModel | None:
    """Return the model that the settings name; None: answers are extractive.

    `used` is called with the tokens that each call read and wrote, and their cost in US dollars.
    """
    if settings.llm_model is None:
        return None
    key = settings.llm_api_key
    model = ChatModel(
        settings.llm_base_url,
        key.get_secret_value() if key else None,
        settings.llm_model,
        settings.llm_timeout_seconds,
        settings.llm_max_tokens,
        settings.llm_concurrency or (1 if _is_loopback(settings.llm_base_url) else CONCURRENCY),
        shared=shared,
        database=database,
    )
    prices = settings.llm_input_price, settings.llm_output_price
    model.used = lambda read, written: used(read, written, (read * prices[0] + written * prices[1]) / 1_000_000)
    return model


def is_outside(settings: Settings) -> bool:
    """Return True unless the language model runs at an address of this machine or of a private network; a host name may be anywhere."""
    host = urlsplit(settings.llm_base_url).hostname or ""
    try:
        return not ip_address(host).is_private
    except ValueError:
        return host != "localhost"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
