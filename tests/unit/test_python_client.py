"""The hand-written part of the Python client, over a transport in memory: retries, deadlines, problems, events, uploads, pages."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from concordance_client import (
    AnswerInterruptedError,
    AnswerResponse,
    AsyncClient,
    AuthenticationError,
    Client,
    ConcordanceError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    ProblemError,
    RateLimitedError,
    RefusedContentError,
    ResponseError,
    RestartEvent,
    Retries,
    SourcesEvent,
    TokenEvent,
    UnavailableError,
    UnreachableError,
)
from concordance_client._retry import seconds_of
from concordance_client._wire import Deadline
from resources.servers.refusals import FULL, INVALID, RefusedError, headers_too_large, too_slow

Handler = Callable[[httpx.Request], httpx.Response]
FOUND = {
    "results": [], "understood": [], "query_id": "q", "latency_ms": 1.5, "cached": False, "held_back": 0, "warnings": [],
    "next_cursor": None,
}  # fmt: skip
ANSWER = {
    "answer_id": "a", "query_id": "q", "answer": "At four. [1]", "found": True, "mode": "model", "model": "m", "standalone": None,
    "understood": [], "sources": [], "cited": [], "sentences": [], "quotes": [], "removed_citations": 0, "removed_links": 0,
    "cached": False, "held_back": 0, "latency_ms": 1.0, "model_ms": 0.5, "warnings": [],
}  # fmt: skip
QUICK = Retries(first=0.001)


def problem(slug: str, status: int, detail: str = "Do this.", **more: Any) -> httpx.Response:
    body = {
        "type": f"/problems/{slug}", "title": "Title", "status": status, "detail": detail, "instance": "/", "documentation": "/docs",
    }  # fmt: skip
    headers = {"Content-Type": "application/problem+json", **more.pop("headers", {})}
    return httpx.Response(status, headers=headers, json=body | more)


def found(**more: Any) -> httpx.Response:
    return httpx.Response(200, json=FOUND | more)


class Service:
    """Gives these responses in order, or raises these errors, and remembers the requests."""

    def __init__(self, *responses: httpx.Response | Exception) -> None:
        self._responses = list(responses)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = self._responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return httpx.Response(
            response.status_code, headers=response.headers, content=response.content
        )  # sent once each


Runner = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Runner:
    """Runs an action with a client of a service, in both flavors; what is iterated over is returned as a list."""

    def sync(service: Handler, action: Callable[[Any], Any], **options: Any) -> Any:
        with Client("http://service", "t", transport=httpx.MockTransport(service), **options) as client:
            result = action(client)
            return list(result) if isinstance(result, Iterator) else result

    def asynchronous(service: Handler, action: Callable[[Any], Any], **options: Any) -> Any:
        async def run_it() -> Any:
            async with AsyncClient("http://service", "t", transport=httpx.MockTransport(service), **options) as client:
                result = action(client)
                return [one async for one in result] if inspect.isasyncgen(result) else await result

        return asyncio.run(run_it())

    return sync if request.param == "sync" else asynchronous


def test_a_call_sends_its_fields_and_returns_a_model(run: Runner) -> None:
    service = Service(found())
    response = run(service, lambda client: client.search("tea", top_k=3, filters={"source_types": ["slack"]}))
    assert (response.query_id, response.results, response.total) == ("q", [], None)
    (request,) = service.requests
    assert (request.method, request.url.path) == ("POST", "/api/rag/search")
    assert request.headers["Authorization"] == "Bearer t"
    assert json.loads(request.content) == {"query": "tea", "top_k": 3, "filters": {"source_types": ["slack"]}}


def test_parameters_are_repeated_and_paths_quoted(run: Runner) -> None:
    service = Service(
        httpx.Response(200, json={"documents": [], "total": 0, "next_cursor": None}),
        httpx.Response(200, content=b"%PDF"),
    )
    run(
        service, lambda client: client.list_documents(source_type=["slack", "files"], title=None, include_archived=True)
    )
    assert run(service, lambda client: client.get_original("a/../b?")) == b"%PDF"
    assert service.requests[0].url.query == b"source_type=slack&source_type=files&include_archived=true"
    assert service.requests[1].url.raw_path == b"/api/documents/a%2F..%2Fb%3F/original"


def test_fields_and_values_of_a_newer_service_are_accepted(run: Runner) -> None:
    response = run(
        Service(httpx.Response(200, json=ANSWER | {"mode": "quantum", "mood": "good"})),
        lambda client: client.ask("tea?"),
    )
    assert response.mode == "quantum"


@pytest.mark.parametrize(
    ("slug", "status", "kind"),
    [
        ("invalid-request", 400, InvalidRequestError),
        ("token-expired", 401, AuthenticationError),
        ("role-required", 403, ForbiddenError),
        ("not-found", 404, NotFoundError),
        ("sync-busy", 409, ConflictError),
        ("quota-exceeded", 413, RefusedContentError),
        ("unsupported-type", 415, RefusedContentError),
        ("host-unknown", 421, ProblemError),
        ("storage-full", 507, UnavailableError),
        ("internal", 500, UnavailableError),
    ],
)
def test_a_problem_is_an_exception_of_its_kind(slug: str, status: int, kind: type[ProblemError], run: Runner) -> None:
    with pytest.raises(kind) as raised:
        run(Service(problem(slug, status, job_id="j")), lambda client: client.search("tea"))
    error = raised.value
    assert type(error) is kind
    assert (error.kind, error.status, error.problem.job_id, str(error)) == (slug, status, "j", "Title: Do this.")


def test_an_invalid_request_names_the_field_and_what_is_allowed(run: Runner) -> None:
    errors = [{"field": "top_k", "message": "is too large", "allowed": "1 to 50"}, {"field": "x", "message": "unknown"}]
    with pytest.raises(InvalidRequestError) as raised:
        run(Service(problem("invalid-request", 400, errors=errors)), lambda client: client.search("tea", top_k=99))
    assert [(one.field, one.allowed) for one in raised.value.fields] == [("top_k", "1 to 50"), ("x", None)]


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>Sign in to the hotel's network</html>"),
        httpx.Response(404, text="<html>nginx</html>"),
        httpx.Response(302, headers={"Location": "https://elsewhere.example"}),
        httpx.Response(400, headers={"Content-Type": "application/problem+json"}, text="{"),
    ],
)
def test_what_is_no_response_of_the_service_says_so(response: httpx.Response, run: Runner) -> None:
    for ask in (lambda client: client.search("tea"), lambda client: client.ask_stream("tea")):
        with pytest.raises(ResponseError, match=r"address") as raised:
            run(Service(response), ask)
        assert raised.value.status == response.status_code


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("refusal", [FULL, INVALID, too_slow("Slow."), headers_too_large("Large.")])
def test_what_the_server_refuses_before_a_route_sees_it_is_a_problem(
    refusal: RefusedError, old: bool, run: Runner
) -> None:
    body: dict[str, Any] = json.loads(refusal.response().partition(b"\r\n\r\n")[2])
    assert (body["instance"], body["documentation"]) == ("", "/docs")
    if old:
        del body["instance"], body["documentation"]
    media = {"Content-Type": "application/problem+json", "Retry-After": "5"}
    service = Service(httpx.Response(refusal.status, headers=media, json=body))
    with pytest.raises(ProblemError, match=refusal.detail) as raised:
        run(service, lambda client: client.search("tea"), retries=Retries(attempts=1))
    assert (raised.value.kind, raised.value.retry_after) == (refusal.slug, 5.0)


BROKEN = httpx.ReadError("reset")
REFUSED = httpx.ConnectError("refused")


def test_a_deletion_is_sent_again_only_if_the_service_answers_it_alike(run: Runner) -> None:
    deleted = httpx.Response(200, json={"doc_id": "d", "status": "deleted", "message": "Deleted.", "job_id": "j"})
    service = Service(BROKEN, deleted)
    assert run(service, lambda client: client.delete_document("d"), retries=QUICK).status == "deleted"
    for action in (lambda client: client.revoke_key("k"), lambda client: client.delete_answer("a")):
        with pytest.raises(UnreachableError):
            run(Service(BROKEN), action, retries=QUICK)


@pytest.mark.parametrize(
    "failure",
    [
        problem("rate-limited", 429, headers={"Retry-After": "0"}),
        problem("too-many-connections", 503),
        problem("too-many-in-progress", 503),
        REFUSED,
    ],
)
def test_what_was_not_begun_is_always_sent_again(failure: httpx.Response | Exception, run: Runner) -> None:
    service = Service(failure, httpx.Response(201, json={"feedback_id": "f"}))
    assert run(service, lambda client: client.feedback("good", query_id="q"), retries=QUICK).feedback_id == "f"
    assert [request.content for request in service.requests] == [b'{"verdict":"good","query_id":"q"}'] * 2


@pytest.mark.parametrize(
    "failure",
    [
        problem("overloaded", 503),
        problem("service-unavailable", 503),
        httpx.Response(502, text="proxy"),
        problem("request-timeout", 408),
        BROKEN,
    ],
)
def test_what_may_have_been_done_is_sent_again_only_if_that_is_safe(
    failure: httpx.Response | Exception, run: Runner
) -> None:
    assert run(Service(failure, found()), lambda client: client.search("tea"), retries=QUICK).query_id == "q"
    service = Service(failure)
    with pytest.raises(ConcordanceError):
        run(service, lambda client: client.feedback("good", query_id="q"), retries=QUICK)
    assert len(service.requests) == 1


def test_it_gives_up_after_the_last_attempt(run: Runner) -> None:
    service = Service(*[problem("service-unavailable", 503)] * 4)
    with pytest.raises(UnavailableError):
        run(service, lambda client: client.search("tea"), retries=QUICK)
    assert len(service.requests) == 4


def test_a_wait_beyond_the_deadline_is_not_begun(run: Runner) -> None:
    service = Service(problem("rate-limited", 429, headers={"Retry-After": "3600"}))
    with pytest.raises(RateLimitedError) as raised:
        run(service, lambda client: client.within(30).search("tea"))
    assert raised.value.retry_after == 3600


def test_a_request_that_takes_too_long_misses_the_deadline(run: Runner) -> None:
    service = Service(httpx.ReadTimeout("slow"))
    with pytest.raises(DeadlineError, match=r"within 5 s"):
        run(service, lambda client: client.within(5).search("tea"))
    timeout = service.requests[0].extensions["timeout"]
    assert 4 < timeout["read"] <= 5
    assert timeout["connect"] <= 5


def test_the_deadline_of_a_call_includes_all_that_it_does() -> None:
    now = 100.0
    deadline = Deadline(10, lambda: now)
    now = 107.0
    assert (deadline.left(), deadline.timeout().read, deadline.timeout().connect) == (3, 3, 3)
    deadline.check()
    now = 111.0
    assert deadline.left() == 0
    with pytest.raises(DeadlineError, match=r"within 10 s"):
        deadline.check()


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("token", ["", " \n", "secret\nother", "s\u00e9cret", "secret\0"])
def test_a_token_that_is_none_is_refused_and_not_shown(kind: type[Client] | type[AsyncClient], token: str) -> None:
    with pytest.raises(ValueError, match=r"^token: ") as refused:
        kind("http://service", token)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "localhost:8080", "ftp://service", "http://", "http://[::1", "http:/service"]
)
def test_an_address_that_is_none_is_refused(kind: type[Client] | type[AsyncClient], url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: .* http://"):
        kind(url, "t")


def test_a_token_and_an_address_may_come_from_files_with_a_line_break() -> None:
    service = Service(found())
    with Client("http://service\n", "t\n", transport=httpx.MockTransport(service)) as client:
        client.search("tea")
    assert service.requests[0].headers["authorization"] == "Bearer t"
    assert service.requests[0].url.host == "service"


def test_no_connection_says_what_to_check(run: Runner) -> None:
    with pytest.raises(UnreachableError, match=r"http://service cannot be reached .* service is running"):
        run(Service(REFUSED), lambda client: client.me(), retries=Retries(attempts=1))


def test_pauses_double_up_to_a_limit_and_retry_after_takes_precedence() -> None:
    broken, retries = UnreachableError("x", sent=True), Retries(attempts=9, chance=lambda: 0.0)
    assert [retries.pause(n, broken, repeatable=True) for n in range(1, 7)] == [0.5, 1, 2, 4, 8, 8]
    assert Retries(chance=lambda: 1.0).pause(1, broken, repeatable=True) == 0.25
    assert retries.pause(9, broken, repeatable=True) is None
    assert retries.pause(1, broken, repeatable=False) is None
    assert retries.pause(1, DeadlineError(), repeatable=True) is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("Tue, 24 Nov 2026 06:00:30 GMT", 30),
        ("Tue, 24 Nov 2026 05:00:00 GMT", 0),
        ("Tue Nov 24 06:00:30 2026", 30),
        ("Tue, 24 Nov 2026 06:00:30 -0000", 30),
        ("soon", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header, datetime(2026, 11, 24, 6, tzinfo=UTC)) == seconds


def stream(*events: tuple[str, Any]) -> httpx.Response:
    text = "".join(f"event: {name}\r\ndata: {json.dumps(data)}\r\n\r\n" for name, data in events)
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=": ping\r\n\r\n" + text)


SOURCES = ("sources", {"answer_id": "a", "query_id": "q", "sources": [], "understood": [], "warnings": []})


def test_a_streamed_answer_ends_with_the_whole(run: Runner) -> None:
    events = (
        SOURCES,
        ("token", {"text": "At"}),
        ("sparkle", {"x": 1}),
        ("restart", {"warnings": []}),
        ("token", {"text": "four"}),
    )
    service = Service(stream(*events, ("done", ANSWER)))
    seen = run(service, lambda client: client.ask_stream("When?", top_k=2))
    assert [type(one) for one in seen] == [SourcesEvent, TokenEvent, RestartEvent, TokenEvent, AnswerResponse]
    assert seen[-1].answer == "At four. [1]"
    assert json.loads(service.requests[0].content) == {"query": "When?", "top_k": 2, "stream": True}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([SOURCES, ("token", {"text": "At"}), ("error", {"detail": "The model is down."})], "The model is down."),
        ([SOURCES, ("token", {"text": "At"})], "ended before the answer was complete"),
    ],
)
def test_a_streamed_answer_that_ends_early_is_an_error(
    events: list[tuple[str, Any]], message: str, run: Runner
) -> None:
    with pytest.raises(AnswerInterruptedError, match=message):
        run(Service(stream(*events)), lambda client: client.ask_stream("When?"))


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The beginning of a stream, and then no connection."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


def test_a_connection_that_breaks_within_an_answer_interrupts_it(run: Runner) -> None:
    begun = stream(SOURCES, ("token", {"text": "At"}))
    with pytest.raises(AnswerInterruptedError, match="ended before the answer was complete"):
        run(
            lambda _: httpx.Response(200, headers=begun.headers, stream=Broken(begun.content)),
            lambda client: client.ask_stream("When?"),
        )


class Comments(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Comments, as they come while an answer takes long; all but the first are sent after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        end = time.monotonic() + self._seconds
        for self.sent in range(1, 100):
            yield b": ping\r\n\r\n"
            while time.monotonic() < end:
                time.sleep(0.01)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


def test_comments_do_not_extend_the_deadline_of_an_answer(run: Runner) -> None:
    comments = Comments(0.05)
    begun = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=comments)
    with pytest.raises(DeadlineError, match=r"within 0\.05 s"):
        run(lambda _: begun, lambda client: client.within(0.05).ask_stream("When?"))
    assert comments.sent <= 2


def test_a_stream_is_begun_again_but_not_in_the_middle(run: Runner) -> None:
    service = Service(problem("service-unavailable", 503), stream(SOURCES, ("done", ANSWER)))
    assert len(run(service, lambda client: client.ask_stream("When?"), retries=QUICK)) == 2
    with pytest.raises(InvalidRequestError):
        run(Service(problem("invalid-request", 400)), lambda client: client.ask_stream(""))


def test_pages_are_fetched_until_the_last(run: Runner) -> None:
    entry = {"collection_id": "c", "source_type": "slack", "name": "n", "path": "p", "documents": 1}
    page = {"collections": [entry, entry], "total": 3, "next_cursor": "2"}
    last = {"collections": [entry], "total": 3, "next_cursor": None}
    service = Service(httpx.Response(200, json=page), httpx.Response(200, json=last))
    assert len(run(service, lambda client: client.iter_collections(limit=2))) == 3
    assert [request.url.query for request in service.requests] == [b"limit=2", b"limit=2&cursor=2"]


def stored() -> httpx.Response:
    return httpx.Response(
        202, json={"doc_id": "d", "status": "processing", "message": "m", "job_id": None, "known": False}
    )


def test_an_upload_reports_its_progress_and_begins_again_from_the_start(tmp_path: Path, run: Runner) -> None:
    path = tmp_path / "soup.md"
    path.write_bytes(b"x" * 100_000)
    progress: list[tuple[int, int]] = []
    bodies: list[bytes] = []

    def service(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return problem("service-unavailable", 503) if len(bodies) == 1 else stored()

    sent = run(
        service,
        lambda client: client.upload(
            path, title="Soup", tags={"topic": "kitchen"}, progress=lambda *at: progress.append(at)
        ),
        retries=QUICK,
    )
    assert sent.doc_id == "d"
    assert progress == [(65536, 100_000), (100_000, 100_000)] * 2
    for body in bodies:
        assert b'filename="soup.md"' in body
        assert b'{"title": "Soup", "tags": {"topic": "kitchen"}}' in body
        assert b"x" * 100_000 in body


def test_an_upload_takes_bytes_and_open_files_with_a_name(run: Runner) -> None:
    service = Service(stored(), stored())
    run(service, lambda client: client.upload(b"# Tea", filename="tea.md"))
    run(service, lambda client: client.upload(io.BytesIO(b"# Tea"), filename="tea.md"))
    with pytest.raises(ValueError, match="filename"):
        run(service, lambda client: client.upload(b"# Tea"))
    assert len(service.requests) == 2
