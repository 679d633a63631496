"""kill -9 of a run that prepares documents, and of the sync that it prepares them for: nothing is lost, doubled or left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.supervision.environment import child_environment
from resources.core.domain import SourceName
from resources.settings import Settings
from tests.fixtures.installation import Installation
from tests.fixtures.openai_server import OpenAIServer
from tests.integration.test_offering import DOCUMENTS, Gate, Runs, complete, embedded, large, runs, service, sync

__all__ = ["large", "runs", "service"]

SECONDS = 240
PREPARE = """
import os, signal, sys
import assets.preparing as preparing
from resources.core.domain import SourceName
from resources.settings import load
from sql.offers import Offers

job_id, name, dies_at = sys.argv[1:]

def dying(work):
    def killed(*given, **named):
        done = work(*given, **named)
        if done is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return killed

if dies_at == "ready":
    Offers.ready = dying(Offers.ready)
elif dies_at == "taken":
    Offers.take = dying(Offers.take)
elif dies_at:
    setattr(preparing, dies_at, dying(getattr(preparing, dies_at)))
preparing.prepare(load(), SourceName.FILES, job_id, name)
"""
SYNC = """
import os, signal, subprocess, sys
import assets.backlog, assets.offering
from assets import pipeline
from assets.backlog import Backlog
from resources.syncs import launch
from resources.core.domain import SourceName
from resources.settings import load
from resources.syncs.syncing import open_sync

prepare, after = sys.argv[1], int(sys.argv[2])
assets.offering.FEWEST_DOCUMENTS, assets.backlog.LEAST_SHARED = 50, 2
back, wave, returned, started = Backlog.give_back, Backlog.wave, [], []

def launched(settings, source, job_id, name):
    started.append(subprocess.Popen([sys.executable, "-c", prepare, job_id, name, ""]))

def counted(backlog, documents, **more):
    returned.append(documents)
    if len(returned) == after:
        os.kill(os.getpid(), signal.SIGKILL)
    return back(backlog, documents, **more)

launch.launch_preparing, Backlog.give_back = launched, counted
Backlog.wave = lambda backlog: signal.pause()
with open_sync(load(), SourceName.FILES, requested_by="test") as job:
    job.runs = 2
    pipeline.sync(job)
"""


def environment(settings: Settings) -> dict[str, str]:
    return {**os.environ, **child_environment(settings), "PYTHONPATH": str(Path.cwd())}


@pytest.mark.parametrize("dies_at", ["taken", "parse_ahead", "chunk_missing", "embed_missing", "ready"])
def test_the_sync_does_what_a_killed_run_has_left(
    dies_at: str,
    large: Installation,
    service: OpenAIServer,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes: list[int] = []

    def killed(settings: Settings, _: SourceName, job_id: str, name: str) -> dict[str, int]:
        command = [sys.executable, "-c", PREPARE, job_id, name, dies_at]
        codes.append(subprocess.run(command, env=environment(settings), timeout=SECONDS, check=False).returncode)
        return {"waves": 0, "documents": 0}

    runs.work = killed
    gate = Gate(monkeypatch)
    gate.opens_after(monkeypatch, 1)
    job = sync(large, 2)
    runs.join()
    assert codes == [-signal.SIGKILL]
    assert runs.faults == []
    complete(large)
    texts = embedded(service)
    assert len(texts) == len(set(texts)) == DOCUMENTS
    counts = {stage: result.counts for stage, result in job.results.items()}
    assert counts["parsed"]["parsed"] + counts["parsed"]["reused"] == DOCUMENTS
    assert counts["embedded"]["embedded"] + counts["embedded"]["reused"] == DOCUMENTS
    assert (job.counts.synced, job.counts.passages) == (DOCUMENTS, DOCUMENTS)


@pytest.mark.parametrize("after", [1, 3])
def test_the_next_sync_continues_where_a_killed_one_has_stopped(
    after: int,
    large: Installation,
    service: OpenAIServer,
) -> None:
    worker = subprocess.run(
        [sys.executable, "-c", SYNC, PREPARE, str(after)],
        env=environment(large.settings),
        stdout=subprocess.PIPE,  # which the run that prepares documents inherits: this waits for its end, too
        timeout=SECONDS,
        check=False,
    )
    assert worker.returncode == -signal.SIGKILL
    assert embedded(service)
    job = sync(large, 1)
    assert job.error is None
    complete(large)
    assert sync(large, 1).counts.synced == 0
