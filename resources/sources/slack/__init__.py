"""Declaration of the source `slack`. The connector is in `source`."""

from collections.abc import Iterator

from resources.core.domain import SourceName
from resources.core.ports import Memory, Source
from resources.settings import Settings
from resources.sources.slack import links
from resources.sources.spec import Capabilities, Check, SourceSpec


def _open(settings: Settings, memory: Memory) -> Source:
    from resources.sources.slack.source import Slack

    return Slack(settings, memory)


def _checks(settings: Settings, running: bool) -> Iterator[Check]:
    if running and settings.slack_app_token is not None:
        from resources.sources.slack.checks import checks

        yield from checks(settings)


SPEC = SourceSpec(
    name=SourceName.SLACK,
    label="Slack",
    open=_open,
    help="Slack is not set up: set CONCORDANCE_SLACK_BOT_TOKEN (docs/operations.md).",
    needs=("slack_bot_token",),
    credentials=("slack_bot_token",),
    capabilities=Capabilities(change_feed=True, events=True, private_folders=False),
    link=links.link,
    place=links.place,
    checks=_checks,
)
