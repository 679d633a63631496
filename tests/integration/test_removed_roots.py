"""Roots that leave the settings: their documents are held, listed, kept if the root returns, and removed by one command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

import assets.raw
from assets.upkeep.removal import remove
from orchestration.cli import run
from resources.core.domain import SourceName
from resources.settings import FileRoot
from resources.stores.clients import Stores
from sql.sync import Documents
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow
from tests.fixtures.upkeep import as_environment, do

FILES = SourceName.FILES
TEXT = "# {name}\n\nThe heron waits in the shallow water of pond number {name}.\n"


@pytest.fixture
def two(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation with the roots `docs`, of three documents, and `more`, of one."""
    other = installation.root.parent / "more"
    other.mkdir()
    (other / "one.md").write_text(TEXT.format(name="one"))
    for name in ("a", "b", "c"):
        installation.write(f"{name}.md", TEXT.format(name=name))
    second = FileRoot(
        name="more", url=other.as_uri(), tenant="acme", dataset="more", permissions=("domain:acme.example",)
    )
    configure(installation, *installation.settings.file_roots, second)
    installation.sync()
    as_environment(installation, monkeypatch)
    return installation


def configure(installation: Installation, *roots: FileRoot) -> None:
    installation.settings = installation.settings.model_copy(update={"file_roots": roots})


def live(installation: Installation) -> list[str]:
    rows = installation.rows("SELECT source_id FROM documents WHERE state = 'live' ORDER BY source_id")
    return [row["source_id"] for row in rows]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    capsys.readouterr()
    status = run([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.fixture
def shrunk(two: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """The same after `docs` was taken out of the settings and a sync has seen that."""
    configure(two, two.settings.file_roots[1])
    as_environment(two, monkeypatch)
    with capture_logs() as logs:
        two.sync()
    assert [one["text"] for one in logs if one["event"] == "alert"] == [
        "A part of Files is no longer configured. Its 3 documents were kept. To see which, run: concordance prune list"
    ]
    return two


EVERYTHING = ["docs/a.md", "docs/b.md", "docs/c.md", "more/one.md"]


def test_documents_of_a_root_that_leaves_the_settings_are_held(
    shrunk: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert live(shrunk) == EVERYTHING
    assert len(shrunk.points()) == 4
    (fault,) = shrunk.rows("SELECT source_id, reason FROM sync_errors")
    assert fault["source_id"] == "docs"
    assert "concordance source remove docs" in fault["reason"]
    shrunk.sync()
    assert len(shrunk.rows("SELECT 1 FROM sync_errors")) == 1, "said once"
    assert [(row["partition"], row["documents"]) for row in said(capsys, "prune", "list")[1]] == [("docs", 3)]
    assert shrunk.agrees()


def test_documents_that_are_held_are_not_read_at_each_sync(
    shrunk: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    unlisted = Documents.unlisted

    def noted(self: Documents, *, partition: str) -> Iterator[str]:
        read.append(partition)
        return unlisted(self, partition=partition)

    monkeypatch.setattr(Documents, "unlisted", noted)
    shrunk.sync()
    assert read == []
    do(shrunk, "DELETE FROM held_deletions WHERE source_id = 'docs/a.md'")
    shrunk.sync()
    assert read == ["docs"]


def test_a_root_that_returns_keeps_its_documents(two: Installation, shrunk: Installation) -> None:
    root = FileRoot.model_validate(
        {**shrunk.settings.file_roots[0].model_dump(), "name": "docs", "url": two.root.as_uri()}
    )
    (two.root / "a.md").unlink()
    configure(two, root, *shrunk.settings.file_roots)
    job = two.sync()
    assert job.counts.embedded == 0
    assert live(two) == EVERYTHING[1:]
    assert two.rows("SELECT * FROM held_deletions") == []


def test_approved_deletions_of_a_root_go_with_the_root(
    shrunk: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "prune", "approve", "files", "docs")[0] == 0
    shrunk.sync()
    assert live(shrunk) == ["more/one.md"]
    assert [row["partition"] for row in shrunk.rows("SELECT partition FROM partitions")] == ["more"]


def test_a_drive_that_leaves_the_settings_is_held_and_returns_without_a_download(
    installation: Installation, drive_site: DriveSite
) -> None:
    drive = drive_site.drive
    team = drive.shared_drive("Team", {"user:ada@acme.example": "organizer"})
    for number in range(3):
        drive.file(f"{number}.txt", team, TEXT.format(name=number))
    both, one = ("my_drive", "shared_drives"), ("my_drive",)
    for roots in (both, one):
        follow(installation, drive_token=drive.token, drive_api_url=drive_site.url, drive_roots=roots)
        installation.sync(SourceName.GOOGLE_DRIVE)
        assert len(live(installation)) == 3
    assert len(installation.rows("SELECT 1 FROM held_deletions WHERE partition = %s", team)) == 3
    fetched = drive.calls["files.get"]
    follow(installation, drive_token=drive.token, drive_api_url=drive_site.url, drive_roots=both)
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert len(live(installation)) == 3
    assert installation.rows("SELECT 1 FROM held_deletions") == []
    assert drive.calls["files.get"] - fetched <= 1, "the root itself"


def test_reconciliation_finds_no_difference_in_a_root_that_left(
    two: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(two, two.settings.file_roots[1])
    as_environment(two, monkeypatch)
    status, report = said(capsys, "reconcile", "files")
    assert (status, report["orphans"]) == (0, {"lake": 0, "postgres": 0, "qdrant": 0})
    assert said(capsys, "reconcile", "files", "--apply")[0] == 0
    assert live(two) == EVERYTHING


def test_without_a_hold_they_are_deleted_at_once(two: Installation) -> None:
    two.settings = two.settings.model_copy(update={"prune_share": 1.0, "file_roots": two.settings.file_roots[1:]})
    two.sync()
    assert live(two) == ["more/one.md"]
    assert len(two.points()) == 1


def test_the_list_says_what_is_the_matter(
    two: Installation, shrunk: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = FileRoot(name="later", url="file:///nowhere", tenant="acme", dataset="x", permissions=("public",))
    configure(shrunk, *shrunk.settings.file_roots, gone)
    as_environment(shrunk, monkeypatch)
    status, rows = said(capsys, "source", "list")
    assert status == 0
    assert [(row["source"], row["root"], row["documents"], row["held"], row["state"]) for row in rows] == [
        ("files", "docs", 3, 3, "not configured"),
        ("files", "later", 0, 0, "folder missing"),
        ("files", "more", 1, 0, "active"),
    ]
    assert [row["last_sync_at"] is None for row in rows] == [False, True, False]
    assert run(["source", "list"]) == 0
    printed = capsys.readouterr()
    assert "not configured" in printed.out
    assert "concordance source remove docs" in printed.err


def test_a_root_is_removed_from_everywhere(shrunk: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = said(capsys, "source", "remove", "docs", "--yes")
    assert (status, answer["documents"], answer["roots"]) == (0, 3, ["docs"])
    assert live(shrunk) == ["more/one.md"]
    assert len(shrunk.points()) == 1
    (job,) = shrunk.rows("SELECT status, deleted FROM sync_jobs WHERE requested_by = 'source remove'")
    assert (job["status"], job["deleted"]) == ("success", 3)
    assert [row["root"] for row in said(capsys, "source", "list")[1]] == ["more"]
    assert said(capsys, "prune", "list")[1] == []
    shrunk.sync()
    assert shrunk.agrees()
    assert run(["source", "remove", "docs", "--yes"]) == 1
    assert "There is no root 'docs'" in capsys.readouterr().err


def test_nothing_is_removed_without_a_yes(
    shrunk: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115, PTH123
    assert run(["source", "remove", "docs"]) == 1
    assert "--yes" in capsys.readouterr().err
    assert live(shrunk) == EVERYTHING


def test_a_configured_root_is_not_removed(two: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["source", "remove", "docs", "--yes"]) == 1
    assert "CONCORDANCE_FILE_ROOTS" in capsys.readouterr().err
    assert live(two) == EVERYTHING


def test_a_removal_that_was_killed_is_finished_by_the_same_command(
    shrunk: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for step in ("assets.upkeep.removal.remove_gone", "sql.sync.Partitions.drop_partition"):
        with monkeypatch.context() as broken:
            broken.setattr(step, die)
            with pytest.raises(KeyboardInterrupt):
                remove(shrunk.settings, FILES, ["docs"])
        assert [row["root"] for row in said(capsys, "source", "list")[1]] == ["docs", "more"]
    assert said(capsys, "source", "remove", "docs", "--yes")[0] == 0
    assert len(shrunk.points()) == 1
    assert [row["root"] for row in said(capsys, "source", "list")[1]] == ["more"]


def test_a_large_root_is_removed_in_parts_and_a_killed_removal_is_continued(
    shrunk: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assets.raw.REMOVED_AT_ONCE", 2)
    in_parts = assets.raw.append

    def dies_at_the_second_part(stores: Stores, stored: list[Any], gone: list[tuple[str, str]]) -> None:
        if len(gone) < 2:
            raise KeyboardInterrupt
        in_parts(stores, stored, gone)

    with monkeypatch.context() as broken:
        broken.setattr("assets.raw.append", dies_at_the_second_part)
        with pytest.raises(KeyboardInterrupt):
            remove(shrunk.settings, FILES, ["docs"])
    assert live(shrunk) == ["docs/c.md", "more/one.md"]
    assert said(capsys, "source", "remove", "docs", "--yes")[1]["documents"] == 1
    assert live(shrunk) == ["more/one.md"]
    assert len(shrunk.points()) == 1
    assert [row["root"] for row in said(capsys, "source", "list")[1]] == ["more"]


def test_the_roots_of_a_source_that_is_no_longer_set_up_can_be_removed(
    two: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    do(two, "UPDATE documents SET source = 'slack' WHERE partition = 'more'")
    do(two, "UPDATE partitions SET source = 'slack', title = 'general' WHERE partition = 'more'")
    (row,) = [row for row in said(capsys, "source", "list")[1] if row["source"] == "slack"]
    assert (row["root"], row["name"], row["state"]) == ("more", "general", "not configured")
    assert said(capsys, "source", "remove", "general", "--yes")[1]["documents"] == 1
    assert live(two) == EVERYTHING[:3]


def test_of_two_roots_with_the_same_name_the_one_of_the_named_source_is_removed(
    shrunk: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    do(shrunk, "UPDATE documents SET source = 'slack', partition = 'docs' WHERE partition = 'more'")
    do(shrunk, "UPDATE partitions SET source = 'slack', partition = 'docs' WHERE partition = 'more'")
    assert run(["source", "remove", "docs", "--yes"]) == 1
    assert "docs (files), docs (slack). Give the root of one, and its source: --source files" in capsys.readouterr().err
    assert said(capsys, "source", "remove", "docs", "--source", "slack", "--yes")[1]["documents"] == 1
    assert live(shrunk) == EVERYTHING[:3]
    assert run(["source", "remove", "docs", "--source", "push", "--yes"]) == 1
    assert "There is no root 'docs'. There are: none." in capsys.readouterr().err


def test_an_unknown_partition_is_named_before_anything_starts(
    two: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sync", "files", "--partition", "docs", "--partition", "dosc"]) == 2
    assert "files has no partition 'dosc'. It has: docs, more." in capsys.readouterr().err
    assert len(two.rows("SELECT 1 FROM sync_jobs")) == 1, "that of the fixture"


def test_uploads_are_not_removed_as_a_root(two: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    do(two, "INSERT INTO partitions (source, partition) VALUES ('upload', '2026-07-01'), ('upload', '2026-07-02')")
    (row,) = [row for row in said(capsys, "source", "list")[1] if row["source"] == "upload"]
    assert (row["root"], row["state"]) == ("*", "active")
    assert run(["source", "remove", "2026-07-01", "--yes"]) == 1
    assert "There is no root" in capsys.readouterr().err


def test_the_sample_that_is_gone_is_removed_in_json(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_environment(installation, monkeypatch)
    assert run(["source", "remove", "--sample", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"documents": 0, "roots": []}
