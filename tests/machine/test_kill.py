"""kill -9 of the worker, the vector server and Postgres while documents are being indexed: nothing lost, nothing double, no leak."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from resources.core.domain import SourceName, State, document_id
from resources.core.errors import ConcordanceError
from resources.schema import prepare
from tests.fixtures.installation import Installation, install
from tests.fixtures.waiting import until

DOCUMENTS = 120
SECONDS = 120

WORKER = """
import sys
from assets import pipeline
from resources.core.domain import SourceName
from resources.settings import load
from resources.syncs.syncing import open_sync
with open_sync(load(), SourceName.FILES, requested_by="worker") as run:
    pipeline.sync(run)
"""


def fill(installation: Installation) -> None:
    for number in range(DOCUMENTS):
        lines = "".join(
            f"## Section {part}\n\nAnimal {number} eats portion {part} of hay and carrots.\n\n" for part in range(8)
        )
        installation.write(f"animals/animal-{number:03}.md", f"# Animal {number}\n\n{lines}")


def start_worker(installation: Installation) -> subprocess.Popen[bytes]:
    settings = installation.settings
    root = settings.file_roots[0]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path.cwd()),
        "CONCORDANCE_HOME": str(settings.home),
        "CONCORDANCE_POSTGRES_URL": settings.postgres_dsn,
        "CONCORDANCE_QDRANT_URL": settings.qdrant_address,
        "CONCORDANCE_FILE_ROOTS": json.dumps([root.model_dump(mode="json")]),
        "CONCORDANCE_PARSE_WORKERS": "1",
    }
    return subprocess.Popen([sys.executable, "-c", WORKER], env=environment, stderr=subprocess.DEVNULL)


def stage_is(installation: Installation, stage: str) -> bool:
    rows = installation.rows("SELECT stage FROM sync_jobs WHERE status = 'running'")
    return bool(rows) and rows[0]["stage"] == stage


def assert_whole(installation: Installation) -> None:
    """One sync after the restart, everything is there once."""
    run = installation.sync()
    assert run.error is None
    assert installation.agrees(), installation.last
    states = installation.rows("SELECT state, count(*) AS documents FROM documents GROUP BY state")
    assert states == [{"state": State.LIVE, "documents": DOCUMENTS}]
    points = installation.points()
    assert len({point["id"] for point in points}) == len(points)
    assert len({point["doc_id"] for point in points}) == DOCUMENTS
    assert {tuple(point["permissions"]) for point in points} == {("domain:acme.example",)}
    again = installation.sync()
    assert (again.counts.synced, again.counts.embedded) == (0, 0)
    assert installation.rows("SELECT count(*) AS running FROM sync_jobs WHERE status = 'running'") == [{"running": 0}]


@pytest.mark.parametrize("stage", ["raw", "parsed", "embedded", "indexed"])
def test_the_worker_is_killed(installation: Installation, stage: str) -> None:
    fill(installation)
    worker = start_worker(installation)
    until(lambda: stage_is(installation, stage) or worker.poll() is not None, f"stage {stage}", pause=0.005)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL, "the worker ended before it could be killed"
    assert_whole(installation)


def test_the_vector_server_is_killed(database: str, tmp_path: Path, models_home: Path, vector_process) -> None:  # type: ignore[no-untyped-def]
    installation = install(tmp_path, models_home, database, vector_process.url)
    fill(installation)
    worker = start_worker(installation)
    until(lambda: stage_is(installation, "indexed") or worker.poll() is not None, "stage indexed", pause=0.005)
    vector_process.kill()
    worker.wait(SECONDS)
    assert installation.rows("SELECT status FROM sync_jobs") == [{"status": "failed"}]
    vector_process.restart()
    assert_whole(installation)


def test_postgres_is_killed(tmp_path: Path, models_home: Path, postgres_process, vector_url: str) -> None:  # type: ignore[no-untyped-def]
    prepare(postgres_process.dsn)
    installation = install(tmp_path, models_home, postgres_process.dsn, vector_url)
    fill(installation)
    worker = start_worker(installation)
    until(lambda: stage_is(installation, "indexed") or worker.poll() is not None, "stage indexed", pause=0.005)
    postgres_process.kill()
    assert worker.wait(SECONDS) != 0
    with pytest.raises((ConcordanceError, psycopg.Error)):
        installation.rows("SELECT 1")
    postgres_process.restart()
    assert_whole(installation)
    assert document_id(SourceName.FILES, "docs/animals/animal-000.md") in {
        point["doc_id"] for point in installation.points()
    }
