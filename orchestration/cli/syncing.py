"""The command `sync`, which starts a sync through Dagster and, with `--wait`, polls its row in the registry until it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import DIRECTORY, Json, SourceOrDirectory
from orchestration.cli.installed import HOW_TO_START, database
from orchestration.cli.output import note, note_changed, say, say_json
from orchestration.cli.people import sync_directory
from orchestration.cli.presence import Presence
from orchestration.cli.progress import line
from orchestration.demo.running import with_running_sample
from orchestration.supervision.run_state import supervisor
from resources.core.domain import SourceName
from resources.core.errors import BusyError, ConcordanceError, InvalidRequestError, NotRunningError
from resources.settings import Settings, load
from resources.sources import configured, open_source, stored
from resources.stores import disk
from sql.cli import Commands, JobReport

LOOK_SECONDS = 0.4
COUNTS = ("synced", "skipped", "deleted", "failed", "embedded")
SHOWN_ERRORS = 20
PLAIN_SECONDS = 5.0
SHOWN_PARTITIONS = 20


def sync(
    source: SourceOrDirectory,
    /,
    *,
    partition: Annotated[
        list[str] | None, Parameter(negative="", help="Only this root, channel or day. Can be repeated.")
    ] = None,
    full: Annotated[
        bool, Parameter(negative="", help="List and fetch everything again instead of only changes.")
    ] = False,
    wait: Annotated[bool, Parameter(negative="", help="Wait until the sync has ended, and report.")] = False,
    approve: Annotated[
        bool, Parameter(negative="", help="With directory: deactivate people even if very many are gone at once.")
    ] = False,
    json: Json = False,
) -> int:
    settings = load()
    if source == DIRECTORY:
        if partition or full:
            raise InvalidRequestError("The directory is always read as a whole: leave out --partition and --full.")
        return sync_directory(settings, approve=approve, json=json)
    if approve:
        raise InvalidRequestError(
            "--approve is for `sync directory`. Approve deletions with: concordance prune approve"
        )
    _check_running(settings)
    note_changed(settings)
    settings = with_running_sample(settings)
    if partition:
        check_partitions(settings, SourceName(source), partition)
    job_id, merged = _start(settings, SourceName(source), partitions=partition, full=full, wait=wait)
    if not wait:
        report = read_job(settings, job_id)
        if json:
            say_json(public(report))
        else:
            done = (
                f"A sync of {source} is running; added this request to it"
                if merged
                else f"Started the sync of {source}"
            )
            say(f"{done}: job {job_id}. See its progress with: concordance status")
        return 0
    report, restarted = follow(settings, job_id)
    if report["status"] != "success" and (merged or restarted):  # its process may have ended with our request
        what = "The sync that this request was added to" if merged else "The sync was interrupted by a restart, and"
        note(f"{what} failed: {report['error_message']} Starting another.")
        if restarted:
            Presence(settings).wait()
        job_id, _ = _start(settings, SourceName(source), partitions=partition, full=full, wait=True)
        report, _ = follow(settings, job_id)
    if json:
        say_json(public(report))
    else:
        _summarise(report)
    return 0 if report["status"] == "success" else 1


def check_partitions(settings: Settings, source: SourceName, wanted: Sequence[str]) -> None:
    """Raise `InvalidRequestError` for a partition or folder that neither the registry nor the source has, naming the partitions."""
    with database(settings) as connection:
        known = {row.partition for row in Commands(connection).roots() if row.source == source.value}
        known.update(Commands(connection).folders(source=source.value, wanted=list(wanted)))
        settings = stored.complete(settings, connection)
    if known.issuperset(wanted) or not configured(settings, source):
        return
    known.update(open_source(settings, source).partitions())
    for partition in wanted:
        if partition not in known:
            some = ", ".join(sorted(known)[:SHOWN_PARTITIONS]) or "none yet"
            raise InvalidRequestError(f"{source.value} has no partition {partition!r}. It has: {some}.")


def _start(
    settings: Settings, source: SourceName, *, partitions: list[str] | None, full: bool, wait: bool
) -> tuple[str, bool]:
    """Start a sync, or add it to the one that is running; with `wait`, start it after one that does not accept it.

    Returns the job's id, and whether it was running already.
    """
    from resources.syncs.launch import start_sync

    while True:
        try:
            started = start_sync(settings, source, partitions=partitions, full=full, requested_by="command line")
        except BusyError as error:
            if error.merged:
                return error.job_id, True
            if not wait:
                raise
            note(f"{error} Waiting for job {error.job_id} to end.")
            follow(settings, error.job_id)
        else:
            return started.job_id, False


def read_job(settings: Settings, job_id: str) -> dict[str, Any]:
    """Return a job's row with its errors. Raises `NotRunningError` if Postgres is not responding."""
    with database(settings) as connection:
        errors = Commands(connection).job_errors(job_id=job_id)
    row = _row(settings, job_id)
    return {**msgspec.structs.asdict(row), "errors": [msgspec.structs.asdict(one) for one in errors]}


def _row(settings: Settings, job_id: str) -> JobReport:
    with database(settings) as connection:
        row = Commands(connection).job(job_id=job_id)
    if row is None:
        raise ConcordanceError(f"The job {job_id} no longer exists.")
    return row


def public(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report for `sync --json`."""
    names = ("source", "job_id", "run_id", "status", *COUNTS)
    seconds, error = round(report["seconds"], 3), report["error_message"]
    return {name: report[name] for name in names} | {"seconds": seconds, "error": error, "errors": report["errors"]}


def follow(settings: Settings, job_id: str) -> tuple[dict[str, Any], bool]:
    """Wait until a job has ended, show its progress, and return its final report, and whether Concordance was restarted meanwhile."""
    presence = Presence(settings)
    with _left(), _progress() as show:
        while True:
            try:
                row = _row(settings, job_id)
            except NotRunningError:
                if disk.faults(settings) or not presence.lasts():  # Postgres does not start on a full disk
                    raise
            else:
                show(row)
                if row.status != "running":
                    return read_job(settings, job_id), presence.restarted
                if not presence.lasts():
                    _check_running(settings)
            time.sleep(LOOK_SECONDS)


@contextmanager
def _left() -> Generator[None]:
    """Tell whoever interrupts the waiting that the sync itself goes on."""
    try:
        yield
    except KeyboardInterrupt:
        note("The sync goes on. See its progress with: concordance status")
        raise


def _check_running(settings: Settings) -> None:
    """Raise `NotRunningError` if there is no supervisor, without which the job would never end, or if your own Postgres does not answer.

    Only the embedded services have a supervisor.
    """
    if settings.embedded_postgres and supervisor(settings) is None:
        raise NotRunningError(f"Concordance is not running in {settings.home}. {HOW_TO_START}")
    with database(settings):
        pass


@contextmanager
def _progress() -> Generator[Callable[[JobReport], None]]:
    if not sys.stderr.isatty():
        yield _PlainLines()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting")
        yield lambda row: progress.update(task, description=line(row))


class _PlainLines:
    """Prints a line when it changes, at most every five seconds, and the last one."""

    def __init__(self) -> None:
        self._line = ""
        self._at = -PLAIN_SECONDS

    def __call__(self, report: JobReport) -> None:
        text, now = line(report), time.monotonic()
        if text != self._line and (now - self._at >= PLAIN_SECONDS or report.status != "running"):
            note(text)
            self._line, self._at = text, now


def _summarise(report: dict[str, Any]) -> None:
    counts = ", ".join(f"{report[name]} {name}" for name in COUNTS)
    say(f"Sync of {report['source']}: {report['status']} in {report['seconds']:.1f} s. {counts}.")
    if report["error_message"]:
        note(str(report["error_message"]))
    for error in report["errors"][:SHOWN_ERRORS]:
        note(f"  {error['source_id'] or report['source']} ({error['stage']}): {error['reason']}")
    if len(report["errors"]) > SHOWN_ERRORS:
        note(f"  … and {len(report['errors']) - SHOWN_ERRORS} more; all of them with --json")
