"""Our four connectors pass the tests that every connector passes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from resources.core.domain import SourceName, document_id
from resources.core.permissions import normalize
from resources.core.ports import Memory, Source
from resources.settings import Settings
from resources.sources.conformance import Conformance, Fault, World
from resources.sources.drive.source import Drive
from resources.sources.files import Files
from resources.sources.slack.source import Slack
from resources.sources.uploads import Uploads
from resources.stores.blobs import Blobs
from resources.stores.postgres import Connection, connect
from resources.stores.uploads import NewUpload, record, remove, revise
from simulators.faults import Faults
from tests.fixtures.drive import DriveSite
from tests.fixtures.slack import SlackSite

ADA = "ada@acme.example"
HALF_DAY = 12 * 3600
KINDS = {"unavailable": "server_error", "rate_limit": "rate_limit", "unauthorized": "unauthorized"}


def fail(faults: Faults, fault: Fault | None, times: int) -> None:
    faults.clear()
    if fault is not None:
        faults.add(KINDS[fault], times=times, seconds=0)  # type: ignore[arg-type]


class DriveWorld:
    """A simulated Drive; `Drive` lists pages of many files, so that it takes several batches only with several roots."""

    faults: frozenset[Fault] = frozenset({"unavailable", "rate_limit", "unauthorized"})

    def __init__(self, site: DriveSite, home: Path) -> None:
        self.site, self.drive = site, site.drive
        self.shared = self.drive.shared_drive("Sales", {f"user:{ADA}": "reader"})
        self.settings = Settings(
            _env_file=None, home=home, drive_token=site.drive.token, drive_api_url=site.url, retry_seconds=(0.0,)
        )

    def open(self, memory: Memory) -> Source:
        return Drive(self.settings, memory, sleep=lambda _: None)

    def add(self, text: str) -> str:
        number = len(self.drive.items)
        return self.drive.file(f"{number}.txt", self.shared if number % 2 else self.drive.my_drive, text)

    def change(self, document: str, text: str) -> None:
        self.drive.edit(document, text)

    def delete(self, document: str) -> None:
        self.drive.delete(document)

    def give(self, document: str, reader: str) -> None:
        self.drive.share(document, f"user:{reader}")

    def take(self, document: str, reader: str) -> None:
        self.drive.unshare(document, f"user:{reader}")

    def readers(self, document: str) -> set[str]:
        return self.drive.readers(document)

    def fail(self, fault: Fault | None, *, times: int = 0) -> None:
        fail(self.site.faults, fault, times)


class SlackWorld:
    """A simulated workspace with one private channel; messages are half a day apart, and recent enough for edits to be noticed."""

    faults: frozenset[Fault] = frozenset({"unavailable", "rate_limit", "unauthorized"})

    def __init__(self, site: SlackSite) -> None:
        self.site, self.slack = site, site.workspace
        self.ada = self.slack.user("Ada", ADA)
        self.people: dict[str, str] = {}
        self.channel = self.slack.channel("herons", [self.ada], private=True)
        self.time = time.time() - 100 * HALF_DAY
        self.settings = Settings(
            _env_file=None,
            slack_bot_token=self.slack.token,
            slack_api_url=site.url,
            slack_lookback="100d",
            retry_seconds=(0.0,),
        )

    def open(self, memory: Memory) -> Source:
        return Slack(self.settings, memory, sleep=lambda _: None, page=3)

    def add(self, text: str) -> str:
        self.time += HALF_DAY
        return self.slack.post(self.channel, self.ada, text, ts=self.time)

    def change(self, document: str, text: str) -> None:
        self.slack.edit(self.channel, document, text)

    def delete(self, document: str) -> None:
        self.slack.delete(self.channel, document)

    def give(self, document: str, reader: str) -> None:
        self.people[reader] = self.slack.user(reader.partition("@")[0], reader)
        self.slack.join(self.channel, self.people[reader])

    def take(self, document: str, reader: str) -> None:
        self.slack.leave(self.channel, self.people[reader])

    def readers(self, document: str) -> set[str]:
        return self.slack.readers(self.channel)

    def fail(self, fault: Fault | None, *, times: int = 0) -> None:
        fail(self.site.faults, fault, times)


class UploadWorld:
    """Uploads in Postgres. They have no faults of their own: without Postgres there is no sync."""

    faults: frozenset[Fault] = frozenset()

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection, self.settings = connection, settings
        self.shared: dict[str, set[str]] = {}

    def open(self, memory: Memory) -> Source:
        return Uploads(self.settings)

    def add(self, text: str) -> str:
        name = f"{len(self.shared)}.txt"
        self.shared[name] = {ADA}
        self.change(name, text)
        return name

    def change(self, document: str, text: str) -> None:
        blob = Blobs(self.settings.lake_address).put([text.encode()])
        upload = NewUpload(
            owner=ADA, content_hash=blob.content_hash, size=blob.size, file_name=document, title=None, description=None,
            mime_type="text/plain", permissions=self.shared[document], tags={}, name=document,
        )  # fmt: skip
        record(self.connection, upload)

    def delete(self, document: str) -> None:
        remove(self.connection, doc_id=self._id(document), owner=ADA)

    def give(self, document: str, reader: str) -> None:
        self.shared[document].add(reader)
        self._share(document)

    def take(self, document: str, reader: str) -> None:
        self.shared[document].remove(reader)
        self._share(document)

    def readers(self, document: str) -> set[str]:
        return self.shared[document]

    def fail(self, fault: Fault | None, *, times: int = 0) -> None:
        raise NotImplementedError

    def _share(self, document: str) -> None:
        readers = list(normalize([ADA, *self.shared[document]]))
        revise(
            self.connection,
            doc_id=self._id(document),
            owner=ADA,
            change=lambda upload: msgspec.structs.replace(upload, permissions=readers),
        )

    def _id(self, document: str) -> str:
        return document_id(SourceName.UPLOAD, f"{ADA}:{document}")


class FolderWorld:
    """A folder with a sidecar for each file. It is unavailable while it has another name."""

    faults: frozenset[Fault] = frozenset({"unavailable"})

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        roots = [{"name": "r", "url": self.root.as_uri(), "tenant": "acme", "dataset": "docs"}]
        self.settings = Settings(_env_file=None, home=folder / "home", file_roots=json.dumps(roots))
        self.shared: dict[str, set[str]] = {}

    def open(self, memory: Memory) -> Source:
        return Files(self.settings)

    def add(self, text: str) -> str:
        name = f"{len(self.shared)}.txt"
        self.shared[name] = {ADA}
        self._sidecar(name)
        self.change(name, text)
        return name

    def change(self, document: str, text: str) -> None:
        (self._folder / document).write_text(text)

    def delete(self, document: str) -> None:
        (self._folder / document).unlink()

    def give(self, document: str, reader: str) -> None:
        self.shared[document].add(reader)
        self._sidecar(document)

    def take(self, document: str, reader: str) -> None:
        self.shared[document].remove(reader)
        self._sidecar(document)

    def readers(self, document: str) -> set[str]:
        return self.shared[document]

    def fail(self, fault: Fault | None, *, times: int = 0) -> None:
        away = self.root.with_name("away")
        if fault is not None and times == 0:
            self.root.rename(away)
        elif away.exists():
            away.rename(self.root)

    @property
    def _folder(self) -> Path:
        return self.root if self.root.exists() else self.root.with_name("away")

    def _sidecar(self, document: str) -> None:
        text = json.dumps({"permissions": sorted(self.shared[document])})
        (self._folder / f"{document}.meta.json").write_text(text)


class TestDrive(Conformance):
    @pytest.fixture
    def world(self, drive_site: DriveSite, tmp_path: Path) -> World:
        return DriveWorld(drive_site, tmp_path)


class TestSlack(Conformance):
    @pytest.fixture
    def world(self, slack_site: SlackSite) -> World:
        return SlackWorld(slack_site)


class TestUploads(Conformance):
    @pytest.fixture
    def world(self, database: str, tmp_path: Path) -> Iterator[World]:
        with connect(database, autocommit=True) as connection:
            yield UploadWorld(connection, Settings(_env_file=None, home=tmp_path, postgres_url=database))


class TestFolders(Conformance):
    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return FolderWorld(tmp_path)
