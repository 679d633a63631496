"""The checks of a source without its sync, as the page of an asset in Dagster runs them."""

from __future__ import annotations

import dagster as dg

from orchestration.definitions import definitions
from resources.core.domain import SourceName
from resources.stores.leases import claim
from tests.fixtures.dagster_runs import DagsterRuns
from tests.fixtures.upkeep import do

CHECKS = "ledger_balances", "source_is_complete", "stores_agree"


def checked(runs: DagsterRuns) -> dict[str, bool]:
    """Run the checks alone, and return which pass."""
    keys = [dg.AssetCheckKey(dg.AssetKey(["files", "indexed"]), name) for name in CHECKS]
    job = definitions().resolve_job_def("sync_files").get_subset(asset_selection=set(), asset_check_selection=set(keys))
    result = job.execute_in_process(instance=runs.instance)
    return {one.check_name: one.passed for one in result.get_asset_check_evaluations()}


def test_checks_alone_look_at_the_latest_sync(dagster_runs: DagsterRuns) -> None:
    assert checked(dagster_runs) == dict.fromkeys(CHECKS, True)
    dagster_runs.installation.write("grey.txt", "The grey otter of the river sleeps until noon.\n")
    dagster_runs.sync()
    assert checked(dagster_runs) == dict.fromkeys(CHECKS, True)
    do(dagster_runs.installation, "UPDATE documents SET content_hash = 'x'")
    assert checked(dagster_runs) == dict.fromkeys(CHECKS, True) | {"stores_agree": False}
    assert len(dagster_runs.installation.rows("SELECT FROM sync_jobs")) == 1
    lease = claim(dagster_runs.installation.settings.postgres_dsn, SourceName.FILES.value, None, seconds=0)
    assert lease is not None, "the checks have kept it"
    lease.release()
