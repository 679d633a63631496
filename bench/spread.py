"""Measure a first sync of 200 shared drives that several runs share, against a simulated Drive that takes 200 ms for each answer.

`make bench-spread ARGS="--runs 1 2 4 --drives 200 --files 5"`. Each figure is of a new installation with all services, whose sync is
started as by the HTTP interface: documents a minute, the most calls in any minute, and documents that are missing or there twice.
`--killed` ends a run's process on the way; `--waiting SECONDS` keeps the planned runs in the queue for so long while the source is
synced. Embeddings come at once from a server in this process. The last line is JSON.

With `--folder DOCUMENTS`, the same of one folder, whose documents other runs prepare: embedded by the bundled model, or with
`--service SECONDS` by a service that takes so long for each text, and answers requests at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.installation import running_set, temporary_folder
from orchestration.supervision.environment import child_environment
from orchestration.supervision.launcher import WORKER_TAG
from resources.core.domain import SourceName
from resources.core.errors import BusyError
from resources.logging import configure
from resources.settings import Settings
from resources.syncs.launch import start_sync
from simulators import serve
from simulators.drive import DriveApp, SimulatedDrive
from tests.fixtures.openai_server import OpenAIServer

DRIVE = SourceName.GOOGLE_DRIVE
FILES = SourceName.FILES
PARAGRAPHS = 12
"""Of a document of the folder: about four passages."""
ANSWER_SECONDS = 0.2
LOOK_SECONDS = 1.0
SYNC_SECONDS = 30.0
LONGEST_SECONDS = 1800.0

RUNNING = "SELECT count(*) FROM sync_jobs WHERE status = 'running'"
EMBEDDED = "SELECT coalesce(sum(texts), 0)::integer FROM embedding_usage"
PASSAGES = "SELECT count(*) FROM chunks"
PREPARING = """SELECT count(*) FROM dagster.runs AS r WHERE r.status = 'STARTED'
AND EXISTS (SELECT FROM dagster.run_tags AS q WHERE q.run_id = r.run_id AND q.key = 'concordance/prepares')"""
WORKING_JOBS = (
    "SELECT count(*) FROM sync_jobs WHERE status = 'running' AND claimed_at IS NOT NULL AND planned_by IS NOT NULL"
)
INDEXED = "SELECT count(*) FROM active_entries WHERE content <> ''"
TWICE = """SELECT coalesce(sum(n - 1), 0)::integer FROM (
    SELECT count(*) AS n FROM documents WHERE state = 'live' GROUP BY source_id) AS one"""
JOBS = "SELECT status, count(*) FROM sync_jobs GROUP BY status ORDER BY status"
WORKING = """SELECT p.value FROM dagster.run_tags AS p JOIN dagster.runs AS r ON r.run_id = p.run_id
WHERE p.key = %s AND r.status = 'STARTED'
AND EXISTS (SELECT FROM dagster.run_tags AS q WHERE q.run_id = r.run_id AND q.key = 'concordance/planned') LIMIT 1"""


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--drives", type=int, default=200)
    parser.add_argument("--files", type=int, default=5)
    parser.add_argument("--killed", action="store_true")
    parser.add_argument("--waiting", type=float, default=0.0)
    parser.add_argument("--folder", type=int)
    parser.add_argument("--service", type=float)
    arguments = parser.parse_args()
    configure("error", "bench")
    figures: dict[str, Any] = {}
    for runs in arguments.runs:
        if arguments.folder is not None:
            found = figures[str(runs)] = _one_folder(runs, arguments)
            if found["missing"]:
                raise SystemExit(
                    f"{found['missing']} of {arguments.folder} documents are not indexed. Jobs: {found['jobs']}"
                )
            print(
                f"{runs} runs: {found['documents_per_min']:,} documents a minute in {found['seconds']} s, {found['passages']:,} passages, "
                f"embedded twice {found['embedded_twice']}, missing {found['missing']}; at most {found['runs_at_a_time']} preparing runs "
                f"at a time"
            )
            continue
        found = _first_sync(runs, arguments)
        figures[str(runs)] = found
        print(
            f"{runs} runs: {found['documents_per_min']:,} documents a minute in {found['seconds']} s, missing {found['missing']}, "
            f"twice {found['twice']}; at most {found['calls_a_minute']:,} calls in a minute and {found['runs_at_a_time']} planned runs"
            f" at a time; jobs {found['jobs']}"
        )
    print(json.dumps(figures))


def _first_sync(runs: int, arguments: argparse.Namespace) -> dict[str, Any]:
    drive = SimulatedDrive()
    for number in range(arguments.drives):
        shared = drive.shared_drive(f"Drive {number}", {"group:team@acme.example": "reader"})
        for file in range(arguments.files):
            drive.file(
                f"note-{file}.txt",
                shared,
                f"Note {file} of drive {number}: the parcel {number * 100 + file} was weighed.\n",
            )
    drive.faults.add("slow", 0, "", ANSWER_SECONDS)
    with (
        temporary_folder() as folder,
        serve(DriveApp(drive)) as url,
        OpenAIServer() as model,
        _running_set(folder, runs, DRIVE_API_URL=url, DRIVE_TOKEN=drive.token, **_service(model.url)) as settings,
    ):
        if arguments.waiting:
            _pool(settings, 0)
        return _measured(settings, drive, arguments)


def _one_folder(runs: int, arguments: argparse.Namespace) -> dict[str, Any]:
    with temporary_folder() as folder, OpenAIServer(seconds=arguments.service or 0.0) as model:
        (folder / "docs").mkdir(mode=0o755)
        for number in range(arguments.folder):
            lines = [
                f"Parcel {number}-{line} was weighed on day {line} of the year {1000 + number} by keeper {number * 31 + line}, who noted "
                f"that the scale of room {number % 17} showed {number * line} grams more than the one beside it, and sent a letter "
                "about it.\n"
                for line in range(PARAGRAPHS)
            ]
            (folder / "docs" / f"note-{number}.md").write_text(f"# Note {number}\n\n" + "\n".join(lines))
        root = {
            "name": "docs",
            "url": (folder / "docs").as_uri(),
            "tenant": "acme",
            "dataset": "docs",
            "permissions": ["public"],
        }
        served = {} if arguments.service is None else _service(model.url)
        with _running_set(folder, runs, FILE_ROOTS=json.dumps([root]), **served) as settings:
            return _measured_folder(settings, arguments.folder)


def _service(url: str) -> dict[str, str]:
    """Return the settings of an embedding service."""
    return {
        "EMBEDDING_PROVIDER": "openai",
        "EMBEDDING_MODEL": "bench",
        "EMBEDDING_DIMENSIONS": "64",
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "bench",
    }


def _running_set(folder: Path, runs: int, **more: str) -> AbstractContextManager[Settings]:
    return running_set(folder, LOG_LEVEL="error", SYNC_MINUTES="60", LIMITS__SYNC_RUNS=str(runs), **more)


def _measured(settings: Settings, drive: SimulatedDrive, arguments: argparse.Namespace) -> dict[str, Any]:
    """Sync until nothing runs and everything is indexed; if planned runs wait or one died, syncs of the source go on as by its schedule."""
    count = arguments.drives * arguments.files
    began = synced = time.monotonic()
    made: deque[tuple[float, int]] = deque()
    busiest = most = 0
    killed, waited = not arguments.killed, not arguments.waiting
    _sync(settings)
    with psycopg.connect(settings.postgres_dsn, autocommit=True) as connection:

        def number(query: str) -> int:
            row = connection.execute(query).fetchone()  # type: ignore[arg-type]
            return 0 if row is None else int(row[0])

        while number(RUNNING) or number(INDEXED) < count:
            now = time.monotonic()
            if now - began > LONGEST_SECONDS:
                raise SystemExit(f"After {LONGEST_SECONDS:.0f} s, {number(INDEXED)} of {count} documents are indexed.")
            calls = drive.calls.total()
            made.append((now, calls))
            while made[0][0] < now - 60:
                made.popleft()
            busiest = max(busiest, calls - made[0][1])
            most = max(most, number(WORKING_JOBS))
            if now - synced > SYNC_SECONDS and (not waited or not number(RUNNING)):
                synced = now
                _sync(settings)
            if not waited and now - began > arguments.waiting:
                waited = True
                _pool(settings, settings.sync_runs)
            killed = killed or _kill(connection, number(INDEXED) > count // 10)
            time.sleep(LOOK_SECONDS)
        seconds = time.monotonic() - began
        return {
            "documents_per_min": round(count / seconds * 60),
            "seconds": round(seconds, 1),
            "calls": drive.calls.total(),
            "calls_a_minute": busiest,
            "runs_at_a_time": most,
            "jobs": dict(connection.execute(JOBS).fetchall()),
            "missing": count - number(INDEXED),
            "twice": number(TWICE),
        }


def _measured_folder(settings: Settings, count: int) -> dict[str, Any]:
    """Sync once. The other runs that prepare documents end with the sync."""
    began = time.monotonic()
    most = 0
    _sync(settings, FILES)
    with psycopg.connect(settings.postgres_dsn, autocommit=True) as connection:

        def number(query: str) -> int:
            row = connection.execute(query).fetchone()  # type: ignore[arg-type]
            return 0 if row is None else int(row[0])

        while number(RUNNING):
            if time.monotonic() - began > LONGEST_SECONDS:
                raise SystemExit(f"After {LONGEST_SECONDS:.0f} s, {number(INDEXED)} of {count} documents are indexed.")
            most = max(most, number(PREPARING))
            time.sleep(LOOK_SECONDS)
        seconds = time.monotonic() - began
        return {
            "documents_per_min": round(count / seconds * 60),
            "seconds": round(seconds, 1),
            "passages": number(PASSAGES),
            "embedded_twice": number(EMBEDDED) - number(PASSAGES),
            "runs_at_a_time": most,
            "jobs": dict(connection.execute(JOBS).fetchall()),
            "missing": count - number(INDEXED),
            "twice": number(TWICE),
        }


def _sync(settings: Settings, source: SourceName = DRIVE) -> None:
    try:
        start_sync(settings, source, partitions=None, full=False, requested_by="bench")
    except BusyError as error:
        print(f"… {error}", file=sys.stderr)


def _kill(connection: psycopg.Connection[Any], due: bool) -> bool:
    """Kill the process of a planned run, once some documents are indexed; return True if one was."""
    row = connection.execute(WORKING, [WORKER_TAG]).fetchone() if due else None
    if row is None:
        return False
    psutil.Process(int(row[0].partition(" ")[0])).kill()
    print("… killed the process of a run", file=sys.stderr)
    return True


def _pool(settings: Settings, limit: int) -> None:
    """Set the limit of the source's concurrency pool, as Dagster's page does."""
    from dagster import DagsterInstance

    os.environ |= child_environment(settings)
    with DagsterInstance.from_config(str(settings.home / "dagster")) as instance:
        instance.event_log_storage.set_concurrency_slots(DRIVE.value, limit)


if __name__ == "__main__":
    main()
