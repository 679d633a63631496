"""What the catalog says of every definition: owner, tags, kinds, description, freshness."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap

from assets import catalog
from assets.factory import outside_key
from orchestration.definitions import definitions
from resources.core.domain import STAGES, SourceName
from resources.sources import names, spec_of
from resources.sources.stored import storable

NOT_SET_UP = ("google_drive", "slack")
BUILT_IN = {"__ASSET_JOB"}
"""Jobs that Dagster adds."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> dg.RepositoryDefinition:
    """Definitions of an installation without Drive and Slack."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("empty"))  # no .env
        for name in ("DRIVE_TOKEN", "GOOGLE_CLIENT_ID", "GOOGLE_SERVICE_ACCOUNT_FILE", "SLACK_BOT_TOKEN"):
            patch.delenv(f"CONCORDANCE_{name}", raising=False)
        return definitions().get_repository_def()


def test_assets(repository: dg.RepositoryDefinition) -> None:
    specs = {
        spec.key.to_user_string(): spec for assets in repository.assets_defs_by_key.values() for spec in assets.specs
    }
    own = {f"{source}/{stage}" for source in names() for stage in ("source", *STAGES)}
    assert specs.keys() == own | {"relevance_evaluation"}
    for name, spec in specs.items():
        assert tuple(spec.owners) == catalog.OWNERS, name
        assert 0 < len(spec.kinds) <= 3, name
        assert spec.description, name
        assert {tag for tag in spec.tags if tag.startswith("concordance/")}, name
        assert spec.group_name


@pytest.mark.parametrize("source", names())
def test_a_source_is_upstream_of_its_first_stage(repository: dg.RepositoryDefinition, source: SourceName) -> None:
    graph = repository.asset_graph
    outside = graph.get(outside_key(source))
    assert outside.is_external
    assert outside.child_keys == {dg.AssetKey([source, "raw"])}


@pytest.mark.parametrize("source", names())
def test_sources_that_are_not_set_up_are_marked_and_off(repository: dg.RepositoryDefinition, source: str) -> None:
    off = source in NOT_SET_UP
    for stage in STAGES:
        spec = repository.assets_defs_by_key[dg.AssetKey([source, stage])].get_asset_spec(dg.AssetKey([source, stage]))
        assert spec.tags[catalog.SET_UP_TAG] == ("no" if off else "yes")
        assert (spec.description or "").startswith("**Not set up.**") == off
        assert (spec.freshness_policy is None) == off
        assert spec.tags[catalog.STAGE_TAG] == stage
    schedule = repository.get_schedule_def(f"sync_{source}_schedule")
    off_for_good = off and not storable(
        spec_of(SourceName(source))
    )  # the others may be set up in the browser meanwhile
    assert (schedule.default_status == dg.DefaultScheduleStatus.STOPPED) == off_for_good
    assert ("Off: " in (schedule.description or "")) == off_for_good
    for sensor in repository.sensor_defs:
        if sensor.name.endswith(source):
            expected = off_for_good if sensor.name == f"waiting_events_{source}" else off
            assert (sensor.default_status == dg.DefaultSensorStatus.STOPPED) == expected


@pytest.mark.parametrize("source", names())
def test_runs_that_prepare_documents_share_the_pool_of_their_source(
    repository: dg.RepositoryDefinition, source: str
) -> None:
    (node,) = repository.get_job(f"prepare_{source}").all_node_defs
    assert isinstance(node, dg.OpDefinition)
    assert node.pool == source


def test_checks(repository: dg.RepositoryDefinition) -> None:
    specs = [spec for assets in repository.asset_checks_defs_by_key.values() for spec in assets.check_specs]
    assert len(specs) >= 3 * len(names())
    for spec in specs:
        assert spec.description, spec
        assert spec.metadata["owner"] == catalog.OWNERS[0], spec


def test_jobs_schedules_and_sensors(repository: dg.RepositoryDefinition) -> None:
    jobs = [job for job in repository.get_all_jobs() if job.name not in BUILT_IN]
    assert len(jobs) > len(names())
    for one in (*jobs, *repository.schedule_defs, *repository.sensor_defs):
        assert one.description, one.name
        assert catalog.PURPOSE_TAG in one.tags, one.name
        if isinstance(one, dg.RunStatusSensorDefinition):  # Dagster has no owners of these
            assert "owner" in one.metadata, one.name
        else:
            assert tuple(one.owners or ()) == catalog.OWNERS, one.name


def test_the_webserver_can_read_them(repository: dg.RepositoryDefinition) -> None:
    assert dg.serialize_value(RepositorySnap.from_def(repository))


def test_names_do_not_depend_on_settings(monkeypatch: pytest.MonkeyPatch, repository: dg.RepositoryDefinition) -> None:
    monkeypatch.setenv("CONCORDANCE_SYNC_MINUTES", "7")
    other = definitions().get_repository_def()
    assert [one.name for one in other.schedule_defs] == [one.name for one in repository.schedule_defs]
    assert other.get_schedule_def("sync_files_schedule").cron_schedule == "*/7 * * * *"
