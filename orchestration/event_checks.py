"""Checks of Slack events and Drive notifications for `concordance doctor`; nothing is reported for what is not set up."""

from __future__ import annotations

from collections.abc import Iterator

from resources.settings import Settings

Found = tuple[bool, str, str]
"""True if all is well, the detail, and the remedy."""


def slack(settings: Settings) -> Iterator[Found]:
    """Check whether the receiver of Slack events is connected."""
    if settings.slack_app_token is None:
        return
    from resources.slack_socket import ask

    state = ask(settings)
    if state is None:
        yield False, "the receiver is not responding", f"See {settings.home / 'logs' / 'slack-events.log'}."
    elif not state.connected:
        yield False, f"not connected by Socket Mode: {state.reason}", "Scheduled syncs continue without events."
    elif (app := _app(settings)) is not None and state.app_id not in ("", app):
        remedy = "Create both tokens in the same app: CONCORDANCE_SLACK_APP_TOKEN, CONCORDANCE_SLACK_BOT_TOKEN."
        yield False, f"the app-level token belongs to the app {state.app_id}, the bot token to {app}", remedy
    else:
        yield True, f"connected by Socket Mode; {state.stored} events since it started", ""


def _app(settings: Settings) -> str | None:
    """Return the app id of the bot token, as recorded by the last sync."""
    from resources.stores.postgres import session
    from sql import queries

    with session(settings.postgres_dsn) as connection:
        row = queries("events").app(connection, source="slack")
    return None if row is None else row["app_id"]


def drive(settings: Settings) -> Iterator[Found]:
    """Check for each change feed of Drive whether Google sends notifications."""
    from resources.core.domain import SourceName
    from resources.stores.postgres import session
    from sql import queries

    with session(settings.postgres_dsn) as connection:
        channels = list(queries("events").channels(connection, source=SourceName.GOOGLE_DRIVE.value))
    for channel in {row["feed"]: row for row in reversed(channels)}.values():
        feed = f"shared drive {channel['feed']}" if channel["feed"] else "the account's feed"
        if channel["error"] is not None:
            remedy = "Only scheduled syncs find changes; see docs/operations.md, Drive notifications."
            yield False, f"{feed}: {channel['error']}", remedy
        elif channel["expires_at"] is not None:
            last = f"{channel['notified_at']:%Y-%m-%d %H:%M} UTC" if channel["notified_at"] else "never"
            yield (
                True,
                f"{feed}: notifications until {channel['expires_at']:%Y-%m-%d %H:%M} UTC; last received: {last}",
                "",
            )
