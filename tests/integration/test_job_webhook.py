"""The webhook of jobs: what it is told of a sync that has ended, how that is signed, and what happens while it fails."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from resources.alerts.delivery import MOST_ATTEMPTS
from resources.alerts.jobs import job_webhook as webhook_of
from resources.alerts.jobs import key_of, signed, tell
from resources.stores.postgres import Connection, session
from tests.fixtures.serving import Site
from tests.fixtures.waiting import until
from tests.fixtures.webhook import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"""Of the examples at https://docs.svix.com/receiving/verifying-payloads/how-manual"""


def ended(site: Site, status: str = "success", **more: Any) -> str:
    """Store a sync that has ended, of a folder whose name is nobody else's business."""
    values = {
        "source": "files",
        "status": status,
        "partitions": ["qzx7canary"],
        "error_message": "qzx7canary.pdf",
        **more,
    }
    names = ", ".join(values)
    marks = ", ".join(["%s"] * len(values))
    row = site.sql(
        f"INSERT INTO sync_jobs ({names}, synced, completed_at) VALUES ({marks}, 3, now()) RETURNING job_id::text",  # noqa: S608
        *values.values(),
    )
    return str(row[0][0])


@pytest.fixture
def told(site: Site, webhook: Webhook) -> Callable[[], int]:
    """Tell what is due, as the task of a serving process does."""
    update = {"job_webhook_url": SecretStr(webhook.url), "job_webhook_secret": SecretStr(SECRET)}
    site.settings = site.settings.model_copy(update=update)
    found = webhook_of(site.settings)
    assert found is not None

    async def transact(work: Callable[[Connection], Any]) -> Any:
        with session(site.settings.postgres_dsn) as connection:
            return work(connection)

    return lambda: asyncio.run(tell(found, transact, lambda: datetime.now(UTC)))


def test_the_signature_is_that_of_the_example_of_the_scheme() -> None:
    now = datetime.fromtimestamp(1614265330, UTC)
    headers = signed(key_of(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", now, b'{"test": 2432232314}')
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_each_sync_is_told_once_signed_and_without_names(site: Site, webhook: Webhook, told: Callable[[], int]) -> None:
    good, bad = ended(site), ended(site, "failed")
    ended(site, planned_by=good)  # a part of the first
    site.sql("INSERT INTO sync_jobs (source, status) VALUES ('slack', 'running')")
    assert (told(), told()) == (2, 0)
    for (headers, raw), job_id, status in zip(webhook.received, (good, bad), ("success", "failed"), strict=True):
        assert headers["webhook-id"] == f"job_{job_id}"
        message = f"job_{job_id}.{headers['webhook-timestamp']}.".encode() + raw
        digest = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), message, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        body = json.loads(raw)
        assert body.keys() == {"type", "timestamp", "data"}
        assert body["type"] == "sync.finished"
        assert {name: body["data"][name] for name in ("job_id", "source", "status", "synced")} == {
            "job_id": job_id, "source": "files", "status": status, "synced": 3,
        }  # fmt: skip
        assert b"canary" not in raw


def test_a_webhook_that_fails_is_told_again_later_with_the_same_id(
    site: Site, webhook: Webhook, told: Callable[[], int]
) -> None:
    job_id = ended(site)
    webhook.answers, webhook.headers = [503, 503], {"Retry-After": "100"}
    assert [told(), told()] == [0, 0]
    assert webhook.calls == 1  # not before the pause that it asks for
    for _ in range(2):
        site.sql("UPDATE sync_jobs SET webhook_next_at = now()")
        told()
    assert [headers["webhook-id"] for headers, _ in webhook.received] == [f"job_{job_id}"] * 3
    site.sql("UPDATE sync_jobs SET webhook_next_at = now()")
    assert (told(), webhook.calls) == (0, 3)


def test_attempts_are_bounded_by_number_and_by_a_day(site: Site, webhook: Webhook, told: Callable[[], int]) -> None:
    given_up, old = ended(site), ended(site)
    site.sql("UPDATE sync_jobs SET webhook_attempts = %s WHERE job_id = %s", MOST_ATTEMPTS - 1, given_up)
    site.sql("UPDATE sync_jobs SET completed_at = now() - interval '25 hours' WHERE job_id = %s", old)
    webhook.answers = [500]
    told()
    site.sql("UPDATE sync_jobs SET webhook_next_at = now()")
    told()
    assert webhook.calls == 1


def test_the_service_tells_by_itself(site: Site, webhook: Webhook, told: Callable[[], int]) -> None:
    assert told
    job_id = ended(site)
    with site.running():
        until(lambda: webhook.received, "the webhook is told")
    assert [headers["webhook-id"] for headers, _ in webhook.received] == [f"job_{job_id}"]
