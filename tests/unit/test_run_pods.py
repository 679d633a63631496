"""The cluster grants the run launcher what it asks for: an API with the overlay's role refuses the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster_k8s import K8sRunLauncher
from kubernetes.client import ApiException, V1Job, V1JobStatus, V1ObjectMeta, V1Pod, V1PodList

from deploy import manifests

FOLDER = manifests.FOLDER / "kubernetes/overlays/cluster"
_CALL = re.compile(r"(create|read|list|delete|patch|replace)_namespaced_(job_status|pod_log|job|pod|event)")
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
        self.jobs: dict[str, V1Job] = {}
        self.pods: dict[str, V1Pod] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = _CALL.fullmatch(name)
        if found is None:
            raise AttributeError(name)
        verb, kind = found.groups()
        right = VERBS.get(verb, verb), RESOURCES.get(kind, f"{kind}s")
        return getattr(self, f"_{verb}_{kind}") if right in self._granted else self._refuse

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ApiException(status=403, reason="Forbidden")

    def _create_job(self, body: Any, **_: Any) -> None:
        name = body.metadata.name
        self.jobs[name] = body
        self.pods[f"{name}-x"] = V1Pod(metadata=V1ObjectMeta(name=f"{name}-x"))

    def _read_job_status(self, name: str, **_: Any) -> V1Job:
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
def launcher(cluster: Cluster, tmp_path: Path) -> K8sRunLauncher:
    given = yaml.safe_load((FOLDER / "dagster.yaml").read_text())["run_launcher"]["config"]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
    here = {"load_incluster_config": False, "kubeconfig_file": str(tmp_path / "kubeconfig")}
    return K8sRunLauncher(**given | here, k8s_client_batch_api=cluster, k8s_client_core_api=cluster)


def test_a_run_that_is_terminated_leaves_no_pod(cluster: Cluster, launcher: K8sRunLauncher, tmp_path: Path) -> None:
    origin = RepositoryPythonOrigin("python", ModuleCodePointer("orchestration.definitions", "defs"))
    run = DagsterRun(
        "sync_files", job_code_origin=JobPythonOrigin("sync_files", origin), status=DagsterRunStatus.STARTED
    )
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        launcher.register_instance(instance)
        instance.add_run(run)
        launcher.launch_run(LaunchRunContext(run, None))
        assert (len(cluster.jobs), len(cluster.pods)) == (1, 1)
        assert launcher.check_run_worker_health(run).status.name == "RUNNING"
        assert launcher.terminate(run.run_id)
    assert (cluster.jobs, cluster.pods) == ({}, {})
