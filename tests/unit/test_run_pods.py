"""The cluster grants the run launcher what it asks for: an API with the overlay's role refuses the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import dagster_k8s.client
import pytest
import yaml
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster_k8s.client import DagsterK8sAPIRetryLimitExceeded, DagsterK8sUnrecoverableAPIError
from kubernetes.client import ApiException, V1Job, V1JobStatus, V1ObjectMeta, V1Pod, V1PodList
from urllib3.exceptions import MaxRetryError

from deploy import manifests
from orchestration.dagster_api import WorkerStatus
from orchestration.supervision.pods import ATTEMPTS, PodRunLauncher

FOLDER = manifests.FOLDER / "kubernetes/overlays/cluster"
_CALL = re.compile(r"(create|read|list|delete|patch|replace)_namespaced_(job_status|pod_log|job|pod|event)")
CALLS = 4
"""Calls of one attempt of Dagster's."""
VERBS = {"read": "get", "replace": "update"}
RESOURCES = {"job_status": "jobs/status", "pod_log": "pods/log"}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "current-context": "none",
}


class Cluster:
    """Jobs with a pod each, for an account with a role. Like Kubernetes' own API, it keeps the pod of a job that is deleted."""

    def __init__(self, role: dict[str, Any]) -> None:
        self._granted = {
            (verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]
        }
        self.faults: list[Exception] = []
        """Raised by the next calls, before these take place."""
        self.jobs: dict[str, V1Job] = {}
        self.pods: dict[str, V1Pod] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = _CALL.fullmatch(name)
        if found is None:
            raise AttributeError(name)
        verb, kind = found.groups()
        right = VERBS.get(verb, verb), RESOURCES.get(kind, f"{kind}s")
        if self.faults:
            raise self.faults.pop(0)
        return getattr(self, f"_{verb}_{kind}") if right in self._granted else self._refuse

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ApiException(status=403, reason="Forbidden")

    def _create_job(self, body: Any, **_: Any) -> None:
        name = body.metadata.name
        if name in self.jobs:
            raise ApiException(status=409, reason="Conflict")
        self.jobs[name] = body
        self.pods[f"{name}-x"] = V1Pod(metadata=V1ObjectMeta(name=f"{name}-x"))

    def _read_job_status(self, name: str, **_: Any) -> V1Job:
        if name not in self.jobs:
            raise ApiException(status=404, reason="Not Found")
        return V1Job(metadata=V1ObjectMeta(name=name), status=V1JobStatus(active=1))

    def _delete_job(self, name: str, **_: Any) -> None:
        del self.jobs[name]

    def _list_pod(self, *_: Any, **__: Any) -> V1PodList:
        return V1PodList(items=list(self.pods.values()))

    def _delete_pod(self, name: str, **_: Any) -> None:
        del self.pods[name]


@pytest.fixture
def cluster() -> Cluster:
    (role,) = (one for one in manifests.rendered("cluster") if one["kind"] == "Role")
    return Cluster(role)


@pytest.fixture
def launcher(cluster: Cluster, tmp_path: Path) -> PodRunLauncher:
    given = yaml.safe_load((FOLDER / "dagster.yaml").read_text())["run_launcher"]["config"]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
    here = {"load_incluster_config": False, "kubeconfig_file": str(tmp_path / "kubeconfig")}
    return PodRunLauncher(**given | here, k8s_client_batch_api=cluster, k8s_client_core_api=cluster)


@pytest.fixture
def run(launcher: PodRunLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterRun]:
    """A run in progress, for a launcher that does not wait between its attempts."""
    monkeypatch.setattr(dagster_k8s.client, "time", SimpleNamespace(sleep=lambda _: None))
    origin = RepositoryPythonOrigin("python", ModuleCodePointer("orchestration.definitions", "defs"))
    made = DagsterRun(
        "sync_files", job_code_origin=JobPythonOrigin("sync_files", origin), status=DagsterRunStatus.STARTED
    )
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        launcher.register_instance(instance)
        instance.add_run(made)
        yield made


def away(calls: int) -> list[Exception]:
    return [ApiException(status=503, reason="Service Unavailable") for _ in range(calls)]


def test_a_run_that_is_terminated_leaves_no_pod(cluster: Cluster, launcher: PodRunLauncher, run: DagsterRun) -> None:
    launcher.launch_run(LaunchRunContext(run, None))
    assert (len(cluster.jobs), len(cluster.pods)) == (1, 1)
    assert launcher.check_run_worker_health(run).status == WorkerStatus.RUNNING
    assert launcher.terminate(run.run_id)
    assert (cluster.jobs, cluster.pods) == ({}, {})


def test_a_run_is_launched_once_the_api_answers_again(
    cluster: Cluster, launcher: PodRunLauncher, run: DagsterRun
) -> None:
    cluster.faults = away(CALLS * (ATTEMPTS - 1))
    launcher.launch_run(LaunchRunContext(run, None))
    assert (len(cluster.jobs), cluster.faults) == (1, [])
    cluster.faults = away(CALLS)  # as if the answers that created the job were lost
    launcher.launch_run(LaunchRunContext(run, None))
    assert len(cluster.jobs) == 1


def test_a_run_is_not_launched_if_the_api_refuses_it_or_stays_away(
    cluster: Cluster, launcher: PodRunLauncher, run: DagsterRun
) -> None:
    cluster.faults = away(CALLS * ATTEMPTS)
    with pytest.raises(DagsterK8sAPIRetryLimitExceeded):
        launcher.launch_run(LaunchRunContext(run, None))
    cluster.faults = [ApiException(status=403, reason="Forbidden")]
    with pytest.raises(DagsterK8sUnrecoverableAPIError):
        launcher.launch_run(LaunchRunContext(run, None))
    assert (cluster.jobs, cluster.faults) == ({}, [])
    launcher.launch_run(LaunchRunContext(run, None))
    with pytest.raises(DagsterK8sUnrecoverableAPIError):  # a job of this name that no attempt of ours can have created
        launcher.launch_run(LaunchRunContext(run, None))


@pytest.mark.parametrize("fault", [ApiException(status=503), ApiException(status=403), MaxRetryError(None, "/")])
def test_a_run_goes_on_while_the_api_is_away_but_not_without_its_job(
    cluster: Cluster, launcher: PodRunLauncher, run: DagsterRun, fault: Exception
) -> None:
    launcher.launch_run(LaunchRunContext(run, None))
    cluster.faults = [fault] * CALLS
    assert launcher.check_run_worker_health(run).status == WorkerStatus.RUNNING
    cluster.faults = []
    cluster.jobs.clear()
    assert launcher.check_run_worker_health(run).status == WorkerStatus.FAILED
