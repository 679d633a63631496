"""Every sync that fails says why, without quoting documents, and a call to a source that it can do without does not end it."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, LiteralString

import dagster as dg
import httpx
import psycopg
import pytest
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.runs.schema import RunsTable

from assets import pipeline
from orchestration.cli import run as command
from orchestration.cli.syncing import public, read_job
from orchestration.diagnosis import doctor
from resources.core import errors
from resources.core.domain import STAGES, SourceName
from resources.core.errors import AuthorizationError, ConcordanceError, NotRunningError
from resources.people.sync import PeopleReport
from resources.settings import Settings, load
from resources.stores.postgres import session
from resources.syncs.counts import StageResult
from resources.syncs.jobs import create_job, end_job
from resources.syncs.launch import JOB_TAG, PARTITION_TAG, SOURCE_TAG, WHOLE, start_sync
from resources.syncs.syncing import SyncJob, open_sync
from sql.sync import Jobs
from tests.fixtures import loopback
from tests.fixtures.dagster_runs import DagsterRuns
from tests.fixtures.installation import Installation
from tests.fixtures.slack import SlackSite
from tests.fixtures.step import follow
from tests.fixtures.upkeep import as_environment
from tests.integration.test_remote_sources import ScriptedSource, complete, states

CANARY = "Layoffs 2027.docx"
SENTENCE = re.compile(r"[A-Z].*\.$", re.DOTALL)


def kinds(of: type[Exception]) -> Iterator[type[Exception]]:
    """Yield every error of ours."""
    yield of
    for kind in of.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from kinds(kind)


def made(kind: type[Exception], text: str) -> Exception:
    return kind(text, "") if kind is errors.BusyError else kind(text)


OURS = [made(kind, text) for kind in kinds(ConcordanceError) for text in ("", " ", "The listing failed. Sync again.")]
FOREIGN: list[BaseException] = [
    KeyError(CANARY),
    ValueError(),
    OSError(2, "No such file", CANARY),
    psycopg.DataError(CANARY),
    UnicodeDecodeError("utf-8", b"x", 0, 1, CANARY),
    RecursionError(),
    MemoryError(),
    KeyboardInterrupt(),
    SystemExit(1),
    httpx.ConnectError(CANARY),
]


def last(installation: Installation) -> tuple[str, str]:
    (row,) = installation.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    return row["status"], row["error_message"]


def failing(error: BaseException) -> Callable[[], StageResult]:
    def work() -> StageResult:
        raise error

    return work


@pytest.mark.parametrize("place", ["stage", "outside"])
def test_an_error_in_any_place_is_the_reason_and_quotes_nothing(installation: Installation, place: str) -> None:
    for error in [*OURS, *FOREIGN]:
        with pytest.raises(BaseException) as raised, open_sync(installation.settings, SourceName.FILES) as job:  # noqa: PT012 (any)
            if place == "stage":
                job.run("raw", failing(error))
            else:
                raise error
        assert raised.type is not AssertionError
        status, reason = last(installation)
        assert status == "failed", repr(error)
        assert SENTENCE.fullmatch(reason), (repr(error), reason)
        assert CANARY not in reason


@pytest.mark.parametrize("stage", STAGES)
def test_an_error_after_another_is_a_reason_too(installation: Installation, stage: str) -> None:
    with pytest.raises(KeyError), open_sync(installation.settings, SourceName.FILES) as job:  # noqa: PT012
        job.error = "The channel could not be listed."
        job.run(stage, failing(KeyError(CANARY)))
    _, reason = last(installation)
    assert reason.startswith("The channel could not be listed. The stage ")
    assert f"{stage} ended with an unexpected error (KeyError)" in reason


def test_a_stage_that_is_missing_is_the_reason(installation: Installation) -> None:
    with open_sync(installation.settings, SourceName.FILES) as job:
        job.planned = set(STAGES)
    assert last(installation)[1].startswith("The run ended before the stage raw")


def lost(settings: Settings, *, claimed: bool) -> None:
    create_job(settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    with session(settings.postgres_dsn) as connection:
        connection.execute(
            "UPDATE sync_jobs SET started_at = now() - interval '1 hour', claimed_at = CASE WHEN %s THEN now() END",
            (claimed,),
        )


def test_a_process_that_died_is_the_reason(installation: Installation) -> None:
    lost(installation.settings, claimed=True)
    installation.sync()
    (row,) = installation.rows("SELECT error_message FROM sync_jobs WHERE status = 'failed'")
    assert row["error_message"].startswith("The process that ran this sync died.")


@pytest.mark.parametrize("said", ["", "  ", "Dagster does not answer."])
def test_statements_that_end_a_job_store_no_empty_reason(installation: Installation, said: str) -> None:
    settings = installation.settings
    job = create_job(settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    end_job(settings.postgres_dsn, job.job_id, said)
    status, reason = last(installation)
    assert (status, bool(SENTENCE.fullmatch(reason))) == ("failed", True)
    job = create_job(settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    with session(settings.postgres_dsn) as connection:
        Jobs(connection).fail_run_job(job_id=job.job_id, run_id="none", error_message=said, unknown="Nobody knows.")
    status, reason = last(installation)
    assert (status, bool(SENTENCE.fullmatch(reason))) == ("failed", True)


class Interruption(BaseException):
    """What Dagster raises in a run that is terminated is no `KeyboardInterrupt` either."""


@contextmanager
def interrupted(dsn: str, statement: str) -> Iterator[None]:
    """Raise `Interruption` in this thread once Postgres executes the statement."""

    def interrupt() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not connection.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query = %s",
                [statement],
            ).rowcount:
                time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGUSR1)

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise Interruption

    before = signal.signal(signal.SIGUSR1, handle)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def executing(job: SyncJob, statement: LiteralString, in_transaction: bool) -> Callable[[], StageResult]:
    connection = job.stores.connection

    def work() -> StageResult:
        with connection.transaction() if in_transaction else nullcontext():
            connection.execute(statement)
        return StageResult()

    return work


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_run_that_is_terminated_during_a_statement_closes_its_job(
    installation: Installation, in_transaction: bool
) -> None:
    settings = installation.settings
    slow: LiteralString = "SELECT pg_sleep(600)"
    with (
        pytest.raises(Interruption),
        interrupted(settings.postgres_dsn, slow),
        open_sync(settings, SourceName.FILES) as job,
    ):
        job.run("raw", executing(job, slow, in_transaction))
    status, reason = last(installation)
    assert status == "failed"
    assert "its run was terminated" in reason
    assert installation.sync().error is None


def test_no_other_statement_fails_a_job() -> None:
    folder = Path(__file__).parents[2] / "sql"
    found = [
        (file.name, statement.partition("\n")[0])
        for file in sorted(folder.rglob("*.sql"))
        for statement in re.split(r"^-- name: ", file.read_text(), flags=re.MULTILINE)
        if re.search(r"UPDATE sync_jobs SET[^;]*?\bstatus = (CASE|'(?!success')|:)", statement.partition("\nWHERE")[0])
    ]
    assert found == [("jobs.sql", "finish_job!"), ("jobs.sql", "fail_run_job!")]


@pytest.mark.parametrize(
    "body", [{}, {"errors": []}, {"data": {"launchRun": {"__typename": "PythonError", "message": ""}}}]
)
def test_a_launch_that_fails_is_the_reason(
    installation: Installation, httpserver_url: Callable[[Any], str], body: dict[str, Any]
) -> None:
    settings = installation.settings.model_copy(update={"dagster_url": httpserver_url(body)})
    with pytest.raises(NotRunningError):
        start_sync(settings, SourceName.FILES, partitions=None, full=False, requested_by="test")
    status, reason = last(installation)
    assert (status, "sync_files" in reason) == ("failed", True)


@pytest.fixture
def httpserver_url() -> Iterator[Callable[[Any], str]]:
    """Return a function that serves one JSON answer to everything and returns the address."""
    with ExitStack() as servers:

        def served(body: Any) -> str:
            class Handler(loopback.Handler):
                def do_POST(self) -> None:
                    self.answer(200, json.dumps(body).encode())

            return servers.enter_context(loopback.serving(Handler))

        yield served


def test_dagster_shows_the_reason(dagster_runs: DagsterRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_job: SyncJob, **_: Any) -> StageResult:
        raise errors.AbortSyncError("Slack rejected conversations.list: HTTP 404.")

    monkeypatch.setattr(pipeline, "WORK", {**pipeline.WORK, "raw": broken})
    result = dagster_runs.sync(succeeds=False)
    assert not result.success
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert failed.step_failure_data.error is not None
    assert "Slack rejected conversations.list: HTTP 404." in failed.step_failure_data.error.to_string()
    assert last(dagster_runs.installation) == ("failed", "Slack rejected conversations.list: HTTP 404.")


@pytest.mark.parametrize("said", [None, "", "Execution failed.\n\nA stack trace of " + CANARY])
def test_the_sensor_gives_a_reason_of_one_line(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    from orchestration import schedules

    settings = installation.settings
    monkeypatch.setattr(schedules, "load", lambda: settings)
    job = create_job(settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    run: Any = SimpleNamespace(run_id="r1", job_name="sync_files", tags={JOB_TAG: job.job_id})
    schedules.close_failed(settings, run, said, late=False)
    status, reason = last(installation)
    assert (status, bool(SENTENCE.fullmatch(reason)), CANARY in reason, "\n" in reason) == (
        "failed",
        True,
        False,
        False,
    )


def test_the_job_of_a_backfill_whose_process_died_is_closed(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster itself starts such a run, so its tags do not name the job. Its source is free at once."""
    from orchestration import schedules

    monkeypatch.setattr(schedules, "alert", lambda _settings, _text: None)
    dsn = installation.settings.postgres_dsn
    job = create_job(dsn, SourceName.FILES, partitions=["docs"], full=False, requested_by="backfill")
    with session(dsn, autocommit=True) as connection:
        Jobs(connection).claim_job(job_id=job.job_id, run_id="r1", lease="died")
        connection.execute("INSERT INTO partition_leases VALUES ('files', 'docs', 'died', 1, now() + interval '15 s')")
    tags = {schedules.PREPARES_TAG: job.job_id}
    for run_id, status in (("another", "running"), ("r1", "failed")):
        run: Any = SimpleNamespace(run_id=run_id, job_name="__ASSET_JOB", tags=tags if status == "running" else {})
        schedules.close_failed(installation.settings, run, "The process of this run has died.", late=False)
        assert last(installation)[0] == status
    assert installation.rows("SELECT owner FROM partition_leases") == []


def test_a_tag_that_is_no_job_is_ignored(dagster_runs: DagsterRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """People write tags in the Launchpad. Dagster's sensor for failed runs failed for ever, so that nothing else was alerted."""
    from orchestration import schedules

    alerts: list[str] = []
    monkeypatch.setattr(schedules, "alert", lambda _settings, text: alerts.append(text))
    run: Any = SimpleNamespace(run_id="r1", job_name="sync_files", tags={JOB_TAG: "mine", SOURCE_TAG: "files"})
    for late in (True, False):
        schedules.close_failed(dagster_runs.installation.settings, run, None, late=late)
    assert len(alerts) == 2
    dagster_runs.run({PARTITION_TAG: WHOLE, JOB_TAG: "mine"})
    assert last(dagster_runs.installation)[0] == "success"


def test_a_run_that_fails_after_another_has_claimed_its_job_leaves_that_alone(installation: Installation) -> None:
    """Dagster gave the first one up, because it was late, and the job was launched again."""
    from orchestration import schedules

    settings = installation.settings
    job = create_job(settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    tags = {JOB_TAG: job.job_id, SOURCE_TAG: "files"}
    with open_sync(settings, SourceName.FILES, job_id=job.job_id, run_id="second") as work:
        for late in (True, False):
            run: Any = SimpleNamespace(run_id="first", job_name="sync_files", tags=tags)
            schedules.close_failed(settings, run, "It was late.", late=late)
        pipeline.sync(work)
    assert last(installation)[0] == "success"


def test_a_run_that_prepares_documents_alerts_no_one(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sync does what it has left."""
    from orchestration import schedules

    alerts: list[str] = []
    monkeypatch.setattr(schedules, "alert", lambda _, text: alerts.append(text))
    job = create_job(
        installation.settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test"
    )
    for tags in ({schedules.PREPARES_TAG: job.job_id}, {}):
        run: Any = SimpleNamespace(run_id="r1", job_name="prepare_files", tags=tags)
        schedules.close_failed(installation.settings, run, "It broke.", late=False)
    assert len(alerts) == 1, "of the other run"
    assert last(installation)[0] == "running"


class FailingDirectory:
    """Runs the sync of the directory, which fails, and hands its failures to the sensor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> None:
        from orchestration import schedules

        self.alerts: list[str] = []
        self._instance = instance
        self._patch = monkeypatch
        monkeypatch.setattr(schedules, "alert", lambda _, text: self.alerts.append(text))

    def fail(self, report: PeopleReport | Exception, created: datetime) -> dg.RunFailureSensorContext:
        from orchestration import people

        def sync(_settings: Settings) -> dict[str, PeopleReport]:
            if isinstance(report, Exception):
                raise report
            return {"groups_file": report}

        self._patch.setattr(people, "sync_people", sync)
        done = people.people_job().execute_in_process(instance=self._instance, raise_on_error=False)
        storage = self._instance.run_storage
        assert isinstance(storage, SqlRunStorage)
        with storage.connect() as connection:
            at = created.astimezone(UTC).replace(tzinfo=None)
            connection.execute(RunsTable.update().where(RunsTable.c.run_id == done.run_id).values(create_timestamp=at))
        [event] = [one for one in done.all_events if one.event_type == dg.DagsterEventType.RUN_FAILURE]
        context = dg.build_run_status_sensor_context("alert_on_failure", event, self._instance, done.dagster_run)
        return context.for_run_failure()


@pytest.fixture
def directory(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingDirectory]:
    as_environment(installation, monkeypatch)
    with dg.DagsterInstance.ephemeral() as instance:
        yield FailingDirectory(monkeypatch, instance)


MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
"""Begins one of the periods of four hours in which an alert is sent once."""


def test_a_run_that_has_alerted_by_itself_does_not_alert_again(directory: FailingDirectory) -> None:
    from orchestration import schedules

    schedules.failure_alert(
        directory.fail(PeopleReport(error="It is away.", alerted=True), MIDNIGHT + timedelta(minutes=1))
    )
    assert directory.alerts == []
    schedules.failure_alert(directory.fail(PeopleReport(error="It is away."), MIDNIGHT + timedelta(minutes=10)))
    assert directory.alerts == [], "it was told in this period"
    schedules.failure_alert(directory.fail(PeopleReport(error="It is away."), MIDNIGHT + timedelta(hours=5)))
    assert len(directory.alerts) == 1, "it lasts"


def test_of_runs_that_fail_together_the_first_alerts_and_a_job_that_keeps_failing_alerts_in_each_period(
    directory: FailingDirectory,
) -> None:
    from orchestration import schedules

    broken = ValueError("broken")
    together = [directory.fail(broken, MIDNIGHT + timedelta(minutes=minutes)) for minutes in (1, 2, 3)]
    for context in reversed(together):
        schedules.failure_alert(context)
    assert len(directory.alerts) == 1
    for minutes in range(10, 600, 60):
        schedules.failure_alert(directory.fail(broken, MIDNIGHT + timedelta(minutes=minutes)))
    assert len(directory.alerts) == 3, "one more for the second and the third period"


def test_the_command_prints_the_reason(installation: Installation) -> None:
    settings = installation.settings
    job = create_job(settings.postgres_dsn, SourceName.SLACK, partitions=None, full=False, requested_by="test")
    end_job(settings.postgres_dsn, job.job_id, "Slack rejected conversations.list: HTTP 404.")
    report = public(read_job(settings, job.job_id))
    assert (report["status"], report["error"], report["errors"]) == (
        "failed",
        "Slack rejected conversations.list: HTTP 404.",
        [],
    )


METHODS = {
    "auth.test": "the workspace",
    "users.list": "who may read",
    "conversations.list": "what there is to read",
}
"""Methods without which nothing can be synced, and what they tell. Those of a channel fail that channel."""
OPTIONAL = {"usergroups.list", "bots.info"}


@pytest.fixture
def office(installation: Installation, slack_site: SlackSite) -> SlackSite:
    """A workspace with a channel and a group, synced by the installation."""
    workspace = slack_site.workspace
    follow(installation, slack_bot_token=workspace.token, slack_api_url=slack_site.url)
    ada = workspace.user("Ada Byron", "ada@acme.example")
    general = workspace.channel("general", (ada,))
    workspace.usergroup("bakers", [ada])
    workspace.post(general, ada, "The ferry leaves at nine.")
    return slack_site


@pytest.mark.parametrize("kind", ["not_found", "server_error", "unauthorized"])
@pytest.mark.parametrize("method", sorted({*METHODS, *OPTIONAL, "conversations.history"}))
def test_a_method_that_fails_ends_the_sync_only_if_it_is_needed(
    installation: Installation, office: SlackSite, method: str, kind: Any
) -> None:
    office.faults.add(kind, times=0, match=method)
    if method in OPTIONAL:
        job = installation.sync(SourceName.SLACK)
        assert last(installation) == ("success", None)
        assert job.counts.synced == 1
        assert warnings(installation) == [("", True)]
        assert method in installation.rows("SELECT reason FROM sync_errors")[0]["reason"]
        return
    with pytest.raises(ConcordanceError):
        installation.sync(SourceName.SLACK)
    status, reason = last(installation)
    assert (status, method in reason) == ("failed", True)


def warnings(installation: Installation) -> list[tuple[str, bool]]:
    rows = installation.rows("SELECT source_id, outcome FROM sync_errors")
    return [(row["source_id"], row["outcome"] == "warning") for row in rows]


def groups(installation: Installation) -> list[tuple[str, bool]]:
    rows = installation.rows(
        "SELECT email, read_at IS NULL OR read_at > now() - interval '1 hour' AS fresh FROM directory"
        " WHERE starts_with(principal, 'group:')"
    )
    return [(row["email"], row["fresh"]) for row in rows]


def test_groups_that_cannot_be_read_grant_nothing_new_and_become_too_old(
    installation: Installation, office: SlackSite
) -> None:
    bob = office.workspace.user("Bob Noyce", "bob@acme.example")
    (ada,) = (user.id for user in office.workspace.users.values() if user.email == "ada@acme.example")
    installation.sync(SourceName.SLACK)
    assert groups(installation) == [("ada@acme.example", True)]
    office.workspace.usergroup("bakers", [bob])
    office.faults.add("not_found", times=0, match="usergroups.list")
    installation.rows("UPDATE source_states SET directory_at = now() - interval '2 hours' RETURNING source")
    installation.sync(SourceName.SLACK)
    assert groups(installation) == [("ada@acme.example", False)]  # as known, and as old
    office.workspace.deactivate(ada)
    installation.sync(SourceName.SLACK)
    assert groups(installation) == []  # who has left has no groups
    office.faults.clear()
    installation.sync(SourceName.SLACK)
    assert groups(installation) == [("bob@acme.example", True)]


def test_groups_without_the_scope_are_gone_at_once(installation: Installation, office: SlackSite) -> None:
    installation.sync(SourceName.SLACK)
    office.workspace.set_scopes(office.workspace.scopes - {"usergroups:read"})
    installation.sync(SourceName.SLACK)
    assert groups(installation) == []


class Unannounced(ScriptedSource):
    """A source that refuses to announce changes."""

    def subscribe(self) -> None:
        raise errors.AuthorizationError("Google sends no notifications to this address.")


def test_commands_say_that_a_source_is_paused_and_why(
    installation: Installation,
    slack_site: SlackSite,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said() -> tuple[str, Any]:
        command(["status"])
        text = capsys.readouterr().err
        command(["status", "--json"])
        return text, json.loads(capsys.readouterr().out.splitlines()[-1])["sources"]["slack"]["paused"]

    def listed() -> tuple[list[str], str]:
        command(["source", "list"])
        told = capsys.readouterr().err
        command(["source", "list", "--json"])
        rows = json.loads(capsys.readouterr().out.splitlines()[-1])
        return [row["state"] for row in rows if row["source"] == "slack"], told

    def faults() -> list[str]:
        return [str(one) for one in doctor.installed_sources(doctor.Installation(load(), running=True)) if not one.ok]

    slack_site.workspace.channel("general", [slack_site.workspace.user("Ada Byron", "ada@acme.example")])
    follow(installation, slack_bot_token=slack_site.workspace.token, slack_api_url=slack_site.url)
    as_environment(installation, monkeypatch)
    monkeypatch.setenv("CONCORDANCE_SLACK_BOT_TOKEN", slack_site.workspace.token)
    monkeypatch.setenv("CONCORDANCE_SLACK_API_URL", slack_site.url)
    installation.sync(SourceName.SLACK)
    assert said()[1] is None
    assert listed() == (["active"], "")
    assert faults() == []
    slack_site.workspace.revoke()
    with pytest.raises(AuthorizationError):
        installation.sync(SourceName.SLACK)
    text, paused = said()
    assert "slack is paused since " in text
    assert "the token was revoked" in text
    assert "the token was revoked" in paused["reason"]
    states, told = listed()
    assert states == ["paused"]
    assert "slack is paused" in told
    (fault,) = [one for one in faults() if "is paused" in one]
    assert "the token was revoked" in fault
    assert fault.endswith("concordance sync slack")
    slack_site.workspace.renew()
    installation.sync(SourceName.SLACK)
    assert said()[1] is None
    assert listed() == (["active"], "")
    assert faults() == []


def test_status_and_doctor_say_why_the_latest_sync_failed_until_one_succeeds(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> tuple[bool, Any]:
        command(["status"])
        text = capsys.readouterr().err
        command(["status", "--json"])
        failure = json.loads(capsys.readouterr().out.splitlines()[-1])["sources"]["files"]["failure"]
        return "files: the latest sync failed at " in text and "Mount it" in text, failure

    def faults() -> list[str]:
        return [str(one) for one in doctor.installed_sources(doctor.Installation(load(), running=True)) if not one.ok]

    as_environment(installation, monkeypatch)
    installation.write("otter.md", "The otter sleeps until noon.")
    installation.sync()
    assert said() == (False, None)
    assert faults() == []
    away = installation.root.rename(installation.root.with_name("away"))
    with pytest.raises(ConcordanceError):
        installation.sync()
    told, failure = said()
    assert told
    assert failure["reason"] == last(installation)[1]
    (fault,) = faults()
    assert "Files: the latest sync failed at " in fault
    assert "Mount it" in fault
    away.rename(installation.root)
    create_job(installation.settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    assert said()[0]  # a sync that is running has not succeeded yet
    installation.rows(
        "UPDATE sync_jobs SET status = 'success', completed_at = now() WHERE status = 'running' RETURNING 1"
    )
    assert said() == (False, None)
    assert faults() == []


def test_a_source_that_announces_no_changes_is_synced(installation: Installation) -> None:
    job = installation.sync(SourceName.SLACK, port=Unannounced(batches={"pond": [complete(["a"])]}))
    assert (last(installation)[0], list(states(installation))) == ("success", ["a"])
    assert warnings(installation) == [("", True)]
    assert job.error is None
    assert installation.rows("SELECT paused_at FROM source_states") == [{"paused_at": None}]
