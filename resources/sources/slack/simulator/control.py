"""Remote control of the simulated workspace over HTTP.

`POST /simulator/{operation}` is a method of `Workspace` with its arguments by name; `POST /simulator/faults` orders failures;
`GET /simulator/state` shows everything. For loopback only: anyone who reaches the port may do all of this.
"""

import html
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from resources.sources.simulation.faults import KINDS, Fault, Faults
from resources.sources.slack.simulator.model import Workspace
from resources.sources.slack.simulator.wire import SlackRequest, SlackResponse, as_html, as_json

OPERATIONS = (
    "user",
    "deactivate",
    "reactivate",
    "set_name",
    "set_guest",
    "usergroup",
    "channel",
    "join",
    "leave",
    "invite_bot",
    "remove_bot",
    "make_private",
    "archive",
    "unarchive",
    "rename",
    "post",
    "edit",
    "delete",
    "upload",
    "delete_file",
    "revoke",
    "renew",
    "set_scopes",
    "set_throttle",
    "messages",
    "readers",
)


class _FaultOrder(Fault, forbid_unknown_fields=True):
    """A fault as ordered over HTTP."""


class _Share(msgspec.Struct, forbid_unknown_fields=True):
    seed: int
    share: float
    seconds: float = 0.0


def control(workspace: Workspace, faults: Faults, request: SlackRequest) -> SlackResponse:
    """Perform an operation and return its result, or status 400 or 404 with what to do instead."""
    name = request.path.removeprefix("/simulator/")
    if name == "state":
        return as_json(200, state(workspace, faults))
    if request.verb != "POST":
        return as_json(405, {"error": f"POST a JSON object of arguments to /simulator/{name}"})
    try:
        given = request.json()
        if name == "faults":
            _order(faults, given)
            return as_json(200, {"result": None})
        if name not in OPERATIONS:
            return as_json(404, {"error": f"there is no operation {name!r}", "operations": [*OPERATIONS, "faults"]})
        return as_json(200, {"result": _perform(getattr(workspace, name), given)})
    except (ValueError, LookupError, TypeError) as error:
        return as_json(400, {"error": str(error)})


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


def page(workspace: Workspace, base: str) -> SlackResponse:
    """Return the start page, which describes the simulator and its operations."""
    base = html.escape(base)
    operations = "".join(f"<li><code>{html.escape(_signature(workspace, name))}</code></li>" for name in OPERATIONS)
    channels = "".join(
        f"<li>#{html.escape(channel.name)} <code>{channel.id}</code> {'private' if channel.private else 'public'}, "
        f"{len(channel.members)} members, {len(channel.timeline)} messages</li>"
        for channel in workspace.channels.values()
    )
    first = next((channel.name for channel in workspace.channels.values()), "general")
    example = f'curl {base}/simulator/post --json \'{{"channel": "{first}", "user": "concordance", "text": "Hello"}}\''
    return as_html(
        200,
        f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Slack simulator</title>
<style>body{{font:15px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}}code{{font-size:13px}}</style>
<h1>Slack simulator</h1>
<p>This is a simulator of Slack's Web API for the workspace <b>{html.escape(workspace.name)}</b>: everything in it is made up and
kept in memory. Connect with <code>CONCORDANCE_SLACK_API_URL={base}/api</code> and
<code>CONCORDANCE_SLACK_BOT_TOKEN={html.escape(workspace.token)}</code>.</p>
<h2>Channels</h2><ul>{channels or "<li>none yet</li>"}</ul>
<h2>What can be done in it</h2>
<p><code>POST /simulator/OPERATION</code> with a JSON object of arguments; channels and users by id or name, for example<br>
<code>{html.escape(example, quote=False)}</code></p><ul>{operations}</ul>
<p>Events go to Socket Mode connections (<code>CONCORDANCE_SLACK_APP_TOKEN={html.escape(workspace.app_token)}</code>). To have
them posted instead, set <code>CONCORDANCE_SLACK_SIGNING_SECRET={html.escape(workspace.signing_secret)}</code> and
<code>POST /simulator/set_request_url</code> with <code>{{"url": "http://…/api/slack/events"}}</code>.</p>
<h2>What can go wrong</h2>
<p><code>POST /simulator/faults</code> with <code>{{"kind": ..., "times": 1, "match": "conversations.history", "seconds": 1}}</code>,
<code>{{"random": {{"seed": 1, "share": 0.1}}}}</code> or <code>{{"clear": true}}</code>; kinds: {", ".join(KINDS)}.</p>
<p><a href="/simulator/state">The whole state as JSON</a></p></html>""",
    )


def _perform(operation: Callable[..., Any], given: dict[str, Any]) -> Any:
    try:
        inspect.signature(operation).bind(**given)
    except TypeError as error:
        raise ValueError(f"{error}: it takes {inspect.signature(operation)}") from error
    result = operation(**given)
    return sorted(result) if isinstance(result, set) else result


def _order(faults: Faults, given: dict[str, Any]) -> None:
    if given.get("clear"):
        faults.clear()
    elif "random" in given:
        share = msgspec.convert(given["random"], _Share)
        faults.random(share.seed, share.share, share.seconds)
    else:
        order = msgspec.convert(given, _FaultOrder)
        faults.add(order.kind, order.times, order.match, order.seconds)


def _signature(workspace: Workspace, name: str) -> str:
    known = inspect.signature(getattr(workspace, name))
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in known.parameters.values()]
    return name + str(known.replace(parameters=bare, return_annotation=inspect.Signature.empty))
