"""Files that are as they were listed last are known by a key, and nothing that changes them or their documents is missed because of it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from assets import pipeline
from resources.core.domain import SourceName
from resources.settings import FileRoot
from resources.sources.files import _Describer
from resources.syncs.syncing import open_sync
from tests.fixtures.installation import Installation
from tests.fixtures.upkeep import do

ADA = "ada@acme.example"
READERS = [ADA, "domain:acme.example"]
NAMES = ("a.md", "b.md", "été.md", "pond/c.md", "pond/empty.md", "pond/sheet.xyz")


@pytest.fixture
def known(installation: Installation) -> Installation:
    """An installation whose files are known by their keys: two that are refused, and four documents."""
    for name in NAMES:
        installation.write(name, "" if "empty" in name else f"The heron of {name} waits.")
    installation.write("b.md", "The heron of b.md waits.", permissions=[ADA])
    for _ in range(2):
        installation.sync()
    return installation


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that listings compare in full."""
    paths: list[str] = []
    describe = _Describer.describe

    def describing(self: _Describer, found: Any) -> Any:
        paths.append(found.path)
        return describe(self, found)

    monkeypatch.setattr(_Describer, "describe", describing)
    return paths


def documents(installation: Installation) -> dict[str, tuple[str, list[str]]]:
    rows = installation.rows("SELECT path, state, permissions FROM documents WHERE state <> 'deleted' ORDER BY path")
    return {row["path"]: (row["state"], row["permissions"]) for row in rows}


def compared_in_full(installation: Installation) -> dict[str, int]:
    """List everything, and return what a sync then finds to do."""
    with open_sync(installation.settings, SourceName.FILES) as job:
        counts = pipeline.raw(job, everything=True).counts
    return {name: counts[name] for name in ("fetched", "rewritten", "deleted", "failed", "held")}


def test_unchanged_files_are_not_compared_in_full(known: Installation, described: list[str]) -> None:
    known.sync()
    assert described == []
    assert known.last["raw"]["seen"] == len(NAMES)
    assert known.rows("SELECT source_count FROM partitions") == [{"source_count": len(NAMES)}]
    assert known.agrees()
    known.sync(full=True)
    assert sorted(described) == sorted(NAMES)


def rewritten(installation: Installation) -> None:
    installation.write("a.md", "The heron has flown.")


def touched(installation: Installation) -> None:
    os.utime(installation.root / "a.md")


def narrowed(installation: Installation) -> None:
    installation.write("a.md.meta.json", json.dumps({"permissions": [ADA]}))


def widened(installation: Installation) -> None:
    installation.write("b.md.meta.json", json.dumps({"permissions": READERS}))


def without_its_sidecar(installation: Installation) -> None:
    (installation.root / "b.md.meta.json").unlink()


def removed(installation: Installation) -> None:
    (installation.root / "pond" / "c.md").unlink()


def replaced(installation: Installation) -> None:
    (installation.root / "pond" / "c.md").rename(installation.root / "pond" / "d.md")


def of_a_twin(installation: Installation) -> None:
    """Another name sorts before and is the same once composed."""
    installation.write("e\u0301te\u0301.md", "The heron is a twin.")


def filled(installation: Installation) -> None:
    installation.write("pond/empty.md", "The heron is here.")


def of_a_changed_root(installation: Installation) -> None:
    (root,) = installation.settings.file_roots
    changed = FileRoot.model_validate({**root.model_dump(), "permissions": (ADA,)})
    installation.settings = installation.settings.model_copy(update={"file_roots": (changed,)})


def of_a_changed_limit(installation: Installation) -> None:
    installation.settings = installation.settings.model_copy(update={"max_file_bytes": 10})


def erased(installation: Installation) -> None:
    do(installation, "DELETE FROM documents WHERE path = 'a.md'")


def marked_for_refetch(installation: Installation) -> None:
    do(installation, "UPDATE documents SET version = '' WHERE path = 'a.md'")


def narrowed_by_an_audit(installation: Installation) -> None:
    do(installation, "UPDATE documents SET payload_hash = '', permissions = '{}' WHERE path = 'a.md'")


def hidden(installation: Installation) -> None:
    do(installation, "UPDATE documents SET state = 'lost_access' WHERE path = 'a.md'")


@pytest.mark.parametrize(
    "change",
    [
        rewritten,
        touched,
        narrowed,
        widened,
        without_its_sidecar,
        removed,
        replaced,
        of_a_twin,
        filled,
        of_a_changed_root,
        of_a_changed_limit,
        erased,
        marked_for_refetch,
        narrowed_by_an_audit,
        hidden,
    ],
)
def test_what_changes_is_found(known: Installation, change: Callable[[Installation], None]) -> None:
    before = known.rows("SELECT * FROM documents ORDER BY path")
    change(known)
    known.sync()
    assert known.rows("SELECT * FROM documents ORDER BY path") != before
    left = documents(known)
    for _ in range(2):
        assert not any(compared_in_full(known).values())
        known.sync()
    assert documents(known) == left
    assert known.agrees()


def test_a_held_document_that_is_back_is_released(installation: Installation, described: list[str]) -> None:
    installation.settings = installation.settings.model_copy(update={"prune_minimum": 0, "prune_share": 0.1})
    for name in ("a.md", "pond/b.md"):
        installation.write(name, "The heron waits.")
    for _ in range(2):
        installation.sync()
    away = (installation.root / "pond").rename(installation.root.parent / "away")  # its file keeps all its times
    for _ in range(2):
        installation.sync()
        assert installation.rows("SELECT source_id FROM held_deletions") == [{"source_id": "docs/pond/b.md"}]
    away.rename(installation.root / "pond")
    described.clear()
    for _ in range(2):
        installation.sync()
        assert (described, installation.rows("SELECT source_id FROM held_deletions")) == (["pond/b.md"], [])


@pytest.mark.parametrize("seed", range(3))
def test_histories(known: Installation, seed: int) -> None:
    random_ = random.Random(seed)
    for step in range(12):
        for _ in range(random_.randint(0, 3)):
            name = random_.choice([*NAMES, "new.md", "pond/deep/new.md"])
            path = known.root / name
            way = random_.randrange(4)
            if way == 0:
                known.write(name, f"The heron of step {step} waits.")
            elif way == 1:
                known.write(f"{name}.meta.json", json.dumps({"permissions": random_.sample(READERS, 1)}))
            elif way == 2:
                path.unlink(missing_ok=True)
            else:
                path.with_name(f"{path.name}.meta.json").unlink(missing_ok=True)
        known.sync()
        if step % 4 == 3:
            known.sync()  # who came with new content is let in at the end of a sync, and the next one writes the row again
            assert not any(compared_in_full(known).values())
    assert known.agrees()
