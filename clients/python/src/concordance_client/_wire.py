"""What both clients do with a connection: headers, deadlines, errors and events."""

import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

import httpx
from httpx_sse import ServerSentEvent, SSEError
from pydantic import ValidationError

from concordance_client._call import Call
from concordance_client._generated.models import EVENTS, AnswerEvent, AnswerResponse, ErrorEvent
from concordance_client._generated.params import AskOptions
from concordance_client.errors import AnswerInterruptedError, DeadlineError, ResponseError, UnreachableError

DEADLINE = 120.0
"""Seconds, as long as a language model may take for a long answer."""
CONNECTING = 5.0
"""Seconds for a connection at most, so that a call can be repeated within its deadline."""


def address(url: str) -> httpx.URL:
    """Return the service's address. Raises `ValueError` for a text that is none, without showing it."""
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(
            "url: is not an address. It begins with http:// or https://, for example http://127.0.0.1:8080."
        )
    return parsed


def headers(token: str) -> dict[str, str]:
    """Return the headers of every request. Raises `ValueError` for a text that is no token, without showing it."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise ValueError(
            "token: is empty, or has characters that no token has. Give a token or an API key, and nothing else."
        )
    try:
        release = version("concordance-client")
    except PackageNotFoundError:
        release = "source"
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, */*;q=0.5",
        "User-Agent": f"concordance-client/{release}",
    }


class Deadline:
    """The end of a call, all its requests and pauses included."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Return the seconds left."""
        return max(0.0, self._end - self._clock())

    def check(self) -> None:
        """Raise `DeadlineError` if no time is left."""
        if not self.left():
            raise self.missed()

    def missed(self) -> DeadlineError:
        return DeadlineError(f"Not done within {self._seconds:g} s. Allow more with `client.within(seconds)`.")

    def timeout(self) -> httpx.Timeout:
        """Return the limits of a request that begins now."""
        left = self.left()
        return httpx.Timeout(left, connect=min(left, CONNECTING))


class Timed(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A response's stream that ends with the deadline, also while it brings only comments, of which no event comes."""

    def __init__(self, response: httpx.Response, deadline: Deadline) -> None:
        self._stream: Any = response.stream
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            self._deadline.check()
            yield part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._deadline.check()
            yield part

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def foreign_errors(url: httpx.URL, deadline: Deadline) -> Generator[None]:
    """Raise this package's errors instead of httpx's."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        message = f"{url} cannot be reached ({error}). Check the address, and that the service is running."
        raise UnreachableError(message, sent=False) from error
    except httpx.TimeoutException as error:
        raise deadline.missed() from error
    except httpx.RequestError as error:
        raise UnreachableError(f"The connection to {url} broke: {error}", sent=True) from error


@contextmanager
def interrupting() -> Generator[None]:
    """Raise `AnswerInterruptedError` if the connection breaks while an answer is streamed, `ResponseError` if none is streamed."""
    try:
        yield
    except SSEError as error:
        raise ResponseError(
            "The response to POST /api/ask is not a streamed answer. Check the address, and any proxy in front of it.",
            200,
        ) from error
    except (httpx.NetworkError, httpx.ProtocolError) as error:
        raise cut_off() from error


def streamed(query: str, options: AskOptions) -> Call[AnswerResponse]:
    """Return the call for a streamed answer."""
    return Call("POST", "/api/ask", AnswerResponse, body={"query": query, **options, "stream": True}, repeatable=True)


def answer_event(event: ServerSentEvent) -> AnswerEvent | None:
    """Return an event of a streamed answer; None for one of a newer service. Raises `AnswerInterruptedError` for an `error`."""
    kind = EVENTS.get(event.event)
    if kind is None:
        return None
    try:
        data = kind.model_validate_json(event.data)
    except ValidationError as error:
        raise ResponseError(f"The event {event.event} is not a {kind.__name__}.", 200) from error
    if isinstance(data, ErrorEvent):
        raise AnswerInterruptedError(data.detail)
    return cast("AnswerEvent", data)


def cut_off() -> AnswerInterruptedError:
    """Return the error for a stream without an end."""
    return AnswerInterruptedError("The stream ended before the answer was complete. Ask again.")
