"""Upkeep that was paused beyond its leases removes nothing that another process has written since, and says that it was overtaken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assets.cutover import drop, promote
from assets.reindex import WORK as REINDEX
from assets.reindex import open_reindex
from assets.upkeep import reconcile as reconciliation
from assets.upkeep.reconcile import reconcile
from assets.upkeep.sweep import sweep
from resources.core.domain import SourceName
from resources.core.errors import LostLeaseError
from resources.embedding import choose
from resources.stores import leases, qdrant
from resources.stores.blobs import Blobs
from resources.stores.leases import INSTALLATION, Lease, claim
from sql.upkeep import Sweep
from tests.fixtures.installation import Installation
from tests.fixtures.tiny_model import make_tiny_model

FILES = SourceName.FILES


@pytest.fixture
def filled(installation: Installation) -> Installation:
    installation.settings = installation.settings.model_copy(update={"prune_share": 1.0})
    for name in ("otter", "heron"):
        installation.write(f"{name}.txt", f"The {name} of the river sleeps until noon.\n")
    installation.sync()
    return installation


@contextmanager
def paused_at(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, work: Callable[[], object]) -> Generator[None]:
    """Run the block while other work is paused after its first call of a function; the work must end because it was overtaken."""
    real, paused, go_on = getattr(place, name), threading.Event(), threading.Event()
    made, renewed, own = Lease.__init__, getattr(Lease, "_renewed"), set[Lease]()  # noqa: B009 - it is private
    errors: list[BaseException] = []

    def make(lease: Lease, *arguments: Any) -> None:
        made(lease, *arguments)
        if threading.current_thread() is thread:
            own.add(lease)

    def renew(lease: Lease) -> bool:
        return (paused.is_set() and not go_on.is_set() and lease in own) or renewed(lease)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        found = real(*arguments, **named)
        if threading.current_thread() is thread and not paused.is_set():
            paused.set()
            assert go_on.wait(120)
        return found

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is compared below
            errors.append(error)

    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.2)
    monkeypatch.setattr(Lease, "__init__", make)
    monkeypatch.setattr(Lease, "_renewed", renew)
    monkeypatch.setattr(place, name, wrapped)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert paused.wait(120), errors
        yield
    finally:
        go_on.set()
        thread.join()
    assert [type(error) for error in errors] == [LostLeaseError], errors
    assert "has to be run again" in str(errors[0]) or "run the command again" in str(errors[0])


def test_a_reconciliation_deletes_no_bytes_that_another_has_repaired(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = filled.settings
    (row,) = filled.rows("SELECT content_hash FROM documents WHERE source_id = 'docs/otter.txt'")
    blobs = Blobs(settings.lake_address)
    file = blobs.local_path(row["content_hash"])
    assert file is not None
    good = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(b"\0" * len(good))
    with paused_at(
        monkeypatch, reconciliation, "lake_faults", lambda: reconcile(settings, FILES, apply=True, deep=True)
    ):
        assert reconcile(settings, FILES, apply=True, deep=True).clean()
        assert blobs.read(row["content_hash"]) == good
    assert blobs.read(row["content_hash"]) == good


def test_a_sweep_deletes_no_points_of_a_document_that_is_back(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled.root / "otter.txt").unlink()
    filled.sync()
    with paused_at(monkeypatch, Sweep, "gone", lambda: sweep(filled.settings, FILES)):
        filled.write("otter.txt", "The otter of the river sleeps until noon.\n")
        assert filled.sync().error is None
    assert len(filled.points()) == 2
    assert filled.agrees()


@pytest.fixture
def reindexed(filled: Installation, tmp_path: Path) -> Installation:
    """An index of another model that is complete, and not searched yet."""
    model = str(make_tiny_model(tmp_path / "tiny"))
    with open_reindex(filled.settings) as work:
        work.fill(work.begin(work.wanted(choose(work.settings, model, None))), lambda _done, _of: None, 1)
    return filled


def test_a_model_is_not_changed_under_a_sync(reindexed: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        with open_reindex(reindexed.settings) as work:
            promote(work, work.wanted(choose(work.settings, str(model), None)))

    (model,) = (
        row["model_source"] for row in reindexed.rows("SELECT model_source FROM index_collections WHERE building")
    )
    with paused_at(monkeypatch, qdrant, "count_points", change):
        reindexed.write("lynx.txt", "The lynx of the river sleeps until noon.\n")
        assert reindexed.sync().error is None
    assert reindexed.rows("SELECT active FROM index_collections WHERE building") == [{"active": False}]
    change()
    assert reindexed.agrees()


def test_an_index_that_is_searched_again_is_not_dropped(
    reindexed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = reindexed.settings
    (model,) = (
        row["model_source"] for row in reindexed.rows("SELECT model_source FROM index_collections WHERE building")
    )
    with open_reindex(settings) as work:
        promote(work, work.wanted(choose(work.settings, model, None)))
    reindexed.rows(
        "UPDATE index_collections SET replaced_at = now() - interval '1 day' WHERE NOT active RETURNING name"
    )

    def clean_up() -> None:
        with open_reindex(settings) as work:
            drop(work, unfinished=False, vectors=False, by="test")

    with paused_at(monkeypatch, qdrant, "count_points", clean_up):
        lapsed = claim(settings.postgres_dsn, INSTALLATION, [REINDEX])
        assert lapsed is not None
        lapsed.release()
        with open_reindex(settings) as work:
            promote(work, work.kept())
    (active,) = reindexed.rows("SELECT name FROM index_collections WHERE active")
    client = qdrant.client(settings)
    assert client.collection_exists(active["name"])
    client.close()
