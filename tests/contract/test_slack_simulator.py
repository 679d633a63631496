"""The simulated Slack over real HTTP, through Slack's own client: responses, paging, errors and faults."""

from __future__ import annotations

import http.client
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from simulators import serve
from simulators.slack import SlackApp, Workspace
from tests.fixtures.slack import SlackSite

OLD = "1700000000.000100"


@pytest.fixture
def client(slack_site: SlackSite) -> WebClient:
    """Slack's client without its own retries, so that every fault is visible."""
    return WebClient(slack_site.workspace.token, base_url=f"{slack_site.url}/", retry_handlers=[])


@pytest.fixture
def ada(slack_site: SlackSite) -> str:
    return slack_site.workspace.user("Ada", "Ada@larkmoor.example")


@pytest.fixture
def bob(slack_site: SlackSite) -> str:
    return slack_site.workspace.user("Bob", "bob@larkmoor.example")


@pytest.fixture
def general(slack_site: SlackSite, ada: str, bob: str) -> str:
    return slack_site.workspace.channel("general", [ada, bob])


def refusal(call: Any, **arguments: Any) -> str:
    """Return the error code of a call's response."""
    with pytest.raises(SlackApiError) as raised:
        call(**arguments)
    return raised.value.response["error"]


def texts(answer: Any) -> list[str]:
    return [message["text"] for message in answer["messages"]]


def pages(call: Any, key: str, **arguments: Any) -> list[list[Any]]:
    """Call until there is no cursor, as the reference requires."""
    found, cursor = [], None
    while cursor != "":
        answer = call(cursor=cursor, **arguments)
        found.append(answer[key])
        cursor = (answer.get("response_metadata") or {}).get("next_cursor", "")
    return found


# Identity, tokens, scopes


def test_token_names_the_team_and_the_bot(slack_site: SlackSite, client: WebClient) -> None:
    answer = client.auth_test()
    assert (answer["team_id"], answer["user_id"]) == ("T0LARKMOOR", slack_site.workspace.bot)
    assert answer["url"] == "https://larkmoor.slack.com/"
    assert client.bots_info(bot=answer["bot_id"])["bot"]["user_id"] == answer["user_id"]
    assert "users:read.email" in answer.headers["x-oauth-scopes"]
    assert slack_site.workspace.calls == {"auth.test": 1, "bots.info": 1}


def test_tokens_are_judged_as_slack_does(slack_site: SlackSite, client: WebClient) -> None:
    assert httpx.get(f"{slack_site.url}/auth.test").json() == {"ok": False, "error": "not_authed"}
    assert refusal(WebClient("xoxb-other", base_url=f"{slack_site.url}/").auth_test) == "invalid_auth"
    slack_site.workspace.revoke()
    assert refusal(client.auth_test) == "token_revoked"
    slack_site.workspace.renew()
    assert client.auth_test()["ok"]
    assert refusal(client.api_call, api_method="conversations.everything") == "unknown_method"


def test_scopes_bound_the_token(slack_site: SlackSite, client: WebClient, ada: str, general: str) -> None:
    slack_site.workspace.set_scopes({"users:read", "channels:read"})
    with pytest.raises(SlackApiError) as raised:
        client.conversations_history(channel=general)
    assert raised.value.response["error"] == "missing_scope"
    assert raised.value.response["needed"] == "channels:history"
    assert raised.value.response["provided"] == "channels:read,users:read"
    assert all("email" not in user["profile"] for user in client.users_list()["members"])
    assert refusal(client.conversations_list, types="public_channel,private_channel") == "missing_scope"


# People


def test_users_carry_what_access_is_decided_by(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    workspace = slack_site.workspace
    guest = workspace.user("Gus", "gus@agency.example", guest=True)
    gone = workspace.user("Old", "old@larkmoor.example", deactivated=True)
    partner = workspace.user("Pat", "pat@partner.example", external=True, tz="Asia/Tokyo")
    by_id = {user["id"]: user for page in pages(client.users_list, "members", limit=2) for user in page}
    assert by_id.keys() == workspace.users.keys()
    assert by_id[ada]["profile"]["email"] == "Ada@larkmoor.example"
    assert by_id[guest]["is_restricted"]
    assert by_id[gone]["deleted"]
    assert by_id[workspace.bot]["is_bot"]
    assert "email" not in by_id[workspace.bot]["profile"]
    assert not by_id["USLACKBOT"]["is_bot"]
    assert by_id[partner]["tz_offset"] == 9 * 3600
    assert by_id[partner]["is_stranger"]
    assert "email" not in by_id[partner]["profile"]
    workspace.join(general, partner)
    known = next(user for user in client.users_list()["members"] if user["id"] == partner)
    assert not known["is_stranger"]
    assert known["team_id"] != workspace.team
    assert client.conversations_info(channel=general)["channel"]["is_ext_shared"]


def test_a_display_name_can_change(slack_site: SlackSite, client: WebClient, ada: str) -> None:
    slack_site.workspace.set_name(ada, "Ada L.")
    names = {user["id"]: user["profile"]["display_name"] for user in client.users_list()["members"]}
    assert names[ada] == "Ada L."


# Channels


def test_channels_are_listed_as_far_as_the_bot_sees(slack_site: SlackSite, client: WebClient, general: str) -> None:
    workspace = slack_site.workspace
    outside = workspace.channel("outside", ["Ada"], bot=False)
    secret = workspace.channel("secret", ["Ada"], private=True)
    workspace.channel("hidden", ["Ada"], private=True, bot=False)
    listed = pages(client.conversations_list, "channels", types="public_channel,private_channel", limit=1)
    assert len(listed) == 3
    by_id = {channel["id"]: channel for page in listed for channel in page}
    assert by_id.keys() == {general, outside, secret}
    assert [by_id[id_]["is_member"] for id_ in (general, outside, secret)] == [True, False, True]
    assert by_id[secret]["is_private"]
    assert by_id[general]["num_members"] == 3
    assert [channel["id"] for channel in client.conversations_list()["channels"]] == sorted([general, outside])
    assert "num_members" not in client.conversations_info(channel=general)["channel"]


def test_what_the_bot_may_not_read_is_refused_by_kind(slack_site: SlackSite, client: WebClient) -> None:
    workspace = slack_site.workspace
    ada = workspace.user("Ada", "ada@larkmoor.example")
    outside = workspace.channel("outside", [ada], bot=False)
    hidden = workspace.channel("hidden", [ada], private=True, bot=False)
    for call, more in ((client.conversations_history, {}), (client.conversations_replies, {"ts": OLD})):
        assert refusal(call, channel=outside, **more) == "not_in_channel"
        assert refusal(call, channel=hidden, **more) == "channel_not_found"
        assert refusal(call, channel="C0", **more) == "channel_not_found"
    assert client.conversations_members(channel=outside)["members"] == [ada]
    assert refusal(client.conversations_members, channel=hidden) == "channel_not_found"
    assert refusal(client.conversations_info, channel=hidden) == "channel_not_found"
    assert workspace.readers(hidden) == workspace.readers(outside) == set()
    workspace.invite_bot(hidden)
    assert client.conversations_info(channel=hidden)["channel"]["is_member"]
    workspace.remove_bot(hidden)
    assert refusal(client.conversations_info, channel=hidden) == "channel_not_found"


def test_archived_channels_stay_readable(slack_site: SlackSite, client: WebClient, ada: str, general: str) -> None:
    workspace = slack_site.workspace
    workspace.post(general, ada, "farewell")
    workspace.archive(general)
    assert "farewell" in texts(client.conversations_history(channel=general))
    assert len(client.conversations_members(channel=general)["members"]) == 3
    listed = client.conversations_list()["channels"][0]
    assert (listed["is_archived"], listed["is_member"]) == (True, False)
    assert client.conversations_list(exclude_archived=True)["channels"] == []
    assert workspace.readers(general) == {"slack:T0LARKMOOR"}
    with pytest.raises(ValueError, match="archived"):
        workspace.post(general, ada, "one more")
    workspace.unarchive(general)
    workspace.archive(general, eject=True)
    assert refusal(client.conversations_history, channel=general) == "not_in_channel"


def test_readers_are_the_members_of_a_private_channel(slack_site: SlackSite, ada: str, bob: str, general: str) -> None:
    workspace = slack_site.workspace
    guest = workspace.user("Gus", "Gus@agency.example", guest=True)
    partner = workspace.user("Pat", "pat@partner.example", external=True)
    for user in (guest, partner):
        workspace.join(general, user)
    assert workspace.readers(general) == {"slack:T0LARKMOOR", "gus@agency.example"}
    workspace.make_private(general)
    assert workspace.readers(general) == {"ada@larkmoor.example", "bob@larkmoor.example", "gus@agency.example"}
    workspace.deactivate(bob)
    workspace.leave(general, ada)
    assert workspace.readers(general) == {"gus@agency.example"}


# Messages


def test_history_pages_newest_first(slack_site: SlackSite, client: WebClient, ada: str, general: str) -> None:
    written = [slack_site.workspace.post(general, ada, f"message {number}") for number in range(25)]
    found = pages(client.conversations_history, "messages", channel=general, limit=10)
    assert [len(page) for page in found] == [10, 10, 5]
    assert [message["ts"] for page in found for message in page] == written[::-1]
    last = client.conversations_history(channel=general)
    assert not last["has_more"]
    assert "response_metadata" not in last.data


def test_a_page_stays_right_while_messages_come_and_go(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    written = [slack_site.workspace.post(general, ada, f"message {number}") for number in range(6)]
    first = client.conversations_history(channel=general, limit=2)
    assert first["has_more"]
    slack_site.workspace.post(general, ada, "new")
    slack_site.workspace.delete(general, written[3])
    rest = client.conversations_history(channel=general, cursor=first["response_metadata"]["next_cursor"])
    assert texts(rest) == ["message 2", "message 1", "message 0"]


def test_history_is_bounded_by_times(slack_site: SlackSite, client: WebClient, ada: str, general: str) -> None:
    for second in range(5):
        slack_site.workspace.post(general, ada, str(second), ts=f"170000000{second}.000100")

    def between(**bounds: Any) -> list[str]:
        return texts(client.conversations_history(channel=general, **bounds))

    low, high = "1700000001.000100", "1700000003.000100"
    assert between(oldest=low, latest=high) == ["2"]
    assert between(oldest=low, latest=high, inclusive=True) == ["3", "2", "1"]
    assert between(oldest=low) == ["4", "3", "2"]
    assert between(oldest="1700000003") == ["4", "3"]
    assert between(latest=low) == ["0"]
    assert between(oldest=low, latest=low, inclusive=True, limit=1) == ["1"]
    assert between(oldest=low, latest="1700000005", limit=2) == ["4", "3"]
    nearest = pages(client.conversations_history, "messages", channel=general, oldest=low, limit=2)
    assert [[message["text"] for message in page] for page in nearest] == [["3", "2"], ["4"]]


def test_messages_that_the_plan_hides_are_announced_and_not_sent(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    for second in range(3):
        slack_site.workspace.post(general, ada, str(second), ts=f"170000000{second}.000100")
    slack_site.workspace.hide_before("1700000001")
    shown = client.conversations_history(channel=general)
    assert (texts(shown), shown["has_more"]) == (["2", "1"], True)
    below = client.conversations_history(channel=general, latest="1700000001")
    assert (texts(below), below["has_more"]) == ([], True)
    assert not client.conversations_history(channel=general, latest="1700000000")["has_more"]
    assert refusal(client.conversations_replies, channel=general, ts="1700000000.000100") == "thread_not_found"


def test_arguments_that_make_no_sense_are_refused(client: WebClient, general: str) -> None:
    history, replies = client.conversations_history, client.conversations_replies
    assert refusal(history, channel=general, limit=1000) == "invalid_limit"
    assert refusal(history, channel=general, limit="many") == "invalid_limit"
    assert refusal(history, channel=general, oldest="yesterday") == "invalid_ts_oldest"
    assert refusal(history, channel=general, latest="soon") == "invalid_ts_latest"
    assert refusal(history, channel=general, cursor="bmV4dA==") == "invalid_cursor"
    assert refusal(client.users_list, cursor="no cursor") == "invalid_cursor"
    assert refusal(client.conversations_list, types="fax") == "invalid_types"
    assert refusal(replies, channel=general, ts="1700000000.000999") == "thread_not_found"
    assert refusal(replies, channel=general, ts="soon") == "thread_not_found"
    assert refusal(client.api_call, api_method="conversations.history") == "invalid_arguments"


def test_history_shows_a_thread_by_its_parent(
    slack_site: SlackSite, client: WebClient, ada: str, bob: str, general: str
) -> None:
    workspace = slack_site.workspace
    parent = workspace.post(general, ada, "question", ts=OLD)
    reply = workspace.post(general, bob, "answer", thread=parent)
    loud = workspace.post(general, ada, "told all", thread=reply, broadcast=True)
    shown = client.conversations_history(channel=general)["messages"]
    assert [message["ts"] for message in shown] == [loud, parent]
    assert shown[0]["subtype"] == "thread_broadcast"
    assert shown[0]["root"]["text"] == "question"
    assert shown[1]["thread_ts"] == parent
    assert (shown[1]["reply_count"], shown[1]["latest_reply"]) == (2, loud)
    assert shown[1]["reply_users"] == [bob, ada]
    thread = client.conversations_replies(channel=general, ts=parent)["messages"]
    assert [message["ts"] for message in thread] == [parent, reply, loud]
    assert (thread[1]["thread_ts"], thread[1]["parent_user_id"]) == (parent, ada)
    assert client.conversations_replies(channel=general, ts=reply)["messages"] == thread
    assert [truth.thread_ts for truth in workspace.messages(general)] == [parent] * 3


def test_the_parent_leads_every_page_of_a_thread(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    parent = slack_site.workspace.post(general, ada, "question", ts=OLD)
    replies = [slack_site.workspace.post(general, ada, f"reply {number}", thread=parent) for number in range(7)]
    found = pages(client.conversations_replies, "messages", channel=general, ts=parent, limit=4)
    assert [[message["ts"] for message in page] for page in found] == [
        [parent, *replies[:3]],
        [parent, *replies[3:6]],
        [parent, replies[6]],
    ]
    late = client.conversations_replies(channel=general, ts=parent, oldest=replies[4])
    assert [message["ts"] for message in late["messages"]] == [parent, *replies[5:]]
    alone = slack_site.workspace.post(general, ada, "by itself")
    assert texts(client.conversations_replies(channel=general, ts=alone)) == ["by itself"]


def test_edits_are_marked(slack_site: SlackSite, client: WebClient, ada: str, general: str) -> None:
    ts = slack_site.workspace.post(general, ada, "frist")
    slack_site.workspace.edit(general, ts, "first")
    message = client.conversations_history(channel=general)["messages"][0]
    assert (message["ts"], message["text"]) == (ts, "first")
    assert message["edited"]["user"] == ada
    assert float(message["edited"]["ts"]) >= float(ts)


def test_deleting_leaves_a_tombstone_only_over_replies(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    workspace = slack_site.workspace
    plain = workspace.post(general, ada, "plain")
    workspace.delete(general, plain)
    assert texts(client.conversations_history(channel=general)) == []
    parent = workspace.post(general, ada, "question")
    replies = [workspace.post(general, ada, text, thread=parent) for text in ("one", "two")]
    workspace.delete(general, replies[1])
    shown = client.conversations_history(channel=general)["messages"][0]
    assert (shown["reply_count"], shown["latest_reply"]) == (1, replies[0])
    workspace.delete(general, parent)
    shown = client.conversations_history(channel=general)["messages"][0]
    assert (shown["subtype"], shown["user"], shown["text"]) == ("tombstone", "USLACKBOT", "This message was deleted.")
    assert shown["hidden"]
    assert shown["reply_count"] == 1
    assert [truth.text for truth in workspace.messages(general)] == ["one"]
    workspace.delete(general, replies[0])
    assert texts(client.conversations_history(channel=general)) == []
    assert refusal(client.conversations_replies, channel=general, ts=parent) == "thread_not_found"


def test_a_parent_without_replies_left_says_so(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    parent = slack_site.workspace.post(general, ada, "question")
    slack_site.workspace.delete(general, slack_site.workspace.post(general, ada, "one", thread=parent))
    shown = client.conversations_history(channel=general)["messages"][0]
    assert (shown["thread_ts"], shown["reply_count"], shown["latest_reply"]) == (parent, 0, "0000000000.000000")
    assert slack_site.workspace.messages(general)[0].thread_ts is None


def test_comings_and_goings_are_events_and_not_messages(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    workspace = slack_site.workspace
    workspace.leave(general, ada)
    workspace.join(general, ada)
    workspace.rename(general, "everyone")
    shown = client.conversations_history(channel=general)["messages"]
    assert [message["subtype"] for message in shown] == ["channel_name", "channel_join", "channel_leave"]
    assert refusal(client.conversations_replies, channel=general, ts=shown[0]["ts"]) == "thread_not_found"
    assert workspace.messages(general) == []


def test_bots_sign_as_bots(slack_site: SlackSite, client: WebClient, general: str) -> None:
    robot = slack_site.workspace.user("Deployer", None, bot=True)
    slack_site.workspace.post(general, robot, "", subtype="bot_message", attachments=[{"fallback": "deployed"}])
    message = client.conversations_history(channel=general)["messages"][0]
    assert "user" not in message
    assert message["username"] == "Deployer"
    assert message["attachments"] == [{"fallback": "deployed"}]
    assert client.bots_info(bot=message["bot_id"])["bot"]["name"] == "Deployer"


def test_times_are_seconds_since_1970_wherever_one_is() -> None:
    now = [1_700_000_000.0]
    workspace = Workspace(clock=lambda: now[0])
    ada = workspace.user("Ada", "ada@larkmoor.example", tz="Pacific/Auckland")
    channel = workspace.channel("general", [ada])
    stamps = [workspace.post(channel, ada, "at once") for _ in range(3)]
    assert stamps == ["1700000000.000000", "1700000000.000001", "1700000000.000002"]
    assert workspace.post(channel, ada, "dated", ts=datetime(2023, 1, 1, tzinfo=UTC)) == "1672531200.000000"
    with pytest.raises(ValueError, match="time is taken"):
        workspace.post(channel, ada, "again", ts=stamps[0])
    assert workspace.messages(channel)[0].text == "dated"


def test_ten_thousand_messages_take_eleven_calls(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    for number in range(10_000):
        slack_site.workspace.post(general, ada, f"message {number}")
    found = pages(client.conversations_history, "messages", channel=general, limit=999)
    assert len({message["ts"] for page in found for message in page}) == 10_000
    assert slack_site.workspace.calls["conversations.history"] == 11


# Files


def test_files_are_given_to_the_bearer_alone(slack_site: SlackSite, client: WebClient, ada: str, general: str) -> None:
    workspace = slack_site.workspace
    file = workspace.upload(ada, "plan & budget.md", b"# Plan", "text/markdown")
    workspace.post(general, ada, "here", files=[file])
    shared = client.conversations_history(channel=general)["messages"][0]["files"][0]
    assert (shared["id"], shared["name"], shared["size"]) == (file, "plan & budget.md", 6)
    url, bearer = shared["url_private_download"], {"Authorization": f"Bearer {workspace.token}"}
    assert url.startswith(slack_site.url.removesuffix("/api"))
    assert httpx.get(url, headers=bearer).content == b"# Plan"
    for headers in ({}, {"Authorization": "Bearer xoxb-other"}):
        answer = httpx.get(url, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "Sign in" in answer.text
    workspace.set_scopes(workspace.scopes - {"files:read"})
    assert "Sign in" in httpx.get(url, headers=bearer).text
    assert workspace.calls["files.download"] == 4


def test_a_deleted_file_leaves_its_id(slack_site: SlackSite, client: WebClient, ada: str, general: str) -> None:
    file = slack_site.workspace.upload(ada, "plan.md", "# Plan")
    slack_site.workspace.post(general, ada, "here", files=[file])
    url = client.conversations_history(channel=general)["messages"][0]["files"][0]["url_private_download"]
    slack_site.workspace.delete_file(file)
    assert client.conversations_history(channel=general)["messages"][0]["files"] == [{"id": file, "mode": "tombstone"}]
    assert httpx.get(url, headers={"Authorization": f"Bearer {slack_site.workspace.token}"}).status_code == 404
    assert slack_site.workspace.messages(general)[0].files == ()


def test_files_of_a_channel_with_a_connected_workspace_are_to_be_asked_for(
    slack_site: SlackSite, client: WebClient, ada: str, general: str
) -> None:
    workspace = slack_site.workspace
    file, gone = workspace.upload(ada, "plan.md", "# Plan"), workspace.upload(ada, "old.md", "# Old")
    kept = workspace.upload(ada, "own.md", "# Own")
    workspace.post(general, ada, "here", files=[file, gone])
    workspace.join(general, workspace.user("Pat", "pat@partner.example", external=True))
    stubs = client.conversations_history(channel=general)["messages"][1]["files"]
    assert stubs[0] == {
        "id": file, "mode": "file_access", "file_access": "check_file_info", "created": 0, "timestamp": 0, "user": "",
    }  # fmt: skip
    found = client.files_info(file=file)["file"]
    assert (found["name"], found["file_access"], found["user"]) == ("plan.md", "visible", ada)
    workspace.deny_file(file)
    workspace.delete_file(gone)
    errors = [refusal(client.files_info, file=one) for one in (file, gone, kept, "F0NONE")]
    assert errors == ["access_denied", "file_deleted", "file_not_found", "file_not_found"]
    workspace.set_scopes(workspace.scopes - {"files:read"})
    assert refusal(client.files_info, file=file) == "missing_scope"


# Faults


def test_published_rates_are_enforced_on_request() -> None:
    now = [0.0]
    workspace = Workspace()
    workspace.throttle = True
    with serve(SlackApp(workspace, timer=lambda: now[0])) as base:
        client = WebClient(workspace.token, base_url=f"{base}/api/", retry_handlers=[])
        for _ in range(20):
            client.users_list()
        now[0] = 12.5
        with pytest.raises(SlackApiError) as raised:
            client.users_list()
        assert raised.value.response.status_code == 429
        assert raised.value.response["error"] == "ratelimited"
        assert raised.value.response.headers["retry-after"] == "48"
        assert client.conversations_list()["ok"]  # each method has its own rate
        now[0] = 60.0
        assert client.users_list()["ok"]


def test_faults_come_as_slack_words_them(slack_site: SlackSite, client: WebClient, general: str) -> None:
    faults = slack_site.faults
    faults.add("rate_limit", seconds=7, match="conversations.history")
    faults.add("unauthorized")
    faults.add("bad_page_token")
    faults.add("lost_access", times=2)
    assert refusal(client.auth_test) == "token_expired"
    with pytest.raises(SlackApiError) as limited:
        client.conversations_history(channel=general)
    assert (limited.value.response.status_code, limited.value.response.headers["retry-after"]) == (429, "7")
    assert refusal(client.conversations_history, channel=general) == "invalid_cursor"
    assert refusal(client.conversations_history, channel=general) == "not_in_channel"
    slack_site.workspace.make_private(general)
    assert refusal(client.conversations_history, channel=general) == "channel_not_found"
    faults.add("server_error")
    with pytest.raises(SlackApiError) as broken:
        client.conversations_history(channel=general)
    assert broken.value.response.status_code == 500
    assert client.conversations_history(channel=general)["ok"]


def test_a_dropped_connection_breaks_in_the_middle(slack_site: SlackSite, client: WebClient, general: str) -> None:
    slack_site.faults.add("drop")
    slack_site.faults.add("slow", seconds=0.0)
    with pytest.raises(http.client.IncompleteRead):
        client.conversations_history(channel=general)
    assert client.conversations_history(channel=general)["ok"]
    assert slack_site.faults.committed == {"drop": 1, "slow": 1}


# Remote control


def test_people_change_the_workspace_over_http(slack_site: SlackSite, client: WebClient) -> None:
    home = slack_site.url.removesuffix("/api")

    def do(operation: str, **arguments: Any) -> Any:
        return httpx.post(f"{home}/simulator/{operation}", json=arguments).raise_for_status().json()["result"]

    do("user", name="Ada", email="ada@larkmoor.example")
    channel = do("channel", name="general", members=["Ada"])
    ts = do("post", channel="general", user="Ada", text="by hand")
    assert client.conversations_history(channel=channel)["messages"][0]["ts"] == ts
    assert do("readers", channel="general") == ["slack:T0LARKMOOR"]
    assert do("messages", channel="#general")[0]["text"] == "by hand"
    do("faults", kind="rate_limit", match="users.")
    with pytest.raises(SlackApiError):
        client.users_list()
    do("faults", seed=1, share=1.0)
    with pytest.raises((SlackApiError, http.client.HTTPException)):
        client.users_list()
    do("faults", clear=True)
    state = httpx.get(f"{home}/simulator/state").json()
    assert state["channels"][0]["messages"] == 1
    assert state["calls"]["conversations.history"] == 1
    for path, status in (("post", 400), ("format_disk", 404)):
        assert httpx.post(f"{home}/simulator/{path}", json={"channel": "general"}).status_code == status
    assert httpx.post(f"{home}/simulator/faults", json={"kind": "flood"}).status_code == 400
    assert "post(channel, user, text, *, ts=None" in httpx.get(home).text


def test_json_bodies_and_forms_say_the_same(slack_site: SlackSite, ada: str, general: str) -> None:
    slack_site.workspace.post(general, ada, "hello")
    url, bearer = f"{slack_site.url}/conversations.history", {"Authorization": f"Bearer {slack_site.workspace.token}"}
    arguments = {"channel": general, "limit": 5, "inclusive": True}
    by_json = httpx.post(url, json=arguments, headers=bearer).json()
    assert texts(by_json) == ["hello"]
    assert httpx.post(url, data=arguments, headers=bearer).json() == by_json
    assert httpx.get(url, params=arguments, headers=bearer).json() == by_json
    assert httpx.post(url, content=b"<x/>", headers=bearer | {"Content-Type": "text/xml"}).json()["error"] == (
        "invalid_form_data"
    )


def test_same_seed_same_ids() -> None:
    first, second = Workspace(seed=3, clock=time.time), Workspace(seed=3)
    assert first.user("Ada", None) == second.user("Ada", None)
    assert first.bot == second.bot != Workspace(seed=4).bot


@pytest.fixture
def writing(slack_site: SlackSite) -> None:
    slack_site.workspace.set_scopes(slack_site.workspace.scopes | {"chat:write", "im:history"})


@pytest.mark.usefixtures("writing")
def test_an_app_writes_in_threads_and_changes_what_it_wrote(
    client: WebClient, slack_site: SlackSite, general: str, ada: str
) -> None:
    asked = slack_site.workspace.post(general, ada, "When is lunch?")
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "At <https://x.example|noon> &amp; later."}}]
    posted = client.chat_postMessage(channel=general, thread_ts=asked, text="Noon.", blocks=blocks)
    assert posted["message"]["bot_id"] == client.auth_test()["bot_id"]
    client.chat_update(channel=general, ts=posted["ts"], text="At one.")
    thread = client.conversations_replies(channel=general, ts=asked)
    assert texts(thread) == ["When is lunch?", "At one."]
    assert refusal(client.chat_update, channel=general, ts=asked, text="Never.") == "cant_update_message"
    assert refusal(client.chat_update, channel=general, ts=OLD, text="Never.") == "message_not_found"
    client.chat_postEphemeral(channel=general, user=ada, text="Psst.")
    assert slack_site.workspace.whispers == [(general, ada, "Psst.")]
    direct = slack_site.workspace.direct(ada)
    client.chat_postMessage(channel=direct, text="Hello.")
    assert texts(client.conversations_history(channel=direct)) == ["Hello."]
    assert client.users_info(user=ada)["user"]["profile"]["email"] == "Ada@larkmoor.example"
    assert refusal(client.users_info, user="U0NOBODY") == "user_not_found"


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ("{", "invalid_blocks_format"),
        ([{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}], "invalid_blocks"),
        ([{"type": "section", "text": {"type": "mrkdwn", "text": ""}}], "invalid_blocks"),
        ([{"type": "section", "text": {"type": "mrkdwn", "text": "a < b"}}], "invalid_blocks"),
        ([{"type": "section", "text": {"type": "mrkdwn", "text": "x"}, "block_id": "a"}] * 2, "invalid_blocks"),
        ([{"type": "section", "text": {"type": "mrkdwn", "text": "x"}}] * 51, "invalid_blocks"),
        ([{"type": "actions", "elements": [{"type": "button"}]}], "invalid_blocks"),
        ([{"type": "video"}], "invalid_blocks"),
    ],
)
def test_blocks_that_slack_would_refuse(client: WebClient, general: str, blocks: Any, error: str) -> None:
    assert refusal(client.chat_postMessage, channel=general, text="x", blocks=blocks) == error


def test_writing_needs_its_scope_and_a_place(client: WebClient, slack_site: SlackSite, general: str, ada: str) -> None:
    assert refusal(client.chat_postMessage, channel=general, text="x") == "missing_scope"
    slack_site.workspace.set_scopes(slack_site.workspace.scopes | {"chat:write"})
    assert refusal(client.chat_postMessage, channel="C0NOWHERE", text="x") == "channel_not_found"
    assert refusal(client.chat_postMessage, channel=general, text="x", thread_ts=OLD) == "thread_not_found"
    assert refusal(client.conversations_history, channel=slack_site.workspace.direct(ada)) == "missing_scope"
    slack_site.workspace.archive(general)
    assert refusal(client.chat_postMessage, channel=general, text="x") == "is_archived"
