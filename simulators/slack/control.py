"""Control interface of the simulated workspace: its operations, its state and the start page.

For loopback only: anyone who reaches the port may do all of this.
"""

from html import escape
from typing import Any

from starlette.responses import Response

from simulators import http
from simulators.faults import Faults
from simulators.slack.model import Workspace

OPERATIONS = (
    "user", "deactivate", "reactivate", "set_name", "set_guest", "usergroup", "disable_usergroup",
    "channel", "join", "leave", "invite_bot", "remove_bot", "make_private", "archive", "unarchive", "rename",
    "post", "edit", "delete", "hide_before", "upload", "delete_file", "deny_file", "direct", "press",
    "revoke", "renew", "set_scopes", "set_throttle", "messages", "readers",
)  # fmt: skip
"""Methods of `Workspace` that may be called over HTTP. Channels and users are given by id or name."""

_TEXT = """<p>This is a simulator of Slack's Web API for the workspace <b>{name}</b>: everything in it is made up and kept in
memory. Connect with <code>CONCORDANCE_SLACK_API_URL={base}/api</code> and <code>CONCORDANCE_SLACK_BOT_TOKEN={token}</code>.</p>
<pre>curl {base}/simulator/post --json '{{"channel": "{first}", "user": "concordance", "text": "Hello"}}'</pre>
<p>Events go to Socket Mode connections (<code>CONCORDANCE_SLACK_APP_TOKEN={app_token}</code>). To have them posted instead, set
<code>CONCORDANCE_SLACK_SIGNING_SECRET={secret}</code> and <code>POST /simulator/set_request_url</code> with
<code>{{"url": "http://…/api/slack/events"}}</code>.</p>
<p>To ask the app, add the scopes <code>chat:write</code>, <code>app_mentions:read</code> and <code>im:history</code>
(<code>POST /simulator/set_scopes</code>), and post <code>&lt;@{bot}&gt; …</code> in a channel, or anything in a user's direct messages
(<code>POST /simulator/direct</code> returns their id).</p>
<h2>Channels</h2><ul>{channels}</ul>"""


def state(workspace: Workspace, faults: Faults) -> dict[str, Any]:
    with workspace.lock:
        names = {user.id: user.name for user in workspace.users.values()}
        return {
            "team": {"id": workspace.team, "name": workspace.name, "domain": workspace.domain},
            "bot": workspace.bot,
            "throttle": workspace.throttle,
            "scopes": sorted(workspace.scopes),
            "users": list(workspace.users.values()),
            "channels": [
                {
                    "id": channel.id,
                    "name": channel.name,
                    "private": channel.private,
                    "archived": channel.archived,
                    "members": sorted(names[member] for member in channel.members),
                    "messages": len(workspace.messages(channel.id)),
                    "readers": sorted(workspace.readers(channel.id)),
                }
                for channel in workspace.channels.values()
            ],
            "calls": dict(workspace.calls),
            "faults_committed": dict(faults.committed),
        }


def page(workspace: Workspace, base: str) -> Response:
    with workspace.lock:
        channels = list(workspace.channels.values())
        listed = "".join(
            f"<li>#{escape(channel.name)} <code>{channel.id}</code> {'private' if channel.private else 'public'}, "
            f"{len(channel.members)} members, {len(channel.timeline)} messages</li>"
            for channel in channels
        )
        text = _TEXT.format(
            name=escape(workspace.name),
            base=escape(base),
            token=escape(workspace.token),
            first=escape(channels[0].name if channels else "general"),
            app_token=escape(workspace.app_token),
            secret=escape(workspace.signing_secret),
            bot=workspace.bot,
            channels=listed or "<li>none yet</li>",
        )
    return http.page("Slack simulator", text, workspace, OPERATIONS)
