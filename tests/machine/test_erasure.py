"""Erasure with real stores: a planted secret is deleted, swept and erased, then searched for in every file and table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import numpy as np
import polars as pl
import psycopg
import pytest

from assets.intake.rows import raw_table
from assets.reindex import open_reindex
from assets.upkeep.erase import StoreCheck, erase
from assets.upkeep.redaction import distinctive
from assets.upkeep.sweep import sweep
from orchestration.cli import run
from orchestration.erasure import daily_erasure
from resources import keys
from resources.core.domain import SourceName, document_id
from resources.core.errors import BusyError, LostLeaseError
from resources.schema import prepare
from resources.sources import names
from resources.stores import leases, rebuilding, rewriting, uploads
from resources.stores.blobs import Blobs
from resources.stores.lake import Lake
from resources.stores.lake_erasure import drop_rows
from resources.stores.postgres import Connection, session
from resources.stores.quotas import quota_of
from resources.syncs.jobs import hold
from sql.upkeep import Erasure
from tests.fixtures.desk import ADA, ZEBRAS, Desk
from tests.fixtures.installation import Installation, install
from tests.fixtures.postgres import PostgresProcess
from tests.fixtures.serving import Site
from tests.fixtures.upkeep import as_environment, do
from tests.fixtures.vector import VectorProcess

SECRET = "quokkaledger7731"
LEAVES = f"# Leaves\n\nThe {SECRET} closes the north office in March. Nobody outside the board knows of the {SECRET}.\n"
SHARED = "# Otters\n\nOtters of the wobbegong river sleep until noon and eat crayfish before dusk.\n"
NOW = timedelta()
READ = "SELECT (SELECT count(*) FROM checked_documents), (SELECT count(*) FROM index_entries), (SELECT count(*) FROM active_chunks)"
FILES = (
    "SELECT pg_relation_filepath(name) AS file FROM unnest(ARRAY['documents', 'index_entries', 'chunks']) AS t (name)"
)
STORES = "SELECT stores FROM deletion_receipts"


class Whole(NamedTuple):
    """A desk with its own Postgres, and a vector server with a key as `concordance up` starts it, whose files can be inspected."""

    desk: Desk
    postgres: PostgresProcess
    vectors: VectorProcess

    def files(self) -> list[str]:
        """Return every file of the lake, the vector server, the database and the logs that contains the secret."""
        home = self.desk.installation.settings.home
        roots = [home, self.vectors.path, self.postgres.settings.home]
        found = [
            str(path)
            for root in roots
            for path in root.rglob("*")
            if path.is_file() and not path.is_symlink() and SECRET.encode() in path.read_bytes()
        ]
        for path in (home / "lake").rglob("*.parquet"):
            rows = pl.read_parquet(path)
            if SECRET in str(rows.to_dicts()):
                found.append(f"rows of {path}")
        return found

    def tables(self) -> list[str]:
        """Return every table of the database with a row that contains the secret when cast to text."""
        with psycopg.connect(self.desk.installation.settings.postgres_dsn) as connection:
            names = connection.execute(
                "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
                " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            return [
                name
                for (name,) in names
                if connection.execute(
                    f"SELECT 1 FROM {name} AS r WHERE r::text ILIKE %s LIMIT 1".encode(),  # noqa: S608 (names of the catalogue)
                    (f"%{SECRET}%",),
                ).fetchone()
            ]


@pytest.fixture
def whole(
    postgres_process: PostgresProcess,
    make_vector_process: Callable[..., VectorProcess],
    bundled_model: Any,
    models_home: Path,
    tmp_path: Path,
) -> Iterator[Whole]:
    prepare(postgres_process.dsn)
    vector_process = make_vector_process(api_key="k" * 32)
    made = install(tmp_path, models_home, postgres_process.dsn, vector_process.url, "k" * 32)
    keys.ensure(made.settings)
    site = Site(made.settings, bundled_model)
    site.reset_index()
    with site.running() as running:
        yield Whole(Desk(made, running), postgres_process, vector_process)
    site.qdrant.close()


def swept(installation: Installation, **wanted: Any) -> Any:
    """Sweep every source, then erase everything that is deleted."""
    for source in names():
        sweep(installation.settings, source)
    return erase(installation.settings, after=NOW, **wanted)


def test_a_deleted_secret_is_in_no_file_and_no_table(whole: Whole) -> None:
    desk, made = whole.desk, whole.desk.installation
    made.write("zebras.md", ZEBRAS)
    made.write("leaves.md", LEAVES)
    made.write(f"plans of {SECRET}.md", "# Plans\n\nThe plans of next year are kept in this file.\n")
    made.write("edited.md", f"# Edited\n\nThe code word of the vault is {SECRET}, says the porter.\n")
    made.write("otters.md", SHARED)
    made.write("copy/otters.md", SHARED)
    made.sync()
    files = {"file": ("memo.md", f"# Memo\n\nThe {SECRET} is discussed on Monday by the whole board.\n".encode())}
    uploaded = desk.running.request("POST", "/api/upload", ADA, files=files).json()["doc_id"]
    made.sync(SourceName.UPLOAD)
    assert desk.found(f"What does {SECRET} close in March?")
    answer = desk.running.request("POST", "/api/ask", ADA, json={"query": f"What does {SECRET} close?"}).json()
    assert SECRET in answer["answer"]
    feedback = {"answer_id": answer["answer_id"], "verdict": "good", "comment": f"{SECRET} is right"}
    assert desk.running.request("POST", "/api/feedback", ADA, json=feedback).status_code < 300
    do(
        made,
        "INSERT INTO conversations (conversation_id, email, query, answer, sources, asked_at)"
        " VALUES (gen_random_uuid(), %s, %s, 'It closes.', '[]', now())",
        ADA,
        f"And {SECRET}?",
    )
    assert made.rows("SELECT 1 FROM questions WHERE question LIKE %s", f"%{SECRET}%"), "feedback proposes a question"
    with pytest.raises(psycopg.Error):
        do(made, "SELECT %s::uuid", SECRET)
    do(made, "ANALYZE")

    (made.root / "leaves.md").unlink()
    (made.root / f"plans of {SECRET}.md").unlink()
    (made.root / "copy/otters.md").unlink()
    made.write("edited.md", "# Edited\n\nThe vault has no code word any more, says the porter.\n")
    assert desk.running.request("DELETE", f"/api/documents/{uploaded}", ADA).status_code < 300
    made.sync()
    made.sync(SourceName.UPLOAD)
    desk.running.search(f"Is {SECRET} still found?", ADA)
    desk.running.settle()
    assert whole.files()
    assert whole.tables()

    report = swept(made, thorough=True)

    assert report.documents == 4
    assert whole.tables() == []
    assert whole.files() == []
    receipts = made.rows("SELECT doc_id::text, source_id, erased_at, stores FROM deletion_receipts")
    assert len(receipts) == 4
    for receipt in receipts:
        assert receipt["erased_at"] is not None
        assert receipt["source_id"] is None
        assert {name for name, check in receipt["stores"].items() if check["checked_at"] is None} == set()
        assert {
            "blobs",
            "lake.parsed",
            "lake.chunked",
            "postgres.answers",
            "postgres.audit_log",
            "vectors.files",
        } <= set(receipt["stores"])
    kept = desk.running.request("GET", f"/api/answers/{answer['answer_id']}", ADA).json()
    assert (kept["answer"], kept["revoked"], kept["sources"]) == (None, True, [])
    # shared contents are kept: nothing is parsed or embedded again, and search results are unchanged
    assert desk.found("When do the otters of the river sleep?")[0] == "docs/otters.md"
    run_ = made.sync(full=True)
    assert run_.counts.embedded == 0
    assert made.agrees()
    assert swept(made).documents == 0


def removed(installation: Installation) -> Installation:
    """Create three documents and delete two; one of these has the same content as the third."""
    installation.write("kept.txt", "The kept otter of the river sleeps until noon.\n")
    installation.write("copy.txt", "The kept otter of the river sleeps until noon.\n")
    installation.write("gone.txt", "The wobbegong of the reef hides under a ledge.\n")
    installation.sync()
    (installation.root / "copy.txt").unlink()
    (installation.root / "gone.txt").unlink()
    installation.sync()
    for source in names():
        sweep(installation.settings, source)
    return installation


def held(installation: Installation) -> dict[str, int]:
    """Return the numbers of blobs, parsed texts and vectors."""
    lake = Lake(installation.settings.lake_address)
    vectors = [name for name in lake.names() if name.startswith("embedded_")]
    return {
        "blobs": sum(1 for _ in Blobs(installation.settings.lake_address).stored()),
        "parsed": lake.scan("parsed").collect().height,
        "vectors": sum(lake.scan(name).collect().height for name in vectors),
    }


def test_nothing_is_erased_before_its_time(installation: Installation) -> None:
    removed(installation)
    before = held(installation)
    assert before == {"blobs": 2, "parsed": 2, "vectors": 2}
    report = erase(installation.settings, after=timedelta(days=7))
    assert (report.documents, report.contents, report.lake_rows) == (0, 0, 0)
    assert held(installation) == before
    receipts = installation.rows("SELECT erased_at, stores FROM deletion_receipts")
    assert receipts == [{"erased_at": None, "stores": {}}] * 2


def test_a_document_is_erased_by_name_and_what_others_share_stays(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed(installation)
    as_environment(installation, monkeypatch)
    assert run(["erase", "--document", "docs/kept.txt"]) == 2
    assert "is not deleted" in capsys.readouterr().err
    assert run(["erase", "--document", "docs/copy.txt", "--json"]) == 0
    done = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (done["documents"], done["contents"], done["shared"]) == (1, 0, 1)
    assert held(installation) == {"blobs": 2, "parsed": 2, "vectors": 2}
    assert run(["erase", "--document", "docs/gone.txt"]) == 0
    assert held(installation) == {"blobs": 1, "parsed": 1, "vectors": 1}
    assert run(["erase", "--document", "docs/gone.txt"]) == 2
    assert "no document docs/gone.txt" in capsys.readouterr().err
    # the receipt is still found by the name that it no longer contains
    assert run(["receipts", "--document", "docs/gone.txt"]) == 0
    output = capsys.readouterr().out
    assert "docs/gone.txt" not in output
    assert document_id(SourceName.FILES, "docs/gone.txt") in output
    assert "verified" not in output
    assert "blobs: nothing left of contents, checked 2" in output
    installation.sync(full=True)
    assert installation.agrees()


def test_a_change_that_was_written_twice_is_not_erased_as_replaced(installation: Installation) -> None:
    removed(installation)
    lake = Lake(installation.settings.lake_address)
    rows = lake.scan(raw_table(SourceName.FILES)).collect()
    lake.append(raw_table(SourceName.FILES), rows)
    erase(installation.settings, after=NOW)
    left = lake.scan(raw_table(SourceName.FILES)).select("seq", "doc_id", "op").unique().collect()
    kept = document_id(SourceName.FILES, "docs/kept.txt")
    assert left.select("doc_id", "op").rows() == [(kept, "upsert")]
    assert held(installation) == {"blobs": 1, "parsed": 1, "vectors": 1}


def test_a_receipt_says_not_checked_of_what_nobody_looked_at(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed(installation)
    as_environment(installation, monkeypatch)
    assert run(["receipts"]) == 0
    output = capsys.readouterr().out
    assert "blobs, lake, answers, searches, files: not erased yet, not checked" in output
    assert "verified" not in output


def test_contents_are_erased_from_a_slow_object_store(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting all of them takes longer than a transaction may do nothing."""
    blobs = Blobs(installation.settings.lake_address)
    deleted: list[str] = []

    def slowly(_: Blobs, content_hash: str) -> None:
        time.sleep(0.04)
        deleted.append(content_hash)

    contents = {blobs.put([b"%d" % number]).content_hash for number in range(80)}
    with monkeypatch.context() as patch:
        patch.setattr(leases, "IDLE_SECONDS", 2)
        patch.setattr(Blobs, "delete", slowly)
        assert erase(installation.settings, after=NOW).contents == len(contents)
    assert sorted(deleted) == sorted(contents)


def test_an_erasure_waits_for_a_reindex_without_holding_up_syncs(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed(installation)
    with ThreadPoolExecutor() as pool:
        with open_reindex(installation.settings):
            erasing = pool.submit(erase, installation.settings, after=NOW)
            with pytest.raises(TimeoutError):
                erasing.result(2)
            with hold(installation.settings, SourceName.FILES):
                pass
            assert held(installation)["blobs"] == 2
            monkeypatch.setattr(leases, "WAIT_SECONDS", 0)
            with pytest.raises(BusyError, match="reindex"):
                erase(installation.settings, after=NOW)
        assert erasing.result(60).documents == 2


@pytest.mark.parametrize("taken", ["files", "files preparing", ""])
def test_an_erasure_that_was_paused_beyond_its_leases_erases_nothing(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    """Another process has claimed one of its leases meanwhile, and given it up again; a sync needs again what was to be erased."""
    removed(installation)
    before = held(installation)

    def paused(connection: Connection, words: set[str]) -> list[str]:
        do(installation, "DELETE FROM partition_leases WHERE source = %s", taken)
        if taken == "files":
            installation.write("gone.txt", "The wobbegong of the reef hides under a ledge.\n")
            installation.sync()
        return distinctive(connection, words)

    with monkeypatch.context() as patch:
        patch.setattr("assets.upkeep.erase.distinctive", paused)
        with pytest.raises(LostLeaseError):
            erase(installation.settings, after=NOW)
    assert held(installation) == before
    erase(installation.settings, after=NOW)
    assert installation.agrees()
    for row in installation.rows("SELECT content_hash FROM documents WHERE state = 'live'"):
        assert Blobs(installation.settings.lake_address).exists(row["content_hash"])


CATALOGUE = """
SELECT 'index' AS kind, tablename AS owner, indexdef AS definition FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname || convalidated || pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = 'public'
UNION ALL
SELECT 'grants', relname, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'column', table_name, concat_ws(' ', column_name, data_type, is_nullable, column_default, generation_expression)
FROM information_schema.columns WHERE table_schema = 'public'
ORDER BY kind, owner, definition
"""


def test_searches_go_on_while_the_tables_that_they_read_are_rewritten(installation: Installation) -> None:
    removed(installation)
    do(installation, "GRANT SELECT ON documents, checked_documents TO pg_monitor")
    catalogue, files = installation.rows(CATALOGUE), installation.rows(FILES)
    dsn = installation.settings.postgres_dsn
    with ThreadPoolExecutor(1) as pool, psycopg.connect(dsn) as slow, psycopg.connect(dsn, autocommit=True) as search:
        # a long read keeps every table from being exchanged; whoever waits for it must not keep others from reading
        slow.execute(READ)
        erasing = pool.submit(erase, installation.settings, after=NOW)
        search.execute("SET lock_timeout = '5s'")
        search.prepare_threshold = 0  # a plan that was made before the exchange is used after it
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%EXCLUSIVE%'"
        waited = 0
        while waited < 3:
            assert not erasing.done(), erasing.result()
            waited += len(search.execute(waiting).fetchall())
            assert search.execute(READ).fetchone()
        slow.rollback()
        report = erasing.result(timeout=120)
        assert search.execute(READ).fetchone() == (1, 1, 1)
    assert report.stores["postgres.files"].checked_at is not None
    assert installation.rows(CATALOGUE) == catalogue
    assert not {row["file"] for row in files} & {row["file"] for row in installation.rows(FILES)}
    installation.write("after.txt", "The cassowary of the valley eats fallen fruit.\n")
    installation.sync()
    assert installation.agrees()


def test_syncs_and_uploads_go_on_while_the_tables_are_copied(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed(installation)
    settings, catalogue, dropped = (
        installation.settings,
        installation.rows(CATALOGUE),
        installation.root / "dropped.txt",
    )
    installation.write("edited.txt", "The lemur of the gorge eats figs.\n")
    dropped.write_text("The tapir of the swamp swims at night.\n")
    installation.sync()
    content = Blobs(settings.lake_address).put([b"Some words."])
    new = uploads.NewUpload(
        owner=ADA, content_hash=content.content_hash, size=content.size, file_name="a.txt", title=None, description=None,
        mime_type="text/plain", permissions=[], tags={},
    )  # fmt: skip

    def change(table: str) -> None:
        installation.write(f"{table}.txt", f"The heron of the {table} waits in the reeds.\n")
        installation.write("edited.txt", f"The lemur of the {table} eats figs.\n")
        dropped.unlink(missing_ok=True)
        installation.sync()
        if table == "documents":
            with session(settings.postgres_dsn, autocommit=True) as connection:
                uploads.record(connection, new, quota_of(settings, admin=False))

    copy = rebuilding._write_copy
    with ThreadPoolExecutor(1) as pool:

        def copied(made: Any) -> None:
            copy(made)
            pool.submit(change, made.name).result(timeout=120)

        monkeypatch.setattr(rebuilding, "_write_copy", copied)
        report = erase(settings, after=NOW)
    assert report.stores["postgres.files"].checked_at is not None
    assert installation.rows(CATALOGUE) == catalogue
    assert installation.agrees()
    live = installation.rows("SELECT source_id, chunk_text FROM checked_documents JOIN active_chunks USING (doc_id)")
    assert {row["source_id"]: row["chunk_text"] for row in live} == {
        "docs/kept.txt": "The kept otter of the river sleeps until noon.",
        "docs/edited.txt": "The lemur of the chunks eats figs.",
        **{f"docs/{table}.txt": f"The heron of the {table} waits in the reeds." for table in rewriting.SEARCHED},
    }
    assert len(installation.rows("SELECT FROM uploads")) == 1
    assert installation.sync().counts.embedded == 0


def test_what_could_not_be_rewritten_is_named_and_done_the_next_day(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed(installation)
    monkeypatch.setattr(rewriting, "LOCK_SECONDS", 1)
    monkeypatch.setattr(rebuilding, "EXCHANGE_ATTEMPTS", 2)
    with psycopg.connect(installation.settings.postgres_dsn) as writer:
        writer.execute("LOCK TABLE chunks, answers IN ROW EXCLUSIVE MODE")
        report = erase(installation.settings, after=NOW)
    check = report.stores["postgres.files"]
    assert check.checked_at is None
    assert "files of: index_entries (in use), chunks (in use), answers (in use)." in check.detail
    assert {row["stores"]["postgres.files"]["checked_at"] for row in installation.rows(STORES)} == {None}
    report = erase(installation.settings, after=NOW)
    assert report.documents == 0
    assert all(row["stores"]["postgres.files"]["checked_at"] for row in installation.rows(STORES))


def test_the_command_fails_while_files_remain_to_be_rewritten(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed(installation)
    as_environment(installation, monkeypatch)
    monkeypatch.setattr(rewriting, "LOCK_SECONDS", 1)
    with psycopg.connect(installation.settings.postgres_dsn) as writer:
        writer.execute("LOCK TABLE answers IN ROW EXCLUSIVE MODE")
        assert run(["erase", "--now", "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["stores"]["postgres.files"]["checked_at"] is None
    assert run(["erase"]) == 0
    assert "not rewritten" not in capsys.readouterr().err


def test_a_server_that_rewrites_its_own_files_is_named_and_not_tried_each_day(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed(installation)
    as_environment(installation, monkeypatch)

    def of_ones_own(*_: object) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(rewriting, "_ours", of_ones_own)
        assert run(["erase", "--now"]) == 0
        assert "not rewritten: vectors.files: this Qdrant server" in capsys.readouterr().err
        assert {row["stores"]["vectors.files"]["checked_at"] for row in installation.rows(STORES)} == {None}
        assert erase(installation.settings, after=NOW).stores == {}
    assert run(["erase", "--now"]) == 0
    assert all(row["stores"]["vectors.files"]["checked_at"] for row in installation.rows(STORES))


def test_only_what_could_not_be_rewritten_is_done_the_next_day(installation: Installation) -> None:
    removed(installation)
    settings = installation.settings
    away = settings.model_copy(update={"qdrant_url": "http://127.0.0.1:1"})
    report = erase(away, after=NOW)
    assert report.documents == 2
    assert report.stores["vectors.files"].checked_at is None
    assert "did not answer" in report.stores["vectors.files"].detail
    files = installation.rows(FILES)
    assert set(erase(settings, after=NOW).stores) == {"vectors.files"}
    assert installation.rows(FILES) == files, "tables are not copied again, day after day"
    for row in installation.rows(STORES):
        assert {name for name, check in row["stores"].items() if check["checked_at"] is None} == set()
    checks = {"vectors.files": StoreCheck(datetime.now(UTC), "again")}
    with session(settings.postgres_dsn) as connection:
        assert Erasure(connection).note_files(stores=checks) == 0, "receipts that are complete are not written again"


def test_an_erasure_that_was_killed_is_completed_though_nothing_else_is_due(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.write("edited.txt", f"The code word of the vault is {SECRET}, says the porter.\n")
    installation.sync()
    installation.write("edited.txt", "The vault has no code word any more, says the porter.\n")
    installation.sync()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("assets.upkeep.erase.scrub", killed)
        with pytest.raises(KeyboardInterrupt):
            erase(installation.settings, after=NOW)
    lake = installation.settings.home / "lake"

    def holding() -> list[Path]:
        return [path for path in lake.rglob("*.parquet") if SECRET in str(pl.read_parquet(path).to_dicts())]

    assert holding()
    report = erase(installation.settings, after=NOW)
    assert report.lake_rows == 0
    assert holding() == []
    assert erase(installation.settings, after=NOW).stores == {}
    assert installation.agrees()


@pytest.mark.parametrize("table", ["parsed", "chunked", "embedded"])
def test_an_erasure_of_one_document_that_was_killed_is_completed_by_the_same_command(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    removed(installation)

    def killed(lake: Lake, name: str, *rest: Any) -> int:
        dropped = drop_rows(lake, name, *rest)
        if name.startswith(table):
            raise KeyboardInterrupt
        return dropped

    with monkeypatch.context() as patch:
        patch.setattr("assets.upkeep.erase.drop_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            erase(installation.settings, after=NOW, document="docs/gone.txt")
    erase(installation.settings, after=NOW, document="docs/gone.txt")
    assert held(installation) == {"blobs": 1, "parsed": 1, "vectors": 1}


def test_an_upload_whose_bytes_are_erased_before_it_is_recorded_is_refused(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are stored before they are recorded; in between nothing refers to them."""
    desk = whole.desk
    store = Blobs(desk.installation.settings.lake_address)

    def late(connection: Any, upload: uploads.NewUpload, *more: Any) -> Any:
        store.delete(upload.content_hash)
        return uploads.record(connection, upload, *more)

    monkeypatch.setattr("serving.documents.receiver.record", late)
    answer = desk.running.request("POST", "/api/upload", ADA, files={"file": ("a.txt", b"Some words.\n")})
    assert answer.status_code == 503
    assert "Send the file again" in answer.json()["detail"]
    assert desk.installation.rows("SELECT 1 FROM uploads") == []


def test_an_upload_that_is_handed_in_again_before_its_erasure_stays(whole: Whole) -> None:
    """It waits for the sync that an erasure holds up, and the registry says deleted until then."""
    desk, made = whole.desk, whole.desk.installation
    body = {"content": SHARED, "doc_id": "otters", "tags": {"tenant": "acme", "dataset": "docs"}}
    first = desk.running.request("POST", "/api/ingest", ADA, json=body).json()
    made.sync(SourceName.UPLOAD)
    assert desk.running.request("DELETE", f"/api/documents/{first['doc_id']}", ADA).status_code == 200
    made.sync(SourceName.UPLOAD)
    again = desk.running.request("POST", "/api/ingest", ADA, json=body).json()
    assert again["doc_id"] == first["doc_id"]
    assert swept(made).documents == 1
    made.sync(SourceName.UPLOAD)
    assert desk.running.request("GET", f"/api/ingest/{again['job_id']}", ADA).json()["status"] == "success"
    assert desk.found("When do the otters of the wobbegong sleep?")


def test_vectors_of_dropped_passages_go_without_rewriting_other_files(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten: list[object] = []
    monkeypatch.setattr("assets.upkeep.erase._rewrite_files", lambda *given: rewritten.append(given))
    with hold(installation.settings, SourceName.FILES) as stores:
        stores.keyed.append_vectors(
            "embedded_m_4", "m", ["0" * 64], np.ones((1, 4), np.float32), [1], datetime.now(UTC) - timedelta(days=1)
        )
    assert erase(installation.settings, after=NOW).lake_rows == 1
    assert rewritten == []


def test_the_daily_job_erases_and_prunes(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    removed(installation)
    as_environment(installation, monkeypatch)
    do(installation, "UPDATE documents SET deleted_at = deleted_at - interval '8 days'")
    with dg.DagsterInstance.ephemeral() as instance:
        result = daily_erasure.execute_in_process(instance=instance)
    (output,) = [event for event in result.all_node_events if event.is_successful_output]
    shown: dict[str, Any] = {name: value.value for name, value in output.step_output_data.metadata.items()}
    assert shown["erased"]["documents"] == 2
    assert set(shown) == {"erased", "deleted_rows", "deleted_runs"}
    assert installation.rows("SELECT 1 FROM documents WHERE state = 'deleted'") == []
