"""What a page of another site can make a signed-in browser do: every route that accepts a session, as the application lists them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from litestar.handlers import HTTPRouteHandler

from serving.app import route
from serving.identity.authentication import AGENTS, SCIM, SESSION, SessionFrom
from tests.fixtures.serving import Running, Site

ANN = "ann@acme.com"
SECRET = "The ferry timetable of qzx7canary."
EVIL = "https://evil.example"
LINKED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
OURS = {"Sec-Fetch-Site": "same-origin"}
FOREIGN: dict[str, dict[str, str]] = {
    "an image": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "a script": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    "a frame": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    "an object": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "object"},
    "a call": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Origin": EVIL},
    "a sibling": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "an old browser's call": {"Origin": EVIL},
    "an old browser's sandbox": {"Origin": "null"},
    "an old browser's image": {"Referer": f"{EVIL}/page"},
    "a part of a page": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "X-Part": "1"},
    "a page's own header": {"Sec-Fetch-Site": "cross-site", "X-Concordance": "1", "Origin": EVIL},
}
"""Requests that another site's page makes a browser send without anybody opening anything, by what it pretends to load."""
OPENED = {"open"}
"""What a link may cause: the audit log says that the document was shown."""


class Accepting(NamedTuple):
    """A route that accepts a session, and its address with values that exist."""

    method: str
    path: str
    name: str
    linked: bool


def accepting(**values: str) -> Iterator[Accepting]:
    """Yield the routes of the application that accept a session."""
    for one in route().routes:
        for handler in getattr(one, "route_handlers", ()):
            if not isinstance(handler, HTTPRouteHandler) or handler.opt.get(SCIM) or handler.opt.get(AGENTS):
                continue
            if one.path.startswith("/docs"):
                continue
            if handler.opt.get("exclude_from_auth") and SESSION not in handler.opt:
                continue
            path = one.path
            for component in getattr(one, "path_components", ()):
                if not isinstance(component, str):
                    value = values.get(component.name, str(uuid.UUID(int=7)))
                    path = path.replace(component.full.join("{}"), value)
            linked = handler.opt.get(SESSION) is SessionFrom.LINK
            for method in sorted(handler.http_methods - {"OPTIONS", "HEAD"}):
                yield Accepting(str(method), path, handler.operation_id or "", linked)  # type: ignore[arg-type]


@pytest.fixture
def home(site: Site) -> Iterator[Running]:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    with site.running() as running:
        yield running


def consent(running: Running) -> str:
    """The secret of an agent's request, on which nobody has decided yet."""
    redirect = "http://127.0.0.1:33418/callback"
    client = running.http.post("/oauth/register", json={"client_name": "Agent", "redirect_uris": [redirect]}).json()
    asked = {"response_type": "code", "client_id": client["client_id"], "redirect_uri": redirect}
    query = asked | {"code_challenge": "c" * 43, "code_challenge_method": "S256"}
    answer = running.http.get("/oauth/authorize", params=query)
    return answer.headers["location"].partition("request=")[2]


def stored(site: Site) -> dict[str, int]:
    """The number of rows of every table that a request may append to, without the buckets that count any request."""
    tables = site.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'rate_buckets'")
    names = [name for (name,) in tables]
    counts = ", ".join(f'(SELECT count(*) FROM "{name}")' for name in names)  # noqa: S608 # names of the schema
    return dict(zip(names, site.sql(f"SELECT {counts}")[0], strict=True))  # names of the schema


def test_no_page_of_another_site_uses_a_session(site: Site, home: Running, show: Callable[[str], None]) -> None:
    doc_id = site.add("Ferries", [SECRET], [ANN])
    cookie = site.session(ANN)
    routes = list(accepting(doc_id=doc_id, source="files", session_id=str(uuid.uuid4())))
    assert {"search", "home", "results", "viewDocument", "viewOriginal", "auditPage", "openDagster", "signOut"} <= {
        one.name for one in routes
    }
    given = {"q": "ferry timetable", "request": consent(home)}
    before = stored(site)
    sent = 0
    for one in routes:
        for what, headers in FOREIGN.items():
            more: dict[str, Any] = {} if one.method == "GET" else {"json": {"query": "ferry"}}
            answer = home.http.request(one.method, one.path, params=given, headers={**cookie, **headers}, **more)
            sent += 1
            seen = f"{one.method} {one.path} as {what}: {answer.status_code} {answer.text[:300]}"
            assert answer.status_code in {401, 403, 415} or one.name in {"signInPage", "finishSignIn"}, seen
            assert "canary" not in answer.text, seen
            assert ANN not in answer.text, seen
            assert answer.headers["cross-origin-resource-policy"] == "same-origin", seen
    home.settle()
    assert stored(site) == before
    show(f"{sent} requests of another site to {len(routes)} routes that accept a session: nothing read, nothing stored")


def test_a_link_on_another_site_opens_pages_that_only_show_something(site: Site, home: Running) -> None:
    doc_id = site.add("Ferries", [SECRET], [ANN])
    cookie = site.session(ANN)
    opened: dict[str, int] = {}
    for one in accepting(doc_id=doc_id, source="files"):
        if one.method != "GET":
            continue
        before = stored(site)
        answer = home.http.get(one.path, params={"q": "ferry timetable"}, headers={**cookie, **LINKED})
        home.settle()
        after = stored(site)
        opened[one.name] = answer.status_code
        grown = {name for name, count in after.items() if count != before[name]}
        if not one.linked:
            assert answer.status_code == 403, (one, answer.text)
            assert "canary" not in answer.text, one
            assert not grown, one
            if not one.path.startswith("/api/"):  # a person goes on from there
                assert f'href="{one.path}?q=ferry+timetable">Continue</a>' in answer.text, (one, answer.text)
                assert f"leads to <code>{one.path}</code>" in answer.text, (one, answer.text)
        else:
            assert grown <= {"audit_log"}, one
    actions = {action for (action,) in site.sql("SELECT DISTINCT action FROM audit_log WHERE email = %s", ANN)}
    assert actions == OPENED
    assert opened["viewDocument"] == opened["home"] == opened["history"] == opened["mePage"] == 200


def test_a_search_from_another_site_waits_for_a_click(site: Site) -> None:
    site.add("Ferries", [SECRET], [ANN])
    cookie = site.session(ANN)
    site.settings = site.settings.model_copy(update={"search_rate_limit": 2})
    with site.running() as running:

        def page(path: str, headers: dict[str, str]) -> httpx.Response:
            return running.http.get(path, headers={**cookie, **headers})

        for _ in range(5):
            suggested = page("/?q=ferry+timetable&source=files&days=30", LINKED)
            assert suggested.status_code == 200
            assert 'value="ferry timetable"' in suggested.text
            assert "canary" not in suggested.text
            assert page("/results?q=ferry", FOREIGN["an image"]).status_code == 403
        running.settle()
        assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'search'") == [(0,)]
        address = '<a class="button" href="/?q=ferry+timetable&amp;source=files&amp;days=30">Search</a>'
        assert address in suggested.text
        assert "canary" in page("/?q=ferry+timetable", OURS).text  # the click; and nothing of the rate was used up
        assert "canary" in page("/?q=ferry+timetable", {"Sec-Fetch-Site": "none"}).text  # a bookmark


def test_only_the_widgets_script_may_be_loaded_elsewhere(site: Site, home: Running) -> None:
    for path, allowed in [
        ("/", "same-origin"),
        ("/sign-in", "same-origin"),
        ("/docs", "same-origin"),
        ("/api/documents", "same-origin"),
        ("/nothing", "same-origin"),
        ("/healthz", "same-origin"),
        ("/widget.js", "cross-origin"),
    ]:
        assert home.http.get(path).headers["cross-origin-resource-policy"] == allowed, path
