"""The asynchronous client."""

import copy
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import anyio
import httpx
from httpx_sse import EventSource

from concordance_client._call import Call, failure
from concordance_client._generated import models, params
from concordance_client._generated.operations import AsyncOperations
from concordance_client._retry import Retries
from concordance_client._upload import File, Progress, Upload, opened
from concordance_client._wire import (
    DEADLINE,
    Deadline,
    Timed,
    address,
    answer_event,
    cut_off,
    foreign_errors,
    headers,
    interrupting,
    streamed,
)
from concordance_client.errors import ConcordanceError

T = TypeVar("T")
R = TypeVar("R")


class AsyncClient(AsyncOperations):
    """A client of one service, for one caller. It keeps connections open: use it with `async with`, or call `aclose`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        deadline: float = DEADLINE,
        retries: Retries | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`token` is a token or API key; `deadline` the seconds for a call, its repetitions included.

        Between two parts of a response, nothing but httpx's own timeout ends a call, so one that trickles in can take up to twice as long.
        """
        self._http = httpx.AsyncClient(
            base_url=address(url), headers=headers(token), verify=verify, transport=transport
        )
        self._retries = retries or Retries()
        self._seconds = deadline

    def within(self, seconds: float) -> Self:
        """Return this client with another deadline. Both share their connections."""
        other = copy.copy(self)
        other._seconds = seconds
        return other

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send a call, again if need be, and return its result."""
        deadline = Deadline(self._seconds)
        return await self._repeat(call, deadline, partial(self._exchange, call, deadline))

    async def upload(
        self,
        file: File,
        *,
        filename: str | None = None,
        progress: Progress | None = None,
        **metadata: Unpack[params.UploadMetadata],
    ) -> models.UploadResponse:
        """Upload a file: a path, bytes, or an open file. `progress` receives the bytes sent so far and their total.

        The same content again replaces title, tags and sharing of the document.
        """
        with opened(file, filename) as (name, stream):
            form = Upload(name, stream, metadata, progress)
            return await self.send(Call("POST", "/api/upload", models.UploadResponse, upload=form, repeatable=True))

    async def ask_stream(self, query: str, **options: Unpack[params.AskOptions]) -> AsyncGenerator[models.AnswerEvent]:
        """Yield the events of an answer while it is written; the last is the `AnswerResponse`.

        A `RestartEvent` voids the `TokenEvent`s before it. Raises `AnswerInterruptedError` if the answer ends early.
        """
        call, deadline = streamed(query, options), Deadline(self._seconds)
        async with AsyncExitStack() as stack:
            response = await self._repeat(
                call, deadline, lambda: stack.enter_async_context(self._opened(call, deadline))
            )
            with interrupting():
                async for sent in EventSource(response).aiter_sse():
                    event = answer_event(sent)
                    if event is not None:
                        yield event
                    if isinstance(event, models.AnswerResponse):
                        return
            raise cut_off()

    async def _repeat(self, call: Call[Any], deadline: Deadline, request: Callable[[], Awaitable[R]]) -> R:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await request()
            except ConcordanceError as error:
                pause = self._retries.pause(attempt, error, repeatable=call.repeatable)
                if pause is None or pause >= deadline.left():
                    raise
            await anyio.sleep(pause)

    async def _exchange(self, call: Call[T], deadline: Deadline) -> T:
        async with self._opened(call, deadline) as response:
            return call.result(response, await response.aread())

    @asynccontextmanager
    async def _opened(self, call: Call[Any], deadline: Deadline) -> AsyncGenerator[httpx.Response]:
        """Yield a successful response, of which the body is not read yet."""
        with foreign_errors(self._http.base_url, deadline):
            async with self._http.stream(**call.request(), timeout=deadline.timeout()) as response:
                response.stream = Timed(response, deadline)
                if not response.is_success:
                    raise failure(response, await response.aread())
                yield response
