"""What Dagster shows of a source's partitions, after runs in this process with real stores."""

from __future__ import annotations

import shutil
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from assets import report
from orchestration.definitions import definitions
from orchestration.maintenance import weekly_upkeep
from orchestration.supervision.launcher import whole_source
from resources.core.domain import STAGES
from resources.stores.postgres import session
from resources.syncs.launch import PARTITION_TAG, RANGE_END_TAG, RANGE_START_TAG, WHOLE
from tests.fixtures.dagster_runs import DagsterRuns


def write(runs: DagsterRuns, root: str, *names: str) -> None:
    for name in names:
        path = runs.installation.root.parent / root / f"{name}.txt"
        path.write_text(f"The {name} otter of {root} sleeps until noon.\n")


@pytest.fixture
def synced(dagster_runs: DagsterRuns) -> DagsterRuns:
    """Three documents in `docs` and one in `notes`, synced once."""
    write(dagster_runs, "docs", "grey", "brown", "small")
    write(dagster_runs, "notes", "old")
    dagster_runs.sync()
    return dagster_runs


def test_a_partition_carries_its_own_counts(dagster_runs: DagsterRuns) -> None:
    write(dagster_runs, "docs", "grey", "brown", "small")
    write(dagster_runs, "notes", "old")
    found = dagster_runs.materializations(dagster_runs.sync().run_id)
    for stage in STAGES:
        assert found[stage, "docs"]["dagster/partition_row_count"] == 3, stage
        assert found[stage, "notes"]["dagster/partition_row_count"] == 1, stage
    expected = {"raw": "contents_fetched", "parsed": "texts_parsed", "chunked": "passages_made",
                "embedded": "passages_embedded", "indexed": "documents_indexed"}  # fmt: skip
    for stage, name in expected.items():
        counts = [found[stage, key][f"partition_run/{name}"] for key in ("docs", "notes")]
        assert counts == [3, 1], stage


def test_a_change_in_one_partition_is_recorded_there_only(synced: DagsterRuns) -> None:
    write(synced, "notes", "new")
    found = synced.materializations(synced.sync().run_id)
    assert {key for _, key in found} == {None, "notes"}
    assert found["raw", "notes"]["partition_run/contents_fetched"] == 1
    assert found["raw", "notes"]["partition/documents"] == 2


def test_a_backfill_of_two_partitions_gives_each_its_own_counts(synced: DagsterRuns) -> None:
    write(synced, "docs", "late")
    found = synced.materializations(synced.backfill("docs", "notes").run_id)
    assert {key for _, key in found} == {None, "docs", "notes"}
    assert found["raw", "docs"]["partition_run/contents_fetched"] == 1
    assert found["raw", "notes"]["partition_run/contents_fetched"] == 0
    assert found["indexed", "docs"]["partition_run/documents_indexed"] == 4
    assert found["indexed", "notes"]["partition_run/documents_indexed"] == 1
    assert found["indexed", "docs"]["dagster/partition_row_count"] == 4


def test_a_run_over_the_whole_source_needs_no_partition_of_its_own(synced: DagsterRuns) -> None:
    assert synced.partitions() == {"docs", "notes"}
    for stage in STAGES:
        assert synced.green(stage) == {"docs", "notes"}
    # a list of an earlier version has one
    synced.instance.add_dynamic_partitions("files", [WHOLE, "*"])
    synced.sync()
    assert synced.partitions() == {"docs", "notes"}


@pytest.mark.parametrize(
    ("tags", "added"),
    [
        ({}, {PARTITION_TAG: WHOLE}),
        ({PARTITION_TAG: "docs"}, {}),
        ({RANGE_START_TAG: "docs", RANGE_END_TAG: "notes"}, {}),
    ],
)
def test_a_sync_that_names_no_partition_is_one_over_the_whole_source(
    dagster_runs: DagsterRuns, tags: dict[str, str], added: dict[str, str]
) -> None:
    dagster_runs.instance.add_dynamic_partitions("files", ["docs", "notes"])
    job = definitions().resolve_job_def("sync_files")
    assert whole_source(dagster_runs.instance.create_run_for_job(job, tags=tags)) == added
    assert whole_source(dagster_runs.instance.create_run_for_job(weekly_upkeep)) == {}


def test_a_removed_root_is_not_green(synced: DagsterRuns) -> None:
    synced.roots("docs")
    found = synced.materializations(synced.sync().run_id)
    assert synced.partitions() == synced.green("indexed") == {"docs"}
    assert "notes" not in {key for _, key in found}
    synced.roots("docs", "notes")
    synced.sync()
    assert synced.partitions() == synced.green("indexed") == {"docs", "notes"}


def test_a_partition_stays_in_the_list_while_a_backfill_of_it_runs(synced: DagsterRuns) -> None:
    synced.roots("docs")
    found = synced.materializations(synced.backfill("docs", "notes").run_id)
    assert found["indexed", "docs"]["partition/documents"] == 3
    assert all(found[stage, "notes"] == {"partition/gone": True} for stage in STAGES)
    assert synced.partitions() == {"docs", "notes"}
    synced.sync()
    assert synced.partitions() == synced.green("raw") == {"docs"}


def test_a_partition_stays_in_the_list_while_a_run_or_a_backfill_of_it_waits(synced: DagsterRuns) -> None:
    instance = synced.instance
    job = definitions().resolve_job_def("sync_files")
    waiting = instance.create_run_for_job(job, tags={PARTITION_TAG: "notes"}, status=dg.DagsterRunStatus.STARTING)
    backfill = PartitionBackfill("waiting", BulkActionStatus.REQUESTED, False, {}, backfill_timestamp=0.0)
    instance.add_backfill(backfill)
    synced.roots("docs")
    synced.sync()
    assert synced.partitions() == {"docs", "notes"}
    instance.report_run_canceled(waiting)
    synced.sync()
    assert synced.partitions() == {"docs", "notes"}
    instance.update_backfill(backfill._replace(status=BulkActionStatus.COMPLETED_SUCCESS))
    synced.sync()
    assert synced.partitions() == {"docs"}


def test_a_root_that_was_emptied_and_then_removed_is_not_green(synced: DagsterRuns) -> None:
    shutil.rmtree(synced.installation.root.parent / "notes")
    synced.roots("docs", "notes")
    synced.sync()
    assert synced.partitions() == {"docs", "notes"}
    synced.roots("docs")
    synced.sync()
    assert synced.partitions() == synced.green("raw") == {"docs"}


def test_a_partition_that_another_run_has_just_added_stays(
    synced: DagsterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of = report.rows_of

    def meanwhile(*given: Any) -> Any:
        synced.installation.rows(
            "INSERT INTO partitions (source, partition) VALUES ('files', 'new') ON CONFLICT DO NOTHING RETURNING source"
        )
        synced.instance.add_dynamic_partitions("files", ["new"])
        return rows_of(*given)

    monkeypatch.setattr(report, "rows_of", meanwhile)
    synced.sync()
    assert synced.partitions() == {"docs", "notes", "new"}


def test_partitions_have_names_beside_their_ids(synced: DagsterRuns) -> None:
    with session(synced.installation.settings.postgres_dsn) as connection:
        connection.execute("UPDATE partitions SET title = 'Harbour notes' WHERE partition = 'notes'")
    write(synced, "notes", "new")
    found = synced.materializations(synced.sync().run_id)
    assert found["embedded", "notes"]["partition/name"] == "Harbour notes"
    rows = [record.data for record in found["raw", None]["partitions"].records]
    assert [(row["partition"], row["name"], row["documents"]) for row in rows] == [
        ("docs", "", 3),
        ("notes", "Harbour notes", 2),
    ]
