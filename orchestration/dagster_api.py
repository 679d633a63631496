"""Dagster's functions whose own types are partly unknown, with the types that we need of them, and all that we use of its private modules.

Private modules may change with any release of Dagster. A test keeps every other module from importing them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.config import PostgresStorageConfig
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._serdes import ConfigurableClassData

__all__ = [
    "VERSION",
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "DefaultRunLauncher",
    "LaunchRunContext",
    "PostgresStorageConfig",
    "UnresolvedAssetJobDefinition",
    "WorkerStatus",
    "WorkspaceFileTarget",
    "WorkspaceProcessContext",
    "WorkspaceRequestContext",
    "asset_groups",
    "define_asset_job",
    "run_executor",
    "run_failure_sensor",
    "schedule",
    "sensor",
    "to_job",
]

VERSION = "1.13"
"""The release of Dagster that the private modules belong to. `pyproject.toml` admits no later one."""

_dagster: Any = dg

asset_groups: Callable[..., dg.AssetSelection] = _dagster.AssetSelection.groups
define_asset_job: Callable[..., UnresolvedAssetJobDefinition] = _dagster.define_asset_job
run_failure_sensor: Callable[..., Callable[[Callable[..., None]], dg.SensorDefinition]] = _dagster.run_failure_sensor
schedule: Callable[..., Callable[[Callable[..., Any]], dg.ScheduleDefinition]] = _dagster.schedule
sensor: Callable[..., Callable[[Callable[..., Any]], dg.SensorDefinition]] = _dagster.sensor
to_job: Callable[..., dg.JobDefinition] = _dagster.GraphDefinition.to_job


def run_executor() -> Callable[..., int]:
    """Return the function with which `dagster api` executes a run. Imported here because only run workers need it."""
    from dagster._cli.api import _execute_run_command_body  # pyright: ignore[reportPrivateUsage]

    return _execute_run_command_body
