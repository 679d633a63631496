"""A large partition is indexed by one run, and other runs parse, chunk and embed a part of it for that run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest
from pydantic import SecretStr

import assets.backlog
import assets.offering
import assets.parsed
import assets.preparing
import orchestration.preparing
from assets import pipeline
from assets.backlog import Backlog
from assets.offering import Offering
from assets.parsing.pool import ParseOutcome
from assets.preparing import prepare
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError, NotRunningError
from resources.settings import Settings
from resources.stores.leases import claim
from resources.stores.postgres import session
from resources.syncs import launch
from resources.syncs.jobs import DIED, end_job, hold_all, preparing
from resources.syncs.syncing import SyncJob, open_sync
from sql.offers import Offers
from sql.rows import JobError, Pending
from sql.sync import Jobs
from tests.fixtures.installation import Installation
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.waiting import until

FILES = SourceName.FILES
DOCUMENTS = 150
LIVE = "SELECT count(*) AS n FROM active_entries WHERE content <> ''"


class Runs:
    """Dagster, which starts each requested run as a thread, unless `work` is another function."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.threads: list[threading.Thread] = []
        self.faults: list[BaseException] = []
        self.done: list[dict[str, int]] = []
        self.refuses = False
        self.work: Callable[[Settings, SourceName, str, str], dict[str, int]] = prepare

    def launch(self, settings: Settings, source: SourceName, job_id: str, name: str) -> str:
        if self.refuses:
            raise NotRunningError("Dagster does not answer.")
        self.requested.append(name)
        self.threads.append(threading.Thread(target=self._run, args=(settings, source, job_id, name)))
        self.threads[-1].start()
        return name

    def _run(self, settings: Settings, source: SourceName, job_id: str, name: str) -> None:
        try:
            self.done.append(self.work(settings, source, job_id, name))
        except BaseException as error:  # noqa: BLE001
            self.faults.append(error)

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    made = Runs()
    monkeypatch.setattr(launch, "launch_preparing", made.launch)
    monkeypatch.setattr(assets.offering, "FEWEST_DOCUMENTS", 50)
    monkeypatch.setattr(assets.backlog, "LEAST_SHARED", 2)
    yield made
    made.join()


@pytest.fixture
def service() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimensions=48) as server:
        yield server


@pytest.fixture
def large(installation: Installation, service: OpenAIServer) -> Installation:
    installation.settings = installation.settings.model_copy(
        update={
            "embedding_provider": "openai",
            "embedding_model": "word-counts",
            "openai_base_url": service.url,
            "openai_api_key": SecretStr("test"),
        }
    )
    for number in range(DOCUMENTS):
        installation.write(
            f"d{number:03}.md", f"# Parcel {number}\n\nThe parcel {number} was weighed on day {number}.\n"
        )
    return installation


class Gate:
    """Holds the threads of a sync before their first wave until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        wave = Backlog.wave

        def held(backlog: Backlog) -> list[Pending] | None:
            assert self.opened.wait(120)
            return wave(backlog)

        monkeypatch.setattr(Backlog, "wave", held)

    def opens_after(self, monkeypatch: pytest.MonkeyPatch, returned: int) -> None:
        """Open once so many waves came back."""
        back, seen = Backlog.give_back, list[int]()

        def counted(backlog: Backlog, documents: Any, **more: Any) -> list[Pending]:
            seen.append(len(documents))
            if len(seen) >= returned:
                self.opened.set()
            return back(backlog, documents, **more)

        monkeypatch.setattr(Backlog, "give_back", counted)


def sync(installation: Installation, runs: int) -> SyncJob:
    with open_sync(installation.settings, FILES, requested_by="test") as job:
        job.runs = runs
        installation.last = dict(pipeline.sync(job))
    return job


def embedded(service: OpenAIServer) -> list[str]:
    """Return the passages that were sent to the embedding service."""
    return [text for request in service.requests for text in request["input"] if "was weighed" in text]


def complete(installation: Installation) -> None:
    """Check that each document is indexed once, and that nothing is left behind."""
    assert installation.rows(LIVE) == [{"n": DOCUMENTS}]
    points = [one["doc_id"] for one in installation.points()]
    assert len(points) == len(set(points)) == DOCUMENTS
    assert installation.agrees()
    assert installation.rows("SELECT count(*) AS n FROM offered_waves") == [{"n": 0}]
    assert installation.rows("SELECT count(*) AS n FROM partition_leases WHERE source = 'files'") == [{"n": 0}]


@pytest.mark.parametrize("number", [2, 3])
def test_other_runs_share_the_work_and_nothing_is_done_twice(
    number: int, large: Installation, service: OpenAIServer, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 2 * (number - 1))
    job = sync(large, number)
    runs.join()
    assert runs.faults == []
    assert len(runs.requested) == number - 1
    assert sum(one["documents"] for one in runs.done) > 0
    complete(large)
    texts = embedded(service)
    assert len(texts) == len(set(texts)) == DOCUMENTS
    counts = {stage: result.counts for stage, result in job.results.items()}
    assert (counts["parsed"]["documents"], counts["parsed"]["parsed"], counts["parsed"]["reused"]) == (
        DOCUMENTS,
        DOCUMENTS,
        0,
    )
    assert (counts["chunked"]["chunks"], counts["chunked"]["reused"]) == (DOCUMENTS, 0)
    assert (counts["embedded"]["chunks"], counts["embedded"]["embedded"], counts["embedded"]["reused"]) == (
        DOCUMENTS,
        DOCUMENTS,
        0,
    )
    assert counts["indexed"]["documents"] == DOCUMENTS
    (row,) = large.rows("SELECT status, synced, embedded, passages, documents, done FROM sync_jobs")
    assert row == {
        "status": "success", "synced": DOCUMENTS, "embedded": DOCUMENTS, "passages": DOCUMENTS, "documents": DOCUMENTS, "done": DOCUMENTS
    }  # fmt: skip
    (usage,) = large.rows("SELECT sum(texts)::integer AS texts, sum(tokens)::integer AS tokens FROM embedding_usage")
    assert usage == {"texts": DOCUMENTS, "tokens": job.counts.tokens}


def test_one_run_does_everything_by_default(large: Installation, runs: Runs) -> None:
    sync(large, 1)
    assert runs.requested == []
    complete(large)


def test_without_dagster_the_sync_does_it_all_itself(large: Installation, runs: Runs) -> None:
    runs.refuses = True
    sync(large, 3)
    complete(large)


def test_a_run_that_never_starts_delays_nothing(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    def never(*_: Any) -> dict[str, int]:
        if len(runs.requested) == 2:
            gate.opened.set()
        return {"waves": 0, "documents": 0}

    runs.work = never
    sync(large, 3)
    assert len(runs.requested) == 2
    complete(large)


@pytest.mark.parametrize(("patience", "requested"), [(1800.0, [1, 1, 1, 1]), (0.0, [1, 2, 3, 4])])
def test_a_run_that_waits_in_the_queue_is_requested_again_only_after_long(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch, patience: float, requested: list[int]
) -> None:
    monkeypatch.setattr(assets.offering, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(assets.offering, "START_SECONDS", patience)
    gate = Gate(monkeypatch)
    looks: list[int] = []
    waiting = Offering._offer

    def counted(offering: Offering, offers: Offers) -> None:
        looks.append(len(runs.requested))
        if len(looks) == 4:
            gate.opened.set()
        waiting(offering, offers)

    monkeypatch.setattr(Offering, "_offer", counted)
    runs.work = lambda *_: {"waves": 0, "documents": 0}
    sync(large, 2)
    assert looks[:4] == requested
    complete(large)


def waiting_wave(settings: Settings) -> list[str]:
    """Return the documents of the first wave that a sync offers, once it does."""
    with session(settings.postgres_dsn, autocommit=True) as connection:
        waves = "SELECT doc_ids::text[] AS ids FROM offered_waves ORDER BY number"
        return until(lambda: connection.execute(waves).fetchone(), "a wave")["ids"]


def test_a_wave_whose_run_has_died_is_done_by_the_sync(
    large: Installation, service: OpenAIServer, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 1)

    def dies(settings: Settings, source: SourceName, job_id: str, name: str) -> dict[str, int]:
        lease = claim(settings.postgres_dsn, preparing(source), [name])
        assert lease is not None
        waiting_wave(settings)
        with session(settings.postgres_dsn, autocommit=True) as connection:
            assert Offers(connection).take(job_id=job_id, lease=lease.owner) is not None
        lease.release()
        return {"waves": 0, "documents": 0}

    runs.work = dies
    job = sync(large, 2)
    complete(large)
    assert len(embedded(service)) == DOCUMENTS
    assert job.results["parsed"].counts["parsed"] == job.results["embedded"].counts["embedded"] == DOCUMENTS


def test_a_sync_whose_job_is_closed_meanwhile_takes_back_what_it_offered(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 1)

    def closes(settings: Settings, source: SourceName, job_id: str, name: str) -> dict[str, int]:
        lease = claim(settings.postgres_dsn, preparing(source), [name])
        assert lease is not None
        waiting_wave(settings)
        end_job(settings.postgres_dsn, job_id, DIED)
        lease.release()
        return {"waves": 0, "documents": 0}

    runs.work = closes
    sync(large, 2)
    runs.join()
    assert runs.faults == []
    complete(large)


def test_a_run_that_hangs_is_not_waited_for_for_ever(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets.offering, "STALLED_SECONDS", 0.0)
    ended = threading.Event()

    def hangs(settings: Settings, source: SourceName, job_id: str, name: str) -> dict[str, int]:
        lease = claim(settings.postgres_dsn, preparing(source), [name])
        assert lease is not None
        waiting_wave(settings)
        with session(settings.postgres_dsn, autocommit=True) as connection:
            offers = Offers(connection)
            wave = offers.take(job_id=job_id, lease=lease.owner)
            gate.opened.set()
            assert ended.wait(60)
            assert wave is not None
            assert not offers.wanted(job_id=job_id, number=wave.number, lease=lease.owner)
            assert offers.ready(job_id=job_id, number=wave.number, lease=lease.owner, results={}) == 0
        lease.release()
        return {"waves": 0, "documents": 0}

    gate = Gate(monkeypatch)
    runs.work = hangs
    try:
        sync(large, 2)
    finally:
        ended.set()
    runs.join()
    assert runs.faults == []
    complete(large)


def test_what_is_deleted_or_changed_while_it_is_lent_is_not_indexed(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 1)
    found: list[str] = []

    def late(settings: Settings, source: SourceName, job_id: str, name: str) -> dict[str, int]:
        lease = claim(settings.postgres_dsn, preparing(source), [name])
        assert lease is not None
        found.extend(waiting_wave(settings)[:2])
        with session(settings.postgres_dsn, autocommit=True) as connection:
            connection.execute(
                "UPDATE documents SET state = 'deleted', deleted_at = now() WHERE doc_id = %s", [found[0]]
            )
            connection.execute("UPDATE documents SET state = 'lost_access' WHERE doc_id = %s", [found[1]])
        lease.release()
        return prepare(settings, source, job_id, name)

    runs.work = late
    sync(large, 2)
    runs.join()
    assert runs.faults == []
    assert large.rows(LIVE) == [{"n": DOCUMENTS - 2}]
    assert not {one["doc_id"] for one in large.points()} & set(found)
    assert large.rows("SELECT count(*) AS n FROM chunks WHERE doc_id = ANY(%s::uuid[])", found) == [{"n": 0}]


def test_erasure_waits_for_runs_that_prepare_and_keeps_them_from_starting(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What such a run writes of a document is there before an erasure looks, or is not written."""
    dsn = large.settings.postgres_dsn
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 1)
    work = assets.preparing.embed_missing
    free: list[bool] = []

    def checked(*given: Any, **more: Any) -> Any:
        lease = claim(dsn, preparing(FILES), None, seconds=0)
        free.append(lease is not None)
        return work(*given, **more)

    monkeypatch.setattr(assets.preparing, "embed_missing", checked)
    sync(large, 2)
    runs.join()
    assert runs.faults == []
    assert set(free) == {False}
    with hold_all(large.settings):
        assert claim(dsn, preparing(FILES), ["another"], seconds=0) is None
    complete(large)


def test_failures_are_tried_and_reported_by_the_sync_alone(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(large, 1)
    for number in range(100):
        large.write(f"e{number:03}.md", f"# Letter {number}\n\nThe letter {number} was sent.\n")
    large.write(
        "broken.md", "# Broken\n\n" + "It crashes the parser. " * 20_000
    )  # the largest are the first to be lent
    large.write("empty.md", " " * 300_000)
    judge = assets.parsed._judge

    def crashed(outcome: ParseOutcome, *, book: bool) -> dict[str, Any]:
        row = judge(outcome, book=book)
        if outcome.document is not None and "crashes" in outcome.document.text:
            tried.append(threading.current_thread().name)
            row |= {"status": "failed", "reason": "The parser crashed.", "document": None}
        return row

    tried: list[str] = []
    monkeypatch.setattr(assets.parsed, "_judge", crashed)
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 2)
    job = sync(large, 2)
    runs.join()
    assert runs.faults == []
    assert len(tried) == len(set(tried)) == 2, "by the other run, and by the sync"
    rejected = "SELECT source_id, state, attempts FROM documents WHERE state <> 'live' ORDER BY source_id"
    assert large.rows(rejected) == [
        {"source_id": "docs/broken.md", "state": "failed", "attempts": 1},
        {"source_id": "docs/empty.md", "state": "skipped", "attempts": 0},
    ]
    parsed = job.results["parsed"].counts
    assert (parsed["parsed"], parsed["skipped"], parsed["failed"], parsed["reused"]) == (100, 1, 1, 0)
    assert (job.counts.synced, job.counts.skipped, job.counts.failed) == (100, 1, 1)
    assert [(one.source_id, one.outcome) for one in job_errors(large, job)] == [
        ("docs/broken.md", "failed"),
        ("docs/empty.md", "skipped"),
    ]


def job_errors(installation: Installation, job: SyncJob) -> list[JobError]:
    with session(installation.settings.postgres_dsn) as connection:
        return Jobs(connection).errors(job_id=job.job_id, stage="parsed", most=10)


def test_runs_end_with_their_sync_and_the_next_one_continues(
    large: Installation, service: OpenAIServer, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = threading.Event()
    prepared = threading.Event()
    wave, back = Backlog.wave, Backlog.give_back

    def fails(backlog: Backlog) -> list[Pending] | None:
        if broken.is_set():
            return wave(backlog)
        assert prepared.wait(60)
        broken.set()
        raise AbortSyncError("It broke.")

    def counted(backlog: Backlog, documents: Any, **more: Any) -> list[Pending]:
        prepared.set()
        return back(backlog, documents, **more)

    monkeypatch.setattr(Backlog, "wave", fails)
    monkeypatch.setattr(Backlog, "give_back", counted)
    with pytest.raises(AbortSyncError):
        sync(large, 2)
    runs.join()
    assert runs.faults == []
    assert large.rows("SELECT count(*) AS n FROM offered_waves") == [{"n": 0}]
    assert 0 < len(embedded(service)) < DOCUMENTS
    sync(large, 1)
    complete(large)
    assert len(embedded(service)) == DOCUMENTS


def test_a_sync_whose_documents_indexed_again_are_limited_offers_none(large: Installation, runs: Runs) -> None:
    large.settings = large.settings.model_copy(update={"reindex_documents": 10})
    sync(large, 3)
    assert runs.requested == []
    complete(large)


def test_the_run_of_dagster_prepares_what_its_sync_offers(
    large: Installation, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orchestration.preparing, "load", lambda: large.settings)
    monkeypatch.setattr(orchestration.preparing.priority, "lower", lambda: None)
    job = orchestration.preparing.preparation_job(FILES)
    results: list[dg.ExecuteInProcessResult] = []

    def executed(_: Settings, source: SourceName, job_id: str, name: str) -> dict[str, int]:
        tags = {launch.PREPARES_TAG: job_id, launch.NAME_TAG: name, launch.SOURCE_TAG: source.value}
        results.append(job.execute_in_process(tags=tags))
        return {}

    runs.work = executed
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 1)
    sync(large, 2)
    runs.join()
    assert runs.faults == []
    (result,) = results
    assert result.success
    complete(large)
    with pytest.raises(dg.Failure, match="Start a sync of the source instead"):
        job.execute_in_process()
