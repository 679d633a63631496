"""A deleted or unshared upload stays hidden while Postgres is down, although the index still contains it unchanged."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any

import pytest

from resources.core.domain import SourceName
from resources.core.errors import ServiceUnavailableError
from resources.stores import qdrant
from resources.stores.postgres import session
from resources.stores.withheld import DOCUMENT, FORMER, PARTITION, PERSON, TOKEN, WithheldCollection
from resources.stores.withholding import settle, settle_documents, withhold_partition
from serving.identity import revocation
from serving.identity.withheld import WithheldReads
from sql.withheld import WithheldStatements
from tests.fixtures.serving import Running, Site
from tests.fixtures.waiting import until
from tests.machine.test_degradation_http import codes, own_postgres, until_ready

__all__ = ["own_postgres"]

ANN, BOB = "ann@acme.com", "bob@acme.com"
TEXT = "The lighthouse keeper counts ships at night."


def upload(running: Running, *share: str) -> str:
    files = {"file": ("u.txt", TEXT.encode(), "text/plain")}
    answer = running.request("POST", "/api/upload", ANN, files=files, data={"metadata": json.dumps({"share": share})})
    assert answer.status_code == 202, answer.text
    return answer.json()["doc_id"]


def indexed(site: Site, running: Running) -> str:
    """An upload shared with Bob that went through the pipeline; the index never hears of what happens later."""
    doc_id = upload(running, BOB)
    source_id = f"{ANN}:{hashlib.sha256(TEXT.encode()).hexdigest()}"
    site.add("Upload", [TEXT], [ANN, BOB], source=SourceName.UPLOAD, source_id=source_id, owner=ANN)
    return doc_id


def found(running: Running, who: str) -> list[str]:
    """What is found without Postgres."""
    answer = running.search("lighthouse keeper", who)
    assert codes(answer) == ["registry_unavailable"]
    return [one["title"] for one in answer["results"]]


@pytest.mark.parametrize("again", [False, True], ids=["same process", "another process"])
def test_a_deleted_upload_is_not_found_without_postgres(own_postgres: tuple[Site, Any], again: bool) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        doc_id = indexed(site, running)
        assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
        if not again:
            process.stop()
            assert (found(running, ANN), found(running, BOB)) == ([], [])
    if again:
        process.stop()
        with site.running() as running:
            assert (found(running, ANN), found(running, BOB)) == ([], [])


def test_a_narrowed_share_holds_without_postgres(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        indexed(site, running)
        upload(running)  # the same content, shared with nobody now
        process.stop()
        assert (found(running, ANN), found(running, BOB)) == (["Upload"], [])


def test_what_is_shared_again_is_found_again_once_a_sync_has_shown_it(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        doc_id = indexed(site, running)
        assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
        upload(running, BOB)
        assert not site.sql("SELECT 1 FROM documents WHERE state = 'live' AND doc_id = %s", doc_id)
        site.sql("UPDATE documents SET state = 'live', permissions = %s WHERE doc_id = %s", [ANN, BOB], doc_id)
        with session(site.settings.postgres_dsn, autocommit=True) as connection:
            assert settle_documents(connection, site.withheld) == 0
        process.stop()
        assert found(running, BOB) == ["Upload"]


def test_what_is_withdrawn_while_the_index_is_away_reaches_it_afterwards(site: Site) -> None:
    with site.running() as running:
        doc_id = indexed(site, running)
    token, here = site.token(ANN), site.settings
    site.settings = here.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    with site.running() as running:
        assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
        assert running.titles("lighthouse keeper", BOB) == []
        with session(site.settings.postgres_dsn) as connection:
            found = revocation.identify(site.settings, token)
            revocation.record(site.settings, connection, found, by="operator")
    assert sorted(site.sql("SELECT kind, key FROM unwithheld")) == [("document", doc_id), ("token", found.token_id)]
    site.settings = here
    with site.running():
        until(lambda: not site.sql("SELECT 1 FROM unwithheld"), "both withheld")
    assert [(one.key, one.payload["readers"]) for page in site.withheld.entries(DOCUMENT) for one in page] == [
        (doc_id, [])
    ]
    assert [one.key for page in site.withheld.entries(TOKEN) for one in page] == [found.token_id]


def test_a_partition_and_a_person_withdrawn_while_the_index_is_away_reach_it_afterwards(site: Site) -> None:
    site.add("Ferry", ["The ferry leaves at nine."], ["public"])
    away = WithheldCollection(qdrant.client(site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})))
    with session(site.settings.postgres_dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO people (source, email, active) VALUES ('directory', %s, FALSE)", [BOB])
        with connection.transaction():
            connection.execute("UPDATE partitions SET lost_at = now() WHERE source = 'files' AND partition = 'root'")
            withhold_partition(connection, away, "files", "root")
            WithheldStatements(connection).note(kind=PERSON, keys=[BOB])
        assert sorted(site.sql("SELECT kind, key FROM unwithheld")) == [("partition", "files:root"), ("person", BOB)]
        settle(connection, site.withheld)
    assert site.sql("SELECT 1 FROM unwithheld") == []
    entries = {kind: [one for page in site.withheld.entries(kind) for one in page] for kind in (PARTITION, PERSON)}
    assert [(one.key, one.payload["checked_at"]) for one in entries[PARTITION]] == [("files:root", None)]
    assert [one.key for one in entries[PERSON]] == [BOB]


def test_an_address_that_was_given_to_another_while_the_index_was_away_is_told_afterwards(site: Site) -> None:
    def given() -> dict[str, float]:
        return {one.key: one.payload["since"] for page in site.withheld.entries(FORMER) for one in page}

    changing = float(int(time.time()))  # Postgres keeps microseconds
    site.withheld.former({ANN: changing})  # of a change that is not committed yet
    with session(site.settings.postgres_dsn, autocommit=True) as connection:
        insert = "INSERT INTO people (source, email, tokens_since) VALUES ('scim', %s, to_timestamp(%s))"
        connection.execute(insert, [BOB, 1_700_000_000])
        settle(connection, site.withheld)
        assert given() == {ANN: changing, BOB: 1_700_000_000}
        connection.execute("UPDATE people SET tokens_since = to_timestamp(%s)", [1_700_000_001])
        settle(connection, site.withheld)
        assert given() == {ANN: changing, BOB: 1_700_000_001}


def test_while_the_index_has_yet_to_be_told_something_it_answers_nothing_alone(site: Site) -> None:
    async def admitted() -> None:
        client = qdrant.async_client(site.settings)
        try:
            reads = WithheldReads(client)
            await reads.admit(ANN, None)
            reads.behind = True
            with pytest.raises(ServiceUnavailableError):
                await reads.admit(ANN, None)
        finally:
            await client.close()

    asyncio.run(admitted())
