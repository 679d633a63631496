"""While points are being written, the registry does not know what they say: nothing that they may show too much is forgotten meanwhile, and
what a process writes after another has taken over is written again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from assets import pipeline
from assets.upkeep.sweep import sweep
from resources.core.domain import SourceName, document_id
from resources.core.errors import LostLeaseError, ServiceUnavailableError
from resources.stores import leases, qdrant, withholding
from resources.stores.postgres import session
from resources.stores.withheld import WithheldCollection
from resources.stores.withholding import settle, withhold_documents, withhold_narrowed
from resources.syncs.syncing import open_sync
from sql.sync import IndexEntries
from sql.upkeep import Sweep
from sql.withheld import Standing
from tests.fixtures.installation import Installation
from tests.integration.test_leases import SHORT, unrenewed

__all__ = ["unrenewed"]

FILES = SourceName.FILES
ADA, ALL = "ada@acme.example", "domain:acme.example"
DOC = document_id(FILES, "docs/otter.md")
RYE = "# Otter\n\nThe otter ate {} sacks of rye.\n"


def write(installation: Installation, sacks: str, *readers: str, **more: Any) -> None:
    installation.write("otter.md", RYE.format(sacks), permissions=list(readers), **more)


def hooked(monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[[], None]) -> None:
    """Call a function before the first write of a kind reaches the index."""
    real, called = getattr(qdrant, name), threading.Event()

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if not called.is_set():
            called.set()
            before()
        return real(*arguments, **named)

    monkeypatch.setattr(qdrant, name, wrapped)


@pytest.mark.parametrize(("write_of", "sacks"), [("upsert", "nine"), ("set_payload", "seven")])
def test_a_document_that_is_narrowed_while_its_points_are_written_stays_withheld(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, write_of: str, sacks: str
) -> None:
    """Narrowed back to what its entry said before it was widened, as its points did."""
    write(installation, "seven", ADA)
    installation.sync()
    (before,) = installation.rows("SELECT permissions, payload_hash, state FROM documents")
    withheld: list[Any] = []

    def narrow() -> None:
        """As a sync of the change does it, and then the service."""
        client = qdrant.client(installation.settings)
        entries, row = WithheldCollection(client), {"doc_id": DOC, "permissions": [ADA], "state": "live"}
        with session(installation.settings.postgres_dsn, autocommit=True) as connection:
            with connection.transaction():
                withhold_narrowed(connection, entries, "files", [row])
                connection.execute(
                    "UPDATE documents SET permissions = %s, payload_hash = %s", ([ADA], before["payload_hash"])
                )
            settle(connection, entries)
        client.close()
        withheld.append(installation.withheld().readers)

    hooked(monkeypatch, write_of, narrow)
    write(installation, sacks, ADA, ALL)
    installation.sync()
    assert withheld == [{DOC: {ADA}}]
    write(installation, sacks, ADA)
    installation.sync()
    assert [point["permissions"] for point in installation.points()] == [[ADA]]
    assert (installation.withheld().readers, installation.agrees()) == ({}, True)


def test_the_writing_of_an_entry_waits_for_a_change_of_its_readers(installation: Installation) -> None:
    """Otherwise the points get the readers from before a change that found no entry, and withheld nothing."""
    write(installation, "seven", ADA, ALL)
    installation.sync()
    dsn = installation.settings.postgres_dsn
    installation.rows("DELETE FROM index_entries RETURNING doc_id")
    facts: dict[str, Any] = {"doc_id": DOC, "document_title": None, "language": None, "page_count": None, "notes": []}
    installation.rows("UPDATE documents SET document_title = NULL, language = NULL, notes = '[]' RETURNING doc_id")
    (collection,) = installation.rows("SELECT name FROM index_collections")
    seen: list[Any] = []

    def begin() -> None:
        with session(dsn, autocommit=True) as connection:
            index = IndexEntries(connection, "files")
            index.begin_entries(collection=collection["name"], rows=[facts])
            seen.extend(row["permissions"] for row in index.rows(doc_ids=[DOC]))

    client = qdrant.client(installation.settings)
    with session(dsn) as connection:
        connection.execute("UPDATE documents SET permissions = %s, payload_hash = ''", ([ADA],))
        withhold_documents(connection, WithheldCollection(client), [DOC])
        thread = threading.Thread(target=begin)
        thread.start()
        while thread.is_alive() and not installation.rows("SELECT FROM pg_locks WHERE NOT granted"):
            thread.join(0.01)
        connection.commit()
    thread.join()
    client.close()
    assert seen == [[ADA]]


def edit(installation: Installation) -> None:
    write(installation, "eight", ADA, ALL)


def share(installation: Installation) -> None:
    write(installation, "seven", ADA, ALL)


def rename(installation: Installation) -> None:
    write(installation, "seven", ADA, title="Heron")


def remove(installation: Installation) -> None:
    (installation.root / "otter.md").unlink()


@pytest.mark.usefixtures("unrenewed")
@pytest.mark.parametrize(
    ("change", "write_of"),
    [(edit, "upsert"), (share, "set_payload"), (rename, "set_keywords"), (remove, "delete_documents")],
)
def test_what_reaches_the_index_after_another_process_has_taken_over_is_written_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, change: Callable[[Installation], None], write_of: str
) -> None:
    """The process was paused between its last look at its lease and the write."""
    paused, go_on = threading.Event(), threading.Event()
    installation.settings = installation.settings.model_copy(update={"prune_share": 1.0})
    write(installation, "seven", ADA)
    installation.sync()

    def pause() -> None:
        paused.set()
        assert go_on.wait(120)

    hooked(monkeypatch, write_of, pause)
    errors: list[type[BaseException]] = []

    def sync() -> None:
        try:
            with open_sync(installation.settings, FILES) as job:
                pipeline.sync(job)
        except LostLeaseError as error:
            errors.append(type(error))

    change(installation)
    thread = threading.Thread(target=sync)
    thread.start()
    assert paused.wait(120)
    monkeypatch.setattr(leases, "RENEW_SECONDS", SHORT / 5)  # of the process that takes over
    write(installation, "nine", ADA, title="Badger")
    assert installation.sync().error is None
    go_on.set()
    thread.join()
    assert errors == [LostLeaseError]
    assert installation.withheld().readers == {DOC: {ADA}}, "points may be too wide until they are written again"
    assert installation.sync().error is None
    (point,) = installation.points()
    assert (point["permissions"], point["title"]) == ([ADA], "Badger")
    assert "nine" in point["chunk_text"]
    assert (installation.withheld().readers, installation.agrees()) == ({}, True)
    client = qdrant.client(installation.settings)
    stored, _ = client.scroll(qdrant.ALIAS, limit=10, with_vectors=True)
    client.close()
    vectors = stored[0].vector
    installation.rows("UPDATE index_entries SET content = '' RETURNING doc_id")
    installation.sync()
    client = qdrant.client(installation.settings)
    again, _ = client.scroll(qdrant.ALIAS, limit=10, with_vectors=True)
    client.close()
    assert again[0].vector == vectors


class KilledError(BaseException):
    """Ends the work as a killed process would."""


def kill(*_: Any, **__: Any) -> None:
    raise KilledError


def test_a_document_that_returns_after_a_kill_during_its_removal_is_written_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its points are gone, but its entry was still there, and is what the returned document wants."""
    installation.settings = installation.settings.model_copy(update={"prune_share": 1.0})
    write(installation, "seven", ADA)
    installation.sync()
    remove(installation)
    with monkeypatch.context() as patch:
        patch.setattr(qdrant, "count_points", kill)  # called once they are deleted
        with pytest.raises(KilledError):
            installation.sync()
    assert installation.points() == []
    write(installation, "seven", ADA)
    assert installation.sync().error is None
    assert (len(installation.points()), installation.agrees()) == (1, True)


def test_a_document_that_returns_after_a_kill_during_a_sweep_is_written_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(installation, "seven", ADA)
    installation.sync()
    remove(installation)
    installation.rows("UPDATE documents SET state = 'deleted', deleted_at = now() RETURNING doc_id")
    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "verify_receipts", kill)
        with pytest.raises(KilledError):
            sweep(installation.settings, FILES)
    assert installation.points() == []
    write(installation, "seven", ADA)
    assert installation.sync().error is None
    assert (len(installation.points()), installation.agrees()) == (1, True)


def test_an_index_that_does_not_answer_is_asked_once_in_a_transaction(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request may take as long as its timeout, while the rows are locked."""
    names = [f"otter{number}.md" for number in range(3)]
    for name in names:
        installation.write(name, RYE.format(name), permissions=[ADA])
    installation.sync()
    monkeypatch.setattr(withholding, "PAGE", 1)
    asked: list[object] = []

    class Away(WithheldCollection):
        def documents(self, standing: Iterable[Standing]) -> None:
            asked.append(list(standing))
            raise ServiceUnavailableError("The index does not answer.")

    ids = [document_id(FILES, f"docs/{name}") for name in names]
    with session(installation.settings.postgres_dsn, autocommit=True) as connection:
        away = Away(qdrant.client(installation.settings))
        for times in (1, 2):
            with connection.transaction():
                rows = [{"doc_id": one, "permissions": [], "state": "live"} for one in ids]
                withhold_narrowed(connection, away, "files", rows)
            assert len(asked) == times
    noted = installation.rows("SELECT key FROM unwithheld WHERE kind = 'document' ORDER BY key")
    assert [one["key"] for one in noted] == sorted(ids)
