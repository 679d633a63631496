"""An event as Slack delivers it. Source: https://docs.slack.dev/apis/events-api/#callback-field"""

from typing import Any

import msgspec


class Authorization(msgspec.Struct):
    """An installation of the app that may see the event: a bot, or a person on whose behalf the app reads."""

    team_id: str | None = None
    user_id: str | None = None
    is_bot: bool = False


class Envelope(msgspec.Struct):
    """An event as Slack delivers it, over HTTP or a socket."""

    type: str
    event_id: str = ""
    api_app_id: str = ""
    team_id: str | None = None
    context_team_id: str | None = None
    authorizations: list[Authorization] = []
    event: dict[str, Any] = {}
    challenge: str | None = None

    @property
    def teams(self) -> set[str]:
        """The workspaces that the event is meant for: of a shared channel, it may come from another one."""
        named = {self.team_id, self.context_team_id, *(one.team_id for one in self.authorizations)}
        return {team for team in named if team}
