"""Several Google accounts that people connected by consent, side by side, against a simulated Drive."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from cryptography.fernet import Fernet

from resources.core.errors import AbortSyncError, AuthorizationError
from resources.schema import prepare
from resources.settings import Settings
from resources.sources.drive.checks import ACCOUNTS, checks
from resources.stores import credentials
from resources.stores.migrate import MIGRATIONS, migrate
from resources.stores.postgres import session
from tests.fixtures.drive import DriveSite, consent
from tests.fixtures.drive_mirror import Mirror
from tests.fixtures.postgres import PostgresProcess, with_database

ME, ADA, ROOT = "sync@larkmoor.example", "ada@larkmoor.example", "root@larkmoor.example"


class Connected:
    """An installation without accounts, and a Drive in which two people have files."""

    def __init__(self, site: DriveSite, home: Path, database: str) -> None:
        self.site = site
        self.database = database
        drive = self.drive = site.drive
        drive.user(ME)
        self.top = drive.user(ADA)
        self.mine = drive.file("mine.txt", drive.my_drive, "mine")
        self.hers = drive.file("hers.txt", self.top, "hers")
        self.team = drive.shared_drive("Team", {f"user:{ADA}": "organizer"})
        self.both = drive.file("both.txt", self.team, "both see it")
        self.alone = drive.shared_drive("Alone", {f"user:{ADA}": "organizer"})
        self.only = drive.file("only.txt", self.alone, "only Ada sees it")
        drive.remove_member(self.alone, f"user:{ME}")
        self.keys = Fernet.generate_key().decode()
        self.home = home
        self.kept = Mirror(self.settings())

    def settings(self, **given: Any) -> Settings:
        defaults = {
            "google_client_id": "client",
            "google_client_secret": "secret",
            "postgres_url": self.database,
            "encryption_keys": self.keys,
            "drive_api_url": self.site.url,
            "retry_seconds": (0.0, 0.0),
            "public_url": "http://127.0.0.1:1",
        }
        return Settings(_env_file=None, home=self.home, **(defaults | given))

    def connect(self, account: str) -> None:
        token = consent(self.site, account)
        with session(self.database) as conn:
            credentials.save(conn, self.kept.settings, credentials.GOOGLE, account, token, ["drive.readonly"], ROOT)

    def remove(self, account: str) -> None:
        with session(self.database) as conn:
            assert credentials.remove(conn, credentials.GOOGLE, account)

    def partitions(self) -> dict[str, str]:
        return {one: item.partition for one, item in self.kept.items().items()}

    @property
    def her_drive(self) -> str:
        return next(one for one in self.kept.cursors if one.startswith("my_drive-"))


@pytest.fixture
def connected(drive_site: DriveSite, tmp_path: Path, database: str) -> Connected:
    return Connected(drive_site, tmp_path, database)


def test_a_second_account_adds_its_own_roots(connected: Connected) -> None:
    kept = connected.kept
    connected.connect(ME)
    kept.sync()
    assert connected.partitions() == {connected.mine: "my_drive", connected.both: connected.team}
    connected.connect(ADA)
    kept.sync()
    her_drive = connected.her_drive
    everything = {
        connected.mine: "my_drive",
        connected.both: connected.team,
        connected.hers: her_drive,
        connected.only: connected.alone,
    }
    assert connected.partitions() == everything
    assert kept.titles[her_drive] == f"My Drive of {ADA}"
    assert kept.fetch(connected.hers) == b"hers"
    assert kept.fetch(connected.only) == b"only Ada sees it"
    assert set(kept.versions.values()) == {1}, "nothing was downloaded again"
    kept.sync()
    assert connected.partitions() == everything


def test_each_account_follows_its_own_feed(connected: Connected) -> None:
    kept, drive = connected.kept, connected.drive
    connected.connect(ME)
    connected.connect(ADA)
    kept.sync()
    drive.share(connected.hers, f"user:{ME}", "writer")
    drive.shortcut(connected.hers, drive.my_drive, "to hers")
    drive.edit(connected.hers, "still hers")
    drive.edit(connected.only, "still only hers")
    drive.move(connected.mine, connected.team)
    kept.settings = connected.settings(drive_follow_shortcuts=True)
    for _ in range(2):
        kept.sync()
        assert connected.partitions() == {
            connected.mine: connected.team,
            connected.both: connected.team,
            connected.hers: connected.her_drive,
            connected.only: connected.alone,
        }
    assert kept.fetch(connected.hers) == b"still hers"
    assert kept.fetch(connected.only) == b"still only hers"
    assert kept.readers(connected.hers) == {ADA, ME}


def test_a_folder_is_read_with_the_account_that_sees_it(connected: Connected) -> None:
    kept, drive = connected.kept, connected.drive
    plans = drive.folder("Plans", connected.top)
    plan = drive.file("plan.txt", plans, "a plan")
    connected.connect(ME)
    connected.connect(ADA)
    kept.settings = connected.settings(drive_roots=(plans, connected.team))
    kept.sync()
    assert connected.partitions() == {plan: plans, connected.both: connected.team}


@pytest.mark.parametrize("first", [True, False])
def test_what_an_account_read_when_it_is_removed_is_retired(first: bool, connected: Connected) -> None:
    kept = connected.kept
    connected.connect(ME)
    connected.connect(ADA)
    kept.sync()
    her_drive = connected.her_drive
    known = list(kept.cursors)
    connected.remove(ME if first else ADA)
    kept.sync()
    assert kept.source.retired(known) == ["my_drive" if first else her_drive]
    assert kept.source.lost(known) == ([] if first else [connected.alone])
    left = {connected.hers: her_drive, connected.only: connected.alone} if first else {connected.mine: "my_drive"}
    assert connected.partitions() == {connected.both: connected.team, **left}
    connected.connect(ME if first else ADA)
    kept.sync()
    assert kept.items().keys() == {connected.mine, connected.both, connected.hers, connected.only}


@pytest.mark.parametrize("refused", [ME, ADA])
def test_an_account_that_google_refuses_does_not_stop_the_others(refused: str, connected: Connected) -> None:
    kept, drive = connected.kept, connected.drive
    connected.connect(ME)
    connected.connect(ADA)
    kept.sync()
    known, before = list(kept.cursors), connected.partitions()
    own = {ME: "my_drive", ADA: connected.her_drive}
    other = next(email for email in own if email != refused)
    drive.sessions.withdraw(refused)
    new = drive.file("new.txt", drive.tops[other], "new")
    kept.sync(only=[own[other], connected.team])
    assert connected.partitions() == {**before, new: own[other]}
    assert kept.source.lost(known) == kept.source.retired(known) == []
    kept.source.subscribe()
    with pytest.raises(AbortSyncError, match=f"with the account {refused}") as raised:
        list(kept.source.changes(own[refused], kept.cursors[own[refused]]))
    assert "refresh" not in str(raised.value)
    drive.sessions.withdraw(other)
    with pytest.raises(AuthorizationError):
        kept.sync()
    for account in own:
        connected.connect(account)
    kept.sync()
    assert connected.partitions() == {**before, new: own[other]}


def test_doctor_names_the_accounts(connected: Connected) -> None:
    connected.connect(ME)
    connected.connect(ADA)
    found = [one for one in checks(connected.settings()) if one.name == ACCOUNTS]
    assert [(one.ok, one.detail.partition(":")[0]) for one in found] == [(True, ME), (True, ADA)]
    other = connected.settings(encryption_keys=Fernet.generate_key().decode())
    assert [one.ok for one in checks(other) if one.name == ACCOUNTS] == [False, False]


def test_the_account_of_an_older_version_stays_connected(
    postgres_server: PostgresProcess, drive_site: DriveSite, tmp_path: Path
) -> None:
    name = f"e_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    database = with_database(postgres_server.dsn, name)
    older = tmp_path / "older"
    older.mkdir()
    for path in MIGRATIONS.glob("*.sql"):
        if path.name < "0032_several_accounts.sql":
            shutil.copy(path, older)
    migrate(database, older)
    connected = Connected(drive_site, tmp_path, database)
    secret = Fernet(connected.keys).encrypt(consent(drive_site, ME).encode())
    with session(database) as conn:
        conn.execute(
            "INSERT INTO credentials (provider, account, secret, updated_by) VALUES ('google', %s, %s, %s)",
            (ME, secret, ROOT),
        )
    assert prepare(database) != []
    connected.connect(ADA)
    connected.kept.sync()
    assert connected.partitions()[connected.mine] == "my_drive"
    assert connected.partitions()[connected.hers] == connected.her_drive
    with psycopg.connect(postgres_server.dsn, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
