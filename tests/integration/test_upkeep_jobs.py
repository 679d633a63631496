"""Upkeep checks and jobs, run by Dagster in this process with real stores."""

from __future__ import annotations

import dagster as dg
import pytest
from pydantic import SecretStr

from assets.index import agreement
from orchestration.asset_checks import completeness_metadata
from orchestration.definitions import definitions
from orchestration.reconciliation import JOBS, SCHEDULES, reconcile_all
from resources.bindings import Syncs
from resources.core.domain import SourceName
from resources.sources import names
from resources.stores.postgres import session
from resources.syncs.jobs import hold
from resources.syncs.launch import PARTITION_TAG, WHOLE
from sql.upkeep import Checks
from sql.upkeep_rows import Completeness
from tests.fixtures.installation import Installation
from tests.fixtures.shelf import Shelf
from tests.fixtures.upkeep import as_environment, do

FILES, SLACK = SourceName.FILES, SourceName.SLACK


def ledger(installation: Installation, source: SourceName) -> list[Completeness]:
    with session(installation.settings.postgres_dsn) as connection:
        return Checks(connection, source.value).completeness()


def test_the_ledger_of_completeness_counts_every_partition(installation: Installation) -> None:
    shelf = Shelf()
    for number in range(10):
        shelf.put(f"a{number}", "lake")
        shelf.put(f"b{number}", "pond")
    installation.sync(SLACK, port=shelf)
    rows = ledger(installation, SLACK)
    assert [(row.partition, row.source_count, row.live, row.complete) for row in rows] == [
        ("lake", 10, 10, True),
        ("pond", 10, 10, True),
    ]
    for number in range(9):
        del shelf.items["pond"][f"b{number}"]
    installation.sync(SLACK, port=shelf, full=True)
    pond = ledger(installation, SLACK)[1]
    assert (pond.source_count, pond.live, pond.held, pond.complete) == (1, 10, 9, True)
    do(installation, "DELETE FROM documents WHERE source_id = 'a3'")
    first = ledger(installation, SLACK)[0]
    assert (first.partition, first.source_count, first.live, first.complete) == ("lake", 10, 9, False)
    metadata = completeness_metadata(ledger(installation, SLACK))
    assert (metadata["partitions"], metadata["incomplete"]) == (2, 1)
    do(installation, "UPDATE partitions SET source_count = NULL")
    assert all(row.complete for row in ledger(installation, SLACK)), "an unknown count is no fault"


def test_a_sync_in_dagster_ends_with_its_checks(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    as_environment(installation, monkeypatch)
    installation.write("a.txt", "The otter of the river sleeps until noon.\n")
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions().resolve_job_def("sync_files")
        result = job.execute_in_process(instance=instance, tags={PARTITION_TAG: WHOLE}, resources={"syncs": Syncs()})
    found = {one.check_name: one for one in result.get_asset_check_evaluations()}
    assert {name: one.passed for name, one in found.items()} == {
        "ledger_balances": True,
        "stores_agree": True,
        "source_is_complete": True,
    }
    assert found["stores_agree"].metadata["partitions_with_other_contents"].value == "none"
    table = found["source_is_complete"].metadata["ledger"]
    assert isinstance(table, dg.TableMetadataValue)
    assert table.records[0].data == {
        "partition": "docs", "title": "", "source_count": 1, "live": 1, "skipped": 0, "failed": 0, "held": 0
    }  # fmt: skip


def test_the_ledger_of_a_sync_leaves_out_what_other_syncs_have_in_hand(installation: Installation) -> None:
    installation.write("a.txt", "The otter of the river sleeps until noon.\n")
    installation.sync()
    do(installation, "UPDATE index_entries SET content = ''")
    do(
        installation,
        "INSERT INTO index_work (doc_id, source) SELECT doc_id, source FROM documents ON CONFLICT DO NOTHING",
    )
    with hold(installation.settings, FILES) as stores:
        found = [agreement.ledger(stores, partitions) for partitions in (None, ["docs"], ["other"])]
    assert [(counts["live"], counts["unfinished"]) for counts in found] == [(1, 1), (1, 1), (1, 0)]


@pytest.mark.parametrize("job", JOBS, ids=[job.name for job in JOBS])
def test_each_job_reports_by_source(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, job: dg.JobDefinition
) -> None:
    as_environment(installation, monkeypatch)
    installation.write("a.txt", "The otter of the river sleeps until noon.\n")
    installation.sync()
    result = job.execute_in_process()
    (output,) = [event for event in result.all_node_events if event.is_successful_output]
    reports = {name: value.value for name, value in output.step_output_data.metadata.items()}
    everything = {source.value for source in names()}
    configured = {"files", "push", "upload"}  # the others are not set up
    assert set(reports) == (everything if job.name == "daily_deletion_sweep" else configured)
    assert job.name in {schedule.job_name for schedule in SCHEDULES}


def test_one_source_that_fails_does_not_stop_the_others(installation: Installation) -> None:
    settings = installation.settings.model_copy(
        update={"slack_bot_token": SecretStr("xoxb-1"), "slack_api_url": "http://127.0.0.1:9", "retry_seconds": ()}
    )
    reports = reconcile_all(settings)
    assert set(reports) == {"files", "push", "upload", "slack"}
    assert reports["slack"].get("error") or reports["slack"]["unlisted"]
    assert reports["files"]["error"] is None
