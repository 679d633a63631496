"""The synced directory adds memberships in Slack workspaces to a caller, only recent ones, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest

from resources.core.domain import SourceName
from resources.settings import Settings
from resources.stores.postgres import session
from serving.identity import api_keys, authentication
from serving.identity.authentication import Authentication
from tests.fixtures.serving import Running, Site

MEMBER, GUEST, OUTSIDER = "mia@acme.com", "gus@partner.com", "eve@other.com"
TEAM, PUBLISHERS = "slack:T0LARKMOOR", "group:publishers@acme.com"
QUERY = "standup notes"
JSON = {"Content-Type": "application/json"}


def tell(site: Site, entries: Iterable[tuple[str, str]], read_at: datetime | None = None) -> None:
    """Replace what Slack says of people, as a sync does."""
    site.sql("DELETE FROM directory")
    for email, principal in entries:
        site.sql("INSERT INTO directory (source, email, principal) VALUES ('slack', %s, %s)", email, principal)
    site.sql(
        "INSERT INTO source_states (source, directory_at) VALUES ('slack', %s)"
        " ON CONFLICT (source) DO UPDATE SET directory_at = excluded.directory_at",
        read_at or datetime.now(UTC),
    )


@pytest.fixture
def workspace(site: Site) -> Site:
    """A public channel, readable by the workspace; a private one, readable by a guest."""
    site.add("General", ["Standup notes of the whole team."], [TEAM], source=SourceName.SLACK, source_id="T/C1/1")
    site.add("Project", ["Standup notes of one project."], [GUEST], source=SourceName.SLACK, source_id="T/C2/1")
    tell(site, [(MEMBER, TEAM)])
    return site


def test_only_members_find_the_workspaces_documents(workspace: Site, running: Running) -> None:
    assert running.titles(QUERY, MEMBER) == ["General"]
    assert running.titles(QUERY, MEMBER.upper()) == ["General"]
    assert running.titles(QUERY, GUEST) == ["Project"]
    assert running.titles(QUERY, OUTSIDER) == []


def test_a_user_who_leaves_the_workspace_loses_access(workspace: Site, running: Running) -> None:
    doc_id = running.search(QUERY, MEMBER)["results"][0]["doc_id"]
    assert running.request("GET", f"/api/documents/{doc_id}", MEMBER).status_code == 200
    tell(workspace, [])
    assert running.titles(QUERY, MEMBER) == []
    assert running.request("GET", f"/api/documents/{doc_id}", MEMBER).status_code == 404
    tell(workspace, [(MEMBER, TEAM), (OUTSIDER, TEAM)])
    assert running.titles(QUERY, OUTSIDER) == ["General"]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set once a request is authenticated for the first time. It is authenticated again however fast its body arrives."""
    begun = threading.Event()
    authenticate = Authentication.authenticate_request

    async def authenticated(self: Authentication, connection: Any) -> Any:
        result = await authenticate(self, connection)
        begun.set()
        return result

    monkeypatch.setattr(Authentication, "authenticate_request", authenticated)
    monkeypatch.setattr(authentication, "PROMPT_BODY_SECONDS", 0.0)
    return begun


@pytest.mark.parametrize("path", ["/api/rag/search", "/api/ask"])
def test_what_is_lost_while_a_body_arrives_is_not_shown(
    workspace: Site, running: Running, begun: threading.Event, path: str
) -> None:
    """A slow sender cannot keep the rights with which its request began."""

    def body(lost: list[tuple[str, str]]) -> Iterator[bytes]:
        yield b'{"query": "'
        assert begun.wait(30)
        tell(workspace, lost)
        yield b'standup notes"}'

    def sent(lost: list[tuple[str, str]]) -> httpx.Response:
        begun.clear()
        return running.request("POST", path, MEMBER, content=body(lost), headers=JSON)

    assert "whole team" in sent([(MEMBER, TEAM)]).text
    lost = sent([])
    assert lost.status_code == 200
    assert "whole team" not in lost.text
    assert "General" not in lost.text


def test_a_role_that_is_lost_while_a_body_arrives_does_not_count(site: Site, begun: threading.Event) -> None:
    """Guards have run before: a program pushes a document, and leaves the group that may do so before the body is there."""

    def body(lost: list[tuple[str, str]]) -> Iterator[bytes]:
        yield b'{"content": "'
        assert begun.wait(30)
        tell(site, lost)
        yield b'Standup notes."}'

    roles = Settings(_env_file=None, roles=json.dumps({"publisher": [PUBLISHERS]})).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles})
    tell(site, [(MEMBER, PUBLISHERS)])
    with site.running() as running:
        for own_id, left, status in (("tea", [(MEMBER, PUBLISHERS)], 200), ("milk", [], 403)):
            begun.clear()
            path = f"/api/documents/wiki/{own_id}"
            answer = running.request("PUT", path, MEMBER, content=body(left), headers=JSON)
            assert answer.status_code == status, answer.text
    assert site.sql("SELECT count(*) FROM uploads") == [(1,)]


def test_someone_whom_a_directory_reports_as_inactive_is_refused_with_token_and_key(
    workspace: Site, running: Running
) -> None:
    with session(workspace.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, MEMBER)
    assert running.titles(QUERY, MEMBER) == ["General"]
    workspace.sql(
        "INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE), ('other', %s, TRUE)", MEMBER, MEMBER
    )
    for credential in (workspace.token(MEMBER), key):
        headers = {"Authorization": f"Bearer {credential}"}
        answer = running.request("POST", "/api/rag/search", headers=headers, json={"query": QUERY})
        assert (answer.status_code, answer.json()["type"]) == (401, "/problems/account-inactive")
    workspace.sql("UPDATE people SET active = TRUE")
    assert running.titles(QUERY, MEMBER) == ["General"]


def test_every_read_uses_the_directory(workspace: Site, running: Running) -> None:
    doc_id = running.search(QUERY, MEMBER)["results"][0]["doc_id"]
    for who, status, cited in ((MEMBER, 200, 1), (GUEST, 404, 0)):
        assert running.request("GET", f"/api/documents/{doc_id}?chunk=0", who).status_code == status
        body = running.request("POST", "/api/citations/format", who, json={"doc_ids": [doc_id]}).json()
        assert len(body["citations"]) == cited
        page = running.http.get(f"/documents/{doc_id}", headers=workspace.session(who))
        assert page.status_code == status


def test_a_stale_directory_adds_no_membership(workspace: Site, running: Running) -> None:
    tell(workspace, [(MEMBER, TEAM)], datetime.now(UTC) - timedelta(days=2))
    assert running.titles(QUERY, MEMBER) == []
    workspace.sql("UPDATE source_states SET directory_at = NULL")
    assert running.titles(QUERY, MEMBER) == []
    workspace.sql("DELETE FROM source_states")
    assert running.titles(QUERY, MEMBER) == []


def test_an_api_key_has_its_holders_memberships(workspace: Site, running: Running) -> None:
    with session(workspace.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, MEMBER)
    found = running.http.post("/api/rag/search", json={"query": QUERY}, headers={"X-API-Key": key}).json()
    assert [one["title"] for one in found["results"]] == ["General"]


def test_a_group_named_like_a_workspace_is_not_a_membership(
    workspace: Site, running: Running, subtests: pytest.Subtests
) -> None:
    for group in [TEAM, "T0LARKMOOR", "T0LARKMOOR@acme.com", f"{TEAM}@acme.com"]:
        with subtests.test(group=group):
            now = datetime.now(UTC)
            claims = {
                "iss": "concordance",
                "aud": "concordance",
                "sub": OUTSIDER,
                "iat": now,
                "exp": now + timedelta(hours=1),
            }
            from resources.keys import secret_key

            token = jwt.encode(claims | {"groups": [group]}, secret_key(workspace.settings), algorithm="HS256")
            headers = {"Authorization": f"Bearer {token}"}
            response = running.http.post("/api/rag/search", json={"query": QUERY}, headers=headers)
            assert response.status_code in {200, 401}
            assert response.json().get("results", []) == []


def test_no_other_claim_and_no_field_of_a_request_makes_a_member(
    workspace: Site, running: Running, subtests: pytest.Subtests
) -> None:
    for claim in ["slack_teams", "principals", "slack", "permissions"]:
        with subtests.test(claim=claim):
            from resources.keys import secret_key

            now = datetime.now(UTC)
            claims = {
                "iss": "concordance",
                "aud": "concordance",
                "sub": OUTSIDER,
                "iat": now,
                "exp": now + timedelta(hours=1),
            }
            token = jwt.encode(claims | {claim: [TEAM]}, secret_key(workspace.settings), algorithm="HS256")
            headers = {"Authorization": f"Bearer {token}"}
            found = running.http.post(f"/api/rag/search?{claim}={TEAM}", json={"query": QUERY}, headers=headers)
            assert found.json()["results"] == []
            refused: Any = running.request("POST", "/api/rag/search", OUTSIDER, json={"query": QUERY, claim: [TEAM]})
            assert refused.status_code == 400


@pytest.mark.parametrize("principal", [GUEST, "domain:partner.com", "nonsense:x", ""])
def test_a_directory_cannot_add_identities(workspace: Site, running: Running, principal: str) -> None:
    workspace.add("Partner", ["Standup notes of the partner."], ["domain:partner.com"])
    tell(workspace, [(OUTSIDER, principal), (OUTSIDER, "slack:t0larkmoor")])
    assert running.titles(QUERY, OUTSIDER) == ["General"]


def test_without_postgres_a_caller_has_no_memberships(workspace: Site) -> None:
    workspace.add("Open", ["Standup notes for everybody."], ["domain:acme.com"])
    nowhere = type(workspace.settings.postgres_url)("postgresql://x@127.0.0.1:9/x")
    workspace.settings = workspace.settings.model_copy(update={"postgres_url": nowhere})
    with workspace.running() as running:
        assert running.titles(QUERY, MEMBER) == ["Open"]
