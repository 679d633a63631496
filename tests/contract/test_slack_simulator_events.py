"""The events of the simulated Slack over a real wire: Socket Mode as Slack's own client sees it, and signed requests."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

from tests.fixtures import loopback
from tests.fixtures.slack import SlackSite
from tests.fixtures.waiting import until


class Listener:
    """Slack's client; acknowledges what `takes` returns True for."""

    def __init__(self, site: SlackSite) -> None:
        self.heard: queue.Queue[Any] = queue.Queue()
        self.takes: Callable[[Any], bool] = lambda _: True
        web = WebClient(base_url=f"{site.url}/")
        web.proxy = None
        self.client = SocketModeClient(site.workspace.app_token, web_client=web, ping_interval=1)
        self.client.proxy = None
        self.client.socket_mode_request_listeners.append(self._hear)
        self.client.connect()

    def _hear(self, client: Any, request: Any) -> None:
        self.heard.put(request)
        if self.takes(request):
            client.send_socket_mode_response(SocketModeResponse(request.envelope_id))

    def next(self) -> Any:
        return self.heard.get(timeout=30)


@pytest.fixture
def listener(slack_site: SlackSite) -> Iterator[Listener]:
    made = Listener(slack_site)
    yield made
    made.client.close()


@pytest.fixture
def ada(slack_site: SlackSite) -> str:
    return slack_site.workspace.user("Ada", "ada@larkmoor.example")


@pytest.fixture
def general(slack_site: SlackSite, ada: str) -> str:
    return slack_site.workspace.channel("general", [ada])


def test_each_change_is_an_event(slack_site: SlackSite, listener: Listener, ada: str, general: str) -> None:
    slack = slack_site.workspace
    ts = slack.post(general, ada, "one")
    slack.edit(general, ts, "two")
    slack.post(general, ada, "a reply", thread=ts)
    slack.delete(general, ts)
    bob = slack.user("Bob", "bob@larkmoor.example")
    slack.join(general, bob)
    slack.leave(general, bob)
    slack.rename(general, "all")
    slack.make_private(general)
    slack.archive(general)
    slack.unarchive(general)
    file = slack.upload(ada, "plan.txt", "a plan")
    slack.post(general, ada, "see", files=[file])
    slack.delete_file(file)
    slack.remove_bot(general)
    slack.post(general, ada, "not for the bot")
    expected = [
        ("message", ""),
        ("message", "message_changed"),
        ("message", ""),
        ("message", "message_changed"),
        ("member_joined_channel", ""),
        ("member_left_channel", ""),
        ("channel_rename", ""),
        ("message", "channel_convert_to_private"),
        ("group_archive", ""),
        ("group_unarchive", ""),
        ("message", "file_share"),
        ("file_deleted", ""),
        ("member_left_channel", ""),
        ("group_left", ""),
    ]
    events = []
    for _ in expected:  # several threads acknowledge them, so that their order is not certain
        request = listener.next()
        assert (request.type, request.retry_attempt) == ("events_api", 0)
        assert request.payload["api_app_id"] == slack.app_id
        assert request.payload["team_id"] == slack.team
        events.append(request.payload["event"])
    assert sorted((event["type"], event.get("subtype", "")) for event in events) == sorted(expected)
    until(lambda: slack_site.app.sockets.waiting == 0, "all events acknowledged")


def test_what_is_not_acknowledged_comes_again(
    slack_site: SlackSite, listener: Listener, ada: str, general: str
) -> None:
    slack_site.app.sockets.patience = 0.05
    listener.takes = lambda request: request.retry_attempt == 2
    slack_site.workspace.post(general, ada, "one")
    heard = [listener.next() for _ in range(3)]
    # the client hears each in a thread of its own
    assert sorted(request.retry_attempt for request in heard) == [0, 1, 2]
    assert len({request.payload["event_id"] for request in heard}) == 1
    until(lambda: slack_site.app.sockets.acknowledged == [heard[0].payload["event_id"]], "the acknowledgement")


def test_undelivered_events_wait_for_a_connection(slack_site: SlackSite, ada: str, general: str) -> None:
    slack_site.workspace.post(general, ada, "one")
    late = Listener(slack_site)
    assert late.next().payload["event"]["text"] == "one"
    late.client.close()


def test_a_disconnect_makes_clients_connect_again(
    slack_site: SlackSite, listener: Listener, ada: str, general: str
) -> None:
    until(lambda: slack_site.app.sockets.connected == 1, "the connection")
    slack_site.app.sockets.disconnect("warning")
    until(lambda: slack_site.workspace.calls["apps.connections.open"] == 2, "another connection asked for")
    until(lambda: slack_site.app.sockets.connected == 1, "the connection")
    slack_site.workspace.post(general, ada, "after")
    assert listener.next().payload["event"]["text"] == "after"


def test_an_address_is_good_once_and_for_the_app_level_token_alone(slack_site: SlackSite) -> None:
    for token, error in (("xoxb-simulator", "not_allowed_token_type"), ("xapp-other", "invalid_auth")):
        with pytest.raises(SlackApiError) as raised:
            WebClient(base_url=f"{slack_site.url}/").apps_connections_open(app_token=token)
        assert raised.value.response["error"] == error
    url = WebClient(base_url=f"{slack_site.url}/").apps_connections_open(app_token="xapp-simulator")["url"]
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    statuses = [httpx.get(url.replace("ws", "http", 1), headers=upgrade).status_code for _ in range(2)]
    assert statuses == [101, 403]


class Address:
    """A web server that takes what Slack posts, in order; `fails` is how many requests get status 500 first."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.fails = 0
        self.url = ""


@pytest.fixture
def where() -> Iterator[Address]:
    made = Address()

    class Handler(loopback.Handler):
        def do_POST(self) -> None:
            body = self.body()
            made.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            made.fails -= 1
            self.answer(500 if made.fails >= 0 else 200, json.loads(body).get("challenge", "").encode())

    with loopback.serving(Handler) as url:
        made.url = f"{url}/events"
        yield made


def test_events_are_posted_with_a_signature_and_again_when_refused(
    slack_site: SlackSite, where: Address, ada: str, general: str
) -> None:
    base = slack_site.url.removesuffix("/api")
    answer = httpx.post(f"{base}/simulator/set_request_url", json={"url": where.url})
    assert answer.status_code == 200, answer.text
    where.fails = 1
    slack_site.workspace.post(general, ada, "one")
    slack_site.app.requests.settle()
    challenge, first, again = where.requests
    assert json.loads(challenge[1])["type"] == "url_verification"
    assert first[1] == again[1]
    assert json.loads(first[1])["event"]["text"] == "one"
    assert (first[0].get("x-slack-retry-num"), again[0]["x-slack-retry-num"]) == (None, "1")
    for headers, body in where.requests:
        assert SignatureVerifier(slack_site.workspace.signing_secret).is_valid_request(body, headers)
        assert not SignatureVerifier("another").is_valid_request(body, headers)
    assert slack_site.app.requests.statuses == [500, 200]


def test_an_address_that_does_not_echo_the_challenge_is_refused(slack_site: SlackSite) -> None:
    base = slack_site.url.removesuffix("/api")
    answer = httpx.post(f"{base}/simulator/set_request_url", json={"url": f"{base}/nothing"})
    assert answer.status_code == 400
    assert "challenge" in answer.json()["error"]


def test_mentions_direct_messages_and_buttons_reach_the_app(
    slack_site: SlackSite, listener: Listener, ada: str, general: str
) -> None:
    slack = slack_site.workspace
    slack.post(general, ada, f"<@{slack.bot}> not heard as a question without the scope")
    slack.post(slack.direct(ada), ada, "not heard")
    assert listener.next().payload["event"]["type"] == "message"
    slack.set_scopes(slack.scopes | {"app_mentions:read", "im:history"})
    slack.post(general, ada, f"<@{slack.bot}> why?")
    slack.post(slack.direct(ada), ada, "And why?")
    heard = [listener.next().payload["event"] for _ in range(3)]
    assert [(one["type"], one.get("channel_type")) for one in heard] == [
        ("message", "channel"),
        ("app_mention", None),
        ("message", "im"),
    ]
    button = {"type": "button", "action_id": "yes", "text": {"type": "plain_text", "text": "Yes"}}
    ts = slack.post(general, slack.bot, "Sure?", blocks=[{"type": "actions", "elements": [button]}])
    assert listener.next().payload["event"]["bot_id"] == slack.users[slack.bot].bot_id
    slack.press(general, ts, ada, "yes")
    pressed = listener.next()
    assert (pressed.type, pressed.payload["type"], pressed.payload["user"]["id"]) == (
        "interactive",
        "block_actions",
        ada,
    )
    assert pressed.payload["container"]["message_ts"] == ts
    assert [one["action_id"] for one in pressed.payload["actions"]] == ["yes"]
    with pytest.raises(LookupError):
        slack.press(general, ts, ada, "no")
