"""Documents that change between their listing and their reading: what is new in them is for those who may read it now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from assets import pipeline
from assets.stages.diff import MAX_ATTEMPTS
from resources.core.domain import Batch, Item, SourceName, State
from resources.core.errors import AbortSyncError
from resources.core.ports import Source
from resources.sources import open_source
from resources.syncs.syncing import open_sync
from simulators.drive import DOCUMENT, PRESENTATION, SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow

ADA, ALL = "ada@acme.example", "domain:acme.example"


class ChangingSource:
    """A source that changes after each batch of its listing, before the batch's documents are read; with `always`, before each reading."""

    def __init__(self, port: Source, change: Callable[[], object], *, always: bool) -> None:
        self._port, self._change, self._always = port, change, always

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        for batch in self._port.changes(partition, cursor):
            self._change()
            yield batch

    def fetch(self, item: Item) -> Iterator[bytes]:
        if self._always:
            self._change()
        return self._port.fetch(item)


def sync(installation: Installation, source: SourceName, change: Callable[[], object], *, always: bool = False) -> None:
    with open_sync(installation.settings, source) as job:
        port: Any = ChangingSource(open_source(job.stores.settings, source), change, always=always)
        pipeline.sync(job, source=port)
    assert job.error is None


def found(installation: Installation) -> list[tuple[str, list[str]]]:
    return [(point["chunk_text"].strip(), point["permissions"]) for point in installation.points()]


@pytest.mark.parametrize("known", [False, True])
def test_what_is_written_after_a_file_was_narrowed_is_for_the_readers_left(
    installation: Installation,
    known: bool,
) -> None:
    installation.write("plan.txt", "The plan is public.")
    if known:
        installation.sync()
        installation.write("plan.txt", "The plan is still public.")

    def narrow() -> None:
        installation.write("plan.txt.meta.json", '{"permissions": ["ada@acme.example"]}')
        installation.write("plan.txt", "The plan is a secret.")

    sync(installation, SourceName.FILES, narrow)
    assert found(installation) == [("The plan is a secret.", [ADA])]
    assert installation.agrees()
    assert installation.sync().counts.embedded == 0


def test_a_file_that_changes_all_the_time_is_found_as_it_was_before(installation: Installation) -> None:
    installation.write("log.txt", "Line 1.")
    installation.sync()
    lines = iter(range(2, 1000))

    def change() -> None:
        installation.write("log.txt", f"Line {next(lines)}.")

    for _ in range(MAX_ATTEMPTS + 1):
        sync(installation, SourceName.FILES, change, always=True)
    assert found(installation) == [("Line 1.", [ALL])]
    (row,) = installation.rows("SELECT state, reason FROM documents")
    assert row["state"] == State.LIVE
    assert "changed while it was read" in row["reason"]
    assert installation.sync().counts.embedded == 1


def test_what_a_file_said_before_it_was_widened_is_not_for_the_readers_who_came_with_its_new_content(
    installation: Installation,
) -> None:
    """The new content cannot be read for the time being."""
    installation.write("plan.txt", "The plan is a secret.", permissions=[ADA])
    installation.sync()
    drafts = iter(range(1000))

    def widen() -> None:
        installation.write("plan.txt", f"The plan for all, draft {next(drafts)}.", permissions=[ADA, ALL])

    for _ in range(2):
        sync(installation, SourceName.FILES, widen, always=True)
        assert found(installation) == [("The plan is a secret.", [ADA])]
    installation.sync()
    ((text, readers),) = found(installation)
    assert ("secret" in text, sorted(readers)) == (False, [ADA, ALL])
    assert (installation.withheld().readers, installation.agrees()) == ({}, True)


@pytest.mark.parametrize("kind", ["text/plain", DOCUMENT, PRESENTATION])
@pytest.mark.parametrize("comments", [False, True])
def test_what_is_written_after_a_file_of_drive_was_narrowed_is_for_the_readers_left(
    installation: Installation,
    drive_site: DriveSite,
    kind: str,
    comments: bool,
) -> None:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    installation.settings = installation.settings.model_copy(update={"drive_comments": comments})
    drive = drive_site.drive
    file = drive.file("plan.txt", drive.my_drive, "The plan is public.", kind)
    drive.share(file, "user:bob@acme.example")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.edit(file, "The plan is still public.")
    changes = iter([lambda: drive.unshare(file, "user:bob@acme.example"), lambda: drive.edit(file, "It is a secret.")])

    def narrow() -> None:
        for change in changes:
            change()

    sync(installation, SourceName.GOOGLE_DRIVE, narrow)
    ((text, readers),) = found(installation)
    assert "secret" in text
    assert "bob@acme.example" not in readers
    assert installation.agrees()
    assert installation.sync(SourceName.GOOGLE_DRIVE).counts.embedded == 0


def test_permissions_are_not_current_while_a_narrowed_folder_cannot_be_listed_to_the_end(
    installation: Installation, drive_site: DriveSite
) -> None:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    drive = drive_site.drive
    plans = drive.folder("Plans", drive.my_drive)
    drive.file("first.txt", plans, "The first plan.")
    drive.file("second.txt", drive.folder("Later", plans), "The second plan.")
    drive.share(plans, "user:bob@acme.example")

    def checked() -> Any:
        (row,) = installation.rows("SELECT acl_checked_at AS at FROM partitions WHERE partition = 'my_drive'")
        return row["at"]

    def readers() -> list[bool]:
        return [
            "bob@acme.example" in row["permissions"]
            for row in installation.rows("SELECT * FROM documents ORDER BY title")
        ]

    installation.sync(SourceName.GOOGLE_DRIVE)
    before = checked()
    drive.unshare(plans, "user:bob@acme.example")
    for _ in range(2):
        shown: list[None] = []

        def fail_second(shown: list[None] = shown) -> None:
            shown.append(None)
            if len(shown) == 2:
                raise AbortSyncError("The second page of the folder failed.")

        with open_sync(installation.settings, SourceName.GOOGLE_DRIVE) as job, suppress(AbortSyncError):
            source = open_source(job.stores.settings, SourceName.GOOGLE_DRIVE)
            port: Any = ChangingSource(source, fail_second, always=False)
            pipeline.sync(job, source=port)
        assert (checked(), readers()) == (before, [False, True])
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert (checked() > before, readers()) == (True, [False, False])
