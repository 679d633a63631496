"""kill -9 while documents are indexed again: the next sync does the rest, and what was done is not done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from orchestration.supervision.environment import child_environment
from tests.fixtures.installation import Installation
from tests.fixtures.openai_server import OpenAIServer
from tests.integration.test_indexed_again import ANIMALS, page, texts
from tests.integration.test_new_parser import MODULES

SECONDS = 240
WORKER = """
import os, signal, sys
from functools import partial
import assets.indexed
from assets import pipeline
from assets.index.points import PointWriter
from resources.core.domain import STAGES, SourceName
from resources.settings import load
from resources.syncs.syncing import open_sync

what, *modules = sys.argv[1:]
for module in modules:
    setattr(sys.modules["assets." + module], "PARSER_VERSION", "p-next")
assets.indexed.WRITE_POINTS = 1  # a group for each document
complete, groups = PointWriter._complete, []

def count(writer):
    complete(writer)
    groups.append(writer)
    if len(groups) == 6:  # the first had nothing to complete
        os.kill(os.getpid(), signal.SIGKILL)

PointWriter._complete = count
chosen = ["docs"] if what == "backfill" else None
with open_sync(load(), SourceName.FILES, partitions=chosen, full=what == "full sync", requested_by="test") as job:
    job.planned = set(STAGES)
    for stage in STAGES:
        job.run(stage, partial(pipeline.WORK[stage], job, everything=chosen is not None))
"""


@pytest.fixture
def service() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimensions=48) as server:
        yield server


@pytest.fixture
def served(installation: Installation, service: OpenAIServer) -> Installation:
    """Twelve documents, indexed with an embedding service."""
    installation.settings = installation.settings.model_copy(
        update={
            "embedding_provider": "openai",
            "embedding_model": "word-counts",
            "openai_base_url": service.url,
            "openai_api_key": SecretStr("test"),
        }
    )
    for animal in ANIMALS:
        installation.write(f"{animal}.md", page(animal))
    installation.sync()
    return installation


@pytest.mark.parametrize("what", ["profile", "parser", "full sync", "backfill"])
def test_the_next_sync_does_the_rest(
    what: str, served: Installation, service: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = served.rows("SELECT max(indexed_at) AS at FROM index_entries")
    if what == "profile":
        served.settings = served.settings.model_copy(update={"chunk_profile": "40/0/10"})
    modules = MODULES if what == "parser" else ()
    worker = subprocess.run(
        [sys.executable, "-c", WORKER, what, *modules],
        env={**os.environ, **child_environment(served.settings), "PYTHONPATH": str(Path.cwd())},
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        check=False,
    )
    assert worker.returncode == -signal.SIGKILL, worker.stderr.decode()[-2000:]
    written = "SELECT doc_id, indexed_at FROM index_entries WHERE content <> '' AND indexed_at > %s ORDER BY doc_id"
    done = served.rows(written, before["at"])
    assert len(done) == 5
    for module in modules:
        monkeypatch.setattr(f"assets.{module}.PARSER_VERSION", "p-next")
    job = served.sync()
    assert job.error is None
    assert served.last["indexed"]["documents"] == len(ANIMALS) - len(done)
    assert (served.last["parsed"]["parsed"], served.last["embedded"]["embedded"]) == (0, 0), "both were finished before"
    after = served.rows(written, before["at"])
    assert len(after) == len(ANIMALS)
    assert [row for row in after if row in done] == done
    assert served.sync().counts.synced == 0
    assert served.agrees()
    asked = texts(service)
    assert len(asked) == len(set(asked))
