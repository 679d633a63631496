"""Try a bot token: its workspace, its scopes, and the channels that it reads."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from resources.core.errors import InvalidRequestError, RetryLaterError
from resources.core.retrying import Tally
from resources.settings import Settings
from resources.sources.slack.client import LIST_LIMIT, MissingScopeError, SlackClient
from resources.sources.spec import Place, Places, Reach

SECONDS = 8
"""Longest wait for a response."""
TOTAL_SECONDS = 15
"""No further page of channels is asked for after this time."""
MOST_CHANNELS = 5 * LIST_LIMIT
MOST_SHOWN = 1000
"""Channels to choose from."""
_TOKEN = re.compile(r"xox[bp]-[A-Za-z0-9-]{4,500}")


def reach(settings: Settings, values: Mapping[str, str]) -> Reach:
    """Return what the token `slack_bot_token` would read, or that of the settings."""
    client, token = opened(settings, values)
    who = client.call("auth.test")
    account = f"{who.get('team') or who.get('team_id')} ({who.get('url')})"
    try:
        channels, complete = _channels(client)
    except MissingScopeError as error:
        return Reach(account=account, granted=client.scopes, notes=(str(error),))
    joined = [str(one.get("name")) for one in channels if _reads(token, one)]
    others = len(channels) - len(joined)
    notes = ["Slack does not count messages, so the time of the first sync cannot be estimated."]
    if others:
        plural = "s" if others > 1 else ""
        invitation = f"/invite @{who.get('user') or 'your-app'}"
        notes.insert(
            0, f"The app is not in {others} other channel{plural}. Write this in one to index it: {invitation}"
        )
    return Reach(
        account=account,
        granted=client.scopes,
        places=tuple(f"#{name}" for name in sorted(joined)),
        complete=complete,
        notes=tuple(notes),
    )


def places(settings: Settings, values: Mapping[str, str], _: str | None) -> Places:
    """Return the channels, first those that the token reads. Slack has no levels."""
    client, token = opened(settings, values)
    channels, complete = _channels(client)
    found = [Place(str(one.get("id")), str(one.get("name")), readable=_reads(token, one)) for one in channels]
    found.sort(key=lambda one: (not one.readable, one.name))
    return Places(tuple(found[:MOST_SHOWN]), complete=complete and len(found) <= MOST_SHOWN)


def opened(settings: Settings, values: Mapping[str, str]) -> tuple[SlackClient, str]:
    """Return a client that never waits long, and its token: the one in `values`, or without any value that of the settings."""
    token = values.get("slack_bot_token", "")
    if not token and not values and settings.slack_bot_token is not None:
        token = settings.slack_bot_token.get_secret_value()
    if not _TOKEN.fullmatch(token):
        raise InvalidRequestError(
            "A Bot User OAuth Token begins with xoxb-. Copy it from OAuth & Permissions of your app."
        )
    quick = SlackClient(token, settings.slack_api_url, Tally(), waits=(), sleep=_refuse_to_wait, timeout=SECONDS)
    return quick, token


def _reads(token: str, channel: Mapping[str, Any]) -> bool:
    return bool(channel.get("is_member")) or token.startswith("xoxp-")


def _channels(client: SlackClient) -> tuple[list[dict[str, Any]], bool]:
    """Return the channels, at most `MOST_CHANNELS`, and whether these are all."""
    found: list[dict[str, Any]] = []
    until = time.monotonic() + TOTAL_SECONDS
    for channel in client.pages(
        "conversations.list",
        "channels",
        types="public_channel,private_channel",
        exclude_archived="true",
        limit=LIST_LIMIT,
    ):
        if len(found) == MOST_CHANNELS or time.monotonic() > until:
            return found, False
        found.append(channel)
    return found, True


def _refuse_to_wait(seconds: float) -> NoReturn:
    raise RetryLaterError(f"Slack asks to wait {seconds:.0f} s. Try again then.")
