"""Log alerts and post them to a Slack-compatible webhook if one is configured."""

from __future__ import annotations

import httpx
import structlog

from resources.settings import Settings

TIMEOUT_SECONDS = 10
log = structlog.get_logger("alerts")


def alert(settings: Settings, text: str) -> None:
    """Log the alert and post it to the webhook. A failing webhook is logged and never stops the caller."""
    log.error("alert", text=text)
    if settings.alert_webhook_url is None:
        return
    try:
        httpx.post(
            settings.alert_webhook_url.get_secret_value(), json={"text": text}, timeout=TIMEOUT_SECONDS
        ).raise_for_status()
    except httpx.HTTPError as error:
        log.error("alert_webhook_failed", reason=type(error).__name__)
