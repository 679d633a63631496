"""Links that sign a person in once: who can use one, how often, what it gives, and where its token is seen."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from orchestration.cli import run
from resources.keys import secret_key
from resources.servers.processes import free_port
from resources.stores.postgres import session
from serving.identity.sign_in import links
from tests.fixtures.axe import violations
from tests.fixtures.browser import running_browser
from tests.fixtures.pictures import saved
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in/link#\S+")


@pytest.fixture
def site(site: Site) -> Site:
    """An installation without a provider, as after `concordance up`."""
    changes = {"public_url": None, "oidc_providers": None, "http_port": free_port()}
    site.settings = site.settings.model_copy(update=changes)
    return site


def made(site: Site, email: str = ANN, *, administrator: bool = False, ago: timedelta = timedelta(0)) -> str:
    """The token of a new link."""
    with session(site.settings.postgres_dsn) as connection:
        now = datetime.now(UTC) - ago
        link = links.make(site.settings, connection, email, administrator=administrator, by="root", now=now)
    return urlsplit(link).fragment


def pressed(running: Running, token: str) -> tuple[int, str]:
    """Press the button of a link's page: the status, and what the page says."""
    headers = {"Origin": running.url, "Sec-Fetch-Site": "same-origin"}
    response = running.http.post("/sign-in/link", data={"token": token}, headers=headers)
    said = re.search(r"<p role=alert>(.*?)</p>", response.text)
    return response.status_code, said[1] if said else ""


def audited(site: Site, running: Running) -> list[tuple[str, str, str]]:
    running.settle()
    rows = site.sql("SELECT action, email, detail FROM audit_log WHERE action LIKE 'sign_in%%' ORDER BY event_id")
    return [
        (action, email, detail.get("reason") or detail.get("provider") or detail["by"])
        for action, email, detail in rows
    ]


def test_a_link_works_after_the_key_was_rotated(site: Site) -> None:
    tokens = [made(site), made(site)]
    for before, status in ((f",{secret_key(site.settings)}", 303), ("", 403)):
        site.settings = site.settings.model_copy(update={"secret_key": SecretStr("new key " * 5 + before)})
        with site.running() as running:
            assert pressed(running, tokens.pop())[0] == status


def test_a_link_works_once_whatever_process_is_asked(site: Site) -> None:
    token = made(site)
    with site.running() as one, site.running() as other:
        assert one.http.get("/sign-in/link").status_code == 200  # previews of a link do not use it up
        with ThreadPoolExecutor(8) as pool:
            pressings = [pool.submit(pressed, (one, other)[number % 2], token) for number in range(8)]
        statuses = sorted(pressing.result()[0] for pressing in pressings)
        assert statuses == [303, *[403] * 7]
    with site.running() as again:
        status, said = pressed(again, token)
        assert (status, said.startswith("This link was already used.")) == (403, True)
        events = audited(site, again)
    assert events[0] == ("sign_in_link", ANN, "root")
    assert events.count(("sign_in", ANN, "link")) == 1
    assert events.count(("sign_in_refused", ANN, "replayed")) == 8
    assert site.sql("SELECT email, provider, administrator FROM sessions") == [(ANN, "link", False)]


def test_links_that_are_refused(site: Site, running: Running) -> None:
    token, old = made(site), made(site, ago=timedelta(minutes=11))
    foreign = running.http.post("/sign-in/link", data={"token": token}, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    assert pressed(running, old)[1].startswith("This link is too old.")
    for wrong in ("", token[:-2], site.token(ANN, admin=True)):
        assert pressed(running, wrong)[1].startswith("This link is incomplete, or of another installation.")
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)
    assert pressed(running, token) == (403, "This account is deactivated. Ask your administrator.")
    assert site.sql("SELECT count(*) FROM sessions") == [(0,)]
    assert running.http.get("/api/me", headers={"Authorization": f"Bearer {made(site, BOB)}"}).status_code == 401


def test_an_administrators_link_gives_the_role_and_no_document(site: Site, running: Running) -> None:
    site.add("Ferries", ["The ferry leaves at nine."], [BOB])
    seen: list[tuple[int, int, int]] = []
    for administrator in (False, True):
        assert pressed(running, made(site, administrator=administrator))[0] == 303
        found = running.http.post(
            "/api/rag/search",
            json={"query": "When does the ferry leave?"},
            headers={"Origin": running.url, "Sec-Fetch-Site": "same-origin", "X-Concordance": "1"},
        )
        seen.append(
            (
                running.http.get("/admin").status_code,
                running.http.get("/admin/keys").status_code,
                len(found.json()["results"]),
            )
        )
    assert seen == [(403, 403, 0), (200, 200, 0)]
    page = running.http.get("/admin/sessions").text
    assert re.findall(r'data-label="With">([^<]*)', page) == ["link, as administrator"]
    [row] = running.http.get("/api/admin/sessions").json()["sessions"]
    assert (row["email"], row["administrator"]) == (ANN, True)
    site.sql("UPDATE sessions SET seen_at = seen_at - interval '13 hours'")
    assert running.http.get("/admin").status_code == 401


def test_the_command_prints_the_link_alone_and_stores_no_token(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", site.settings.postgres_dsn)
    monkeypatch.setenv("CONCORDANCE_HTTP_PORT", str(site.settings.http_port))
    assert run(["sign-in", ANN]) == 3
    assert "is not responding" in capsys.readouterr().err
    assert site.sql("SELECT count(*) FROM sign_ins") == [(0,)]
    with site.running(port=site.settings.http_port) as running:
        assert run(["sign-in", "nobody"]) == 2
        capsys.readouterr()
        assert run(["sign-in", "Ann@Acme.com", "--administrator"]) == 0
        printed = capsys.readouterr()
        assert LINK.fullmatch(printed.out.strip())
        token = urlsplit(printed.out.strip()).fragment
        assert (f"signs {ANN} in as administrator, once" in printed.err, token in printed.err) == (True, False)
        assert pressed(running, token)[0] == 303
        assert run(["session", "list"]) == 0
        assert f"{ANN}  link, as administrator  since" in capsys.readouterr().out
        running.settle()
        tables = ("audit_log", "sessions", "sign_ins")
        stored = json.dumps([site.sql(f"SELECT {table}::text FROM {table}") for table in tables])  # noqa: S608 # names of this file
    assert token.split(".")[2] not in stored


def test_a_browser_sends_the_token_with_the_button_only(site: Site, tmp_path: Path, axe: str) -> None:
    with site.running(port=site.settings.http_port) as running, running_browser(tmp_path / "profile") as browser:
        token = made(site, administrator=True)
        browser.goto(f"{running.url}/sign-in/link#{token}")
        said = browser.evaluate("document.querySelector('main').innerText")
        assert f"This link signs you in as {ANN}, with the role administrator. It works once." in said
        assert browser.evaluate("location.href") == f"{running.url}/sign-in/link"
        assert violations(browser, axe) == []
        assert not any(token in address.partition("#")[0] for address in browser.requested)
        saved(browser, "sign-in-link")
        browser.click("#link button")
        assert browser.evaluate("document.querySelector('.me').innerText") == ANN
        assert browser.evaluate("document.querySelector('nav').innerText").split() == [
            "Search", "History", "Upload", "Sources", "Admin", "Dagster",
        ]  # fmt: skip
        browser.goto(f"{running.url}/sign-in/link#{token[:20]}")
        assert "not a complete link" in browser.evaluate("document.querySelector('main').innerText")
        assert browser.complaints == []


def test_the_start_page_says_how_to_sign_in_without_a_provider(running: Running) -> None:
    for path in ("/", "/sign-in"):
        assert "concordance sign-in you@company.com" in running.http.get(path).text
