"""Findings of `concordance doctor` about the receiver of Slack's events."""

from collections.abc import Iterator

from resources.core.domain import SourceName
from resources.settings import Settings
from resources.slack_socket import ask
from resources.sources.spec import Check
from resources.stores.postgres import session
from sql.sources import Events

NAME = "slack events"


def checks(settings: Settings) -> Iterator[Check]:
    """Report whether the receiver of events is connected."""
    state = ask(settings)
    if state is None:
        log = settings.home / "logs" / "slack-events.log"
        yield Check(NAME, False, "the receiver is not responding", f"See {log}.")
    elif not state.connected:
        yield Check(
            NAME, False, f"not connected by Socket Mode: {state.reason}", "Scheduled syncs continue without events."
        )
    elif (app := _app(settings)) is not None and state.app_id not in ("", app):
        remedy = "Create both tokens in the same app: CONCORDANCE_SLACK_APP_TOKEN, CONCORDANCE_SLACK_BOT_TOKEN."
        detail = f"the app-level token belongs to the app {state.app_id}, the bot token to {app}"
        yield Check(NAME, False, detail, remedy)
    else:
        yield Check(NAME, True, f"connected by Socket Mode; {state.stored} events since it started")


def _app(settings: Settings) -> str | None:
    """Return the app id of the bot token, as recorded by the last sync."""
    with session(settings.postgres_dsn) as connection:
        row = Events(connection).app(source=SourceName.SLACK.value)
    return None if row is None else row.app_id
