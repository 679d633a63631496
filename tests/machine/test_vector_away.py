"""A sync outlasts a vector server that is away for half a minute: nothing is lost, doubled, or open to anyone who lost access."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from resources.stores.repeating import REPEATED_SECONDS
from tests.fixtures.installation import Installation, install
from tests.fixtures.vector import VectorProcess

AWAY_SECONDS = 30
DOCUMENTS = 240
DEADLINE_SECONDS = 300.0
BOB = "bob@acme.example"


@pytest.fixture
def on_its_own(
    database: str, vector_process: VectorProcess, tmp_path: Path, models_home: Path
) -> Iterator[Installation]:
    """An installation whose vector server no other test uses."""
    made = install(tmp_path, models_home, database, vector_process.url)
    made.settings = made.settings.model_copy(update={"prune_share": 1.0})
    yield made
    made.disconnect()


def fill(installation: Installation, text: str) -> None:
    for number in range(DOCUMENTS):
        installation.write(f"note{number}.md", f"# Note {number}\n\nThe {text} number {number} sleeps until noon.\n")


def points(process: VectorProcess) -> int:
    """Return the points with a document of the collection behind the alias; 0 before there is one."""
    answer = httpx.post(f"{process.url}/collections/documents/points/count", json={"exact": True})
    return int(answer.json()["result"]["count"]) if answer.is_success else 0


def synced(installation: Installation, until: Callable[[], bool], away: Callable[[], None]) -> Any:
    """Sync in a thread; call `away` once `until` is true, and return the finished job."""
    done: list[Any] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(installation.sync())
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not until():
        assert thread.is_alive(), f"the sync ended first: {failed}"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    away()
    thread.join(DEADLINE_SECONDS)
    assert failed == []
    return done[0]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_vector_server_away_for_30_seconds_costs_a_sync_only_time(
    on_its_own: Installation, vector_process: VectorProcess, how: signal.Signals, show: Callable[[str], None]
) -> None:
    installation, process = on_its_own, vector_process
    assert AWAY_SECONDS < REPEATED_SECONDS

    def away() -> None:
        if how is signal.SIGKILL:
            process.kill()
        else:
            process.stop()
        time.sleep(AWAY_SECONDS)
        process.start()

    fill(installation, "otter")
    began = time.monotonic()
    job = synced(installation, lambda: points(process) > 0, away)
    show(
        f"first sync of {DOCUMENTS} documents, {AWAY_SECONDS} s of it without the server: {time.monotonic() - began:.0f} s"
    )
    assert job.error is None
    assert installation.agrees()
    found = installation.points()
    assert len(found) == len({(one["doc_id"], one["chunk_index"]) for one in found}) == DOCUMENTS

    # Now a third is deleted, a third changes its readers, a third its text.
    for number in range(DOCUMENTS):
        path = f"note{number}.md"
        if number % 3 == 0:
            (installation.root / path).unlink()
        elif number % 3 == 1:
            text = f"# Note {number}\n\nThe otter number {number} sleeps until noon.\n"
            installation.write(path, text, permissions=[BOB])
        else:
            installation.write(path, f"# Note {number}\n\nThe heron number {number} waits.\n")
    job = synced(installation, lambda: bool(changed(installation)), away)
    assert job.error is None
    assert installation.agrees()
    found = installation.points()
    assert len(found) == len({one["doc_id"] for one in found}) == DOCUMENTS * 2 // 3
    shown = {one["source_id"]: one for one in found}
    for number in range(DOCUMENTS):
        one = shown.get(f"docs/note{number}.md")
        if number % 3 == 0:
            assert one is None
        elif number % 3 == 1:
            assert one is not None
            assert one["permissions"] == [BOB]
        else:
            assert one is not None
            assert "heron" in one["chunk_text"]
    assert installation.withheld().readers == {}
    assert installation.rows("SELECT 1 FROM unwithheld WHERE kind <> 'document'") == []


def changed(installation: Installation) -> list[dict[str, Any]]:
    """Return what the registry has of changed documents, which a sync writes before the index."""
    return installation.rows("SELECT doc_id FROM documents WHERE permissions = %s LIMIT 1", [BOB])
