"""How many runs Dagster makes of a backfill, by its own planning in a real instance, and what those runs do."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import pytest
from dagster._core.definitions.automation_tick_evaluation_context import build_run_requests_with_backfill_policies
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.partitions.context import partition_loading_context

from orchestration.definitions import definitions
from resources.core.domain import STAGES
from resources.syncs.launch import BACKFILL_TAG
from tests.fixtures.dagster_runs import DagsterRuns


@pytest.fixture
def synced(dagster_runs: DagsterRuns) -> DagsterRuns:
    """Three roots with a document each, synced once; Dagster lists them in this order."""
    roots = ("docs", "minutes", "notes")
    dagster_runs.roots(*roots)
    for root in roots:
        (dagster_runs.installation.root.parent / root / "a.txt").write_text(f"The otter of {root} sleeps.\n")
    dagster_runs.sync()
    return dagster_runs


def requests(runs: DagsterRuns, partitions: Sequence[str]) -> list[dg.RunRequest]:
    """Return the runs that Dagster's daemon launches for a backfill of all five assets."""
    chosen = [AssetKeyPartitionKey(dg.AssetKey(["files", stage]), key) for stage in STAGES for key in partitions]
    graph = definitions().get_repository_def().asset_graph
    with partition_loading_context(dynamic_partitions_store=runs.instance):
        return list(build_run_requests_with_backfill_policies(chosen, graph, runs.instance))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (["docs", "minutes"], [["docs", "minutes"]]),
        (["docs", "minutes", "notes"], [["docs", "minutes", "notes"]]),
        (["docs", "notes"], [["docs"], ["notes"]]),
    ],
)
def test_a_backfill_is_one_run_for_neighbours_in_the_list(
    synced: DagsterRuns, chosen: list[str], expected: list[list[str]]
) -> None:
    found = requests(synced, chosen)
    assert [len(request.asset_selection or ()) for request in found] == [len(STAGES)] * len(expected)
    for request, partitions in zip(found, expected, strict=True):
        run = synced.run({**request.tags, BACKFILL_TAG: "test"})
        # an event of the asset as a whole would make Dagster's daemon fail the backfill
        assert {key for _, key in synced.materializations(run.run_id)} == set(partitions)
    jobs = synced.installation.rows(
        "SELECT partitions, status FROM sync_jobs WHERE requested_by = 'backfill' ORDER BY started_at"
    )
    assert jobs == [{"partitions": partitions, "status": "success"} for partitions in expected]
