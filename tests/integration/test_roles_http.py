"""Each role against every protected route, as docs/security.md says; where roles come from; and what the audit log holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from resources.core.domain import Role
from resources.settings import Settings
from resources.stores.postgres import session
from serving.identity import api_keys
from tests.fixtures.serving import Running, Site

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
PEOPLE = {role.value: f"{role.value}@acme.com" for role in Role} | {"user": "user@acme.com"}
OWNER, SECRET = "owner@acme.com", "Sandpiper"


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    """The installation with one holder of each role: all by email, but the operator by a group."""
    holders = {role.value: [PEOPLE[role.value]] for role in Role} | {"operator": ["group:ops@acme.com"]}
    roles = Settings(_env_file=None, roles=json.dumps(holders)).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles, "dagster_public_url": "https://dagster.example"})
    site.sql("INSERT INTO source_states (source, directory_at) VALUES ('scim', now())")
    site.sql("INSERT INTO directory VALUES ('scim', %s, 'group:ops@acme.com')", PEOPLE["operator"])
    site.sql("INSERT INTO sync_jobs (source, status, synced, completed_at) VALUES ('files', 'success', 7, now())")
    job = site.sql("SELECT job_id::text FROM sync_jobs")[0][0]
    site.sql(
        "INSERT INTO sync_errors (job_id, source_id, stage, reason) VALUES (%s, 'x/secret.md', 'raw', 'broken')", job
    )
    site.add(SECRET, ["The plan of project Sandpiper."], [OWNER])
    with site.running() as running:
        yield running


def upload(running: Running) -> str:
    """Return the id of a new upload of the owner's."""
    files = {"file": ("a.txt", b"Sandpiper's own words.", "text/plain")}
    made = running.request("POST", "/api/upload", OWNER, files=files)
    assert made.status_code == 202, made.text
    return made.json()["doc_id"]


def may(running: Running, who: str) -> dict[str, bool]:
    """Return what a person may do, by the rows of the table in docs/security.md."""

    def ask(method: str, path: str, **more: object) -> httpx.Response:
        return running.request(method, path, PEOPLE[who], **more)  # pyright: ignore[reportArgumentType]

    job = running.site.sql("SELECT job_id::text FROM sync_jobs WHERE synced = 7")[0][0]
    status = ask("GET", f"/api/sync/status/{job}").json()
    (files,) = (one for one in ask("GET", "/api/sources").json()["sources"] if one["source"] == "files")
    removed = ask("DELETE", f"/api/documents/{upload(running)}")
    running.site.sql("DELETE FROM uploads")
    files_sent = {"file": ("b.txt", PEOPLE[who].encode(), "text/plain")}
    shared = ask("POST", "/api/upload", files=files_sent, data={"share": "public"})
    opened = running.http.get("/dagster", headers=running.site.session(PEOPLE[who]))
    link = parse_qs(urlsplit(opened.headers.get("location", "")).query)
    dagster = jwt.decode(link["token"][0], options={"verify_signature": False})["role"] if link else None
    return {
        "open documents of others": bool(running.titles("project Sandpiper", PEOPLE[who])),
        "start a sync": ask("POST", "/api/sync/files", json={}).status_code == 202,
        "names and counts of the sources": "partitions" in files and status["documents_synced"] == 7,
        "errors of documents": [one["file_id"] for one in status["errors"]] == ["x/secret.md"],
        "state of each dependency": "services" in ask("GET", "/readyz").json(),
        "decide on deletions that wait": ask(
            "POST", "/api/held-deletions/files", json={"decision": "approve"}
        ).status_code
        != 403,
        "try credentials of a source": ask(
            "POST", "/api/sources/slack/check", json={"settings": {"slack_bot_token": "none"}}
        ).status_code
        == 200,
        "browse the drives and channels of a source": ask("POST", "/api/sources/slack/places", json={}).status_code
        == 200,
        "keys, sessions and agents of others": {
            ask("GET", f"/api/admin/{one}").status_code for one in ("keys", "sessions", "agents")
        }
        == {200},
        "read the audit log": ask("GET", "/api/audit").status_code == 200,
        "see usage by week": ask("GET", "/admin/usage?format=csv").status_code == 200,
        "list the question set and feedback, propose, accept and remove questions": ask(
            "GET", "/api/questions"
        ).status_code
        == 200,
        "take down uploads of others": removed.status_code == 200,
        "share uploads with anyone": shared.status_code == 202,
        "look at Dagster": dagster in ("viewer", "admin"),
        "work with Dagster": dagster == "admin",
        "push documents": ask("PUT", "/api/documents/wiki/1", json={"content": "Tea."}).status_code == 200,
        "connect the Google account": ask("GET", "/api/auth/google").status_code != 403,
    }


def documented() -> dict[str, set[str]]:
    """Return the roles that may do each thing, of the table in docs/security.md."""
    lines = PAGE.read_text(encoding="utf-8").split("| may |", 1)[1].splitlines()
    names = [name.strip() for name in lines[0].strip(" |").split("|")]
    table: dict[str, set[str]] = {}
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        what, *cells = (cell.strip() for cell in line.strip(" |").split("|"))
        table[re.sub(r"`[^`]*`|[()]", "", what).strip()] = {
            name for name, cell in zip(names, cells, strict=True) if cell == "yes"
        }
    return table


def test_each_role_may_what_the_documentation_says_and_no_more(running: Running, show: Callable[[str], None]) -> None:
    found = {who: may(running, who) for who in PEOPLE}
    show(
        "\n".join(
            f"{what:34}" + "".join(f"{who if found[who][what] else '-':15}" for who in PEOPLE) for what in found["user"]
        )
    )
    actual = {what: {who for who in PEOPLE if found[who][what]} for what in found["user"]}
    assert actual == documented()
    assert actual["open documents of others"] == set()


def test_a_refusal_names_the_role_and_is_audited(running: Running, site: Site) -> None:
    cases = {
        ("POST", "/api/sync/files"): ("role-required", "operator or administrator"),
        ("GET", "/api/audit"): ("role-required", "auditor or administrator"),
        ("GET", "/api/auth/google"): ("admin-only", "administrator"),
        ("POST", "/api/questions/7"): ("role-required", "curator or administrator"),  # whatever the body is
    }
    for (method, path), (slug, named) in cases.items():
        answer = running.request(method, path, PEOPLE["user"], **({"json": {}} if method == "POST" else {}))
        assert (answer.status_code, answer.json()["type"]) == (403, f"/problems/{slug}")
        assert named in answer.json()["detail"]
    running.settle()
    rows = site.sql("SELECT email, detail -> 'needed' FROM audit_log WHERE action = 'role_denied' ORDER BY event_id")
    assert rows == [
        (PEOPLE["user"], ["operator", "administrator"]),
        (PEOPLE["user"], ["auditor", "administrator"]),
        (PEOPLE["user"], ["administrator"]),
        (PEOPLE["user"], ["curator", "administrator"]),
    ]


def test_a_role_by_group_ends_with_the_membership(running: Running, site: Site) -> None:
    def start() -> int:
        return running.request("POST", "/api/sync/files", PEOPLE["operator"], json={}).status_code

    assert start() == 202
    site.sql("UPDATE source_states SET directory_at = now() - interval '2 days'")
    assert start() == 403
    site.sql("UPDATE source_states SET directory_at = now()")
    assert start() == 202
    site.sql("DELETE FROM directory")
    assert start() == 403


def test_the_audit_log_is_read_by_pages_and_filters(running: Running, site: Site) -> None:
    with session(site.settings.postgres_dsn) as connection:
        keys = [api_keys.create(connection, f"bot{number}@acme.com") for number in range(5)]
        assert api_keys.revoke(connection, keys[0].split("_")[1])

    def read(**query: object) -> dict[str, list[dict[str, object]]]:
        answer = running.request("GET", "/api/audit", PEOPLE["auditor"], params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    seen: list[object] = []
    page = read(action="key_create", limit=2)
    while True:
        seen += [one["email"] for one in page["events"]]
        if page["next_cursor"] is None:
            break
        page = read(action="key_create", limit=2, cursor=page["next_cursor"])
    assert seen == [f"bot{number}@acme.com" for number in reversed(range(5))]
    assert [one["action"] for one in read(email="BOT0@acme.com")["events"]] == ["key_revoke", "key_create"]
    assert read(since="2100-01-01T00:00:00Z")["events"] == read(until="2000-01-01T00:00:00Z")["events"] == []
    for wrong in ({"since": "yesterday"}, {"until": "2026-01-01T00:00:00"}, {"cursor": "x"}, {"limit": 0}):
        assert running.request("GET", "/api/audit", PEOPLE["auditor"], params=wrong).status_code == 400, wrong
    everything = json.dumps(read(limit=200))
    assert [key for key in keys if key.split("_", 2)[2] in everything] == []


def test_a_blocked_address_is_audited_once_a_minute(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 1})
    with site.running() as running:
        answers = [
            running.http.post(
                "/api/rag/search", json={"query": "x"}, headers={"Authorization": f"Bearer wrong{number}"}
            )
            for number in range(40)
        ]
        assert {one.status_code for one in answers} == {401, 429}
    rows = site.sql("SELECT email, detail FROM audit_log WHERE action = 'sign_in_blocked'")
    assert len(rows) == 1
    assert rows[0][0] == ""


def test_a_change_of_sharing_names_who_gained_and_lost_access(running: Running, site: Site) -> None:
    doc_id = upload(running)
    for share in (["ann@acme.com", "domain:acme.com"], ["ann@acme.com"]):
        assert running.request("PATCH", f"/api/documents/{doc_id}", OWNER, json={"share": share}).status_code == 200
    rows = site.sql("SELECT detail FROM audit_log WHERE action = 'change' ORDER BY event_id")
    assert [(one["added"], one["removed"]) for (one,) in rows] == [
        (["ann@acme.com", "domain:acme.com"], []),
        ([], ["domain:acme.com"]),
    ]
