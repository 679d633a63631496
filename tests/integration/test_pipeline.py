"""The five stages with real Postgres, the real vector server and real files: work is done once and undone completely."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestration.supervision.environment import child_environment
from resources.core import filetypes
from resources.core.domain import STAGES, Access, SourceName, State, document_id
from resources.core.errors import BusyError
from resources.stores import qdrant
from resources.stores.blobs import Blobs
from resources.stores.lake import Lake
from resources.stores.postgres import session
from resources.stores.uploads import NewUpload, record
from resources.syncs.jobs import create_job
from resources.syncs.syncing import open_sync
from serving.http.database import Database
from serving.search.retrieval.passage import Passage
from serving.search.retrieval.registry import from_payloads, recheck
from sql.rows import Started
from tests.fixtures.installation import Installation
from tests.fixtures.waiting import until

STRIPES = (
    "# Zebra care\n\nZebras need a dry stable and fresh hay every morning. Their hooves are trimmed twice a year.\n"
)
TAXES = "# Taxes\n\nThe annual tax return is due on the last Friday of May. Late returns cost forty euros a day.\n"
ADA = Access(email="ada@acme.example", principals=frozenset({"domain:acme.example"}))


def states(installation: Installation) -> dict[str, str]:
    rows = installation.rows("SELECT source_id, state FROM documents")
    return {row["source_id"]: row["state"] for row in rows}


def test_new_documents_reach_both_stores(installation: Installation) -> None:
    installation.write("zebras.md", STRIPES)
    installation.write(
        "finance/taxes.txt", TAXES, permissions=["group:finance@acme.example"], tags={"department": "finance"}
    )
    run = installation.sync()
    assert (run.counts.synced, run.counts.failed, run.error) == (2, 0, None)
    assert states(installation) == {"docs/zebras.md": State.LIVE, "docs/finance/taxes.txt": State.LIVE}
    points = {point["source_id"]: point for point in installation.points()}
    assert points["docs/zebras.md"]["permissions"] == ["domain:acme.example"]
    taxes = points["docs/finance/taxes.txt"]
    assert taxes["permissions"] == ["group:finance@acme.example"]
    assert taxes["tags"]["department"] == "finance"
    assert taxes["tags"]["tenant"] == "acme"
    assert taxes["language"] == "en"
    assert "docs/finance" in taxes["collection_ids"]
    assert taxes["doc_id"] == document_id(SourceName.FILES, "docs/finance/taxes.txt")
    assert installation.agrees()
    job = installation.rows("SELECT status, synced, stage FROM sync_jobs")
    assert job == [{"status": "success", "synced": 2, "stage": "done"}]


def test_folders_of_a_root_are_named_to_those_whom_the_root_is_for(installation: Installation) -> None:
    installation.write("layoffs/taxes.txt", TAXES, permissions=["eve@other.example"])
    installation.write("open/zebras.md", STRIPES)
    installation.sync()
    root = installation.settings.file_roots[0]
    readers = [*root.permissions, root.owner]
    rows = {row["source_id"]: row["folders"] for row in installation.rows("SELECT source_id, folders FROM documents")}
    assert rows["docs/layoffs/taxes.txt"] == [
        {"id": "docs", "name": "", "readers": ["public"]},
        {"id": "docs/layoffs", "name": "layoffs", "readers": readers},
    ]
    shown = installation.rows(
        "SELECT w.who, p.* FROM documents AS d CROSS JOIN (VALUES ('eve@other.example'), ('domain:acme.example')) AS w (who)"
        " CROSS JOIN LATERAL shown_place(d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders,"
        " d.place_readers, ARRAY[w.who, 'public']) AS p WHERE d.source_id = 'docs/layoffs/taxes.txt' ORDER BY w.who DESC"
    )
    eve, staff = shown
    assert (eve["shown_path"], eve["shown_collection"], eve["shown_collections"]) == ("taxes.txt", "docs", ["docs"])
    assert "layoffs" not in str(eve)
    assert (staff["shown_path"], staff["shown_source_id"]) == ("layoffs/taxes.txt", "docs/layoffs/taxes.txt")
    assert staff["shown_collections"] == ["docs", "docs/layoffs"]


def test_a_chunk_of_two_sections_keeps_both_places_in_both_stores(installation: Installation) -> None:
    installation.write("zoo.md", f"{STRIPES}\n## Parking\n\nVisitors park behind the stable.\n")
    installation.sync()
    (row,) = installation.rows("SELECT chunk_id::text, chunk_text, places FROM chunks")
    (point,) = installation.points()
    assert row["places"] == point["places"]
    assert [(place["start_char"], place["anchor"]) for place in row["places"]] == [
        (0, "zebra-care"),
        (row["chunk_text"].index("Parking"), "parking"),
    ]

    since = datetime.now(UTC) - timedelta(days=1)

    async def rechecked() -> Mapping[str, Passage]:
        database = Database(installation.settings.postgres_dsn, prepare_threshold=5)
        await database.open()
        try:
            return (await recheck(database, ADA, [row["chunk_id"]], since, archived=False, collection_ids=())).passages
        finally:
            await database.close()

    hit = asyncio.run(rechecked())[row["chunk_id"]]
    assert hit.anchor == hit.place(0).anchor == "zebra-care"
    assert hit.place(hit.chunk_text.index("Visitors")).anchor == "parking"
    from_index, _ = from_payloads({row["chunk_id"]: point}, ADA, since, installation.withheld(), collection_ids=())
    assert from_index[row["chunk_id"]].places == hit.places


def test_nothing_changed_means_nothing_done(installation: Installation) -> None:
    installation.write("zebras.md", STRIPES)
    installation.sync()
    before = installation.rows("SELECT indexed_at, changed_at FROM documents JOIN index_entries USING (doc_id)")
    run = installation.sync()
    assert run.counts.synced == run.counts.embedded == run.counts.deleted == 0
    assert not run.touched
    assert installation.rows("SELECT indexed_at, changed_at FROM documents JOIN index_entries USING (doc_id)") == before


def test_without_changes_no_table_is_opened_and_a_change_opens_each_once(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.write("zebras.md", STRIPES)
    installation.sync()
    opened: list[str] = []
    opens = Lake.open

    def noted(lake: Lake, name: str) -> Any:
        opened.append(name)
        return opens(lake, name)

    monkeypatch.setattr(Lake, "open", noted)
    installation.sync()
    assert opened == []
    installation.write("taxes.md", TAXES)
    assert installation.sync().counts.synced == 1
    assert len(opened) == len(set(opened)) == 4
    assert installation.agrees()


def test_a_changed_text_replaces_its_chunks(installation: Installation) -> None:
    long = STRIPES + "\n".join(
        f"## Part {n}\n\nParagraph {n} tells of hay, straw and water in some detail.\n" for n in range(60)
    )
    installation.write("zebras.md", long)
    installation.sync()
    many = len(installation.points())
    assert many > 3
    installation.write("zebras.md", STRIPES)
    run = installation.sync()
    assert run.counts.synced == 1
    assert [point["chunk_text"] for point in installation.points()] == [STRIPES.removeprefix("# ").strip()]
    assert installation.agrees()


def test_a_permission_change_embeds_nothing(installation: Installation) -> None:
    installation.write("zebras.md", STRIPES, permissions=["ada@acme.example"])
    installation.sync()
    installation.write("zebras.md", STRIPES, permissions=["bob@acme.example"])
    os.utime(installation.root / "zebras.md", (1_700_000_000, 1_700_000_000))
    run = installation.sync()
    assert run.counts.embedded == 0
    assert [point["permissions"] for point in installation.points()] == [["bob@acme.example"]]
    assert installation.agrees()


def test_a_deleted_file_leaves_with_a_receipt(installation: Installation) -> None:
    installation.write("zebras.md", STRIPES)
    installation.write("taxes.md", TAXES)
    installation.sync()
    (installation.root / "zebras.md").unlink()
    run = installation.sync()
    assert run.counts.deleted == 1
    assert {point["source_id"] for point in installation.points()} == {"docs/taxes.md"}
    receipt = installation.rows(
        "SELECT source_id, points_deleted, points_gone_at IS NOT NULL AS gone FROM deletion_receipts"
    )
    assert receipt == [{"source_id": "docs/zebras.md", "points_deleted": 1, "gone": True}]
    assert installation.agrees()
    installation.write("zebras.md", STRIPES)
    assert installation.sync().counts.embedded == 0  # the text is known
    assert {point["source_id"] for point in installation.points()} == {"docs/taxes.md", "docs/zebras.md"}


def test_the_same_text_is_embedded_once(installation: Installation) -> None:
    for number in range(3):
        installation.write(f"copy-{number}.md", STRIPES, permissions=[f"user{number}@acme.example"])
    run = installation.sync()
    assert run.counts.embedded == 1
    assert sorted(point["permissions"][0] for point in installation.points()) == [
        f"user{n}@acme.example" for n in range(3)
    ]


def test_one_bad_document_costs_itself(installation: Installation) -> None:
    installation.write("zebras.md", STRIPES)
    installation.write("empty.md", "")
    installation.write("broken.pdf", b"%PDF-1.7\nthis is no pdf at all\n")
    installation.write("tool.exe", b"MZ\x00\x01")
    run = installation.sync()
    found = states(installation)
    assert found["docs/zebras.md"] == State.LIVE
    assert {found[name] for name in ("docs/empty.md", "docs/broken.pdf", "docs/tool.exe")} <= {
        State.SKIPPED,
        State.FAILED,
    }
    assert run.error is None
    reasons = installation.rows("SELECT source_id, reason FROM sync_errors ORDER BY source_id")
    assert [row["source_id"] for row in reasons] == ["docs/broken.pdf", "docs/empty.md", "docs/tool.exe"]
    assert all(row["reason"] for row in reasons)
    assert installation.agrees()


def test_a_document_that_turns_bad_is_not_shown_and_comes_back(installation: Installation) -> None:
    installation.write("zebras.md", STRIPES)
    installation.sync()
    installation.write("zebras.md", "")
    installation.sync()
    assert installation.points() == []
    assert installation.agrees()
    installation.write("zebras.md", STRIPES)
    installation.sync()
    assert len(installation.points()) == 1


def test_a_type_that_an_earlier_version_skipped_is_read(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.write("zebras.md", STRIPES)
    installation.write("stable.yaml", "stable:\n  zebras: 4\n")
    with monkeypatch.context() as earlier:
        earlier.setattr(filetypes, "MIME_TYPES", {".md": "text/markdown"})
        assert installation.sync().counts.skipped == 1
    assert states(installation)["docs/stable.yaml"] == State.SKIPPED
    installation.sync()
    assert states(installation) == {"docs/zebras.md": State.LIVE, "docs/stable.yaml": State.LIVE}
    assert installation.agrees()


def test_a_draft_is_for_its_owner_alone(installation: Installation) -> None:
    installation.write("plan.md", STRIPES, owner="bob@acme.example", tags={"lifecycle": "draft"})
    installation.sync()
    assert [point["permissions"] for point in installation.points()] == [["bob@acme.example"]]


def test_a_lost_collection_is_rebuilt(installation: Installation) -> None:

    installation.write("zebras.md", STRIPES)
    installation.sync()
    client = qdrant.client(installation.settings)
    name = qdrant.current_collection(client)
    assert name is not None
    client.delete_collection(name)
    run = installation.sync()
    assert run.counts.embedded == 0
    assert len(installation.points()) == 1
    assert installation.agrees()


def test_a_collection_of_an_earlier_version_is_quantized_by_the_next_sync(installation: Installation) -> None:
    from qdrant_client import models

    installation.write("zebras.md", STRIPES)
    installation.sync()
    client = qdrant.client(installation.settings)
    made = client.get_collection(qdrant.ALIAS)
    assert {made.payload_schema[name].params.on_disk for name in qdrant.KEYWORD_FIELDS} == {True}  # type: ignore[union-attr]
    assert made.payload_schema["permissions"].params.is_tenant is True  # type: ignore[union-attr]
    client.update_collection(qdrant.ALIAS, quantization_config=models.Disabled.DISABLED)
    assert client.get_collection(qdrant.ALIAS).config.quantization_config is None
    installation.write("taxes.md", TAXES)
    assert installation.sync().counts.embedded == 1
    assert client.get_collection(qdrant.ALIAS).config.quantization_config == made.config.quantization_config
    client.close()
    assert installation.agrees()


def test_one_sync_a_source_at_a_time(installation: Installation) -> None:
    dsn = installation.settings.postgres_dsn
    with open_sync(installation.settings, SourceName.FILES) as run, pytest.raises(BusyError) as caught:
        create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    assert caught.value.job_id == run.job_id
    create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")


def test_a_job_whose_process_died_is_overtaken(installation: Installation) -> None:
    dsn = installation.settings.postgres_dsn
    dead = create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    installation.rows("UPDATE sync_jobs SET claimed_at = now() RETURNING job_id")
    following = create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    assert following.job_id != dead.job_id
    assert installation.rows("SELECT status, error_message FROM sync_jobs WHERE job_id = %s", dead.job_id) == [
        {"status": "failed", "error_message": "The process that ran this sync died."}
    ]


LAUNCH = """
from resources.core.domain import SourceName
from resources.syncs.launch import start_sync
from resources.settings import load
start_sync(load(), SourceName.FILES, partitions=None, full=False, requested_by="test")
"""


@pytest.fixture
def launcher(installation: Installation) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has made a job and waits for a Dagster that does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as dagster:
        settings = installation.settings
        settings.home.joinpath("run").mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH],
            env=child_environment(settings) | {"CONCORDANCE_DAGSTER_PORT": str(dagster.getsockname()[1])},
        )
        dagster.settimeout(120)
        connection, _ = dagster.accept()
        with connection:
            yield process
            process.kill()
            process.wait()


def test_a_job_whose_launcher_died_is_overtaken_within_seconds(
    installation: Installation, launcher: subprocess.Popen[bytes]
) -> None:
    def create() -> Started:
        return create_job(
            installation.settings.postgres_dsn, SourceName.FILES, partitions=None, full=False, requested_by="test"
        )

    installation.rows("UPDATE sync_jobs SET started_at = now() - interval '60 seconds' RETURNING job_id")
    with pytest.raises(BusyError) as busy:
        create()
    launcher.kill()
    launcher.wait()

    def overtaken() -> Started | None:
        with suppress(BusyError):
            return create()
        return None

    # once Postgres sees that the connection is closed; the job itself is 60 s old
    assert until(overtaken, "another job").job_id == busy.value.job_id
    assert installation.rows("SELECT status, stage FROM sync_jobs") == [{"status": "running", "stage": "delayed"}]


@pytest.mark.parametrize("received", ["concordance/worker", ".dagster/grpc_info", "dagster/image"])
def test_a_job_whose_run_a_process_has_received_is_waited_for(installation: Installation, received: str) -> None:
    """Its launcher may have died after Dagster took the run, or be Dagster's own daemon."""
    dsn = installation.settings.postgres_dsn
    job = create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    with session(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE dagster.run_tags (run_id text, key text, value text)")
        connection.execute("INSERT INTO dagster.run_tags VALUES ('a run', 'concordance/job_id', %s)", (job.job_id,))
        connection.execute("INSERT INTO dagster.run_tags VALUES ('a run', %s, 'a process')", (received,))
        connection.execute("CREATE TABLE dagster.runs (run_id text, status text)")
        connection.execute("INSERT INTO dagster.runs VALUES ('a run', 'STARTING')")
        connection.execute("UPDATE sync_jobs SET started_at = now() - interval '1 hour'")
        with pytest.raises(BusyError):
            create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
        connection.execute("UPDATE dagster.runs SET status = 'FAILURE'")
    assert create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test") != job


def test_a_job_whose_run_no_process_has_received_is_overtaken(installation: Installation) -> None:
    """Postgres restarted between Dagster's creating the run and its handing it over."""
    dsn = installation.settings.postgres_dsn
    job = create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    with session(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE dagster.run_tags (run_id text, key text, value text)")
        connection.execute("CREATE TABLE dagster.runs (run_id text, status text)")
        connection.execute("INSERT INTO dagster.run_tags VALUES ('a run', 'concordance/job_id', %s)", (job.job_id,))
        connection.execute("UPDATE sync_jobs SET started_at = now() - interval '15 seconds'")
    assert create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test").job_id == job.job_id


def test_a_root_is_split_by_a_profile_of_its_own(installation: Installation) -> None:
    installation.write(
        "long.md", "\n\n".join(f"Paragraph {number} is about the tide at pier {number}." for number in range(40))
    )
    installation.sync()
    before = installation.rows("SELECT max(tokens) AS most, count(*) AS number FROM active_chunks")[0]
    root = installation.settings.file_roots[0].model_copy(update={"profile": "40/0/10"})
    own = Installation(
        settings=installation.settings.model_copy(update={"file_roots": (root,)}), root=installation.root
    )
    own.sync()
    after = own.rows("SELECT max(tokens) AS most, count(*) AS number FROM active_chunks")[0]
    assert before["most"] > 40 >= after["most"]
    assert after["number"] > before["number"]
    assert own.rows("SELECT DISTINCT profile FROM documents WHERE state = 'live'") == [{"profile": "40/0/10"}]


def test_a_root_that_cannot_be_listed_keeps_its_documents_and_the_others_go_on(installation: Installation) -> None:
    other = installation.root.parent / "other"
    other.mkdir()
    (other / "taxes.md").write_text(TAXES)
    root = installation.settings.file_roots[0]
    second = root.model_copy(update={"name": "other", "url": other.as_uri()})
    both = Installation(
        settings=installation.settings.model_copy(update={"file_roots": (root, second)}), root=installation.root
    )
    both.write("zebras.md", STRIPES)
    both.sync()
    assert len(both.points()) == 2
    other.rename(other.with_name("moved-away"))
    both.write("more.md", TAXES + "One more line.")
    run = both.sync()
    assert run.error is not None
    assert "other" in run.error
    assert {point["source_id"] for point in both.points()} == {"docs/zebras.md", "docs/more.md", "other/taxes.md"}
    assert both.rows("SELECT status FROM sync_jobs ORDER BY started_at DESC LIMIT 1") == [{"status": "failed"}]


def test_what_a_crash_left_of_an_earlier_version_is_cleared(installation: Installation) -> None:
    long = STRIPES + "\n".join(
        f"## Part {n}\n\nParagraph {n} tells of hay, straw and water in some detail.\n" for n in range(60)
    )
    installation.write("zebras.md", long)
    installation.sync()
    assert len(installation.points()) > 3
    installation.write("zebras.md", STRIPES)
    # The process dies after Postgres has the new chunks and before Qdrant has the points.
    installation.rows("DELETE FROM chunks RETURNING chunk_id")
    installation.rows("UPDATE index_entries SET content = '' RETURNING doc_id")
    installation.sync()
    assert len(installation.points()) == 1
    assert installation.agrees()


def test_a_file_gives_its_own_title_and_a_sidecar_a_better_one(installation: Installation) -> None:
    installation.write("a.md", STRIPES)
    installation.write("b.md", TAXES, title="What is due in May")
    installation.write("c.txt", TAXES + "More.")
    page = "<h2>Feeding the {}</h2><p>Hay at noon, water all day, and an apple on Sundays for those that behave.</p>"
    installation.write("index.html", page.format("zebras"))
    installation.write("feeding.html", page.format("lions"))
    installation.write("copy/index.html", page.format("lions"))
    installation.sync()
    titles = {point["source_id"]: point["title"] for point in installation.points()}
    assert titles == {
        "docs/a.md": "Zebra care",
        "docs/b.md": "What is due in May",
        "docs/c.txt": "c.txt",
        "docs/index.html": "Feeding the zebras",
        "docs/feeding.html": "feeding.html",
        "docs/copy/index.html": "Feeding the lions",
    }
    assert installation.sync().counts.synced == 0


def test_the_capacity_is_never_passed(installation: Installation) -> None:
    from resources.core.errors import CapacityError

    installation.write("zebras.md", STRIPES)
    installation.write("taxes.md", TAXES)
    full = Installation(settings=installation.settings.model_copy(update={"max_vectors": 1}), root=installation.root)
    with pytest.raises(CapacityError, match="CONCORDANCE_LIMITS__MAX_VECTORS=1"):
        full.sync()
    assert len(full.points()) <= 1
    assert installation.sync().error is None
    assert len(installation.points()) == 2
    assert installation.agrees()


def test_the_budget_stops_embedding_and_a_higher_one_goes_on(installation: Installation) -> None:
    from resources.core.errors import BudgetExceededError

    installation.write("zebras.md", STRIPES)
    dear = installation.settings.model_copy(update={"embedding_price": 1_000_000.0, "embedding_budget": 1.0})
    with pytest.raises(BudgetExceededError, match="CONCORDANCE_LIMITS__EMBEDDING_BUDGET"):
        Installation(settings=dear, root=installation.root).sync()
    assert installation.points() == []
    assert installation.rows("SELECT status FROM sync_jobs") == [{"status": "failed"}]
    richer = dear.model_copy(update={"embedding_budget": 1_000.0})
    run = Installation(settings=richer, root=installation.root).sync()
    assert (run.counts.embedded, len(installation.points())) == (1, 1)
    spent = installation.rows("SELECT texts, tokens, cost_usd FROM embedding_usage")
    assert spent == [{"texts": 1, "tokens": run.counts.tokens, "cost_usd": float(run.counts.tokens)}]


def test_the_index_learns_when_permissions_were_last_read(installation: Installation) -> None:
    installation.write("zebras.md", STRIPES)
    installation.sync()
    installation.rows("UPDATE partitions SET acl_indexed_at = acl_indexed_at - interval '1 day' RETURNING 1")
    (before,), points = installation.withheld().checked.values(), installation.points()
    run = installation.sync()
    assert run.counts.synced == 0
    (after,) = installation.withheld().checked.values()
    assert after is not None
    assert before is not None
    assert after > before
    assert installation.points() == points, "a check that finds nothing changed writes no point"


def test_the_index_learns_that_permissions_of_uploads_are_still_ours(installation: Installation) -> None:
    blob = Blobs(installation.settings.lake_address).put([STRIPES.encode()])
    with session(installation.settings.postgres_dsn) as connection:
        upload = NewUpload(
            owner="ada@acme.example",
            content_hash=blob.content_hash,
            size=blob.size,
            file_name="zebras.md",
            title=None,
            description=None,
            mime_type="text/markdown",
            permissions=[],
            tags={},
        )
        record(connection, upload)
    installation.sync(SourceName.UPLOAD)
    (before,) = installation.withheld().checked.values()
    installation.rows("UPDATE partitions SET acl_indexed_at = acl_indexed_at - interval '1 day' RETURNING 1")
    assert installation.sync(SourceName.UPLOAD).counts.synced == 0
    (after,) = installation.withheld().checked.values()
    assert after is not None
    assert before is not None
    assert after > before


def test_upkeep_changes_nothing_that_is_found(installation: Installation) -> None:
    from orchestration.maintenance import maintain

    for text in (STRIPES, TAXES):
        installation.write("zebras.md", text)
        installation.sync()
    done = maintain(installation.settings)
    assert done["tables_compacted"] >= 1
    before = installation.points()
    assert installation.sync().counts.synced == 0
    assert installation.points() == before
    assert installation.agrees()


def test_each_stage_is_shown_once_it_has_something_to_report(installation: Installation) -> None:
    shown: list[str] = []
    with open_sync(installation.settings, SourceName.FILES, requested_by="test") as job:
        for stage in STAGES:
            job.progress(stage)
            shown += [row["stage"] for row in installation.rows("SELECT stage FROM sync_jobs WHERE status = 'running'")]
    assert shown == list(STAGES)
