"""Dagster's webserver and code server as run by `up`, against programs without the secret, web pages and viewers."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from orchestration.cli.addresses import addresses
from orchestration.supervision import run_state
from orchestration.supervision.dagster_gate import COOKIE
from resources import dagster_access
from resources.dagster_access import Grant
from resources.servers.sockets import socket_path
from resources.settings import Settings
from tests.fixtures.dagster import LAUNCH, MUTATION, PARAMS, RUNS, Dagster

pytestmark = pytest.mark.xdist_group("dagster")  # one webserver with its code server, not one in each worker

NOBODY = 65534


@pytest.mark.parametrize(
    "path", ["/", "/runs", "/server_info", "/graphql?query={version}", "/logs/x.out", "/download_debug/x"]
)
def test_without_the_secret_nothing_is_answered(dagster: Dagster, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": f"{COOKIE}=wrong"}):
        answer = httpx.get(dagster.url + path, headers=headers)
        assert answer.status_code == 401
        assert "concordance status --urls" in answer.text
    page = httpx.get(dagster.url + path, headers={"accept": "text/html"})
    assert page.status_code == 401
    assert "Sign in to Dagster" in page.text
    assert httpx.get(f"{dagster.url}/livez").text == "alive"


def test_a_link_opens_it_once(dagster: Dagster) -> None:
    link = dagster_access.link(dagster.settings, path="/runs")
    with httpx.Client() as browser:
        opened = browser.get(link)
        assert opened.status_code == 200
        assert opened.headers["refresh"] == "0; url=/runs"
        flags = opened.headers["set-cookie"]
        assert "HttpOnly" in flags
        assert "SameSite=Strict" in flags
        assert browser.get(f"{dagster.url}/runs", headers={"accept": "text/html"}).status_code == 200
        asked = browser.post(f"{dagster.url}/graphql", json={"query": RUNS}, headers={"origin": dagster.url})
        assert asked.json()["data"]["runsOrError"]["count"] == dagster.runs()
        again = browser.get(link)  # a signed-in user may open it again
        assert again.status_code == 200
    used = httpx.get(link)
    assert used.status_code == 401
    assert "concordance status --urls" in used.text
    assert "set-cookie" not in used.headers


def test_a_link_leads_nowhere_else(dagster: Dagster) -> None:
    token = parse_qs(urlsplit(dagster_access.link(dagster.settings)).query)["token"][0]
    opened = httpx.get(f"{dagster.url}//evil.example/%0d%0ax?token={token}&a=b;c")
    assert opened.headers["refresh"] == "0; url=/evil.example/%0D%0Ax?a=b%3Bc"


def test_what_status_prints_opens_it_to_tools_and_browsers(dagster: Dagster) -> None:
    printed = addresses(dagster.settings)["dagster"]
    for headers, link, role in (
        (printed.headers, printed.link, "admin"),
        (printed.read_only_headers, printed.read_only_link, "viewer"),
    ):
        assert link is not None
        assert httpx.get(f"{printed.url}/server_info", headers=headers).status_code == 200
        with httpx.Client() as browser:
            assert browser.get(link).status_code == 200
            asked = browser.post(f"{printed.url}/graphql", json={"query": MUTATION.replace("idle", "none")})
            assert asked.status_code == (200 if role == "admin" else 403), asked.text


def test_links_and_cookies_are_no_substitutes_for_each_other(dagster: Dagster) -> None:
    secrets = dagster_access.secrets_of(dagster.settings)
    cookie = dagster_access.session(secrets, Grant("admin"))
    token = parse_qs(urlsplit(dagster_access.link(dagster.settings)).query)["token"][0]
    assert httpx.get(f"{dagster.url}/?token={cookie}").status_code == 401
    assert httpx.get(dagster.url, headers={"cookie": f"{COOKIE}={token}"}).status_code == 401
    assert httpx.get(dagster.url, headers={"cookie": f"{COOKIE}={cookie}"}).status_code == 200


def test_nothing_is_changed_by_get(dagster: Dagster) -> None:
    before = dagster.runs()
    for query in (MUTATION, f"query Read {{ version }} {MUTATION.replace('mutation', 'mutation Change')}"):
        for more in ({}, {"operationName": "Change"}, {"operationName": "Read"}):
            answer = httpx.get(f"{dagster.url}/graphql", params={"query": query, **more}, headers=dagster.bearer())
            assert answer.status_code == 405
    assert dagster.runs() == before
    read = httpx.get(f"{dagster.url}/graphql", params={"query": "{ version }"}, headers=dagster.bearer())
    assert read.json()["data"]["version"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain", "origin": "https://evil.example"}, 403),
        ({"content-type": "application/json", "origin": "https://evil.example"}, 403),
        ({"content-type": "application/json", "origin": "http://127.0.0.1:1"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/graphql"}, 415),
        ({"content-type": "application/json", "host": "evil.example"}, 421),
    ],
)
def test_no_web_page_launches_a_run_with_a_browser_that_is_signed_in(
    dagster: Dagster, headers: dict[str, str], status: int
) -> None:
    before = dagster.runs()
    cookie = {
        "cookie": f"{COOKIE}={dagster_access.session(dagster_access.secrets_of(dagster.settings), Grant('admin'))}"
    }
    body = json.dumps({"query": MUTATION})
    # Dagster reads the query from the URL if the content type is unknown to it.
    address = f"{dagster.url}/graphql"
    answer = httpx.post(address, params={"query": MUTATION}, content=body, headers=headers | cookie)
    assert answer.status_code == status
    assert dagster.runs() == before


def test_a_foreign_host_is_answered_by_neither_page_nor_graphql(dagster: Dagster) -> None:
    for path in ("/", "/graphql?query={version}", "/livez"):
        answer = httpx.get(dagster.url + path, headers=dagster.bearer() | {"host": "evil.example"})
        assert answer.status_code == 421


def test_an_administrator_launches_and_a_viewer_reads(dagster: Dagster) -> None:
    before = dagster.runs()
    refused = dagster.ask(LAUNCH, dagster.bearer("viewer"), params=PARAMS)
    assert refused.status_code == 403
    assert "administrators" in refused.json()["errors"][0]["message"]
    report = httpx.post(f"{dagster.url}/report_asset_materialization/x", json={}, headers=dagster.bearer("viewer"))
    assert report.status_code == 403
    assert dagster.ask(RUNS, dagster.bearer("viewer")).json()["data"]["runsOrError"]["count"] == before
    permissions = "{ permissions { permission value } }"
    shown = dagster.ask(permissions, dagster.bearer("viewer")).json()["data"]["permissions"]
    assert not any(one["value"] for one in shown)
    launched = dagster.ask(LAUNCH, dagster.bearer(), params=PARAMS).json()
    assert launched["data"]["launchRun"]["__typename"] == "LaunchRunSuccess", launched
    assert dagster.runs() == before + 1


@pytest.mark.parametrize("body", [b"", b"[]", b"[{}]", b"{", b'{"query": 1}', b'{"query": "{"}', b"[" * 100_000])
def test_what_cannot_be_read_is_refused(dagster: Dagster, body: bytes) -> None:
    for role in ("viewer", "admin"):
        headers = dagster.bearer(role) | {"content-type": "application/json"}
        assert httpx.post(f"{dagster.url}/graphql", content=body, headers=headers).status_code == 400


def test_websockets_want_the_secret_and_change_nothing(dagster: Dagster) -> None:
    address = dagster.url.replace("http", "ws") + "/graphql"
    outside = ({}, dagster.bearer() | {"host": "evil.example"}, {"origin": "https://evil.example"})
    for headers in (*outside, dagster.bearer("viewer")):
        with pytest.raises(InvalidStatus) as refused:
            connect(address, additional_headers=headers)
        assert refused.value.response.status_code == 403
    before = dagster.runs()
    with connect(address, additional_headers=dagster.bearer(), subprotocols=["graphql-ws"]) as socket:  # type: ignore[list-item]
        socket.send(json.dumps({"type": "connection_init"}))
        assert json.loads(socket.recv(30))["type"] == "connection_ack"
        socket.send(json.dumps({"type": "start", "id": "1", "payload": {"query": MUTATION}}))
        assert json.loads(socket.recv(30))["type"] == "error"
    assert dagster.runs() == before


OUTSIDER = f"""
import os, socket, sys
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


def test_no_other_account_reaches_the_code_server(dagster: Dagster) -> None:
    path = socket_path(dagster.settings, "code.sock")
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    pid = run_state.read(dagster.settings).services["dagster-code"].pid
    assert pid is not None
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert [one for process in family for one in process.net_connections("inet") if one.status == "LISTEN"] == []
    if os.geteuid() == 0:
        attempt = subprocess.run(
            [sys.executable, "-c", OUTSIDER, str(path)], capture_output=True, text=True, check=False, cwd="/",
        )  # fmt: skip
        assert "PermissionError" in attempt.stderr, attempt.stderr


def test_a_long_home_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path / ("long" * 40))  # type: ignore[call-arg]
    settings.home.mkdir()
    path = socket_path(settings, "code.sock")
    assert len(str(path)) <= 100
    assert path == socket_path(settings, "code.sock")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.parent.chmod(0o755)
    socket_path(settings, "code.sock")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.parent.rmdir()
