"""A restore with a vector index of one's own, which is as it was later than the backup: the next sync makes it agree."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr

from assets.reindex import WORK as REINDEX
from orchestration.backup import back_up
from orchestration.restore import restore
from resources import keys
from resources.core.domain import SourceName, document_id
from resources.schema import prepare
from resources.servers.postgres.dump import dump
from resources.settings import Settings
from resources.stores import leases, qdrant
from resources.stores.postgres import session
from resources.stores.withheld import WithheldCollection
from resources.stores.withholding import settle
from tests.fixtures.installation import Installation
from tests.fixtures.postgres import PostgresProcess, with_database
from tests.fixtures.serving import Site

ADA, ALL = "ada@acme.example", "domain:acme.example"


@pytest.fixture
def restored(postgres_server: PostgresProcess, installation: Installation, tmp_path: Path) -> Iterator[Installation]:
    """The same installation with a HOME and a database that are empty."""
    postgres_server.connection.execute("CREATE DATABASE restored")
    home = tmp_path / "restored"
    home.mkdir()
    (home / "models").symlink_to((installation.settings.home / "models").resolve())
    address = SecretStr(with_database(postgres_server.dsn, "restored"))
    made = Installation(
        settings=installation.settings.model_copy(update={"home": home, "postgres_url": address, "prune_share": 1.0}),
        root=installation.root,
    )
    yield made
    made.disconnect()
    postgres_server.connection.execute("DROP DATABASE restored WITH (FORCE)")


def test_what_the_index_was_later_than_the_backup_is_not_trusted(
    installation: Installation, restored: Installation, tmp_path: Path
) -> None:
    installation.settings = installation.settings.model_copy(update={"prune_share": 1.0})
    keys.ensure(installation.settings)

    def as_backed_up() -> None:
        installation.write("otter.md", "# Otter\n\nThe otter ate seven sacks of rye.\n", permissions=[ADA])
        installation.write("heron.md", "# Heron\n\nThe heron stands in the pond.\n", permissions=[ADA])

    as_backed_up()
    installation.sync()
    _, faults = back_up(installation.settings, tmp_path / "backup", "test")
    assert faults == []
    installation.write("otter.md", "# Otter\n\nThe otter ate nine sacks of rye.\n", permissions=[ADA, ALL])
    (installation.root / "heron.md").unlink()
    installation.sync()
    restore(restored.settings, tmp_path / "backup")
    as_backed_up()
    assert prepare(restored.settings.postgres_dsn) == []
    assert restored.rows("SELECT FROM unwithheld"), (
        "until the index is told, the services answer nothing without Postgres"
    )
    client = qdrant.client(restored.settings)
    with session(restored.settings.postgres_dsn, autocommit=True) as connection:
        settle(connection, WithheldCollection(client))
    client.close()
    names = {document_id(SourceName.FILES, f"docs/{name}.md") for name in ("otter", "heron")}
    assert restored.withheld().readers == dict.fromkeys(names, frozenset({ADA}))
    assert restored.sync().error is None
    assert restored.last["embedded"]["embedded"] == 0
    found = {point["path"]: (point["permissions"], point["chunk_text"].split()[-1]) for point in restored.points()}
    assert found == {"otter.md": ([ADA], "rye."), "heron.md": ([ADA], "pond.")}
    assert any("seven" in point["chunk_text"] for point in restored.points())
    assert (restored.withheld().readers, restored.agrees()) == ({}, True)


def test_a_backup_waits_for_an_erasure(installation: Installation, tmp_path: Path) -> None:
    keys.ensure(installation.settings)
    with ThreadPoolExecutor() as pool:
        with leases.alone(installation.settings.postgres_dsn, REINDEX, "Erasing."):
            backing_up = pool.submit(back_up, installation.settings, tmp_path / "backup", "test")
            with pytest.raises(TimeoutError):
                backing_up.result(2)
        _, faults = backing_up.result(120)
    assert faults == []


def test_what_the_lake_received_after_the_dump_is_not_parsed_and_embedded_again(
    installation: Installation, restored: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.ensure(installation.settings)
    installation.write("otter.md", "# Otter\n\nThe otter ate seven sacks of rye.\n", permissions=[ADA])
    installation.sync()

    def dump_and_sync(settings: Settings, file: Path) -> None:
        dump(settings, file)
        installation.write("heron.md", "# Heron\n\nThe heron stands in the pond.\n", permissions=[ADA])
        assert installation.sync().error is None

    monkeypatch.setattr("orchestration.backup.dump", dump_and_sync)
    back_up(installation.settings, tmp_path / "backup", "test")
    restore(restored.settings, tmp_path / "backup")
    assert prepare(restored.settings.postgres_dsn) == []
    assert restored.sync().error is None
    assert (restored.last["parsed"]["parsed"], restored.last["embedded"]["embedded"]) == (0, 0)
    assert restored.agrees()
    assert restored.rows("SELECT name FROM lake_tables WHERE NOT complete") == []


def test_who_was_signed_in_at_the_time_of_the_backup_signs_in_again(
    site: Site, postgres_server: PostgresProcess, tmp_path: Path
) -> None:
    keys.ensure(site.settings)
    cookie, agent = site.session(ADA), site.agent(ADA, "agent")
    later = datetime.now(UTC) + timedelta(days=1)
    site.sql("INSERT INTO agent_tokens VALUES ('hash', %s, 'refresh', NULL, %s)", agent, later)
    site.sql("INSERT INTO sign_ins VALUES (%s, 'link', %s)", uuid4(), later)
    back_up(site.settings, tmp_path / "backup", "test")
    with site.running() as running:
        assert running.http.get("/api/sessions", headers=cookie).status_code == 200
    postgres_server.connection.execute("CREATE DATABASE restored")
    address = SecretStr(with_database(postgres_server.dsn, "restored"))
    site.settings = site.settings.model_copy(update={"home": tmp_path / "restored", "postgres_url": address})
    try:
        restore(site.settings, tmp_path / "backup")
        with site.running() as running:
            assert running.http.get("/api/sessions", headers=cookie).status_code == 401
        assert site.sql("SELECT FROM agents UNION ALL SELECT FROM agent_tokens") == []
        assert site.sql("SELECT FROM sign_ins WHERE claim IS NULL") == []
    finally:
        postgres_server.connection.execute("DROP DATABASE restored WITH (FORCE)")
