"""Client for Google APIs such as Drive v3: calls a method and returns JSON or bytes; every fault is raised as one of our errors.

One client serves all threads of a sync, which share the rate limit: once Drive asks one thread to slow down, all wait. Every call is
counted by method, including those inside a batch, since Google counts them too.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from googleapiclient.discovery import build
from googleapiclient.errors import BatchError, HttpError
from googleapiclient.http import BatchHttpRequest

from resources.core.errors import (
    ConcordanceError,
    DocumentError,
    RateLimitedError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.core.retrying import Tally, call_with_retry
from resources.rates.pace import shared_pace
from resources.settings import Settings
from resources.sources.drive import labels
from resources.sources.drive.auth import SCOPES, Authority
from resources.sources.drive.faults import EXPORT_LINK, NOT_LINKED, ForbiddenError, NotFoundError, explain
from resources.sources.drive.quota import CallQuota
from resources.sources.drive.transport import Transport, response_of

JSON = dict[str, Any]

BATCH = 100
"""Calls in one batch. Source: https://developers.google.com/workspace/drive/api/guides/performance#batch-requests"""
PIECE = 8 * 1024 * 1024
"""Bytes requested at a time; a whole response is held in memory."""
TIMEOUT_SECONDS = 60
_PAGE_BYTES = 200
_FILES = ("changes.list", "files.get", "files.list")
"""Methods that return files, with those of their labels that are asked for."""
_LONGEST_BACKOFF = 64.0
"""Source: https://developers.google.com/workspace/drive/api/guides/limits#exponential"""


logging.getLogger("googleapiclient.http").setLevel(logging.ERROR)
"""It warns about every error response; our errors explain those."""


@dataclass(frozen=True)
class Api:
    """An API as Google's client library names it. Its description ships with the library, so starting needs no network."""

    name: str
    version: str
    label: str
    """Name in messages."""
    scopes: tuple[str, ...]
    collections: tuple[str, ...]
    path: str = ""
    """Where the methods are, below the API's root."""
    per_minute: int = 0
    """Calls a minute that Google allows a project, and a user of it. 0: not known."""


@lru_cache(maxsize=8)
def collections_of(api: Api, root: str) -> Mapping[str, Any]:
    """Return the collections of an API at this root, whose methods make requests for any client to send.

    Kept for the process: the library reads its description of the API for each client, and makes a collection's methods again at
    each access.
    """
    transport: Any = Transport(TIMEOUT_SECONDS)  # each request is sent with a client's own
    service: Any = build(
        api.name,
        api.version,
        http=transport,
        static_discovery=True,
        cache_discovery=False,
        client_options={"api_endpoint": f"{root}/{api.path}"},
    )
    return {name: getattr(service, name)() for name in api.collections}


DRIVE = Api(
    "drive",
    "v3",
    "Drive",
    SCOPES,
    ("changes", "channels", "comments", "drives", "files", "permissions"),
    "drive/v3/",
    12_000,  # Source: https://developers.google.com/workspace/drive/api/guides/limits
)


class Backoff:
    """Shared backoff: the time before which no thread may call. Thread-safe."""

    def __init__(self, sleep: Callable[[float], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._sleep = sleep
        self._clock = clock
        self._lock = threading.Lock()
        self._not_before = 0.0
        self._streak = 0

    def wait(self) -> None:
        with self._lock:
            delay = self._not_before - self._clock()
        if delay > 0:
            self._sleep(delay)

    def start(self, seconds: float | None) -> float:
        """Make all threads wait and return for how long: as requested, otherwise twice as long each time in a row."""
        with self._lock:
            wait = min(2.0**self._streak, _LONGEST_BACKOFF) if seconds is None else seconds
            self._streak = min(self._streak + 1, 10)
            self._not_before = max(self._not_before, self._clock() + wait)
            return wait

    def reset(self) -> None:
        """Record that Drive responds again."""
        self._streak = 0


class DriveClient:
    """The calls that the connector makes, or those of another API of Google at its `root`. Thread-safe."""

    def __init__(
        self,
        settings: Settings,
        authority: Authority,
        tally: Tally,
        *,
        sleep: Callable[[float], None] = time.sleep,
        api: Api = DRIVE,
        root: str | None = None,
        timeout: int = TIMEOUT_SECONDS,
        quota: CallQuota | None = None,
    ) -> None:
        """`quota` replaces that of the API at Google's own address."""
        self._authority = authority
        self._api = api
        self._tally = tally
        self._sleep = sleep
        self._waits = settings.retry_seconds
        counted = tally.counting(sleep)
        self._backoff = Backoff(counted)
        self._transport = Transport(timeout)
        address = urlsplit(settings.drive_api_url)
        google = (address.hostname or "").endswith(".googleapis.com")
        self._simulator = None if google else (address.scheme, address.netloc)
        if quota is None and google and api.per_minute:
            quota = CallQuota(shared_pace(settings.postgres_dsn), f"{api.name} {api.version}", api.per_minute, counted)
        self._quota = quota
        self._batch_url = f"{settings.drive_api_url}/batch/drive/v3"
        self._labels = labels.parameter(settings.drive_labels)
        self._collections = collections_of(api, root or settings.drive_api_url)

    def acting_for(self, authority: Authority) -> DriveClient:
        """Return a client that reads with other credentials and shares everything else, rate limit and connections included."""
        other = copy.copy(self)
        other._authority = authority
        return other

    def call(self, method: str, **parameters: Any) -> JSON:
        """Return the response of a method such as `files.list`; parameters that are None are left out.

        Raises the errors of `faults.explain`, and `RetryLaterError` once the attempts are used up.
        """
        request = self._request(method, parameters)

        def once() -> JSON:
            self._tally.call(method)
            return cast("JSON", self._authorized_call(method, lambda http: request.execute(http=http, num_retries=0)))

        return call_with_retry(once, self._tally, waits=self._waits, sleep=self._sleep)

    def pages(self, method: str, items: str, **parameters: Any) -> Iterator[JSON]:
        token: str | None = None
        while True:
            page = self.call(method, pageToken=token, **parameters)
            yield from page.get(items, ())
            token = page.get("nextPageToken")
            if token is None:
                return

    def batch(self, method: str, many: Sequence[Mapping[str, Any]]) -> list[JSON | ConcordanceError]:
        """Return a response or its error for each set of parameters, in order, `BATCH` per HTTP request.

        Temporary faults of single calls are retried; if they persist, the error is raised, as in `call`.
        """
        if len(many) == 1:  # no batch request needed
            try:
                return [self.call(method, **many[0])]
            except DocumentError as error:
                return [error]
        found: list[JSON | ConcordanceError] = []
        for start in range(0, len(many), BATCH):
            found += self._batch(method, many[start : start + BATCH])
        return found

    def visible(self, method: str, many: Sequence[Mapping[str, Any]]) -> list[JSON | None]:
        """Return what `batch` does; None for what does not exist or what the account may not see. Raises other errors."""
        found: list[JSON | None] = []
        for answer in self.batch(method, many):
            if isinstance(answer, ConcordanceError) and not isinstance(answer, NotFoundError | ForbiddenError):
                raise answer
            found.append(None if isinstance(answer, ConcordanceError) else answer)
        return found

    def media(self, method: str, *, size: int | None = None, **parameters: Any) -> Iterator[bytes]:
        """Yield the bytes of `files.get` or `files.export`; one attempt, for the caller to repeat.

        A file larger than `PIECE` is downloaded in pieces. Raises like `call`.
        """
        request = self._request(f"{method}_media", parameters)
        at = 0
        while True:
            headers = {**request.headers}
            if size is not None and size > PIECE:
                headers |= {"range": f"bytes={at}-{min(at + PIECE, size) - 1}", "accept-encoding": "identity"}
            status, content = self._download(method, request.uri, headers)
            yield content
            at += len(content)
            if status != 206 or size is None or at >= size or not content:
                return

    def linked(self, link: str) -> Iterator[bytes]:
        """Yield the bytes at a link that Drive gave for a file, in pieces of at most `PIECE`; one attempt.

        Raises `SkipDocumentError` if Google refuses it, whatever the reason, and `RetryLaterError`.
        The token is sent to Google alone. An answer that is a page is one to sign in, since no link leads to HTML.
        """
        if not self._is_google(link):
            raise SkipDocumentError("Google provides a link to an unknown address to export it.")
        self._tally.call(EXPORT_LINK)
        with closing(self._authorized_call(EXPORT_LINK, lambda http: http.open(link))) as response:
            try:
                pieces: Iterator[bytes] = response.iter_bytes(PIECE)
                first = next(pieces, b"")
                if first[:_PAGE_BYTES].lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
                    raise SkipDocumentError(NOT_LINKED)
                yield first
                yield from pieces
            except httpx.HTTPError as error:
                raise self._no_answer(EXPORT_LINK, error) from error

    def _is_google(self, link: str) -> bool:
        parts = urlsplit(link)
        host = parts.hostname or ""
        if parts.scheme == "https" and host.endswith((".google.com", ".googleusercontent.com")):
            return True
        return (parts.scheme, parts.netloc) == self._simulator

    def _download(self, method: str, uri: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        def ask(http: _BearerHttp) -> tuple[int, bytes]:
            response, content = http.request(uri, headers=dict(headers))
            if response.status not in {200, 206}:
                raise HttpError(response, content, uri=uri)
            return response.status, content

        self._tally.call(method)
        return self._authorized_call(method, ask)

    def _request(self, method: str, parameters: Mapping[str, Any]) -> Any:
        collection, _, name = method.partition(".")
        given = {key: value for key, value in parameters.items() if value is not None}
        if self._labels is not None and method in _FILES:
            given["includeLabels"] = self._labels
        return getattr(self._collections[collection], name)(**given)

    def _batch(self, method: str, many: Sequence[Mapping[str, Any]]) -> list[JSON | ConcordanceError]:
        found: dict[str, JSON | ConcordanceError] = {}

        def ask(http: _BearerHttp) -> None:
            refused: list[HttpError] = []

            def take(key: str, answer: JSON | None, error: HttpError | None) -> None:
                if error is not None and error.status_code == 401:
                    refused.append(error)
                else:
                    found[key] = (answer or {}) if error is None else self._explain(method, error)

            batch = BatchHttpRequest(callback=take, batch_uri=self._batch_url)
            for number, parameters in enumerate(many):
                if isinstance(found.get(str(number), RetryLaterError("")), RetryLaterError):
                    self._tally.call(method)
                    batch.add(self._request(method, parameters), request_id=str(number))
            batch.execute(http=http)
            if refused:
                raise refused[0]  # these are asked for again with a new token

        def once() -> None:
            self._authorized_call(method, ask, calls=len(many))
            passing = [error for error in found.values() if isinstance(error, RetryLaterError)]
            if passing:
                raise max(passing, key=lambda error: error.retry_after or 0)

        call_with_retry(once, self._tally, waits=self._waits, sleep=self._sleep)
        return [found[str(number)] for number in range(len(many))]

    def _authorized_call(self, method: str, ask: Callable[[_BearerHttp], Any], *, calls: int = 1) -> Any:
        """Return what `ask` returns, retrying with a new token if the first one is rejected; faults become our errors."""
        self._backoff.wait()
        if self._quota is not None:
            self._quota.wait(self._authority.project, self._authority.account, calls)
        try:
            for attempt in (1, 2):
                token = self._authority.token()
                try:
                    answer = ask(_BearerHttp(self._transport, token))
                except HttpError as error:
                    if error.status_code == 401 and attempt == 1 and self._authority.renew(token):
                        continue
                    raise
                self._backoff.reset()
                return answer
        except HttpError as error:
            raise self._explain(method, error) from None
        except (httpx.HTTPError, BatchError) as error:
            raise self._no_answer(method, error) from error
        raise AssertionError  # unreachable: the second attempt returns or raises

    def _no_answer(self, method: str, error: Exception) -> RetryLaterError:
        return RetryLaterError(f"{self._api.label} did not answer ({method}: {type(error).__name__}).")

    def _explain(self, method: str, error: HttpError) -> ConcordanceError:
        fault = explain(
            method,
            error.status_code,
            error.resp,
            error.content,
            self._authority.hint,
            self._api.label,
            self._api.scopes,
        )
        if isinstance(fault, RateLimitedError):
            wait = self._backoff.start(fault.retry_after)
            if self._quota is not None:
                self._quota.block(self._authority.project, self._authority.account, wait)
            return RateLimitedError(str(fault), wait)
        return fault


class _BearerHttp:
    """The transport, each request with the bearer token."""

    def __init__(self, transport: Transport, token: str) -> None:
        self._transport = transport
        self._token = token

    def request(
        self, uri: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None, **more: Any
    ) -> tuple[Any, bytes]:
        """Send a request with the signature of `httplib2.Http.request`."""
        headers = {**(headers or {}), "authorization": f"Bearer {self._token}"}
        return self._transport.request(uri, method, body, headers, **more)

    def open(self, uri: str) -> httpx.Response:
        """Return a response with its body unread, for the caller to close. Raises `HttpError` unless its status is 200."""
        response = self._transport.open(uri, {"authorization": f"Bearer {self._token}"})
        if response.status_code != 200:
            with closing(response):
                raise HttpError(response_of(response), next(response.iter_bytes(PIECE), b""), uri=uri)
        return response
