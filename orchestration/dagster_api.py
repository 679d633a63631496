"""Functions of Dagster whose own types are partly unknown, with the types that we need of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_dagster: Any = dg

asset_groups: Callable[..., dg.AssetSelection] = _dagster.AssetSelection.groups
define_asset_job: Callable[..., UnresolvedAssetJobDefinition] = _dagster.define_asset_job
run_failure_sensor: Callable[..., Callable[[Callable[..., None]], dg.SensorDefinition]] = _dagster.run_failure_sensor
schedule: Callable[..., Callable[[Callable[..., Any]], dg.ScheduleDefinition]] = _dagster.schedule
sensor: Callable[..., Callable[[Callable[..., Any]], dg.SensorDefinition]] = _dagster.sensor
to_job: Callable[..., dg.JobDefinition] = _dagster.GraphDefinition.to_job
