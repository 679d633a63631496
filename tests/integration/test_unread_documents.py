"""Documents whose bytes could not be read are read by later syncs, also if their source shows only what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from assets.parsing.pool import ParseJob, ParseOutcome, ParserPool
from assets.stages.diff import MAX_ATTEMPTS
from resources.core.domain import Batch, Item, SourceName, State
from resources.core.errors import AbortSyncError, FailedDocumentError, RetryLaterError
from resources.stores.postgres import session
from simulators.drive import DOCUMENT, SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow
from tests.integration.test_new_parser import MODULES
from tests.integration.test_remote_sources import ScriptedSource, complete, item, states

AT_ONCE = (0.0, 0.0, 0.0)
DOWN = RetryLaterError("The store does not answer.")
REFUSED = FailedDocumentError("Permission denied: let the account that runs Concordance read it.")


def document(installation: Installation) -> tuple[str, str | None]:
    (row,) = installation.rows("SELECT state, reason FROM documents")
    return row["state"], row["reason"]


def texts(installation: Installation) -> list[str]:
    return [point["chunk_text"].strip() for point in installation.points()]


def pass_time(installation: Installation, hours: float) -> None:
    with session(installation.settings.postgres_dsn) as connection:
        connection.execute("UPDATE documents SET changed_at = changed_at - %s * interval '1 hour'", [hours])


@pytest.fixture
def drive(installation: Installation, drive_site: DriveSite) -> SimulatedDrive:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url, retry_seconds=AT_ONCE)
    return drive_site.drive


@pytest.mark.parametrize("kind", ["server_error", "drop", "lost_access", "not_found"])
def test_a_file_of_drive_that_could_not_be_exported_is_read_by_the_next_sync(
    installation: Installation, drive: SimulatedDrive, kind: Any
) -> None:
    drive.file("Plan", drive.my_drive, "The plan of the otters.", DOCUMENT)
    drive.faults.add(kind, times=0, match="files.export")
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert document(installation)[0] == State.FAILED
    drive.faults.clear()
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert (document(installation), texts(installation)) == ((State.LIVE, None), ["The plan of the otters."])
    assert installation.agrees()


def test_a_changed_file_of_drive_is_found_as_it_was_until_it_can_be_read(
    installation: Installation, drive: SimulatedDrive
) -> None:
    plan = drive.file("Plan", drive.my_drive, "The plan of the otters.", DOCUMENT)
    drive.share(plan, "user:bob@acme.example")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.edit(plan, "The plan of the herons.")
    drive.share(plan, "user:cy@acme.example")
    drive.faults.add("server_error", times=0, match="files.export")
    for number in range(MAX_ATTEMPTS + 2):
        assert installation.sync(SourceName.GOOGLE_DRIVE).counts.failed == (number < MAX_ATTEMPTS)
        (point,) = installation.points()
        assert point["chunk_text"].strip() == "The plan of the otters."
        assert "cy@acme.example" not in point["permissions"]
    drive.faults.clear()
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert texts(installation) == ["The plan of the otters."], (
        "it is asked for after pauses, as each attempt can take long"
    )
    pass_time(installation, 1.1)
    installation.sync(SourceName.GOOGLE_DRIVE)
    (point,) = installation.points()
    assert point["chunk_text"].strip() == "The plan of the herons."
    assert "cy@acme.example" in point["permissions"]
    assert installation.agrees()


def test_a_file_that_drive_refuses_for_an_unknown_reason_holds_up_no_other(
    installation: Installation, drive: SimulatedDrive
) -> None:
    for title in ("Herons", "Otters", "Owls"):
        drive.file(title, drive.my_drive, f"About {title}.", DOCUMENT)
    drive.faults.add("bad_request", match="files.export")
    installation.sync(SourceName.GOOGLE_DRIVE)
    read = "SELECT state FROM documents ORDER BY state"
    assert [row["state"] for row in installation.rows(read)] == [State.FAILED, State.LIVE, State.LIVE]
    drive.calls.clear()
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert drive.calls["files.list"] == 0
    assert [row["state"] for row in installation.rows(read)] == [State.LIVE] * 3
    assert installation.agrees()


def test_files_that_too_many_have_downloaded_are_kept_as_they_were_and_read_later(
    installation: Installation, drive: SimulatedDrive
) -> None:
    plan = drive.file("plan.txt", drive.my_drive, "The plan of the otters.")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.edit(plan, "The plan of the herons.")
    drive.file("new.txt", drive.my_drive, "The news of the owls.")
    for _ in range(MAX_ATTEMPTS):
        drive.faults.add("download_quota", times=2, match="files.get_media")
        installation.sync(SourceName.GOOGLE_DRIVE)
        assert texts(installation) == ["The plan of the otters."]
    assert drive.faults.committed["download_quota"] == 2 * MAX_ATTEMPTS, "no call is repeated at once"
    pass_time(installation, 1.1)
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert sorted(texts(installation)) == ["The news of the owls.", "The plan of the herons."]
    assert installation.agrees()


def test_a_file_of_drive_that_went_into_the_trash_meanwhile_is_not_read(
    installation: Installation, drive: SimulatedDrive
) -> None:
    plan = drive.file("Plan", drive.my_drive, "The plan of the otters.", DOCUMENT)
    drive.faults.add("server_error", times=0, match="files.export")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.faults.clear()
    drive.trash(plan)
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert (document(installation)[0], texts(installation)) == (State.DELETED, [])


@pytest.mark.parametrize("fault", [DOWN, REFUSED])
def test_a_document_that_fails_for_long_is_asked_for_less_and_less_often(
    installation: Installation, fault: Exception
) -> None:
    follow(installation, retry_seconds=())
    asked: list[str] = []

    def fail(wanted: Item) -> None:
        asked.append(wanted.source_id)
        raise fault

    def sync(hours: float = 0, *, full: bool = False) -> tuple[int, int]:
        """Return how often the document was asked for, and failed according to the job, from which alerts follow."""
        asked.clear()
        pass_time(installation, hours)
        port = ScriptedSource(batches={"pond": [complete(["a"])]}, before=fail)
        failed = installation.sync(SourceName.SLACK, port=port, full=full).counts.failed
        return len(asked), failed

    assert [sync() for _ in range(MAX_ATTEMPTS + 1)] == [(1, 1)] * MAX_ATTEMPTS + [(0, 0)]
    assert [sync(0.9), sync(0.2), sync(1.9), sync(0.2)] == [(0, 0), (1, 0), (0, 0), (1, 0)]
    assert [sync(25) for _ in range(9)] == [(1, 0)] * 9
    assert sync(full=True) == (1, 1), "whoever asks for it is told"
    pass_time(installation, 25)
    installation.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [complete(["a"])]}))
    assert document(installation) == (State.LIVE, None)
    assert installation.agrees()


def test_a_document_that_its_source_refuses_for_good_is_not_found_as_it_was(installation: Installation) -> None:
    installation.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [complete(["a"])]}))
    changed = Batch(partition="pond", seen=[item("a", version="2")], listing="complete", cursor="1")
    for _ in range(MAX_ATTEMPTS):
        assert document(installation)[0] == State.LIVE
        installation.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [changed]}, faults={"a": [REFUSED]}))
    assert (document(installation), texts(installation)) == ((State.FAILED, str(REFUSED)), [])


def test_failures_that_pass_do_not_count_as_refusals(installation: Installation) -> None:
    follow(installation, retry_seconds=())
    installation.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [complete(["a"])]}))
    changed = Batch(partition="pond", seen=[item("a", version="2")], listing="complete", cursor="1")
    states: list[str] = []
    for fault in (*[DOWN] * MAX_ATTEMPTS, *[REFUSED] * MAX_ATTEMPTS):
        pass_time(installation, 25)
        installation.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [changed]}, faults={"a": [fault]}))
        states.append(document(installation)[0])
    assert states == [State.LIVE] * (2 * MAX_ATTEMPTS - 1) + [State.FAILED]


def test_a_file_that_can_be_read_again_after_a_long_time_comes_back(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not among the files that a listing leaves out because nothing about them has changed."""
    follow(installation, retry_seconds=())
    installation.write("plan.txt", "The plan of the otters.")

    def fail(_path: str, _version: str) -> Any:
        raise DOWN

    with monkeypatch.context() as patch:
        patch.setattr("resources.sources.folders.LocalFolder.read", lambda _self, *given: fail(*given))
        for _ in range(MAX_ATTEMPTS + 2):
            installation.sync()
    assert document(installation)[0] == State.FAILED
    pass_time(installation, 25)
    installation.sync()
    assert (document(installation)[0], texts(installation)) == (State.LIVE, ["The plan of the otters."])


class LookedAtAgain(ScriptedSource):
    """A source that describes its documents as they are now."""

    version: str | None = None

    def look_again(self, item: Item) -> Item | None:
        return msgspec.structs.replace(item, version=self.version or item.version)


def test_a_document_that_is_looked_at_again_does_not_count_for_those_that_were_not_listed(
    installation: Installation,
) -> None:
    def checked() -> Any:
        return installation.rows("SELECT acl_checked_at FROM partitions WHERE partition = 'pond'")

    broken = ScriptedSource(batches={"pond": [complete(["a", "b"])]}, faults={"a": [REFUSED]})
    installation.sync(SourceName.SLACK, port=broken)
    before = checked()
    part = Batch(partition="pond", seen=[item("b")], listing="page", cursor="2")
    port = LookedAtAgain(batches={"pond": [part]})
    installation.sync(SourceName.SLACK, port=port)
    assert (port.fetched, states(installation)) == (["a"], {"a": State.LIVE, "b": State.LIVE})
    assert checked() == before
    rest = Batch(partition="pond", seen=[item("a")], listing="complete", cursor="3")
    port = LookedAtAgain(batches={"pond": [rest]})
    installation.sync(SourceName.SLACK, port=port)
    assert port.asked == [("pond", "2")]
    assert checked() != before
    assert states(installation) == {"a": State.LIVE, "b": State.LIVE}
    assert installation.agrees()


@pytest.mark.parametrize("rejected", [False, True])
def test_new_bytes_are_read_later_although_a_new_parser_parses_the_former_ones(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, rejected: bool
) -> None:
    def look(**options: Any) -> list[str]:
        port = LookedAtAgain(batches={"pond": [Batch(partition="pond", cursor="2")]}, **options)
        port.version = "2"
        installation.sync(SourceName.SLACK, port=port)
        return port.fetched

    installation.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [complete(["a"])]}))
    changed = Batch(partition="pond", seen=[item("a", version="2")], cursor="2")
    installation.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [changed]}, faults={"a": [REFUSED]}))
    parse = ParserPool.run

    def reject(pool: ParserPool, *queues: Iterator[ParseJob]) -> Iterator[ParseOutcome]:
        for one in parse(pool, *queues):
            yield msgspec.structs.replace(one, document=None, error="The file holds no text.", skipped=True)

    with monkeypatch.context() as patch:
        for module in MODULES:
            patch.setattr(f"assets.{module}.PARSER_VERSION", "p-next")
        if rejected:
            patch.setattr(ParserPool, "run", reject)
        assert look(faults={"a": [REFUSED]}) == []
    assert look() == ["a"]
    assert (document(installation), installation.agrees()) == ((State.LIVE, None), True)


def test_a_feed_that_was_read_to_its_end_is_checked_whatever_fails_afterwards(installation: Installation) -> None:
    class Broken(LookedAtAgain):
        def look_again(self, item: Item) -> Item | None:
            raise AbortSyncError(f"{item.source_id} cannot be described.")

    broken = ScriptedSource(batches={"pond": [complete(["a"])]}, faults={"a": [REFUSED]})
    installation.sync(SourceName.SLACK, port=broken)
    (before,) = installation.rows("SELECT acl_checked_at FROM partitions")
    with pytest.raises(AbortSyncError, match="cannot be described"):
        installation.sync(SourceName.SLACK, port=Broken(batches={"pond": [Batch(partition="pond", cursor="2")]}))
    (after,) = installation.rows("SELECT acl_checked_at FROM partitions")
    assert after["acl_checked_at"] > before["acl_checked_at"]
