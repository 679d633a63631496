"""A sync whose stages overlap: small documents overtake large ones, requests are added to it, and errors leave the rest indexed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assets import pipeline
from assets.index import targets
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError, BusyError
from resources.core.ports import Embedder
from resources.settings import Settings
from resources.stores.postgres import session
from resources.syncs.jobs import create_job, end_job
from resources.syncs.syncing import SyncJob, open_sync
from sql.rows import Requested
from sql.sync import Jobs
from tests.fixtures.installation import Installation
from tests.fixtures.waiting import until

NOTE = "# Note\n\nThe otters moved to the new pond on Monday.\n"
LARGE = (
    "# Annals\n\n"
    + "\n\n".join(f"In year {year} the mill ground {year * 7} sacks of rye." for year in range(1600))
    + "\n"
)
FILES = SourceName.FILES
WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%%sync_jobs%%'"


class Watched:
    """The real embedder, which calls a function before it embeds a large document."""

    def __init__(self, inner: Embedder, before: Callable[[], None]) -> None:
        self._inner = inner
        self._before = before
        self.model, self.dimensions, self.window = inner.model, inner.dimensions, inner.window
        self.price_per_million = inner.price_per_million

    def embed_counted(self, texts: Sequence[str]) -> Any:
        if any("sacks of rye" in text for text in texts):
            self._before()
        return self._inner.embed_counted(texts)


@pytest.fixture
def filled(installation: Installation) -> Installation:
    """An installation whose collection exists."""
    installation.write("first.md", "# First\n\nThe first document.\n")
    installation.sync()
    return installation


def watch(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    real = targets.embedder_of

    def watched(settings: Settings, row: Mapping[str, Any]) -> Watched:
        return Watched(real(settings, row), before)

    monkeypatch.setattr(targets, "embedder_of", watched)


def request(installation: Installation, partitions: Sequence[str] | None = None, *, full: bool = False) -> str:
    """Ask for a sync as users do, and return the id of the job."""
    dsn = installation.settings.postgres_dsn
    try:
        return create_job(dsn, FILES, partitions=partitions, full=full, requested_by="test", merge=True).job_id
    except BusyError as error:
        return error.job_id if error.merged else ""


def sync(installation: Installation, job_id: str) -> SyncJob:
    with open_sync(installation.settings, FILES, job_id=job_id) as job:
        installation.last = dict(pipeline.sync(job))
    return job


def paths(installation: Installation) -> set[str]:
    return {point["path"] for point in installation.points()}


def test_a_note_is_searchable_while_a_large_file_is_embedded(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is listed together with the large file, and one that is requested later, from the running sync."""
    requested: list[str] = []
    progress: dict[str, int] = {}

    def large_file_begins() -> None:
        until(lambda: "note.md" in paths(filled), "the note in the index")
        if not requested:
            filled.write("later.md", NOTE.replace("otters", "herons"))
            requested.append(request(filled))
        until(lambda: "later.md" in paths(filled), "the later note in the index")
        progress.update(filled.rows("SELECT documents, done FROM sync_jobs WHERE status = 'running'")[0])
        assert "annals.md" not in paths(filled)

    watch(monkeypatch, large_file_begins)
    filled.write("annals.md", LARGE)
    filled.write("note.md", NOTE)
    job_id = request(filled)
    job = sync(filled, job_id)
    assert requested == [job_id]
    assert progress["done"] < progress["documents"] <= 3
    assert (job.error, job.counts.synced) == (None, 3)
    assert paths(filled) == {"first.md", "note.md", "later.md", "annals.md"}
    assert filled.last["raw"]["fetched"] == 3
    assert (
        filled.last["parsed"]["parsed"] == filled.last["chunked"]["chunked"] == filled.last["indexed"]["documents"] == 3
    )
    assert filled.sync().counts.synced == 0
    assert filled.agrees()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("full", [False, True])
def test_what_was_added_to_a_sync_that_failed_is_done_once_by_the_next_one(
    filled: Installation, whole: bool, full: bool
) -> None:
    again = None if whole else [str(filled.rows("SELECT partition FROM documents")[0]["partition"])]
    failed = request(filled)
    assert request(filled, again, full=True) == failed
    end_job(filled.settings.postgres_dsn, failed, "It failed.")
    for fetched in (1, 0):
        sync(filled, request(filled, again, full=full and fetched == 1))
        assert filled.last["raw"]["fetched"] == fetched


def test_what_was_added_to_a_sync_that_failed_is_kept_if_the_one_that_would_do_it_ends(filled: Installation) -> None:
    dsn = filled.settings.postgres_dsn
    failed = request(filled, ["a"])
    assert request(filled, ["a"], full=True) == failed
    end_job(dsn, failed, "It failed.")
    ending = request(filled, ["a"])
    other = create_job(dsn, FILES, partitions=["b"], full=False, requested_by="test").job_id

    def begin() -> None:
        with open_sync(filled.settings, FILES, job_id=other):
            pass

    with session(dsn) as connection, ThreadPoolExecutor(1) as threads:
        Jobs(connection).finish_job(job_id=ending, error_message=None, stages=None, unknown="")
        begun = threads.submit(begin)
        until(lambda: begun.done() or filled.rows(WAITING), "the sync that begins to wait for the one that ends")
        connection.commit()
        begun.result()
    assert filled.rows("SELECT more_partitions, more_full FROM sync_jobs WHERE more_full IS NOT NULL") == [
        {"more_partitions": ["a"], "more_full": True}
    ]


def test_a_document_that_changes_while_it_is_processed_is_indexed_once_more(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is deleted meanwhile leaves nothing behind."""
    changed: list[str] = []

    def large_file_begins() -> None:
        if not changed:
            filled.write("annals.md", NOTE)
            filled.root.joinpath("second.md").unlink()
            changed.append(request(filled))
            with session(filled.settings.postgres_dsn) as connection:
                until(
                    lambda: not connection.execute("SELECT 1 FROM sync_jobs WHERE more_full IS NOT NULL").fetchall(),
                    "the request taken up",
                )

    watch(monkeypatch, large_file_begins)
    filled.write("annals.md", LARGE)
    filled.write("second.md", LARGE.replace("rye", "rye and oats"))
    assert sync(filled, request(filled)).error is None
    assert changed
    assert {point["chunk_text"] for point in filled.points() if point["path"] == "annals.md"} == {
        "Note\n\nThe otters moved to the new pond on Monday."
    }
    assert paths(filled) == {"first.md", "annals.md"}
    assert filled.sync().counts.synced == 0
    assert filled.agrees()


def test_an_error_of_one_stage_leaves_other_documents_indexed(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def large_file_begins() -> None:
        until(lambda: "note.md" in paths(filled), "the note in the index")
        raise AbortSyncError("The model is gone.")

    filled.write("annals.md", LARGE)
    filled.write("note.md", NOTE)
    with monkeypatch.context() as patch:
        watch(patch, large_file_begins)
        with pytest.raises(AbortSyncError, match="The model is gone"):
            filled.sync()
    assert paths(filled) == {"first.md", "note.md"}
    assert filled.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1") == [
        {"status": "failed", "error_message": "The model is gone."}
    ]
    assert filled.sync().counts.synced == 1
    assert filled.agrees()


def test_many_documents_are_each_indexed_once(installation: Installation) -> None:
    """More than pass through at once, with texts that several of them have, in a first sync."""
    for number in range(150):
        installation.write(f"{number:03}.md", f"# Report {number}\n\nPart {number % 60} of the plan is done.\n")
    job = installation.sync()
    assert (job.error, job.counts.synced) == (None, 150)
    assert installation.rows("SELECT documents, done, passages FROM sync_jobs") == [
        {"documents": 150, "done": 150, "passages": 150}
    ]
    assert installation.last["indexed"]["documents"] == 150
    assert installation.agrees()
    assert installation.sync().counts.synced == 0


def test_a_running_sync_indexes_all_documents_of_a_partition_that_is_added_to_it(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than pass through at once, so that threads which began with other partitions do it."""
    docs = filled.settings.file_roots[0]
    more = filled.root.parent / "more"
    more.mkdir()
    added = docs.model_copy(update={"name": "more", "url": more.as_uri()})
    requested: list[str] = []

    def large_file_begins() -> None:
        if not requested:
            for number in range(150):
                (more / f"{number:03}.md").write_text(f"# Report {number}\n\nPart {number} of the plan is done.\n")
            requested.append(request(filled, ["more"]))
            until(
                lambda: filled.rows("SELECT count(*) AS n FROM documents WHERE partition = 'more'")[0]["n"] == 150,
                "the documents of the other partition",
            )

    watch(monkeypatch, large_file_begins)
    filled.write("annals.md", LARGE)
    filled.settings = filled.settings.model_copy(update={"file_roots": (docs, added)})
    job_id = request(filled, [docs.name])
    assert sync(filled, job_id).error is None
    assert requested == [job_id]
    assert len(paths(filled)) == 152
    assert filled.sync().counts.synced == 0


def test_requests_are_added_to_a_running_sync_until_it_ends(installation: Installation) -> None:
    job_id = request(installation, ["docs"])
    with session(installation.settings.postgres_dsn, autocommit=True) as connection:
        jobs = Jobs(connection)
        assert jobs.take_requests(job_id=job_id) is None
        request(installation, ["b", "docs"])
        request(installation, ["a"], full=True)
        assert jobs.refuse_requests(job_id=job_id) == 0
        assert jobs.take_requests(job_id=job_id) == Requested(["a", "b", "docs"], full_sync=True)
        request(installation, ["a"])
        assert request(installation) == job_id
        assert jobs.take_requests(job_id=job_id) == Requested(None, full_sync=False)
        assert jobs.refuse_requests(job_id=job_id) == 1
        with pytest.raises(BusyError) as busy:
            create_job(
                installation.settings.postgres_dsn, FILES, partitions=None, full=False, requested_by="test", merge=True
            )
        assert (busy.value.job_id, busy.value.merged) == (job_id, False)
