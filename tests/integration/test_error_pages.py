"""What a browser is shown instead of a problem, and that programs still get the problem."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from tests.fixtures.axe import violations
from tests.fixtures.browser import running_browser
from tests.fixtures.pictures import saved
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PROGRAMS: tuple[dict[str, str], ...] = (
    {},
    {"Accept": "*/*"},
    {"Accept": "application/json"},
    {"Accept": "application/problem+json, */*"},
)
NOWHERE = str(uuid.UUID(int=7))
PATHS = {
    "/serach": 404,
    "/documents/a/b": 404,
    f"/documents/{NOWHERE}": 404,
    f"/api/documents/{NOWHERE}": 404,
    "/api/nothing": 404,
    "/admin": 403,
    "/admin/keys": 403,
    "/api/admin/keys": 403,
}
FILES = ("/static/x/nothing.js", "/docs/static/nothing.js")
"""Files for everyone, for which no session is read."""
PAGES = (f"/documents/{NOWHERE}", "/admin", "/admin/keys")
"""Paths of pages, which are pages for programs, too."""


def test_a_browser_gets_a_page_with_navigation_and_a_program_a_problem(
    site: Site, running: Running, subtests: pytest.Subtests
) -> None:
    cookie = site.session(ANN)
    for path, status in PATHS.items():
        with subtests.test(path=path):
            page = running.http.get(path, headers=BROWSER | cookie)
            assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
            assert re.findall(r'<a href="([^"]+)"', page.text)[:3] == ["/", "/history", "/upload"]
            assert (ANN in page.text, 'href="/admin"' in page.text) == (True, False)
            for accept in PROGRAMS if path not in PAGES else ():
                problem = running.http.get(path, headers={"Accept": ""} | accept | cookie)
                assert problem.headers["content-type"] == "application/problem+json"
                assert problem.json()["status"] == status


@pytest.mark.parametrize(
    "accept", ["text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "application/json, text/html;q=0.1"]
)
def test_a_program_that_also_accepts_html_gets_a_problem_below_api(running: Running, accept: str) -> None:
    """The first is what `HttpURLConnection` of Java sends."""
    for path, who in (("/api/documents?cursor=x", ANN), ("/api/documents", None)):
        problem = running.request("GET", path, who, headers={"Accept": accept})
        assert problem.headers["content-type"] == "application/problem+json"


def test_a_file_that_is_not_there_is_a_page_without_a_name(site: Site, running: Running) -> None:
    for path in FILES:
        page = running.http.get(path, headers=BROWSER | site.session(ANN))
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert ANN not in page.text
        assert running.http.get(path).headers["content-type"] == "application/problem+json"


def test_who_is_not_signed_in_sees_no_name_and_no_navigation(site: Site, running: Running) -> None:
    site.session(ANN)
    page = running.http.get("/serach", headers=BROWSER)
    assert (page.status_code, "There is no page at this address" in page.text) == (404, True)
    assert (ANN in page.text, "/history" in page.text) == (False, False)
    wrong = running.http.get("/serach", headers=BROWSER | {"Cookie": f"{site.session(BOB)['Cookie']}x"})
    assert (wrong.status_code, "/history" in wrong.text) == (404, False)
    assert 'href="/sign-in/acme' in running.http.get("/api/me", headers=BROWSER).text
    assert running.http.get("/api/me").json()["type"] == "/problems/token-missing"
    for method in ("POST", "DELETE"):
        assert (
            running.http.request(method, "/serach", headers=BROWSER).headers["content-type"]
            == "application/problem+json"
        )
    assert "scim" in running.http.get("/scim/v2/Nothing", headers=BROWSER).headers["content-type"]


def test_a_hidden_document_and_a_missing_one_look_alike(site: Site, running: Running) -> None:
    hidden, cookie = site.add("Merger", ["The merger is on Monday."], [BOB]), site.session(ANN)
    for path in ("/documents/{}", "/documents/{}?chunk=0", "/api/documents/{}", "/api/documents/{}/original"):
        seen = [
            running.http.get(path.format(doc_id), headers=BROWSER | cookie) for doc_id in (hidden, NOWHERE, "nonsense")
        ]
        assert {one.status_code for one in seen} == {404}
        assert len({one.text for one in seen}) == 1
        assert len({tuple(sorted(set(one.headers) - {"date"})) for one in seen}) == 1


def test_the_pages_in_a_browser(site: Site, tmp_path: Path, axe: str) -> None:
    site.settings = site.settings.model_copy(update={"public_url": None})
    with site.running() as running, running_browser(tmp_path / "profile") as browser:
        name, _, value = site.session(ANN)["Cookie"].partition("=")
        browser.call("Network.setCookie", name=name, value=value, url=running.url)
        for path, title in {"serach": "Not found", "admin": "This needs a role"}.items():
            browser.goto(f"{running.url}/{path}")
            assert browser.evaluate("document.querySelector('h1').textContent") == title
            assert violations(browser, axe) == []
            saved(browser, f"refused-{path}")
