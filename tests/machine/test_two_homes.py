"""Two serving processes with a HOME each: what one has taken away, the other takes away too, also while Postgres is down."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from resources.core.domain import SourceName
from resources.stores.postgres import connect, hang_up, session
from resources.stores.uploads import remove
from resources.stores.withheld import COLLECTION, DOCUMENT, GROUPS, WithheldCollection
from resources.stores.withholding import withhold_partition
from serving.identity import api_keys
from serving.identity.withholding import Withholding
from tests.fixtures.agents import called as called_tool
from tests.fixtures.agents import connected
from tests.fixtures.revoked import revoke, withheld
from tests.fixtures.serving import Running, Site, configured
from tests.machine.test_degradation_http import codes, own_postgres, titles, until_ready

__all__ = ["own_postgres"]

ANN, BOB = "ann@acme.com", "bob@acme.com"
PAGE = {"X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}
TEXT = "The lighthouse keeper counts ships at night."


class Pair:
    """Processes A and B, of which only A hears of changes, and their common Postgres."""

    def __init__(self, site: Site, process: Any, a: Running, b: Running) -> None:
        self.site, self.process, self.a, self.b = site, process, a, b

    def upload(self) -> str:
        """Upload a document of Ann's at A, and index it as shared with Bob; the index hears of nothing later."""
        doc_id = self.send(BOB)
        source_id = f"{ANN}:{hashlib.sha256(TEXT.encode()).hexdigest()}"
        self.site.add("Upload", [TEXT], [ANN, BOB], source=SourceName.UPLOAD, source_id=source_id, owner=ANN)
        return doc_id

    def send(self, *share: str) -> str:
        files = {"file": ("u.txt", TEXT.encode(), "text/plain")}
        data = {"metadata": json.dumps({"share": share})}
        answer = self.a.request("POST", "/api/upload", ANN, files=files, data=data)
        assert answer.status_code == 202, answer.text
        return answer.json()["doc_id"]

    def found(self, who: str) -> set[str]:
        """What B finds without Postgres."""
        answer = self.b.search("lighthouse keeper", who)
        assert "registry_unavailable" in codes(answer)
        return titles(answer) - {"Ferry"}

    def status(self, token: str, path: str = "/api/rag/search") -> tuple[int, str]:
        """How B answers a token."""
        headers = {"Authorization": f"Bearer {token}"}
        answer = self.b.http.post(path, json={"query": "ferry"}, headers=headers)
        return answer.status_code, answer.json().get("type", "").rpartition("/")[2]


def told(site: Site, kind: str) -> list[str]:
    """Return the keys of the entries of a kind."""
    return sorted(entry.key for page in WithheldCollection(site.qdrant).entries(kind) for entry in page)


@pytest.fixture
def pair(own_postgres: tuple[Site, Any]) -> Iterator[Pair]:
    site, process = own_postgres
    site.settings = site.settings.model_copy(update={"oidc_providers": configured().oidc_providers})
    home = site.settings.home.with_name("other")
    shutil.copytree(site.settings.home, home)  # the keys are the same on both machines
    other = Site(site.settings.model_copy(update={"home": home}), site.model)
    with ExitStack() as stack:
        stack.callback(other.qdrant.close)
        site.add("Ferry", ["The ferry leaves at nine."], ["public"])
        a, b = stack.enter_context(site.running()), stack.enter_context(other.running())
        until_ready(a)
        until_ready(b)
        yield Pair(site, process, a, b)


def test_a_token_revoked_at_one_is_refused_by_the_other(pair: Pair) -> None:
    revoked, valid = pair.site.token(ANN), pair.site.token(ANN)
    revoke(pair.site, revoked)
    pair.process.stop()
    for path in ("/api/rag/search", "/api/ask", "/mcp"):
        assert pair.status(revoked, path) == (401, "token-revoked")
    assert pair.status(valid)[0] == 200


def test_a_token_revoked_while_postgres_is_down_stays_revoked_when_it_is_back(pair: Pair) -> None:
    token = pair.site.token(ANN)
    pair.process.stop()
    assert pair.status(token)[0] == 200
    withheld(pair.site, token)
    assert pair.status(token) == (401, "token-revoked")
    pair.process.start()
    until_ready(pair.a)
    until_ready(pair.b)
    assert pair.status(token) == (401, "token-revoked")


def test_keys_sessions_and_agents_need_postgres(pair: Pair) -> None:
    """What has been ended at A cannot be told from what is valid, so B accepts neither."""
    with session(pair.site.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, ANN, groups=[], admin=False, scim=False)
    cookie = pair.site.session(ANN)
    (session_id,) = (row[0] for row in pair.site.sql("SELECT session_id::text FROM sessions"))
    assert pair.b.http.get("/api/documents", headers=cookie).status_code == 200
    assert pair.a.http.delete(f"/api/sessions/{session_id}", headers=cookie | PAGE).status_code == 200
    with session(pair.site.settings.postgres_dsn) as connection:
        assert api_keys.revoke(connection, key.split("_")[1], by="operator")
    assert pair.b.http.get("/api/documents", headers=cookie).status_code == 401
    pair.process.stop()
    asked = pair.b.http.post("/api/rag/search", json={"query": "ferry"}, headers=cookie | PAGE)
    assert asked.status_code == 503
    assert pair.status(key)[0] == 503
    assert pair.status("ca_" + "0" * 43, "/mcp")[0] == 503


@pytest.mark.parametrize("elsewhere", [False, True])
def test_groups_in_tokens_count_until_groups_come_from_elsewhere(pair: Pair, *, elsewhere: bool) -> None:
    """Nobody asks B anything between the first call of an identity provider at A and the end of Postgres."""
    pair.site.add("Rota", ["The lighthouse keeper has the rota of the crew."], ["group:crew@acme.com"])
    assert titles(pair.b.search("lighthouse keeper", BOB, "crew@acme.com")) == {"Rota", "Ferry"}
    if elsewhere:
        with session(pair.site.settings.postgres_dsn) as connection:
            scim = api_keys.create(connection, "idp@acme.com", scim=True)
        listed = pair.a.http.get("/scim/v2/Users", headers={"Authorization": f"Bearer {scim}"})
        assert listed.status_code == 200, listed.text
    pair.process.stop()
    answer = pair.b.search("lighthouse keeper", BOB, "crew@acme.com")
    assert "registry_unavailable" in codes(answer)
    assert ("Rota" in titles(answer)) is not elsewhere


def test_the_index_is_told_of_sources_of_groups_that_it_missed(pair: Pair) -> None:
    withheld = Withholding(pair.site.settings)
    with session(pair.site.settings.postgres_dsn) as connection:
        connection.execute("INSERT INTO source_states (source, directory_at) VALUES ('scim', now())")
    withheld.settle()
    assert told(pair.site, GROUPS) == ["scim"]
    pair.site.sql("DELETE FROM source_states WHERE source = 'scim'")
    withheld.settle()
    assert told(pair.site, GROUPS) == ["scim"]  # the transaction that read it may not have been committed yet
    withheld.close()


def test_a_person_who_has_left_is_refused_by_the_other(pair: Pair) -> None:
    with session(pair.site.settings.postgres_dsn) as connection:
        scim = api_keys.create(connection, "idp@acme.com", scim=True)
    headers = {"Authorization": f"Bearer {scim}", "Content-Type": "application/scim+json"}
    user = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": BOB, "active": True}
    user["emails"] = [{"value": BOB, "primary": True}]
    made = pair.a.http.post("/scim/v2/Users", content=json.dumps(user), headers=headers)
    assert made.status_code == 201, made.text
    user["active"] = False
    address = f"/scim/v2/Users/{made.json()['id']}"
    assert pair.a.http.put(address, content=json.dumps(user), headers=headers).status_code == 200
    pair.process.stop()
    assert pair.status(pair.site.token(BOB)) == (401, "account-inactive")
    assert pair.status(pair.site.token(ANN))[0] == 200


@pytest.mark.parametrize("change", ["narrowed", "deleted"])
def test_a_document_withdrawn_at_one_is_not_shown_by_the_other(pair: Pair, change: str) -> None:
    doc_id = pair.upload()
    if change == "narrowed":
        pair.send()
    else:
        assert pair.a.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
    pair.process.stop()
    assert (pair.found(BOB), pair.found(ANN)) == (set(), {"Upload"} if change == "narrowed" else set())
    answer = pair.b.request("POST", "/api/ask", BOB, json={"query": "Who counts ships at night?"})
    assert answer.status_code == 200
    assert not {"lighthouse", "Upload", doc_id} & set(answer.text.split('"'))
    assert "lighthouse" not in answer.text
    for path in (f"/api/documents/{doc_id}", "/api/documents", f"/documents/{doc_id}", "/api/saved-searches"):
        called = pair.b.request("GET", path, BOB)
        assert (called.status_code >= 400, "lighthouse" in called.text, "Upload" in called.text) == (True, False, False)
    assert ANN not in pair.b.request("GET", "/api/principals?prefix=ann", BOB).text

    async def search() -> dict[str, Any]:
        async with connected(pair.b, pair.site.token(BOB), mode="auto") as client:
            return await called_tool(client, "search", query="lighthouse keeper counts ships")

    assert "Upload" not in json.dumps(asyncio.run(search()))


def test_a_partition_that_can_no_longer_be_read_is_not_shown_by_the_other(pair: Pair) -> None:
    site = pair.site
    site.add("Buoy", ["The lighthouse keeper paints the buoy."], [ANN], partition="locked")
    with session(site.settings.postgres_dsn) as connection, connection.transaction():
        withhold_partition(connection, site.withheld, "files", "locked")
    pair.process.stop()
    assert pair.found(ANN) == set()
    assert titles(pair.b.search("ferry", BOB)) == {"Ferry"}


def test_a_process_killed_before_its_commit_withholds_more_until_it_is_settled(pair: Pair) -> None:
    doc_id = pair.upload()
    connection = connect(pair.site.settings.postgres_dsn, autocommit=True)
    withholding = Withholding(pair.site.settings)
    connection.execute("BEGIN")
    remove(connection, doc_id=doc_id, owner=ANN)
    withholding.documents(connection, [doc_id])
    hang_up(connection)  # as the death of the process does
    pair.process.stop()
    assert pair.found(ANN) == set()
    pair.process.start()
    until_ready(pair.b)
    withholding.settle()
    assert [entry for page in pair.site.withheld.entries(DOCUMENT) for entry in page] == []
    pair.process.stop()
    assert pair.found(ANN) == {"Upload"}


def test_without_the_collection_nothing_is_answered(pair: Pair) -> None:
    pair.process.stop()
    assert pair.status(pair.site.token(BOB))[0] == 200
    pair.site.qdrant.delete_collection(COLLECTION)
    assert pair.status(pair.site.token(BOB)) == (503, "service-unavailable")
    pair.site.withheld.create()  # empty, and nobody knows what it should hold
    assert pair.status(pair.site.token(BOB)) == (503, "service-unavailable")


def test_a_lost_collection_is_filled_again_from_postgres(pair: Pair) -> None:
    token, doc_id = pair.site.token(ANN), pair.upload()
    revoke(pair.site, token)
    assert pair.a.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
    pair.site.sql("UPDATE partitions SET acl_indexed_at = acl_checked_at")
    pair.site.qdrant.delete_collection(COLLECTION)
    Withholding(pair.site.settings).settle()
    pair.process.stop()
    assert pair.status(token) == (401, "token-revoked")
    assert pair.found(ANN) == set()
    assert titles(pair.b.search("ferry", BOB)) == {"Ferry"}
