"""Dagster's functions whose own types are partly unknown, with the types that we need of them, and all that we use of its private modules.

Private modules may change with any release of Dagster. A test keeps every other module from importing them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.run_coordinator.base import SubmitRunContext
from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._core.storage.config import PostgresStorageConfig
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult, ExecuteRunArgs
from dagster._serdes import ConfigurableClassData, deserialize_value

__all__ = [
    "CODE_SERVER_TAG",
    "VERSION",
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "DagsterGrpcClient",
    "DefaultRunLauncher",
    "LaunchRunContext",
    "PostgresStorageConfig",
    "QueuedRunCoordinator",
    "SubmitRunContext",
    "UnresolvedAssetJobDefinition",
    "WorkerStatus",
    "WorkspaceFileTarget",
    "WorkspaceProcessContext",
    "WorkspaceRequestContext",
    "asset_groups",
    "code_server_runs",
    "define_asset_job",
    "execute_run_arguments",
    "run_executor",
    "run_failure_sensor",
    "run_status_sensor",
    "schedule",
    "sensor",
    "to_job",
]

VERSION = "1.13"
"""The release of Dagster that the private modules belong to. `pyproject.toml` admits no later one."""
CODE_SERVER_TAG = GRPC_INFO_TAG
"""Tag of a run that a code server executes in a process of its own: the address of that server."""
CODE_SERVER_SECONDS = 5

_dagster: Any = dg

asset_groups: Callable[..., dg.AssetSelection] = _dagster.AssetSelection.groups
define_asset_job: Callable[..., UnresolvedAssetJobDefinition] = _dagster.define_asset_job
run_failure_sensor: Callable[..., Callable[[Callable[..., None]], dg.SensorDefinition]] = _dagster.run_failure_sensor
run_status_sensor: Callable[..., Callable[[Callable[..., None]], dg.SensorDefinition]] = _dagster.run_status_sensor
schedule: Callable[..., Callable[[Callable[..., Any]], dg.ScheduleDefinition]] = _dagster.schedule
sensor: Callable[..., Callable[[Callable[..., Any]], dg.SensorDefinition]] = _dagster.sensor
to_job: Callable[..., dg.JobDefinition] = _dagster.GraphDefinition.to_job


def run_executor() -> Callable[..., int]:
    """Return the function with which `dagster api` executes a run. Imported here because only run workers need it."""
    from dagster._cli.api import _execute_run_command_body  # pyright: ignore[reportPrivateUsage]

    return _execute_run_command_body


def execute_run_arguments(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """Return the arguments with which `dagster api` executes a run, and fails if the run does."""
    origin: Any = run.job_code_origin
    described = ExecuteRunArgs(origin, run.run_id, instance.get_ref(), set_exit_code_on_failure=True)
    return list(described.get_command_args())[-2:]


def code_server_runs(client: DagsterGrpcClient, run_id: str) -> bool:
    """Return False if the code server answers that it executes no such run; a server that does not answer may execute it."""
    try:
        answer = client.can_cancel_execution(CanCancelExecutionRequest(run_id=run_id), timeout=CODE_SERVER_SECONDS)
    except DagsterUserCodeUnreachableError:
        return True
    return deserialize_value(answer, CanCancelExecutionResult).can_cancel
