"""Documents that wait to be indexed: the most urgent ones in memory, the others in the registry, and all of them done in the end."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assets import pipeline, waves
from assets.index.targets import Target, active_target, pending
from assets.index.work import by_urgency, marked
from resources.core.domain import SourceName
from resources.stores.postgres import connect
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob, open_sync
from sql.rows import Pending
from sql.sync import IndexWork
from tests.fixtures.installation import Installation

ROOM = 20
"""Documents that wait in memory here."""
KILOBYTE = 1024


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let few documents wait in memory, and return of how many the rows were read at a time."""
    read: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> list[Pending]:
        if kwargs.get("rejected") and "doc_ids" in kwargs:
            read.append(len(kwargs["doc_ids"]))
        return pending(*args, **kwargs)

    monkeypatch.setattr(waves, "PENDING_DOCUMENTS", ROOM)
    monkeypatch.setattr(waves, "pending", counted)
    return read


def let_everyone_read(installation: Installation) -> None:
    roots = [
        json.loads(root.model_dump_json()) | {"permissions": ["public"]} for root in installation.settings.file_roots
    ]
    installation.settings = installation.settings.model_validate(
        installation.settings.model_dump() | {"file_roots": roots}
    )


def indexed(installation: Installation) -> int:
    return len({point["doc_id"] for point in installation.points()})


def test_documents_that_do_not_fit_into_memory_are_indexed_in_the_same_sync(
    installation: Installation, windows: list[int]
) -> None:
    for number in range(150):
        installation.write(f"{number:03}.md", f"# Note {number}\n\nThe otter {number} sleeps.\n")
    job = installation.sync(compare=True)
    assert indexed(installation) == 150
    assert (job.counts.done, job.counts.documents) == (150, 150)
    assert len(windows) > 3
    assert max(windows) == ROOM
    assert installation.agrees()
    windows.clear()
    installation.sync()
    assert installation.last["indexed"]["documents"] == 0
    assert windows == []


def test_documents_that_fail_do_not_stand_in_the_way_of_the_others(
    installation: Installation, windows: list[int]
) -> None:
    for number in range(3 * ROOM):
        installation.write(f"broken/{number:03}.docx", b"PK\x03\x04 this is no document")
        installation.write(
            f"sound/{number:03}.md", f"# Note {number}\n\nThe heron {number} wades.\n" + "It waits. " * 800
        )
    installation.sync()
    assert indexed(installation) == 3 * ROOM
    assert windows
    for number in range(3 * ROOM):
        installation.write(
            f"sound/{number:03}.md", f"# Note {number}\n\nThe vole {number} digs.\n" + "It rests. " * 800
        )
    installation.sync(compare=True)
    assert installation.last["indexed"]["documents"] == 3 * ROOM
    assert installation.agrees()


def test_documents_that_stay_pending_are_taken_once_and_not_waited_for(
    installation: Installation, windows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def written(_job: SyncJob, _target: Target, documents: Sequence[Pending], _ids: Sequence[str]) -> StageResult:
        taken.extend(one.doc_id for one in documents)
        return StageResult({"documents": len(documents), "points": 0})

    monkeypatch.setattr(waves.steps, "index", written)
    for number in range(3 * ROOM):
        installation.write(f"{number:03}.md", f"# Note {number}\n\nThe ibex {number} climbs.\n")
    installation.sync()
    assert (len(taken), len(set(taken))) == (3 * ROOM, 3 * ROOM)


def test_the_most_urgent_documents_come_first(installation: Installation) -> None:
    sizes = {"large": 40 * KILOBYTE, "small-old": 1 * KILOBYTE, "small-new": 7 * KILOBYTE, "medium": 9 * KILOBYTE}
    for name, size in sizes.items():
        installation.write(f"{name}.md", "x" * size)
    installation.write("again.md", "The lynx waits.")
    installation.sync()
    name = installation.rows("SELECT name FROM index_collections WHERE active")[0]["name"]
    with connect(installation.settings.postgres_dsn) as connection:
        connection.execute(
            "DELETE FROM index_entries AS e USING documents AS d WHERE d.doc_id = e.doc_id AND d.source_title <> 'again.md'"
        )
        connection.execute(
            "UPDATE documents SET changed_at = now() - interval '1 day' WHERE source_title = 'small-old.md'"
        )
        connection.execute(
            "INSERT INTO index_work (doc_id, source) SELECT doc_id, source FROM documents ON CONFLICT DO NOTHING"
        )
        ordered = IndexWork(connection, SourceName.FILES.value).by_urgency(collection=name, partitions=["docs"])
    titles = {
        row["doc_id"]: row["source_title"]
        for row in installation.rows("SELECT doc_id::text, source_title FROM documents")
    }
    assert [titles[one] for one in ordered] == ["small-new.md", "small-old.md", "medium.md", "large.md", "again.md"]


@pytest.mark.parametrize("change", ["readers", "deleted"])
def test_changes_of_many_documents_are_settled_in_parts(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("assets.steps.SETTLED_DOCUMENTS", 7)
    for number in range(30):
        installation.write(f"{number:03}.md", f"# Note {number}\n\nThe stork {number} nests.\n")
    installation.sync()
    if change == "readers":
        let_everyone_read(installation)
    else:
        for number in range(4, 30):
            (installation.root / f"{number:03}.md").unlink()
        installation.settings = installation.settings.model_copy(update={"prune_minimum": 100})
    installation.sync(compare=True)
    if change == "readers":
        assert installation.last["indexed"]["payloads_updated"] == 30
        assert {tuple(point["permissions"]) for point in installation.points()} == {("public",)}
    else:
        assert installation.last["indexed"]["removed"] == 26
        assert indexed(installation) == 4
    assert installation.agrees()


def test_marks_of_documents_that_are_not_pending_are_read_seldom_during_a_listing(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = itertools.count(), [0]

    def looked(*args: Any) -> list[str]:
        looks[0] += 1
        for _ in range(20):
            next(clock)
        return by_urgency(*args)

    for number in range(60):
        installation.write(f"{number:03}.md", f"# Note {number}\n\nThe crane {number} rests.\n")
    installation.sync()
    let_everyone_read(installation)
    monkeypatch.setattr("resources.sources.files.BATCH", 1)
    monkeypatch.setattr(waves, "EARLY_DOCUMENTS", 1)
    monkeypatch.setattr(waves, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(waves, "by_urgency", looked)
    installation.sync(compare=True)
    assert installation.last["indexed"]["payloads_updated"] == 60
    assert looks[0] < 6
    assert installation.agrees()


def test_a_sync_looks_at_the_marks_of_its_own_partitions(installation: Installation, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (root,) = (json.loads(one.model_dump_json()) for one in installation.settings.file_roots)
    roots = [root, root | {"name": "other", "url": other.as_uri()}]
    installation.settings = installation.settings.model_validate(
        installation.settings.model_dump() | {"file_roots": roots}
    )
    for folder in (installation.root, other):
        for number in range(3):
            (folder / f"{number}.md").write_text(f"The marten {number} climbs in {folder.name}.")
    installation.sync()
    installation.rows("INSERT INTO index_work (doc_id, source) SELECT doc_id, source FROM documents RETURNING doc_id")
    own = {row["doc_id"] for row in installation.rows("SELECT doc_id::text FROM documents WHERE partition = 'other'")}
    with open_sync(installation.settings, SourceName.FILES, partitions=["other"], requested_by="test") as job:
        assert set(marked(job, active_target(job.stores))) == own
        pipeline.sync(job)
    left = installation.rows("SELECT d.partition FROM index_work AS w INNER JOIN documents AS d USING (doc_id)")
    assert [row["partition"] for row in left] == ["docs"] * 3
    installation.sync()
    assert installation.rows("SELECT doc_id FROM index_work") == []
