"""Declaration of the source `slack`. The connector is in `source`."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from resources.core.domain import SourceName
from resources.core.ports import Memory, Source
from resources.settings import Settings
from resources.sources.slack import links
from resources.sources.spec import Capabilities, Check, Places, Reach, Scope, SourceSpec, Trial


def _open(settings: Settings, memory: Memory) -> Source:
    from resources.sources.slack.source import Slack

    return Slack(settings, memory)


def _checks(settings: Settings, running: bool) -> Iterator[Check]:
    from resources.sources.slack.checks import assistant_check, checks

    if running and settings.slack_app_token is not None:
        yield from checks(settings)
    if settings.slack_bot_token is not None and (settings.slack_app_token or settings.slack_signing_secret):
        yield assistant_check(settings)


def _try(settings: Settings, values: Mapping[str, str]) -> Reach:
    from resources.sources.slack.trial import reach

    return reach(settings, values)


def _browse(settings: Settings, values: Mapping[str, str], inside: str | None) -> Places:
    from resources.sources.slack.trial import places

    return places(settings, values, inside)


SPEC = SourceSpec(
    name=SourceName.SLACK,
    label="Slack",
    unit=("channel", "channels"),
    open=_open,
    help="Slack is not set up: set CONCORDANCE_SLACK_BOT_TOKEN (docs/slack.md).",
    needs=("slack_bot_token",),
    credentials=("slack_bot_token",),
    capabilities=Capabilities(change_feed=True, events=True, private_folders=False),
    link=links.link,
    place=links.place,
    checks=_checks,
    scopes=(
        Scope("channels:read", "public channels and their members"),
        Scope("groups:read", "private channels and their members"),
        Scope("channels:history", "messages and threads of public channels"),
        Scope("groups:history", "messages and threads of private channels"),
        Scope("users:read", "names"),
        Scope("users:read.email", "emails that match sign-ins with channel members"),
        Scope("files:read", "files shared in messages"),
        Scope("usergroups:read", "user groups, as groups", required=False),
        Scope("team:read", "ID and address of the workspace, for links", required=False),
        Scope("chat:write", "answers in Slack", required=False),
        Scope("app_mentions:read", "questions in channels", required=False),
        Scope("im:history", "questions in direct messages", required=False),
    ),
    trial=Trial(("slack_bot_token",), _try, _browse),
    set_up=Path(__file__).with_name("set_up.html"),
)
