"""The webhook of jobs: a signed request for each sync that has ended, for programs that would otherwise ask for its status.

A sync is told once its end is stored, outside of any request, until the webhook answers with 2xx, for a day at most. One whose answer is
lost is told again with the same ID. It names no document, folder or person.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import structlog

from resources.alerts.delivery import AT_ONCE, MOST_ATTEMPTS, PAUSE_SECONDS, Transacts, send
from sql.alerts import EndedJob, EndedJobs

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection

FINISHED = "sync.finished"
TOLD_WITHIN = timedelta(days=1)

log = structlog.get_logger("alerts")


class JobWebhook(NamedTuple):
    """Where syncs are told, and the key that signs what is told."""

    url: str
    key: bytes


def job_webhook(settings: Settings) -> JobWebhook | None:
    """Return the webhook of the settings; None if there is none."""
    if settings.job_webhook_url is None or settings.job_webhook_secret is None:
        return None
    return JobWebhook(
        settings.job_webhook_url.get_secret_value(), key_of(settings.job_webhook_secret.get_secret_value())
    )


def key_of(secret: str) -> bytes:
    """Return the key of a secret `whsec_BASE64`. Raises `ValueError` if it is none."""
    return base64.b64decode(secret.removeprefix("whsec_"), validate=True)


def payload(job: EndedJob) -> bytes:
    """Return what is told of a sync."""
    counted = {name: getattr(job, name) for name in ("synced", "skipped", "deleted", "failed")}
    data = {"job_id": job.job_id, "source": job.source, "status": job.status, "started_at": job.started_at}
    body = {
        "type": FINISHED,
        "timestamp": job.completed_at,
        "data": {**data, "completed_at": job.completed_at, **counted},
    }
    return msgspec.json.encode(body)


def signed(key: bytes, message_id: str, now: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of a message: its ID, the time, and the signature of both with the body."""
    at = str(int(now.timestamp()))
    digest = hmac.digest(key, f"{message_id}.{at}.".encode() + body, "sha256")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        "content-type": "application/json",
    }


async def tell(webhook: JobWebhook, transact: Transacts, clock: Callable[[], datetime]) -> int:
    """Tell of the syncs that are due, until one is not accepted. Returns the number of those accepted.

    Raises `ServiceUnavailableError` if Postgres does not answer.
    """
    for number in range(AT_ONCE):
        job = await transact(partial(_claim, clock() - TOLD_WITHIN))
        if job is None:
            return number
        body = payload(job)
        attempt = await send(webhook.url, body, signed(webhook.key, f"job_{job.job_id}", clock(), body))
        if not attempt.accepted and job.attempts < MOST_ATTEMPTS:
            log.warning("job_webhook_failed", job_id=job.job_id, reason=attempt.reason, attempts=job.attempts)
            await transact(partial(_postpone, job.job_id, attempt.seconds))
            return number
        if not attempt.accepted:
            log.error("job_webhook_given_up", job_id=job.job_id, reason=attempt.reason, attempts=job.attempts)
        await transact(partial(_told, job.job_id))
    return AT_ONCE


def _claim(since: datetime, connection: Connection) -> EndedJob | None:
    return EndedJobs(connection).claim_job(pause_seconds=PAUSE_SECONDS, since=since)


def _postpone(job_id: str, seconds: float, connection: Connection) -> None:
    EndedJobs(connection).postpone_job(job_id=job_id, seconds=seconds)


def _told(job_id: str, connection: Connection) -> None:
    EndedJobs(connection).told_job(job_id=job_id)
