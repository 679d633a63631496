"""Dagster's real webserver for people who are signed in: what each role may do there, the links, and when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from starlette.responses import PlainTextResponse
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from orchestration.supervision.dagster_gate import COOKIE, Gate
from orchestration.supervision.dagster_roles import CHECK_SECONDS, RoleCache, role_reader
from resources.core.domain import Role
from resources.dagster_access import secrets_of
from tests.fixtures.browser import running_browser
from tests.fixtures.dagster import MUTATION, PEOPLE, RUNS, Dagster, link_of
from tests.fixtures.serving import Running, Site

pytestmark = pytest.mark.xdist_group("dagster")

FULL, READ_ONLY = {"administrator", "operator"}, {"auditor"}


@pytest.fixture
def running(dagster_people: Running) -> Running:
    """The HTTP service that the webserver asks."""
    return dagster_people


def may(dagster: Dagster, browser: httpx.Client) -> dict[str, bool]:
    """Return what a browser can do in Dagster, by every way in."""
    graphql, before = f"{dagster.url}/graphql", dagster.runs()
    page = {"origin": dagster.url, "accept": "*/*"}

    def changed() -> bool:
        nonlocal before
        former, before = before, dagster.runs()
        return before != former

    def over_websocket() -> None:
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        address = graphql.replace("http", "ws")
        with connect(address, additional_headers={"cookie": cookies}, subprotocols=["graphql-ws"]) as socket:  # type: ignore[list-item]
            socket.send(json.dumps({"type": "connection_init"}))
            socket.send(json.dumps({"type": "start", "id": "1", "payload": {"query": MUTATION}}))
            assert {json.loads(socket.recv(30))["type"] for _ in range(2)} == {"connection_ack", "error"}

    found = {
        "open the pages": browser.get(f"{dagster.url}/runs", headers={"accept": "text/html"}).status_code == 200,
        "query by POST": browser.post(graphql, json={"query": RUNS}, headers=page).status_code == 200,
        "query by GET": browser.get(graphql, params={"query": RUNS}).status_code == 200,
    }
    browser.post(graphql, json={"query": MUTATION}, headers=page)
    found["launch a run"] = changed()
    browser.post(graphql, json={"query": f"query A {{ version }} {MUTATION}"}, headers=page)
    browser.post(graphql, json=[{"query": MUTATION}], headers=page)
    found["mutation in a batch"] = changed()
    browser.get(graphql, params={"query": MUTATION})
    found["mutation by GET"] = changed()
    browser.post(graphql, params={"query": MUTATION}, headers=page)
    browser.post(graphql, data={"query": MUTATION}, headers=page)
    browser.post(graphql, files={"operations": MUTATION.encode()}, headers=page)
    browser.put(graphql, json={"query": MUTATION}, headers=page)
    found["mutation in the address or a form"] = changed()
    if found["launch a run"]:
        over_websocket()
    else:
        with pytest.raises(InvalidStatus):
            over_websocket()
    found["mutation over a websocket"] = changed()
    report = browser.post(f"{dagster.url}/report_asset_materialization/x", json={}, headers=page)
    found["report an asset's event"] = report.status_code == 200
    return found


def test_each_role_may_in_dagster_what_the_documentation_says(
    dagster: Dagster, running: Running, show: Callable[[str], None]
) -> None:
    found: dict[str, dict[str, bool]] = {}
    for who in PEOPLE:
        with httpx.Client(timeout=60) as browser:
            if who in FULL | READ_ONLY:
                assert browser.get(link_of(running, who)).status_code == 200
            found[who] = may(dagster, browser)
    show(
        "\n".join(
            f"{what:28}" + "".join(f"{who if found[who][what] else '-':15}" for who in PEOPLE) for what in found["user"]
        )
    )
    reads = {"open the pages", "query by POST", "query by GET"}
    actual = {who: {what for what, can in rows.items() if can} for who, rows in found.items()}
    assert actual == (
        dict.fromkeys(FULL, reads | {"launch a run", "report an asset's event"})
        | dict.fromkeys(READ_ONLY, reads)
        | {who: set[str]() for who in PEOPLE.keys() - FULL - READ_ONLY}
    )


def test_dagsters_own_permissions_follow_the_role(dagster: Dagster, running: Running) -> None:
    for who in FULL | READ_ONLY:
        with httpx.Client(timeout=60) as browser:
            browser.get(link_of(running, who))
            asked = browser.get(f"{dagster.url}/graphql", params={"query": "{ permissions { value } }"}).json()
        assert any(one["value"] for one in asked["data"]["permissions"]) == (who in FULL)


def test_who_opens_dagster_is_audited(running: Running, site: Site) -> None:
    tokens = [parse_qs(urlsplit(link_of(running, who)).query)["token"][0] for who in ("operator", "auditor")]
    refused = running.http.get("/dagster", headers=site.session(PEOPLE["user"]))
    assert refused.status_code == 403
    assert "This needs the role operator or auditor or administrator" in refused.text
    running.settle()
    rows = site.sql("SELECT email, action, detail FROM audit_log WHERE action LIKE '%%dagster%%' ORDER BY event_id")
    assert [(email, detail["rights"]) for email, _, detail in rows] == [
        (PEOPLE["operator"], "full"),
        (PEOPLE["auditor"], "read-only"),
    ]
    assert site.sql("SELECT email FROM audit_log WHERE action = 'role_denied'") == [(PEOPLE["user"],)]
    assert not any(token.rpartition(".")[2] in str(rows) for token in tokens)


def test_the_link_of_a_person_works_once_and_briefly(dagster: Dagster, running: Running) -> None:
    secret = secrets_of(dagster.settings).admin
    link = link_of(running, "operator", "/runs?view=all")
    opened = httpx.get(link)
    assert opened.headers["refresh"] == "0; url=/runs?view=all"
    assert "SameSite=Strict" in opened.headers["set-cookie"]
    assert opened.headers["referrer-policy"] == "no-referrer"
    used = httpx.get(link)
    assert used.status_code == 401
    assert f"{running.url}/dagster?next=%2Fruns%3Fview%3Dall" in used.text
    log = (dagster.settings.home / "logs" / "dagster-webserver.log").read_text()
    token = parse_qs(urlsplit(link_of(running, "operator")).query)["token"][0]
    assert token.partition(".")[2] not in log
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] <= 60
    assert claims["sub"] == PEOPLE["operator"]
    for changed, key in [
        ({"exp": claims["iat"] - 1}, secret),
        ({"iat": claims["iat"] - 3600}, secret),  # older than the webserver, which may have accepted it before
        ({"aud": "concordance"}, secret),
        ({"role": "owner"}, secret),
        ({}, secret[::-1]),
    ]:
        forged = jwt.encode(claims | changed, key, "HS256")
        assert httpx.get(f"{dagster.url}/", params={"token": forged}).status_code == 401
    assert httpx.get(f"{dagster.url}/", params={"token": token}).status_code == 200


def test_dagster_leads_nowhere_else_and_only_from_a_session(dagster: Dagster, running: Running, site: Site) -> None:
    for path in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"):
        assert link_of(running, "auditor", path).startswith(f"{dagster.url}/?token=")
    for headers in ({}, {"Authorization": f"Bearer {site.token(PEOPLE['administrator'], admin=True)}"}):
        answer = running.http.get("/dagster", params={"next": "/runs"}, headers=headers)
        assert answer.status_code == 401
        assert "next=%2Fdagster%3Fnext%3D%252Fruns" in answer.text
    assert running.http.get("/dagster/rights").status_code == 401
    token = parse_qs(urlsplit(link_of(running, "operator")).query)["token"][0]
    for credential in (token, site.token(PEOPLE["administrator"], admin=True)):  # a link is no session
        assert (
            running.request("GET", "/dagster/rights", headers={"Authorization": f"Bearer {credential}"}).status_code
            == 401
        )


def test_without_an_address_for_browsers_there_is_no_link(site: Site) -> None:
    assert site.settings.base_url == "https://search.example"
    roles = {Role.OPERATOR: (PEOPLE["operator"],)}
    cases = {None: (404, None), "https://dagster.example": (302, "https://dagster.example/runs?token=")}
    for address, (status, begins) in cases.items():
        site.settings = site.settings.model_copy(update={"roles": roles, "dagster_public_url": address})
        with site.running() as running:
            headers = {"Host": "search.example", **site.session(PEOPLE["operator"])}
            answer = running.http.get("/dagster?next=/runs", headers=headers)
        assert answer.status_code == status
        assert answer.headers.get("location", "").startswith(begins or "")
        assert ("CONCORDANCE_HTTP__DAGSTER_PUBLIC_URL" in answer.text) == (begins is None)


ENDS = {
    "signed out": ("DELETE FROM sessions", 401),
    "session expired": ("UPDATE sessions SET expires_at = now()", 401),
    "session idle": ("UPDATE sessions SET seen_at = now() - interval '13 hours'", 401),
    "off-boarded": ("INSERT INTO people (source, email, active) VALUES ('scim', 'operator@acme.com', FALSE)", 401),
    "left the group that has the role": ("DELETE FROM directory", 401),
    "groups are stale": ("UPDATE source_states SET directory_at = now() - interval '25 hours'", 401),
    "in a group of auditors instead": ("UPDATE directory SET principal = 'group:readers@acme.com'", 403),
}


def test_dagster_ends_within_a_minute(
    dagster: Dagster, running: Running, site: Site, subtests: pytest.Subtests
) -> None:
    for why, (statement, status) in ENDS.items():
        with subtests.test(why):
            restore(site)
            assert asyncio.run(statuses(dagster, running, lambda sql=statement: site.sql(sql))) == [200, 200, status]


def restore(site: Site) -> None:
    """Make the operator an operator again."""
    site.sql("DELETE FROM people")
    site.sql("DELETE FROM directory")
    site.sql("INSERT INTO directory VALUES ('scim', %s, 'group:ops@acme.com')", PEOPLE["operator"])
    site.sql("UPDATE source_states SET directory_at = now()")


async def statuses(dagster: Dagster, running: Running, end: Callable[[], Any]) -> list[int]:
    """Return the statuses of an operator's mutation: at first, within the minute after the end, and then."""
    now = [0.0]
    roles = RoleCache(role_reader(running.url), clock=lambda: now[0])
    app = PlainTextResponse("in")
    gate = Gate({"admin": app, "viewer": app}, secrets_of(dagster.settings), roles, f"{running.url}/dagster", None)
    transport = httpx.ASGITransport(gate)  # pyright: ignore[reportArgumentType]
    found: list[int] = []
    async with httpx.AsyncClient(transport=transport, base_url=dagster.url) as browser:
        opened = await browser.get(link_of(running, "operator"))
        browser.cookies.set(COOKIE, opened.cookies[COOKIE])
        found.append((await browser.post("/graphql", json={"query": MUTATION})).status_code)
        end()
        for now[0] in (CHECK_SECONDS - 1, CHECK_SECONDS):
            found.append((await browser.post("/graphql", json={"query": MUTATION})).status_code)
    return found


def test_a_reader_sees_dagster_with_nothing_to_launch(dagster: Dagster, running: Running, tmp_path: Path) -> None:
    """In a real browser: from the cookie of the sign-in to the page of a job."""
    path = "/locations/concordance/jobs/idle"
    with running_browser(tmp_path / "profile") as browser:
        for who, disabled in (("auditor", True), ("operator", False)):
            browser.forget()
            name, _, value = running.site.session(PEOPLE[who])["Cookie"].partition("=")
            browser.call("Network.setCookie", name=name, value=value, url=running.url, path="/", httpOnly=True)
            browser.goto(f"{running.url}/dagster?next={path}")
            browser.wait(lambda one: "Do nothing in one step" in one.text, "the page of the job")
            assert browser.url == dagster.url + path
            tab = "document.getElementById('launchpad').getAttribute('aria-disabled')"
            assert browser.evaluate(tab) == str(disabled).lower()
            browser.goto(f"{dagster.url}/health")
            browser.wait(lambda one: "Daemon statuses" in one.text, "the page of the deployment")
