"""Old runs leave Dagster's storage, in the real Postgres; what the catalog shows stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestration.erasure import daily_erasure
from orchestration.run_history import prune_runs
from tests.fixtures.dagster_runs import DagsterRuns, stored_instance
from tests.fixtures.installation import Installation
from tests.fixtures.upkeep import do


@pytest.fixture
def stored(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterRuns]:
    """Two roots and a Dagster instance in the database of the installation."""
    with stored_instance(installation.settings.postgres_dsn) as instance:
        made = DagsterRuns(installation, instance, monkeypatch)
        made.roots("docs", "notes")
        yield made


def write(runs: DagsterRuns, root: str, name: str) -> None:
    path = runs.installation.root.parent / root / f"{name}.txt"
    path.write_text(f"The {name} otter of {root} sleeps until noon.\n")


def age(runs: DagsterRuns, *run_ids: str, days: int = 40) -> None:
    do(
        runs.installation,
        "UPDATE dagster.runs SET create_timestamp = create_timestamp - make_interval(days => %s) WHERE run_id = ANY(%s)",
        days,
        list(run_ids),
    )


def count(runs: DagsterRuns, table: str, run_id: str) -> int:
    (row,) = runs.installation.rows(f"SELECT count(*) AS n FROM dagster.{table} WHERE run_id = %s", run_id)  # noqa: S608
    return row["n"]


def test_old_runs_go_with_their_events_and_partitions_stay_green(stored: DagsterRuns) -> None:
    write(stored, "docs", "grey")
    write(stored, "notes", "old")
    first = stored.sync().run_id
    write(stored, "docs", "brown")
    second = stored.sync().run_id
    idle, latest = stored.sync().run_id, stored.sync().run_id
    age(stored, first, second, idle)
    settings = stored.installation.settings
    assert count(stored, "event_logs", idle) > 10
    assert count(stored, "asset_check_executions", idle) == 3
    assert prune_runs(settings, stored.instance) == 1
    assert {run.run_id for run in stored.instance.get_runs()} == {first, second, latest}
    assert count(stored, "event_logs", idle) == count(stored, "asset_check_executions", idle) == 0
    assert count(stored, "asset_check_executions", latest) == 3
    assert stored.green("indexed") == stored.green("raw") == {"docs", "notes"}
    assert prune_runs(settings, stored.instance) == 0


def test_the_setting_decides_and_the_daily_job_deletes(stored: DagsterRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    idle, _ = stored.sync().run_id, stored.sync().run_id
    age(stored, idle, days=3)
    monkeypatch.setenv("CONCORDANCE_RETENTION__RUNS", "forever")
    assert daily_erasure.execute_in_process(instance=stored.instance).success
    assert stored.instance.has_run(idle)
    monkeypatch.setenv("CONCORDANCE_RETENTION__RUNS", "2d")
    assert daily_erasure.execute_in_process(instance=stored.instance).success
    assert not stored.instance.has_run(idle)
