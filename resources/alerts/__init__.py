"""Alerts: logged, and posted to a Slack-compatible webhook if one is configured.

Conditions that last are `rules`, judged by the serving processes. What happens once is reported by `alert`.
"""

import asyncio

import structlog

from resources.alerts.delivery import CALL_SECONDS, deliver_now, post
from resources.alerts.states import MOST_NOTICES
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings
from resources.stores.postgres import session
from sql.alerts import Alerts

log = structlog.get_logger("alerts")


def alert(settings: Settings, text: str) -> None:
    """Log what happened and send it to the webhook. It waits in Postgres until the webhook accepts it.

    Without Postgres it is sent once. Never stops the caller. Blocking; for threads without an event loop.
    """
    log.error("alert", text=text)
    if settings.alert_webhook_url is None:
        return
    url = settings.alert_webhook_url.get_secret_value()
    try:
        with session(settings.postgres_dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
            Alerts(connection).add_notice(text=text, most=MOST_NOTICES)
    except ServiceUnavailableError as error:
        attempt = asyncio.run(post(url, text))
        log.error("alert_not_stored", reason=str(error), sent=attempt.accepted, failed=attempt.reason)
        return
    try:
        deliver_now(settings, url)
    except ServiceUnavailableError as error:
        log.error("alert_waits", reason=str(error))
