"""After the loss of Postgres the registry is rebuilt from the lake, and shows no one more than before."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import polars as pl
import pytest
from pydantic import SecretStr

from orchestration import cli
from resources.core.domain import SourceName
from resources.stores import leases, qdrant
from resources.stores.lake import Lake
from resources.stores.postgres import session
from resources.stores.withheld import PARTITION, WithheldCollection
from resources.stores.withholding import settle
from tests.fixtures.installation import Installation
from tests.fixtures.postgres import PostgresProcess, fresh_database
from tests.fixtures.serving import Running, Site
from tests.fixtures.shelf import Shelf
from tests.fixtures.upkeep import as_environment

ANN, BOB, EVE = "ann@acme.com", "bob@acme.com", "eve@acme.com"
SLACK, UPLOAD = SourceName.SLACK, SourceName.UPLOAD
HERON = "Which animal stands in shallow water?"
DOCUMENTS = (
    "SELECT doc_id::text AS doc_id, source, source_id, partition, source_title, path, permissions, tags, collection_ids, folders, version,"
    " content_hash, content_key, payload_hash, state FROM documents WHERE state = 'live' ORDER BY doc_id"
)


def test_documents_and_uploads_come_back_and_nobody_reads_more(
    installation: Installation, bundled_model: Any, postgres_server: PostgresProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = Shelf()
    for name in ("a", "b", "c"):
        shelf.put(name, permissions=(ANN,))
    shelf.put("d", permissions=(EVE,))
    installation.sync(SLACK, port=shelf)
    del shelf.items["pond"]["c"]
    installation.sync(SLACK, port=shelf, full=True)
    uploaded(installation, bundled_model)
    installation.sync(UPLOAD)
    before, points = installation.rows(DOCUMENTS), installation.points()
    texts = len(shelf.fetched)
    assert {row["source"] for row in before} == {"slack", "upload"}

    installation.disconnect()
    with fresh_database(postgres_server) as dsn:
        installation.settings = installation.settings.model_copy(update={"postgres_url": SecretStr(dsn)})
        with pytest.MonkeyPatch.context() as patch:
            as_environment(installation, patch)
            capsys.readouterr()
            assert cli.run(["rebuild", "registry", "--json"]) == 0
            found = printed(capsys)
            assert cli.run(["rebuild", "registry", "--json"]) == 0
            again = printed(capsys)
            assert {one["documents"] + one["deleted"] for one in again["sources"]} == {0}
            assert again["lost"] == []
        counts = {one["source"]: one for one in found["sources"]}
        assert (counts["slack"]["documents"], counts["slack"]["deleted"], counts["slack"]["hidden"]) == (3, 1, True)
        assert (counts["upload"]["documents"], counts["upload"]["uploads"]) == (2, 2)
        assert any("API keys" in line for line in found["lost"])
        assert installation.rows(DOCUMENTS) == before
        (gone,) = installation.rows("SELECT source_id, deleted_at FROM documents WHERE state = 'deleted'")
        assert gone["source_id"] == "c"
        assert gone["deleted_at"] is not None

        with Site(installation.settings, bundled_model).running() as running:
            for who in (ANN, BOB, EVE):  # the index is as it was, and permissions are not known to be fresh
                assert running.titles(HERON, who) == []

        installation.sync(UPLOAD)
        assert installation.last["embedded"]["embedded"] == 0
        installation.sync(SLACK, port=shelf)
        assert installation.last["embedded"]["embedded"] == 0
        assert len(shelf.fetched) == texts, "nothing is fetched again"
        assert sorted(point["id"] for point in installation.points()) == sorted(point["id"] for point in points)
        assert installation.agrees()
        with Site(installation.settings, bundled_model).running() as running:
            assert set(running.titles(HERON, ANN)) == {"a", "b", "Plan", "Shared"}
            assert running.titles(HERON, BOB) == ["Shared"]
            assert running.titles(HERON, EVE) == ["d"]
        owned = installation.rows("SELECT title, owner, permissions FROM uploads ORDER BY title")
        assert [tuple(row.values()) for row in owned] == [("Plan", ANN, [ANN]), ("Shared", ANN, [ANN, BOB])]
        installation.disconnect()


def test_a_share_that_ended_before_the_loss_stays_ended(
    installation: Installation, bundled_model: Any, postgres_server: PostgresProcess
) -> None:
    uploaded(installation, bundled_model)
    installation.sync(UPLOAD)
    with Site(installation.settings, bundled_model).running() as running:
        assert running.titles(HERON, BOB) == ["Shared"]
        (shared,) = installation.rows("SELECT doc_id::text AS doc_id FROM uploads WHERE title = 'Shared'")
        revised = running.request("PATCH", f"/api/documents/{shared['doc_id']}", ANN, json={"share": []})
        assert revised.status_code == 200, revised.text

    installation.disconnect()
    with fresh_database(postgres_server) as dsn:
        installation.settings = installation.settings.model_copy(update={"postgres_url": SecretStr(dsn)})
        with Site(installation.settings, bundled_model).running() as running:
            until_settled(installation)
            assert running.titles(HERON, BOB) == []
        with pytest.MonkeyPatch.context() as patch:
            as_environment(installation, patch)
            assert cli.run(["rebuild", "registry"]) == 0
        (document,) = installation.rows("SELECT permissions FROM documents WHERE doc_id = %s", shared["doc_id"])
        assert document["permissions"] == [ANN]
        installation.sync(UPLOAD)
        with Site(installation.settings, bundled_model).running() as running:
            assert running.titles(HERON, BOB) == []
            assert set(running.titles(HERON, ANN)) == {"Plan", "Shared"}
        with pytest.MonkeyPatch.context() as patch:
            as_environment(installation, patch)
            assert cli.run(["rebuild", "registry"]) == 0
        assert hidden_partitions(installation) == [], "what the registry knows stays as it is"
        installation.disconnect()


def test_an_upload_before_the_rebuild_brings_nothing_back(
    installation: Installation, bundled_model: Any, postgres_server: PostgresProcess
) -> None:
    """The services run on the empty database, and a sync of an upload begins at once."""
    uploaded(installation, bundled_model)
    installation.sync(UPLOAD)
    with Site(installation.settings, bundled_model).running() as running:
        plan, shared = (row["doc_id"] for row in installation.rows("SELECT doc_id::text FROM uploads ORDER BY title"))
        revised = running.request("PATCH", f"/api/documents/{shared}", ANN, json={"share": []})
        assert revised.status_code == 200, revised.text
        removed = running.request("DELETE", f"/api/documents/{plan}", ANN)
        assert removed.status_code < 300, removed.text

    installation.disconnect()
    with fresh_database(postgres_server) as dsn:
        installation.settings = installation.settings.model_copy(update={"postgres_url": SecretStr(dsn)})
        with Site(installation.settings, bundled_model).running() as running:
            until_settled(installation)
            upload(running, "New", None)
        installation.sync(UPLOAD)
        with pytest.MonkeyPatch.context() as patch:
            as_environment(installation, patch)
            assert cli.run(["rebuild", "registry"]) == 0
        for found in ({"New"}, {"New", "Shared"}):  # before and after a sync has indexed what came back
            with Site(installation.settings, bundled_model).running() as running:
                until_settled(installation)
                assert running.titles(HERON, BOB) == []
                assert set(running.titles(HERON, ANN)) == found
            installation.sync(UPLOAD)
        installation.disconnect()


def test_what_was_narrowed_after_a_loss_stays_narrow_after_another(
    installation: Installation, bundled_model: Any, postgres_server: PostgresProcess
) -> None:
    """The clock was ahead when the rows before the first loss were written: rows are numbered by it."""
    day = 86_400 * 10**9
    installation.rows("SELECT setval('lake_sequence', %s)", time.time_ns() + day)
    uploaded(installation, bundled_model)
    installation.sync(UPLOAD)
    (shared,) = installation.rows("SELECT doc_id::text AS doc_id FROM uploads WHERE title = 'Shared'")
    for _ in range(2):
        installation.disconnect()
        with fresh_database(postgres_server) as dsn, pytest.MonkeyPatch.context() as patch:
            installation.settings = installation.settings.model_copy(update={"postgres_url": SecretStr(dsn)})
            as_environment(installation, patch)
            assert cli.run(["rebuild", "registry"]) == 0
            (found,) = installation.rows("SELECT permissions FROM documents WHERE doc_id = %s", shared["doc_id"])
            with Site(installation.settings, bundled_model).running() as running:
                running.request("PATCH", f"/api/documents/{shared['doc_id']}", ANN, json={"share": []})
            installation.sync(UPLOAD)
            installation.disconnect()
    assert found["permissions"] == [ANN]


def test_a_large_lake_is_read_for_longer_than_a_transaction_may_do_nothing(
    installation: Installation, postgres_server: PostgresProcess
) -> None:
    shelf = Shelf()
    shelf.put("a")
    installation.sync(SLACK, port=shelf)
    lake = Lake(installation.settings.lake_address)
    earlier = [lake.scan("raw_slack").with_columns(pl.col("seq") - number).collect() for number in range(1, 7)]
    lake.append("raw_slack", pl.concat(earlier))
    pages = Lake.pages

    def slowly(lake: Lake, name: str, *columns: str | pl.Expr) -> Iterator[pl.DataFrame]:
        for page in pages(lake, name, *columns):
            time.sleep(0.5)
            yield page

    installation.disconnect()
    with fresh_database(postgres_server) as dsn, pytest.MonkeyPatch.context() as patch:
        installation.settings = installation.settings.model_copy(update={"postgres_url": SecretStr(dsn)})
        as_environment(installation, patch)
        patch.setattr(leases, "IDLE_SECONDS", 2)
        patch.setattr("resources.stores.lake.PAGE_ROWS", 1)
        patch.setattr(Lake, "pages", slowly)
        assert cli.run(["rebuild", "registry"]) == 0
        assert [row["source_id"] for row in installation.rows(DOCUMENTS)] == ["a"]
        installation.disconnect()


def hidden_partitions(installation: Installation) -> list[str]:
    """Return the partitions of which searches without Postgres show nothing."""
    with closing(qdrant.client(installation.settings)) as client:
        entries = [one for page in WithheldCollection(client).entries(PARTITION) for one in page]
    return [one.key for one in entries if one.payload["checked_at"] is None]


def until_settled(installation: Installation) -> None:
    """Compare what is withheld with the new database, as the services do when they start."""
    with (
        session(installation.settings.postgres_dsn, autocommit=True) as connection,
        closing(qdrant.client(installation.settings)) as client,
    ):
        settle(connection, WithheldCollection(client))


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the object that a command printed, after lines of the log."""
    out = "\n" + capsys.readouterr().out
    found, _ = json.JSONDecoder().raw_decode(out[out.index("\n{") + 1 :])
    return found


def uploaded(installation: Installation, model: Any) -> None:
    """Let Ann upload two files, one of them shared with Bob."""
    with Site(installation.settings, model).running() as running:
        upload(running, "Plan", None)
        upload(running, "Shared", BOB)


def upload(running: Running, title: str, share: str | None) -> None:
    text = f"# {title}\n\nThe heron of the plan {title} stands in shallow water."
    fields = {"title": title} | ({"share": share} if share else {})
    sent = running.request("POST", "/api/upload", ANN, files={"file": (f"{title}.md", text.encode())}, data=fields)
    assert sent.status_code == 202, sent.text
