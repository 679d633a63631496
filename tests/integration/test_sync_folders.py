"""A sync of a folder below a root syncs the root that holds it."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from assets import pipeline
from assets.upkeep.audit import audit
from assets.upkeep.reconcile import reconcile
from orchestration.cli.syncing import check_partitions
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError, InvalidRequestError
from resources.syncs.syncing import SyncJob, open_sync
from tests.fixtures.installation import Installation


def synced(installation: Installation, *partitions: str) -> SyncJob:
    with open_sync(installation.settings, SourceName.FILES, requested_by="test", partitions=list(partitions)) as job:
        pipeline.sync(job)
    return job


def test_a_folder_stands_for_its_root(installation: Installation) -> None:
    installation.write("finance/2026/taxes.txt", "The tax return is due in May.\n")
    installation.sync()
    installation.write("finance/2026/fees.txt", "The fee is due in June.\n")
    job = synced(installation, "docs/finance/2026")
    assert (job.partitions, job.counts.synced, job.error) == (["docs"], 1, None)
    check_partitions(installation.settings, SourceName.FILES, ["docs/finance", "docs"])


def test_a_folder_that_no_root_holds_is_named(installation: Installation) -> None:
    installation.write("taxes.txt", "The tax return is due in May.\n")
    installation.sync()
    with pytest.raises(AbortSyncError, match="no partition 'elsewhere'"):
        synced(installation, "elsewhere")
    with pytest.raises(InvalidRequestError, match="no partition 'elsewhere'"):
        check_partitions(installation.settings, SourceName.FILES, ["elsewhere"])


def test_a_folder_that_was_never_read_keeps_nothing_else_from_being_found_or_deleted(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open
    closed = {"closed"}

    def refuse(path: Any, *given: Any, **named: Any) -> int:
        if path in closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *given, **named)

    monkeypatch.setattr("resources.sources.folders.os.open", refuse)

    def checked() -> Any:
        (row,) = installation.rows("SELECT acl_checked_at FROM partitions")
        return row["acl_checked_at"]

    def found() -> set[str]:
        return {row["source_id"] for row in installation.rows("SELECT source_id FROM documents WHERE state = 'live'")}

    installation.write("closed/salaries.txt", "The salaries are paid in May.\n")
    fees = installation.write("fees.txt", "The fee is due in June.\n")
    installation.write("taxes.txt", "The tax return is due in May.\n")
    installation.sync()
    first = checked()
    assert first is not None
    fees.unlink()
    installation.sync()
    assert checked() > first
    assert found() == {"docs/taxes.txt"}
    for apply in (False, True):
        assert reconcile(installation.settings, SourceName.FILES, apply=apply).clean()
    assert audit(installation.settings, SourceName.FILES).unlisted == {}
    closed.clear()
    installation.sync()
    assert found() == {"docs/taxes.txt", "docs/closed/salaries.txt"}


def test_documents_in_a_folder_that_is_closed_afterwards_are_held_and_keep_nothing_else_from_being_found(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, closed = os.open, set[str]()

    def refuse(path: Any, *given: Any, **named: Any) -> int:
        if path in closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *given, **named)

    monkeypatch.setattr("resources.sources.folders.os.open", refuse)

    def live() -> dict[str, Any]:
        checked = "SELECT source_id, acl_checked_at FROM checked_documents WHERE state = 'live'"
        return {row["source_id"]: row["acl_checked_at"] for row in installation.rows(checked)}

    def held() -> list[str]:
        return [row["source_id"] for row in installation.rows("SELECT source_id FROM held_deletions")]

    installation.write("closed/salaries.txt", "The salaries are paid in May.\n")
    fees = installation.write("fees.txt", "The fee is due in June.\n")
    installation.write("taxes.txt", "The tax return is due in May.\n")
    installation.sync()
    closed.add("closed")
    fees.unlink()
    for _ in range(2):
        installation.sync()
        assert held() == ["docs/closed/salaries.txt"]
        assert live().keys() == {"docs/taxes.txt", "docs/closed/salaries.txt"}
    before, now = live(), (installation.sync(), live())[1]
    assert now["docs/taxes.txt"] > before["docs/taxes.txt"]
    assert now["docs/closed/salaries.txt"] == before["docs/closed/salaries.txt"]
    closed.clear()
    installation.sync()
    assert held() == []
    assert live()["docs/closed/salaries.txt"] > now["docs/closed/salaries.txt"]


def test_what_a_source_does_without_while_it_is_read_is_recorded(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resources.sources.files import Files

    changes = Files.changes

    def warned(source: Any, *arguments: Any) -> Any:
        source.warnings = [*source.warnings, "Some names are not read."]
        yield from changes(source, *arguments)

    monkeypatch.setattr(Files, "changes", warned)
    installation.write("taxes.txt", "The tax return is due in May.\n")
    installation.sync()
    rows = installation.rows("SELECT reason, outcome FROM sync_errors")
    assert rows == [{"reason": "Some names are not read.", "outcome": "warning"}]
