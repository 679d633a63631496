"""Keys that people make for programs: each acts as its person, within its scopes, and never more."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest
from pydantic import SecretStr

from resources.core.domain import Role
from resources.stores.offboarding import offboard
from resources.stores.postgres import session
from serving.identity import api_keys
from serving.identity.own_keys import MOST
from sql.own_keys import OwnKeyRows
from tests.fixtures.serving import Running, Site
from tests.fixtures.waiting import until

ANN, BOB = "ann@acme.com", "bob@acme.com"
OURS = {"Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}
PATH = "/api/keys"
QUERY = "ferry timetable"
"""Of a document that is shared with a group, which only the provider says that Ann is in."""


@pytest.fixture
def browser(site: Site) -> dict[str, str]:
    """Ann's browser, at a provider that says that she is a sailor."""
    provider = {"name": "acme", "issuer": "https://sign-in.acme.com", "client_id": "concordance", "client_secret": "s"}
    update = {"oidc_providers": SecretStr(json.dumps([provider])), "roles": {Role.AUDITOR: (ANN,)}}
    site.settings = site.settings.model_copy(update=update)
    return site.session(ANN, "sailors@acme.com") | OURS


@pytest.fixture
def running(site: Site, browser: dict[str, str]) -> Any:
    site.add("Ferries", ["The ferry timetable of this winter."], ["group:sailors@acme.com"])
    with site.running() as running:
        yield running


def create(running: Running, browser: dict[str, str], *scopes: str, **more: Any) -> str:
    body = {"name": "Report", "scopes": list(scopes) or ["read"], **more}
    answer = running.http.post(PATH, json=body, headers=browser)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["key"])


def using(running: Running, key: str, method: str, path: str, **more: Any) -> httpx.Response:
    return running.http.request(method, path, headers={"Authorization": f"Bearer {key}"}, **more)


def found(running: Running, key: str) -> list[str]:
    answer = using(running, key, "POST", "/api/rag/search", json={"query": QUERY})
    assert answer.status_code == 200, answer.text
    return [one["title"] for one in answer.json()["results"]]


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("/problems/")


def test_a_key_acts_as_its_person_and_is_shown_once(site: Site, running: Running, browser: dict[str, str]) -> None:
    made = running.http.post(PATH, json={"name": " Nightly \n report ", "scopes": ["read"]}, headers=browser)
    key = made.json()["key"]
    assert found(running, key) == ["Ferries"]  # by a group of the provider, as the session last had it
    listed = running.http.get(PATH, headers=browser)
    (one,) = listed.json()["keys"]
    assert (one["name"], one["scopes"], one["key_id"]) == ("Nightly report", ["read"], key.split("_")[1])
    assert one["used_at"] is not None
    assert key.split("_", 2)[2] not in listed.text + running.http.get("/me", headers=browser).text
    assert site.sql("SELECT count(*) FROM api_keys WHERE key_hash LIKE %s", f"%{key[-20:]}%") == [(0,)]
    running.settle()
    ((actor, detail),) = site.sql("SELECT email, detail FROM audit_log WHERE action = 'key_create'")
    assert (actor, detail) == (ANN, {"key_id": one["key_id"], "name": "Nightly report", "scopes": ["read"]})
    site.sql("UPDATE sessions SET seen_at = now() - interval '13 hours'")
    assert found(running, key) == []  # nobody has used the browser for so long that it is signed out
    site.sql("UPDATE sessions SET seen_at = now(), groups_at = now() - interval '3 days'")
    assert found(running, key) == []  # what the provider said is too old to count


def test_each_scope_opens_its_part_alone(running: Running, browser: dict[str, str]) -> None:
    saved = {"name": "Ferries", "query": QUERY}
    read, write, operate = (create(running, browser, one) for one in ("read", "write", "operate"))
    assert problem(using(running, read, "POST", "/api/saved-searches", json=saved)) == (403, "key-scope")
    assert using(running, write, "POST", "/api/saved-searches", json=saved).status_code == 200
    for path in ("/api/me", "/api/saved-searches", "/me", "/history"):
        assert using(running, read, "GET", path).status_code == 200, path
        assert using(running, write, "GET", path).status_code == 403, path
    assert problem(using(running, write, "POST", "/api/rag/search", json={"query": QUERY})) == (403, "key-scope")
    assert problem(using(running, operate, "GET", "/api/me")) == (403, "key-scope")
    assert problem(using(running, read, "GET", "/api/audit")) == (403, "role-required")
    auditor = create(running, browser, "read", "operate")
    assert using(running, auditor, "GET", "/api/audit").status_code == 200
    assert problem(using(running, auditor, "GET", "/api/admin/keys")) == (403, "admin-only")  # no more than the person


def test_only_a_browser_that_is_signed_in_makes_keys(site: Site, running: Running, browser: dict[str, str]) -> None:
    whole = create(running, browser, "read", "write", "operate")
    with session(site.settings.postgres_dsn) as connection:
        operators = api_keys.create(connection, ANN, admin=True)
    for credential in (whole, operators, site.token(ANN, admin=True)):
        answer = using(running, credential, "POST", PATH, json={"name": "More", "scopes": ["read"]})
        assert problem(answer) == (403, "sign-in-only")
    mixed = running.http.post(
        PATH, json={"name": "More", "scopes": ["read"]}, headers={**browser, "Authorization": f"Bearer {whole}"}
    )
    assert problem(mixed) == (403, "sign-in-only")
    assert len(running.http.get(PATH, headers=browser).json()["keys"]) == 1


def test_only_a_browser_that_signed_in_lately_makes_keys_that_change_something(
    site: Site, running: Running, browser: dict[str, str]
) -> None:
    site.sql("UPDATE sessions SET created_at = created_at - interval '61 minutes'")
    create(running, browser, "read")
    for scope in ("write", "operate"):
        refused = running.http.post(PATH, json={"name": "x", "scopes": ["read", scope]}, headers=browser)
        assert problem(refused) == (400, "invalid-request")
        assert "Sign out, sign in again" in refused.json()["detail"]
    assert site.sql("SELECT scopes FROM api_keys") == [(["read"],)]


def test_a_key_ends_when_it_is_revoked_expires_or_is_vouched_for_no_longer(
    site: Site, running: Running, browser: dict[str, str]
) -> None:
    key, other = create(running, browser), create(running, site.session(BOB) | OURS)
    path = f"{PATH}/{key.split('_')[1]}"
    assert problem(using(running, other, "DELETE", path)) == (403, "key-scope")
    assert running.request("DELETE", path, BOB).status_code == 404  # it does not exist for anyone else
    assert running.http.delete(path, headers=browser).json()["status"] == "revoked"
    assert running.http.delete(path, headers=browser).status_code == 404
    assert problem(using(running, key, "GET", "/api/me")) == (401, "api-key-invalid")
    late = create(running, browser, expires_in_days=1)
    site.sql("UPDATE api_keys SET expires_at = %s WHERE key_id = %s", datetime.now(UTC), late.split("_")[1])
    assert problem(using(running, late, "GET", "/api/me")) == (401, "api-key-invalid")
    foreign = create(running, browser)
    site.sql("UPDATE api_keys SET provider = 'gone' WHERE key_id = %s", foreign.split("_")[1])
    assert problem(using(running, foreign, "GET", "/api/me")) == (401, "api-key-invalid")
    left = create(running, browser)
    site.sql("INSERT INTO people (source, email, active, updated_at) VALUES ('scim', %s, FALSE, now())", ANN)
    assert problem(using(running, left, "GET", "/api/me"))[1] == "account-inactive"


def test_a_person_has_a_few_keys_for_a_bounded_time(site: Site, running: Running, browser: dict[str, str]) -> None:
    longest = timedelta(days=90)
    body = {"name": "Long", "scopes": ["read"], "expires_in_days": longest.days + 1}
    assert problem(running.http.post(PATH, json=body, headers=browser)) == (400, "invalid-request")
    for wrong in ({"scopes": []}, {"scopes": ["admin"]}, {"name": " "}, {"expires_in_days": 0}, {"email": BOB}):
        answer = running.http.post(PATH, json={"name": "x", "scopes": ["read"], **wrong}, headers=browser)
        assert problem(answer) == (400, "invalid-request"), wrong
    keys = [create(running, browser) for _ in range(MOST)]
    refused = running.http.post(PATH, json={"name": "x", "scopes": ["read"]}, headers=browser)
    assert problem(refused) == (413, "quota-exceeded")
    for key in keys[:5]:
        running.http.delete(f"{PATH}/{key.split('_')[1]}", headers=browser)
    create(running, browser)
    assert site.sql("SELECT count(*) FROM api_keys") == [(MOST - 4,)]  # those that are over are gone


def test_a_key_that_is_made_while_its_account_ends_ends_with_it(site: Site, browser: dict[str, str]) -> None:
    ((session_id,),) = site.sql("SELECT session_id FROM sessions")
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "session_id": session_id, "email": ANN, "key_id": "0a1b", "key_hash": "", "name": "Report", "scopes": ["read"], "now": now,
        "expires_at": now + timedelta(days=1), "most": MOST,
    }  # fmt: skip

    def end() -> None:
        with session(site.settings.postgres_dsn) as connection:
            offboard(connection, {ANN: "left"}, by="scim")

    with psycopg.connect(site.settings.postgres_dsn) as making, ThreadPoolExecutor(1) as pool:
        made = making.execute(OwnKeyRows.declared["insert_own"].text.encode(), values)
        assert made.rowcount == 1
        ending = pool.submit(end)
        until(lambda: ending.done() or site.waits("DELETE FROM sessions"), "the end of the session, or its wait")
        making.commit()
        ending.result()
    assert site.sql("SELECT count(*) FROM api_keys WHERE revoked_at IS NULL") == [(0,)]
    assert site.sql("SELECT detail -> 'keys' FROM audit_log WHERE action = 'offboard'") == [(["0a1b"],)]
