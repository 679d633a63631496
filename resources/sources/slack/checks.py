"""Findings of `concordance doctor` about the receiver of Slack's events, and about the assistant."""

from collections.abc import Iterator

from resources.core.domain import SourceName
from resources.core.errors import ConcordanceError
from resources.settings import Settings
from resources.slack_socket import ask
from resources.sources.slack.trial import opened
from resources.sources.spec import Check
from resources.stores.postgres import session
from sql.sources import Events

NAME, ASSISTANT = "slack events", "slack assistant"
ASKS = {"app_mentions:read": "mentions", "im:history": "direct messages"}
"""Scopes of which one is enough for questions, and where it lets people ask."""


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


def assistant_check(settings: Settings) -> Check:
    """Report where people may ask the app, by the scopes of the bot token."""
    try:
        client, _ = opened(settings, {})
        client.call("auth.test")
    except ConcordanceError as error:
        return Check(ASSISTANT, False, str(error))
    granted = client.scopes or frozenset()
    asked = [where for scope, where in ASKS.items() if scope in granted]
    if asked and "chat:write" not in granted:
        remedy = "Add the scope chat:write to the app and install it again (docs/slack-assistant.md)."
        return Check(ASSISTANT, False, "the app hears questions and may not answer them", remedy)
    if not asked:
        return Check(ASSISTANT, True, "off: the app has no scope for questions (docs/slack-assistant.md)")
    return Check(ASSISTANT, True, f"answers questions in {' and '.join(asked)}")


def _app(settings: Settings) -> str | None:
    """Return the app id of the bot token, as recorded by the last sync."""
    with session(settings.postgres_dsn) as connection:
        row = Events(connection).app(source=SourceName.SLACK.value)
    return None if row is None else row.app_id
