"""Dagster run launcher of a cluster: each run is a Kubernetes job with one pod.

It differs from Dagster's own while the cluster's API does not answer, as during an upgrade of the control plane. Pods go on meanwhile, so
their runs have not failed; and a run is launched as soon as the API answers again.
"""

from http import HTTPStatus

from dagster import DagsterRun
from dagster_k8s import K8sRunLauncher
from dagster_k8s.client import DagsterK8sAPIRetryLimitExceeded, DagsterK8sUnrecoverableAPIError

from orchestration.dagster_api import CheckRunHealthResult, LaunchRunContext, WorkerStatus

ATTEMPTS = 3
"""Attempts to create a job, each of which goes on for half a minute. Dagster's daemon has to send a heartbeat every two minutes."""
MISSING = "could not be found"
"""How Dagster says that the API answers, and has no such job."""


class PodRunLauncher(K8sRunLauncher):
    """Dagster's launcher, for an API that may be away for a minute."""

    def launch_run(self, context: LaunchRunContext) -> None:
        """Create the job of a run. Raises Dagster's error if the API refuses it, or has not answered for a minute and a half."""
        for left in reversed(range(ATTEMPTS)):
            try:
                super().launch_run(context)
            except DagsterK8sAPIRetryLimitExceeded:
                if left == 0:
                    raise
            except DagsterK8sUnrecoverableAPIError as error:
                created = getattr(error.__cause__, "status", None) == HTTPStatus.CONFLICT
                if left == ATTEMPTS - 1 or not created:
                    raise
                return  # an earlier attempt was received, and its answer lost
            else:
                return

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Return the health of the run's job. Dagster fails a run of which it is unknown."""
        found = super().check_run_worker_health(run)
        if found.status != WorkerStatus.UNKNOWN:
            return found
        if MISSING in (found.msg or ""):
            return CheckRunHealthResult(WorkerStatus.FAILED, "The job of this run was deleted.")
        return CheckRunHealthResult(WorkerStatus.RUNNING, "The API of the cluster does not answer.")
