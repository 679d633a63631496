"""Browser sessions over HTTP, without a provider: who may use them, list them and end them."""

from __future__ import annotations

import asyncio
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from resources import sample_people
from resources.stores.offboarding import offboard
from resources.stores.postgres import session
from serving.http.database import Database
from sql.people import People
from sql.sign_in import SignInReads
from tests.fixtures.serving import PUBLIC_URL, Running, Site
from tests.fixtures.waiting import until

ANN, BOB = "ann@acme.com", "bob@acme.com"
OURS = {"Origin": PUBLIC_URL, "Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}
QUERY = {"query": "ferry"}


def test_a_session_is_used_by_pages_of_ours_only(site: Site, running: Running, subtests: pytest.Subtests) -> None:
    site.add("Ferries", ["The ferry leaves at nine."], [ANN])
    cookie = site.session(ANN)
    for headers, read, change in [
        (OURS, 200, 200),
        ({"Origin": PUBLIC_URL, "X-Concordance": "1"}, 200, 200),  # a browser without Sec-Fetch-Site
        ({}, 200, 403),
        ({"X-Concordance": "1"}, 200, 403),
        ({"Sec-Fetch-Site": "none", "X-Concordance": "1"}, 200, 403),
        (OURS | {"X-Concordance": ""}, 200, 403),
        (OURS | {"Sec-Fetch-Site": "cross-site"}, 403, 403),
        (OURS | {"Sec-Fetch-Site": "same-site"}, 403, 403),
        (OURS | {"Origin": "https://evil.example"}, 200, 403),
        (OURS | {"Origin": "null"}, 200, 403),
        (OURS | {"Authorization": "Bearer nonsense"}, 401, 401),
        (OURS | {"X-API-Key": "nonsense"}, 401, 401),
        ({"Authorization": "Basic eDp4", "X-API-Key": "x", "Origin": "https://evil.example"}, 401, 401),
    ]:
        with subtests.test(headers=headers):
            given = {**cookie, **headers}
            assert running.http.get("/api/documents", headers=given).status_code == read
            assert running.http.post("/api/rag/search", json=QUERY, headers=given).status_code == change
    found = running.http.post("/api/rag/search", json=QUERY, headers={**cookie, **OURS})
    assert [one["title"] for one in found.json()["results"]] == ["Ferries"]


def test_people_list_and_end_their_own_sessions_only(site: Site, running: Running) -> None:
    ann, other, bob = site.session(ANN), site.session(ANN), site.session(BOB)
    listed = running.http.get("/api/sessions", headers={**ann, **OURS}).json()["sessions"]
    assert sorted(one["current"] for one in listed) == [False, True]
    assert running.request("GET", "/api/sessions", ANN).json()["sessions"][0]["current"] is False
    old = next(one["session_id"] for one in listed if not one["current"])
    path = f"/api/sessions/{old}"
    assert running.http.delete(path, headers={**bob, **OURS}).status_code == 404
    assert running.request("DELETE", path, BOB, admin=True).status_code == 404
    assert running.http.delete(path, headers=ann).status_code == 403
    assert running.http.delete(path, headers={**ann, **OURS}).json() == {"session_id": old, "status": "ended"}
    assert running.http.delete(path, headers={**ann, **OURS}).status_code == 404
    assert running.http.get("/api/sessions", headers=other).json()["type"] == "/problems/session-over"
    assert running.http.get("/api/sessions", headers=ann).status_code == 200
    assert running.http.delete("/api/sessions/x", headers={**ann, **OURS}).status_code == 404
    running.settle()
    running.request("GET", "/api/sessions", ANN)
    out = running.http.post("/sign-out", headers={**ann, **OURS})
    assert (out.status_code, "max-age=0" in out.headers["set-cookie"].lower()) == (200, True)
    assert running.http.get("/api/sessions", headers=ann).status_code == 401


def test_groups_of_a_session_count_while_they_are_fresh(site: Site, running: Running) -> None:
    site.add("Crew", ["The ferry crew."], ["group:crew@acme.com"])
    cookie = {**site.session(ANN, "crew@acme.com"), **OURS}

    def found() -> int:
        return len(running.http.post("/api/rag/search", json=QUERY, headers=cookie).json()["results"])

    assert found() == 1
    site.sql("UPDATE sessions SET groups_at = now() - interval '25 hours'")
    assert found() == 0
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)
    refused = running.http.post("/api/rag/search", json=QUERY, headers=cookie)
    assert refused.json()["type"] == "/problems/account-inactive"


def test_old_and_idle_sessions_are_over(site: Site, running: Running) -> None:
    for column, by in (("seen_at", "13 hours"), ("expires_at", "8 days")):
        cookie = site.session(ANN)
        assert running.http.get("/api/sessions", headers=cookie).status_code == 200
        site.sql(f"UPDATE sessions SET {column} = {column} - interval '{by}'")  # noqa: S608 # names of this file
        assert running.http.get("/api/sessions", headers=cookie).json()["type"] == "/problems/session-over"


def test_without_postgres_no_session_is_accepted(site: Site) -> None:
    cookie = site.session(ANN)
    site.settings = site.settings.model_copy(update={"postgres_url": SecretStr("postgresql://127.0.0.1:9/none")})
    with site.running() as running:
        assert running.http.get("/api/sessions", headers=cookie).status_code == 503
        assert running.http.post("/api/rag/search", json=QUERY, headers={**cookie, **OURS}).status_code == 503
        home = running.http.get("/", headers=cookie)
        assert (home.status_code, ANN in home.text) == (503, False)
        assert "text/html" in home.headers["content-type"]


def test_a_session_ends_with_its_provider(site: Site) -> None:
    cookie = site.session(ANN)
    row = {"name": "Other", "issuer": "https://id.example", "client_id": "concordance"}
    site.settings = site.settings.model_copy(update={"oidc_providers": SecretStr(json.dumps([row]))})
    with site.running() as running:
        assert running.http.get("/api/sessions", headers=cookie).status_code == 401
        assert site.sql("SELECT count(*) FROM sessions") == [(0,)]


def test_the_sample_companys_people_sign_in_only_where_nobody_else_can(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "people.json"
    person = {
        "id": "ann",
        "name": "Ann",
        "role": "engineer",
        "email": ANN,
        "groups": ["crew@acme.com"],
        "sees": "Finds all.",
    }
    root = {"id": "bob", "name": "Bob", "role": "director", "email": BOB, "groups": [], "administrator": True}
    file.write_text(json.dumps([person, root]), encoding="utf-8")
    monkeypatch.setenv(sample_people.VARIABLE, str(file))
    form = {"person": "ann", "next": "/documents/x"}
    with site.running() as running:  # with a provider and a public URL
        assert "Ann" not in running.http.get("/sign-in").text
        assert running.http.post("/sign-in/sample", data=form, headers=OURS).status_code == 404
    site.settings = site.settings.model_copy(update={"public_url": None, "oidc_providers": None})
    site.add("Crew", ["The ferry crew."], ["group:crew@acme.com"])
    with site.running() as running:
        ours = OURS | {"Origin": running.url}
        assert "Ann" in running.http.get("/sign-in").text
        assert running.http.post("/sign-in/sample", data=form).status_code == 403
        assert "Finds all." in running.http.get("/sign-in").text
        assert running.http.post("/sign-in/sample", data={"person": "eve"}, headers=ours).status_code == 404
        signed = running.http.post("/sign-in/sample", data=form, headers=ours)
        assert (signed.status_code, signed.headers["location"]) == (303, "/documents/x")
        found = running.http.post("/api/rag/search", json=QUERY, headers=ours)  # the client keeps the cookie
        assert [one["title"] for one in found.json()["results"]] == ["Crew"]
        assert running.http.post("/sign-in/sample", data=form, headers=ours).status_code == 303
        assert site.sql("SELECT count(*) FROM sessions") == [(1,)]  # a new sign-in replaces the browser's session
        assert running.http.get("/admin").status_code == 403
        assert running.http.post("/sign-in/sample", data={"person": "bob"}, headers=ours).status_code == 303
        assert running.http.get("/admin").status_code == 200
        assert running.request("GET", "/admin", BOB).status_code == 403  # the session has the role, not the email


def test_a_provider_that_does_not_answer_is_a_page(site: Site) -> None:
    row = {"name": "Acme", "issuer": "http://127.0.0.1:9", "client_id": "concordance"}
    site.settings = site.settings.model_copy(update={"oidc_providers": SecretStr(json.dumps([row]))})
    with site.running() as running:
        answer = running.http.get("/sign-in/acme?next=/documents/x")
        assert answer.status_code == 503
        assert "cannot be used for sign-in at the moment" in answer.text
        assert "/sign-in?next=%2Fdocuments%2Fx" in answer.text
        assert running.http.get("/sign-in/nobody").status_code == 404


def test_listed_sessions_hold_no_secret(site: Site, running: Running) -> None:
    cookie = site.session(ANN)
    secret = cookie["Cookie"].partition("=")[2]
    body = running.http.get("/api/sessions", headers=cookie).text
    assert secret not in body
    [stored] = site.sql("SELECT sessions::text FROM sessions")
    assert secret not in stored[0]
    assert datetime.fromisoformat(json.loads(body)["sessions"][0]["expires_at"]) > datetime.now(UTC) + timedelta(
        hours=1
    )


@pytest.mark.parametrize(
    "change",
    [b"UPDATE people SET active = FALSE", b"UPDATE people SET tokens_since = now()"],
    ids=["deactivated", "another account"],
)
def test_a_sign_in_under_way_while_the_account_ends_begins_no_session(site: Site, change: bytes) -> None:
    """It would open everything again once somebody with the address is active."""
    site.sql("INSERT INTO people (source, email, active) VALUES ('google', %s, TRUE)", ANN)
    now = datetime.now(UTC)
    with session(site.settings.postgres_dsn) as ending, ThreadPoolExecutor(1) as pool:
        ending.execute(change)
        offboard(ending, {ANN: "left"}, by="google")
        signing_in = pool.submit(sign_in, site, now)
        until(lambda: signing_in.done() or site.waits("pg_advisory_xact_lock"), "the sign-in, or its wait")
        ending.commit()
        assert signing_in.result() == 0
    assert site.sql("SELECT count(*) FROM sessions") == [(0,)]


def test_a_sign_in_under_way_while_a_directory_first_names_the_person_begins_no_session(site: Site) -> None:
    """There is no row of theirs yet that the sign-in could wait for."""
    with session(site.settings.postgres_dsn) as ending, ThreadPoolExecutor(1) as pool:
        ending.execute("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", (ANN,))
        offboard(ending, {ANN: "deactivated"}, by="scim")
        signing_in = pool.submit(sign_in, site, datetime.now(UTC))
        until(lambda: signing_in.done() or site.waits("pg_advisory_xact_lock"), "the sign-in, or its wait")
        ending.commit()
        assert signing_in.result() == 0
    assert site.sql("SELECT count(*) FROM sessions") == [(0,)]


def test_a_sign_in_does_not_wait_for_a_sync_of_people_that_has_nothing_new_of_the_person(site: Site) -> None:
    """The sync commits once the vector index has what it takes away, which may hang for a minute."""
    people: list[dict[str, Any]] = [
        {"email": email, "id": email, "name": email, "active": True} for email in (ANN, BOB)
    ]
    with session(site.settings.postgres_dsn) as connection:
        People(connection, "google").save_people(rows=people)
    people[1]["active"], now = False, datetime.now(UTC)
    with session(site.settings.postgres_dsn) as syncing, ThreadPoolExecutor(1) as pool:
        People(syncing, "google").save_people(rows=people)
        signing_in = pool.submit(sign_in, site, now)
        until(lambda: signing_in.done() or site.waits("pg_advisory_xact_lock"), "the sign-in, or its wait")
        done = signing_in.done()
        syncing.commit()
    assert (done, signing_in.result()) == (True, 1)
    assert site.sql("SELECT email, active FROM people ORDER BY email") == [(ANN, True), (BOB, False)]


def test_a_sign_in_does_not_wait_for_the_end_of_another_account(site: Site) -> None:
    """It drops sessions that have expired, those of others as well."""
    site.session(BOB)
    site.sql("UPDATE sessions SET expires_at = now() - interval '1 hour'")
    with session(site.settings.postgres_dsn) as ending, ThreadPoolExecutor(1) as pool:
        offboard(ending, {BOB: "left"}, by="scim")
        signing_in = pool.submit(sign_in, site, datetime.now(UTC))
        until(lambda: signing_in.done() or site.waits("INSERT INTO sessions"), "the sign-in, or its wait")
        done = signing_in.done()
        ending.commit()
    assert (done, signing_in.result()) == (True, 1)


@pytest.mark.parametrize("emails", [(ANN, BOB), (BOB, ANN)])
def test_accounts_that_end_together_are_locked_in_one_order(site: Site, emails: tuple[str, str]) -> None:
    """Two transactions would wait for each other."""
    parts = "SELECT hashtext(email) & 255 FROM unnest(%s::text[]) AS email ORDER BY 1"
    (first,), (second,) = site.sql(parts, list(emails))
    held = "SELECT 1 FROM pg_locks WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    with session(site.settings.postgres_dsn) as ahead, session(site.settings.postgres_dsn) as ending:
        ahead.execute("SELECT pg_advisory_xact_lock(hashtext('concordance.account'), %s)", (first,))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(offboard, ending, dict.fromkeys(emails, "left"), "scim")
            until(lambda: site.waits("pg_advisory_xact_lock"), "the wait for the first lock")
            found = site.sql(f"{held} AND locktype = 'advisory' AND granted AND objid = %s", second)
            ahead.commit()
            waiting.result()
    assert found == []


def sign_in(site: Site, now: datetime) -> int:
    """Begin a session of Ann as a sign-in at this time does, and return the number of rows."""
    values: dict[str, Any] = {
        "session_id": str(uuid.uuid4()), "secret_hash": "new", "email": ANN, "provider": "acme", "subject": "1", "passkey_id": None,
        "browser": "", "groups": [], "groups_omitted": False, "secrets": None, "administrator": False, "now": now,
        "expires_at": now + timedelta(days=1),
    }  # fmt: skip

    async def insert() -> int:
        database = Database(site.settings.postgres_dsn, prepare_threshold=5)
        await database.open()
        try:
            return await SignInReads(database).session_insert(**values)
        finally:
            await database.close()

    return asyncio.run(insert())
