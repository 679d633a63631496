"""The gate before Dagster's webserver without Dagster: sessions of people while the HTTP service is down, and websockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import httpx
import pytest
from dagster_webserver.version import __version__
from dagster_webserver.webserver import DagsterWebserver
from graphql import OperationType
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute

from orchestration.dagster_api import VERSION
from orchestration.supervision.dagster_gate import COOKIE, Gate
from orchestration.supervision.dagster_roles import CHECK_SECONDS, GRACE_SECONDS, RETRY_SECONDS, RoleCache
from orchestration.supervision.graphql_documents import operations
from resources.core.errors import ServiceUnavailableError
from resources.core.guard import App
from resources.dagster_access import DagsterSecrets, Grant, Person, Role, link_of, session

OWN = DagsterSecrets("the secret of administrators, long enough", "the secret of viewers")
PERSON = Person("ann@acme.com", "6c5d0c3a-1f0e-4f6d-9d0b-0f6a6b4b6f11")
SESSION = session(OWN, Grant("admin", PERSON))
PRINTED = session(OWN, Grant("admin"))


def both(app: App) -> dict[Role, App]:
    """The same application for both roles."""
    return {"admin": app, "viewer": app}


class Service:
    """Stands in for the HTTP service: says `role`, or does not answer if it is `down`."""

    def __init__(self, role: Role | None = "admin") -> None:
        self.role: Role | None = role
        self.down = False
        self.asked = 0
        self.now = 0.0
        self.roles = RoleCache(self.ask, clock=lambda: self.now)
        self.gate = Gate(
            both(PlainTextResponse("in")), OWN, self.roles, "https://search.example/dagster", "dagster.example"
        )

    async def ask(self, cookie: str) -> Role | None:
        assert cookie == SESSION
        self.asked += 1
        await asyncio.sleep(0)
        if self.down:
            raise ServiceUnavailableError("down")
        return self.role

    def statuses(self, *times: float) -> list[int]:
        """Return the status of a page at each time."""

        async def get() -> list[int]:
            found: list[int] = []
            async with self.browser(SESSION) as browser:
                for self.now in times:
                    found.append((await browser.get("/runs")).status_code)
            return found

        return asyncio.run(get())

    def browser(self, cookie: str = "", host: str = "127.0.0.1") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.gate)  # pyright: ignore[reportArgumentType]
        return httpx.AsyncClient(
            transport=transport, base_url=f"http://{host}", cookies={COOKIE: cookie} if cookie else {}
        )


def test_an_answer_counts_for_a_while_if_the_service_is_down() -> None:
    service = Service()
    assert service.statuses(0) == [200]
    service.down = True
    assert service.statuses(CHECK_SECONDS, GRACE_SECONDS - 1, GRACE_SECONDS + RETRY_SECONDS) == [200, 200, 503]
    service.down, service.role = False, None
    assert service.statuses(GRACE_SECONDS + RETRY_SECONDS) == [401]


def test_without_an_answer_nobody_enters_but_by_a_printed_link() -> None:
    service = Service()
    service.down = True
    assert service.statuses(0) == [503]

    async def printed() -> int:
        async with service.browser(PRINTED) as browser:
            return (await browser.get("/runs")).status_code

    assert asyncio.run(printed()) == 200


def test_requests_at_once_ask_once() -> None:
    service = Service()

    async def many() -> list[int]:
        async with service.browser(SESSION) as browser:
            return [one.status_code for one in await asyncio.gather(*(browser.get("/runs") for _ in range(20)))]

    assert set(asyncio.run(many())) == {200}
    assert service.asked == 1


@pytest.mark.parametrize(("host", "secure"), [("dagster.example", True), ("127.0.0.1", False)])
def test_the_cookie_is_for_https_only_under_the_public_name(host: str, secure: bool) -> None:
    gate = Gate(both(PlainTextResponse("in")), OWN, Service().roles, "/dagster", "dagster.example")

    async def cookie() -> str:
        transport = httpx.ASGITransport(gate)  # pyright: ignore[reportArgumentType]
        async with httpx.AsyncClient(transport=transport) as browser:
            return (await browser.get(link_of(OWN, Grant("admin", PERSON), f"http://{host}/"))).headers["set-cookie"]

    assert asyncio.run(cookie()).endswith("; Secure") == secure


def test_a_websocket_ends_with_the_session() -> None:
    service = Service()
    sent: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "1"})
        service.now, service.role = CHECK_SECONDS, None
        await send({"type": "websocket.send", "text": "2"})
        await send({"type": "websocket.send", "text": "3"})

    async def keep(message: Any) -> None:
        sent.append(message.get("text", message["type"]))

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    gate = Gate(both(app), OWN, service.roles, "https://search.example/dagster", None)
    scope = {"type": "websocket", "headers": [(b"cookie", f"{COOKIE}={SESSION}".encode())], "path": "/graphql"}
    asyncio.run(gate(scope, receive, keep))
    assert sent == ["websocket.accept", "1", "websocket.close"]


def test_viewers_have_no_websocket() -> None:
    service = Service("viewer")
    sent: list[str] = []

    async def keep(message: Any) -> None:
        sent.append(message["type"])

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "headers": [(b"cookie", f"{COOKIE}={SESSION}".encode())], "path": "/graphql"}
    asyncio.run(service.gate(scope, receive, keep))
    assert sent == ["websocket.close"]


def test_requests_are_answered_while_a_document_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def parse(text: str) -> frozenset[OperationType]:
        begun.set()
        assert go_on.wait(60)
        return operations(text)

    monkeypatch.setattr("orchestration.supervision.dagster_gate.operations", parse)

    async def at_once() -> list[int]:
        async with Service("viewer").browser(SESSION) as browser:
            document = asyncio.create_task(browser.post("/graphql", json={"query": "{ version }"}))
            assert await asyncio.to_thread(begun.wait, 60)
            alive = await browser.get("/livez")
            assert not document.done()
            go_on.set()
            return [alive.status_code, (await document).status_code]

    assert asyncio.run(at_once()) == [200, 200]


def test_the_webserver_has_no_other_ways_in() -> None:
    """Dagster's routes that were looked at: `/graphql` and those that report events change something, the others only read."""
    server = cast("Any", DagsterWebserver).__new__(DagsterWebserver)
    server._app_path_prefix = ""
    server.build_static_routes = list
    routes: dict[str, set[str]] = {}
    for route in server.build_routes():
        assert isinstance(route, Route | WebSocketRoute)
        methods = route.methods if isinstance(route, Route) else {"websocket"}
        routes[route.path] = routes.get(route.path, set()) | (methods or set())
    reads, looks = {"GET", "HEAD"}, ("server_info", "dagit_info", "logs/{path:path}", "notebook", "dagit/notebook")
    reports = {
        f"/report_asset_{one}/{{asset_key:path}}": {"POST"} for one in ("materialization", "check", "observation")
    }
    assert __version__.startswith(f"{VERSION}.")
    assert routes == {
        "/graphql": {*reads, "POST", "websocket"},
        **dict.fromkeys((f"/{one}" for one in (*looks, "download_debug/{run_id:str}", "{path:path}", "")), reads),
        **reports,
    }
