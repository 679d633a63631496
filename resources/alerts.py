"""Alerts: logged, and posted to a Slack-compatible webhook if one is configured."""

import httpx
import structlog

from resources import http_clients
from resources.core.domain import SourceName
from resources.core.errors import ConfigurationError
from resources.settings import Settings
from resources.sources import label
from sql.sync import Jobs

TIMEOUT_SECONDS = 10
FAILED_DOCUMENTS = 0.05
FAILED_RETRIES = 0.1
FEW_RETRIES = 10
"""With fewer retries than this, the failure rate is not meaningful."""
FAILURES_IN_A_ROW = 3
log = structlog.get_logger("alerts")


def alert(settings: Settings, text: str) -> None:
    """Log the alert and post it to the webhook. A failing webhook is logged and never stops the caller."""
    log.error("alert", text=text)
    if settings.alert_webhook_url is None:
        return
    try:
        with http_clients.outward(timeout=TIMEOUT_SECONDS) as http:
            http.post(settings.alert_webhook_url.get_secret_value(), json={"text": text}).raise_for_status()
    except (httpx.HTTPError, ConfigurationError) as error:
        log.error("alert_webhook_failed", reason=type(error).__name__)


def alert_if_unhealthy(settings: Settings, jobs: Jobs, source: SourceName, job_id: str) -> None:
    """Send an alert if documents, retries or consecutive failures of a job that ended exceed their limits."""
    name = label(source)
    job, failures = jobs.job(job_id=job_id), jobs.failures_in_a_row(source=source.value)
    documents = job.synced + job.failed
    if job.failed > FAILED_DOCUMENTS * documents:
        alert(settings, f"{job.failed} of {documents} documents of {name} failed (job {job_id}).")
    if job.retries >= FEW_RETRIES and job.retries_failed > FAILED_RETRIES * job.retries:
        alert(settings, f"{job.retries_failed} of {job.retries} retried calls to {name} failed for good.")
    if failures >= FAILURES_IN_A_ROW and failures % FAILURES_IN_A_ROW == 0:
        alert(settings, f"{failures} consecutive syncs of {name} have failed, the last one with: {job.error_message}")
