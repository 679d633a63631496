"""The latest metadata of each asset, after runs in this process with real stores."""

from __future__ import annotations

import shutil
from typing import Any

import dagster as dg
import pytest

from assets.report import ONLY_IF_ANY, RUN_COUNTS
from assets.upkeep.registry import rebuild_registry
from resources.core.domain import STAGES, SourceName, document_id
from resources.core.errors import ServiceUnavailableError
from resources.stores.postgres import session
from resources.syncs.launch import RANGE_END_TAG, RANGE_START_TAG
from sql.alerts import Alerts
from tests.fixtures.dagster_runs import DagsterRuns

SECRETS = ("otter", "grey", "Larch", "ada@acme.example", "quarterly")
"""Words of titles, texts, names and owners of the documents below."""


@pytest.fixture
def synced(dagster_runs: DagsterRuns) -> DagsterRuns:
    """Three documents, one of which has no text, synced twice: the second run finds nothing to do."""
    write = dagster_runs.installation.write
    write("grey.txt", "The grey otter of the river sleeps until noon.\n", title="Larch quarterly")
    write("Larch/otter.md", "# Otters\n\nThe otter of Larch wakes at noon.\n")
    write("grey.docx", b"PK no archive of the grey otter")
    dagster_runs.sync()
    dagster_runs.sync()
    return dagster_runs


def latest(runs: DagsterRuns, stage: str) -> dict[str, Any]:
    """Return the metadata that the catalog shows for an asset."""
    event = runs.instance.get_latest_materialization_event(dg.AssetKey(["files", stage]))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.partition is None
    return dict(event.asset_materialization.metadata)


def test_it_is_the_state_of_the_asset_and_what_the_last_run_changed(synced: DagsterRuns) -> None:
    rows = {stage: latest(synced, stage)["dagster/row_count"].value for stage in STAGES}
    assert rows == {"raw": 3, "parsed": 2, "chunked": 2, "embedded": 2, "indexed": 2}
    raw = latest(synced, "raw")
    totals = {name: value.value for name, value in raw.items() if name.startswith("total/")}
    assert totals == {"total/documents": 3, "total/documents_skipped": 1, "total/documents_failed": 0}
    for stage in STAGES:
        found = latest(synced, stage)
        counts = {name: value.value for name, value in found.items() if name.startswith("run/")}
        assert counts.pop("run/busy_seconds") >= 0, stage
        expected = {f"run/{name}": 0 for name in RUN_COUNTS[stage].values() if name not in ONLY_IF_ANY}
        assert counts == (expected | {"run/documents_seen": 3} if stage == "raw" else expected), stage
        assert found["sources_command"].value == "concordance status"
        assert found["sources"].value.endswith("/api/sources")


def test_a_backfill_leaves_the_state_of_the_asset_too(synced: DagsterRuns) -> None:
    synced.backfill("docs", "notes")
    assert {stage: latest(synced, stage)["dagster/row_count"].value for stage in STAGES} == {
        "raw": 3, "parsed": 2, "chunked": 2, "embedded": 2, "indexed": 2
    }  # fmt: skip


def test_it_names_the_table_and_its_columns(synced: DagsterRuns) -> None:
    settings = synced.installation.settings
    uris = {stage: str(latest(synced, stage)["dagster/uri"].value) for stage in STAGES}
    for stage, table in {"raw": "raw_files", "parsed": "parsed", "chunked": "chunked"}.items():
        assert uris[stage] == f"{settings.lake_address}/tables/{table}"
    assert uris["embedded"].startswith(f"{settings.lake_address}/tables/embedded_")
    assert uris["indexed"].startswith(f"{settings.qdrant_address}/collections/")
    for stage in STAGES:
        schema = latest(synced, stage)["dagster/column_schema"].value
        assert isinstance(schema, dg.TableSchema)
        assert len(schema.columns) > 4
        assert all(column.type and column.description for column in schema.columns), stage


def test_samples_contain_no_text_and_no_names(synced: DagsterRuns) -> None:
    for stage in STAGES:
        found = latest(synced, stage)
        sample = found["sample"]
        assert isinstance(sample, dg.TableMetadataValue)
        assert sample.records
        shown = dg.serialize_value(dg.AssetMaterialization("x", metadata=found))
        assert [word for word in SECRETS if word in shown] == [], stage
    (one, *_) = latest(synced, "chunked")["sample"].records
    assert one.data["text"].endswith(" characters")
    assert one.data["tokens"] > 5


def test_a_skipped_document_is_named_by_its_id_only(dagster_runs: DagsterRuns) -> None:
    dagster_runs.installation.write("grey.docx", b"PK no archive of the grey otter")
    dagster_runs.sync()
    table = latest(dagster_runs, "raw")["skipped_and_failed"]
    assert isinstance(table, dg.TableMetadataValue)
    (row,) = [record.data for record in table.records]
    assert row == {
        "partition": "",
        "document": document_id(SourceName.FILES, "docs/grey.docx"),
        "outcome": "skipped",
        "kind": "unsupported",
    }
    assert "skipped_and_failed" not in latest(dagster_runs, "parsed")


def test_tokens_and_cost_are_shown_where_they_occur(dagster_runs: DagsterRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    dagster_runs.installation.write("grey.txt", "The grey otter of the river sleeps until noon.\n")
    dagster_runs.sync()
    assert latest(dagster_runs, "embedded")["run/tokens_embedded"].value > 5
    assert "run/cost_usd" not in latest(dagster_runs, "embedded")
    for stage in ("raw", "parsed", "indexed"):
        assert not [name for name in latest(dagster_runs, stage) if "token" in name or "cost" in name]
    monkeypatch.setenv("CONCORDANCE_LIMITS__EMBEDDING_PRICE", "1000")
    dagster_runs.installation.write("new.txt", "A new otter of the river wakes at noon.\n")
    dagster_runs.sync()
    assert latest(dagster_runs, "embedded")["run/cost_usd"].value > 0.001


def test_each_stage_says_how_long_it_was_busy_in_dagster_and_in_the_job(dagster_runs: DagsterRuns) -> None:
    dagster_runs.installation.write("grey.txt", "The grey otter of the river sleeps until noon.\n")
    dagster_runs.installation.write("grey.docx", b"PK no archive of the grey otter")
    found = dagster_runs.materializations(dagster_runs.sync().run_id)
    (job,) = dagster_runs.installation.rows("SELECT stages, completed_at - started_at AS took FROM sync_jobs")
    assert job["stages"].keys() == set(STAGES)
    for stage, work in job["stages"].items():
        assert found[stage, None]["run/busy_seconds"] == pytest.approx(work["seconds"], abs=0.001)
        assert 0 < work["seconds"] <= job["took"].total_seconds(), stage
    assert {stage: work["rows"] for stage, work in job["stages"].items()} == {
        "raw": 1, "parsed": 1, "chunked": 1, "embedded": 1, "indexed": 1
    }  # fmt: skip
    assert job["stages"]["embedded"]["tokens"] > 5
    figures = dagster_runs.installation.rows(
        "SELECT label, value FROM sync_figures WHERE what = 'stage_seconds' AND source = 'files'"
    )
    assert {one["label"]: one["value"] for one in figures} == {
        stage: work["seconds"] for stage, work in job["stages"].items()
    }


def test_a_sync_is_one_step_that_materializes_what_it_did(synced: DagsterRuns) -> None:
    result = synced.sync()
    steps = {event.step_key for event in result.all_events if event.is_step_start}
    assert steps == {
        "files",
        *(f"files__indexed_{check}" for check in ("ledger_balances", "source_is_complete", "stores_agree")),
    }
    assert {stage for stage, _ in synced.materializations(result.run_id)} == set(STAGES)


def test_a_backfill_of_one_stage_does_that_stage_alone(dagster_runs: DagsterRuns) -> None:
    dagster_runs.sync()  # makes the partitions known
    dagster_runs.installation.write("grey.txt", "The grey otter of the river sleeps until noon.\n")
    dagster_runs.only("raw", "docs")
    assert dagster_runs.installation.points() == []
    (job,) = dagster_runs.installation.rows("SELECT stages FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert job["stages"].keys() == {"raw"}
    found = dagster_runs.materializations(dagster_runs.only("parsed", "docs").run_id)
    assert {stage for stage, _ in found} == {"parsed"}
    assert found["parsed", "docs"]["partition_run/texts_parsed"] == 1
    assert dagster_runs.installation.points() == []
    for stage in ("chunked", "embedded", "indexed"):
        dagster_runs.only(stage, "docs")
    assert len(dagster_runs.installation.points()) == 1


def test_a_backfill_of_an_early_stage_fails_if_a_partition_cannot_be_listed(dagster_runs: DagsterRuns) -> None:
    dagster_runs.roots("docs", "notes", "plans")
    dagster_runs.sync()
    shutil.rmtree(dagster_runs.installation.root.parent / "notes")
    result = dagster_runs.run(
        {RANGE_START_TAG: "docs", RANGE_END_TAG: "plans"},
        succeeds=False,
        asset_selection=[dg.AssetKey(["files", "raw"])],
    )
    (job,) = dagster_runs.installation.rows("SELECT error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert said(result) == job["error_message"]


@pytest.mark.parametrize("place", ["asset", "check"])
def test_an_error_outside_of_the_stages_is_shown_without_its_causes(
    dagster_runs: DagsterRuns, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def fails(*_: Any, **_more: Any) -> None:
        raise ServiceUnavailableError("Qdrant does not answer.") from KeyError(SECRETS[0])

    where = "resources.bindings.open_sync" if place == "asset" else "assets.index.agreement.ledger"
    monkeypatch.setattr(where, fails)
    result = dagster_runs.sync(succeeds=False)
    assert said(result) == "Qdrant does not answer."
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert SECRETS[0] not in str(failed.step_failure_data.error)


def test_work_that_does_not_list_the_source_is_no_good_sync_of_it(dagster_runs: DagsterRuns) -> None:
    installation = dagster_runs.installation
    installation.write("grey.txt", "The grey otter of the river sleeps until noon.\n")
    dagster_runs.sync()
    (document,) = installation.rows("SELECT source_id FROM documents")
    installation.rows(
        "INSERT INTO sync_jobs (source, status, error_message, completed_at)"
        " SELECT 'files', 'failed', 'x', now() FROM generate_series(1, 3) RETURNING 1"
    )
    for config in ({"documents": [document["source_id"]]}, {"stages": ["parsed", "indexed"]}):
        dagster_runs.sync(run_config={"resources": {"syncs": {"config": config}}})
    rebuild_registry(installation.settings, SourceName.FILES)
    assert failures(dagster_runs) == 3
    dagster_runs.sync()
    assert failures(dagster_runs) == 0


def failures(runs: DagsterRuns) -> int:
    """Return the number of failed syncs since the latest good one."""
    with session(runs.installation.settings.postgres_dsn) as connection:
        (health,) = [one for one in Alerts(connection).sync_health() if one.source == "files"]
    return health.failures


def said(result: dg.ExecuteInProcessResult) -> str | None:
    """Return the sentence with which the only step that failed did so."""
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    given = failed.step_failure_data.user_failure_data
    return None if given is None else given.description


def test_a_stage_before_the_others_says_which_run_makes_what_it_lacks(dagster_runs: DagsterRuns) -> None:
    dagster_runs.sync()
    dagster_runs.installation.write("grey.txt", "The grey otter of the river sleeps until noon.\n")
    dagster_runs.only("raw", "docs")
    for stage, table in {"parsed": "chunked", "chunked": "embedded_"}.items():
        dagster_runs.only(stage, "docs")
        dagster_runs.only("indexed", "docs", succeeds=False)
        (job,) = dagster_runs.installation.rows("SELECT error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
        said = job["error_message"]
        assert f"The table {table}" in said
        assert "Run all five assets, or `concordance sync files --wait`." in said
        assert "lost" not in said
    dagster_runs.sync()
    assert len(dagster_runs.installation.points()) == 1


def test_what_a_run_leaves_to_the_next_is_said_as_by_the_sync(
    dagster_runs: DagsterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grey", "brown", "black"):
        dagster_runs.installation.write(f"{name}.txt", f"The {name} otter of the river sleeps until noon.\n")
    dagster_runs.sync()
    assert "remaining" not in latest(dagster_runs, "indexed")
    monkeypatch.setenv("CONCORDANCE_LIMITS__REINDEX_DOCUMENTS", "1")
    dagster_runs.sync(run_config={"resources": {"syncs": {"config": {"full": True}}}})
    said = "1 document was indexed again, and 2 are left: "
    assert latest(dagster_runs, "indexed")["remaining"].value == warning(dagster_runs)
    assert warning(dagster_runs).startswith(said)
    dagster_runs.sync()
    dagster_runs.sync()
    assert "remaining" not in latest(dagster_runs, "indexed")
    found = dagster_runs.materializations(dagster_runs.backfill("docs", "docs").run_id)
    assert found["indexed", "docs"]["remaining"] == warning(dagster_runs)
    assert warning(dagster_runs).startswith(said)


def warning(runs: DagsterRuns) -> str:
    """Return the warning of the latest sync."""
    (row,) = runs.installation.rows(
        "SELECT e.reason FROM sync_errors AS e JOIN sync_jobs AS j USING (job_id) WHERE e.outcome = 'warning'"
        " ORDER BY j.started_at DESC LIMIT 1"
    )
    return row["reason"]
