"""Which requests a listener refuses: foreign hosts, changes by foreign pages, bodies of undeclared type."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from resources.core.guard import Accepted, Rules, host_name, rules_for
from simulators import serve

HERE = "127.0.0.1:6333"
JSON = {"content-type": "application/json", "content-length": "2"}


def asked(
    rules: Rules,
    method: str = "GET",
    host: str | None = HERE,
    kind: str = "http",
    declared: Accepted | None = None,
    **headers: str,
) -> int:
    """Return the status with which a request is refused, or 0."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if host is not None:
        given["host"] = host
    scope: dict[str, Any] = {
        "type": kind,
        "method": method,
        "path": "/",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    refusal = rules.refusal(scope, declared)
    return refusal.status if refusal else 0


@pytest.mark.parametrize("host", [HERE, "localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:6333", "[::1]"])
def test_loopback_names_are_served(host: str) -> None:
    assert asked(Rules(), host=host) == 0


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:6333", "127.0.0.1.evil.example", "localhost.evil.example", "", "10.0.0.1", None,
     "[::1].evil.example", "127.0.0.1@evil.example", "::1.evil.example:80"],
)  # fmt: skip
def test_no_other_host_is(host: str | None) -> None:
    assert asked(Rules(), host=host) == 421


def test_two_hosts_are_refused() -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost"), (b"host", b"evil")]}
    refusal = Rules().refusal(scope)
    assert refusal is not None
    assert refusal.status == 421


def test_names_that_were_set_are_served_and_addresses_when_bound_to_all() -> None:
    assert asked(Rules(hosts={"search.example"}), host="search.example") == 0
    assert asked(rules_for("10.0.0.1"), host="10.0.0.1:8080") == 0
    assert asked(rules_for("10.0.0.1"), host="10.0.0.2:8080") == 421
    assert asked(rules_for("::"), host="10.0.0.2:8080") == 0
    assert asked(rules_for("::"), host="10.evil.example") == asked(rules_for("::"), host="") == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://127.0.0.1"},
        {"origin": "127.0.0.1:6333"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example", "authorization": "Basic eA=="},
    ],
)
def test_changes_by_foreign_pages_are_refused(headers: dict[str, str]) -> None:
    assert asked(Rules(), "POST", **headers) == 403
    assert asked(Rules(), kind="websocket", **headers) == 403
    assert asked(Rules(), "GET", **headers) == 0


def test_changes_by_pages_of_ours_and_by_programs_are_not() -> None:
    public = Rules(hosts={"search.example"}, origins={"https://search.example"})
    for headers in (
        {},
        {"origin": f"http://{HERE}"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
        {"origin": "https://search.example"},
        {"origin": "https://portal.example", "authorization": "Bearer x"},
    ):
        assert asked(public, "POST", **headers) == 0
    assert asked(public, "POST", host="search.example", origin="https://search.example") == 0
    assert asked(public, "POST", host="search.example:443", origin="https://search.example") == 0


def test_bodies_are_declared() -> None:
    for given in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""):
        assert asked(Rules(), "POST", content_length="2", content_type=given) == 415
    assert asked(Rules(), "POST", content_length="2") == 415
    assert asked(Rules(), "POST", transfer_encoding="chunked") == 415
    assert asked(Rules(), "POST", content_length="2", content_type="Application/JSON; charset=utf-8") == 0
    assert asked(Rules(), "POST", content_length="0") == asked(Rules(), "DELETE") == 0
    assert asked(Rules(accepted=Accepted(None)), "POST", content_length="2", content_type="text/plain") == 0
    form = Accepted("multipart/form-data")
    given = {"content_length": "2", "content_type": "multipart/form-data; boundary=x"}
    assert asked(Rules(), "POST", declared=form, **given) == 0
    assert asked(Rules(), "POST", declared=form, content_length="2", content_type="application/json") == 415


def test_a_compressed_body_is_refused() -> None:
    given = {"content_length": "2", "content_type": "application/json"}
    for coding in ("gzip", "br", "identity, gzip"):
        assert asked(Rules(), "POST", content_encoding=coding, **given) == 415
    for coding in ("", "identity", "Identity"):
        assert asked(Rules(), "POST", content_encoding=coding, **given) == 0
    assert asked(Rules(), "POST", content_encoding="gzip", content_length="0") == 0


def test_a_route_may_check_the_origin_itself_or_accept_its_own_only() -> None:
    page = {"origin": "https://elsewhere.example"}
    assert asked(Rules(), "POST", declared=Accepted(checks_origin=True), **page) == 0
    assert asked(Rules(), "POST", authorization="Bearer x", **page) == 0
    assert asked(Rules(), "POST", declared=Accepted(own_origin=True), authorization="Bearer x", **page) == 403


def test_simulators_refuse_foreign_hosts_and_pages() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    with serve(app) as url:
        assert httpx.get(url).text == "hello"
        assert httpx.post(url, content="a=b").text == "hello"
        assert httpx.get(url, headers={"host": "evil.example"}).json()["error"] == "host-unknown"
        assert httpx.post(url, headers={"origin": "https://evil.example"}).json()["error"] == "origin-foreign"


def test_names_of_authorities() -> None:
    assert [host_name(authority) for authority in ("a:1", "a", "[::1]:2", "[::1]", "::1", "a@b")] == [
        "a", "a", "::1", "::1", "", "",
    ]  # fmt: skip
