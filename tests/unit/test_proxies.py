"""Which requests go through a proxy, and that every HTTP client is made where that is decided."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources import proxies
from resources.core.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
PROXY = "http://proxy.acme.test:3128"
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, *(name.lower() for name in NAMES)):
        monkeypatch.delenv(name, raising=False)


EXEMPT = {
    "": (["http://127.0.0.1:8080/x", "http://127.9.9.9", "http://localhost:1", "http://LOCALHOST.", "http://a.localhost",
          "http://[::1]:8080", "http://[::ffff:127.0.0.1]"], ["http://10.1.2.3", "https://slack.com"]),
    "10.0.0.0/8,localhost": (["http://10.1.2.3:6333", "https://10.255.0.1"], ["http://11.0.0.1", "http://ten.example"]),
    "fd00::/8": (["http://[fd00::7]:6333"], ["http://[fe80::1]"]),
    "acme.com": (["https://acme.com", "https://llm.acme.com:8443", "https://LLM.Acme.com"], ["https://notacme.com"]),
    ".acme.com": (["https://llm.acme.com", "https://acme.com"], ["https://acme.com.example"]),
    "*.acme.com , 10.0.0.7": (["https://llm.acme.com", "http://10.0.0.7:1"], ["http://10.0.0.8"]),
    "acme.com:8443 10.0.0.7:80": (["https://acme.com:8443", "http://10.0.0.7"], ["https://acme.com", "https://10.0.0.7"]),
    "[fd00::7]:443": (["https://[fd00::7]"], ["http://[fd00::7]"]),
    "*": (["https://slack.com", "http://10.1.2.3"], []),
    ",/8,:,.,[": ([], ["https://slack.com"]),
}  # fmt: skip
"""By NO_PROXY: URLs that are called directly, and URLs that are not."""


@pytest.mark.parametrize("no_proxy", EXEMPT)
def test_no_proxy_names_hosts_subdomains_and_networks(no_proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", no_proxy)
    direct, proxied = EXEMPT[no_proxy]
    assert [proxies.proxy_for(url) for url in direct] == [None] * len(direct)
    assert [proxies.proxy_for(url) for url in proxied] == [PROXY] * len(proxied)


@pytest.mark.parametrize("lower", [False, True])
def test_the_proxy_of_the_scheme_comes_first(monkeypatch: pytest.MonkeyPatch, *, lower: bool) -> None:
    assert proxies.proxy_for("https://slack.com") is None
    for name, value in {"HTTPS_PROXY": "secure:1", "ALL_PROXY": "http://all:2"}.items():
        monkeypatch.setenv(name.lower() if lower else name, value)
    found = [proxies.proxy_for(f"{scheme}://slack.com") for scheme in ("https", "wss", "http", "ws")]
    assert found == ["http://secure:1", "http://secure:1", "http://all:2", "http://all:2"]


@pytest.mark.parametrize("wrong", ["socks5://user:canary@proxy:1080", "http://user:canary@proxy:x", "http://"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", wrong)
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY: must name an HTTP proxy") as raised:
        proxies.proxy_for("https://slack.com")
    assert "canary" not in str(raised.value)
    assert proxies.proxy_for("https://127.0.0.1") is None


def test_libraries_that_read_the_variables_see_loopback_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,localhost")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8,localhost")
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    proxies.exempt_this_machine()
    proxies.exempt_this_machine()
    assert {os.environ[name] for name in proxies.NO_PROXY} == {"10.0.0.0/8,localhost,127.0.0.1,127.0.0.0/8,::1"}


MADE_HERE = "resources/http_clients.py"
CLIENTS = {
    "httpx": {"Client", "AsyncClient", "get", "post", "put", "patch", "delete", "head", "options", "request", "stream"},
    "httpx2": {"Client", "AsyncClient", "get", "post", "request", "stream"},
    "aiohttp": {"ClientSession", "request"},
    "requests": {"Session", "get", "post", "request"},
    "urllib.request": {"urlopen", "build_opener"},
    "http.client": {"HTTPConnection", "HTTPSConnection"},
    "httplib2": {"Http"},
    "websockets": {"connect"},
    "slack_sdk": {"WebClient"},
    "slack_sdk.web.async_client": {"AsyncWebClient"},
    "openai": {"OpenAI", "AsyncOpenAI"},
    "qdrant_client": {"QdrantClient", "AsyncQdrantClient"},
    "qdrant_client.qdrant_remote": {"QdrantRemote"},
    "qdrant_client.async_qdrant_remote": {"AsyncQdrantRemote"},
    "grpc": {"insecure_channel", "secure_channel"},
    "obstore.store": {"from_url"},
    "deltalake": {"DeltaTable", "write_deltalake"},
}
"""What opens connections, by module."""
KNOWN = {
    # libraries that are given the proxy and the authorities
    ("resources/embedding/openai_compatible.py", "openai.OpenAI"),
    ("serving/answers/model.py", "openai.AsyncOpenAI"),
    ("serving/sources/slack_connection.py", "slack_sdk.web.async_client.AsyncWebClient"),
    ("resources/stores/qdrant.py", "qdrant_client.qdrant_remote.QdrantRemote"),
    ("resources/stores/qdrant.py", "qdrant_client.async_qdrant_remote.AsyncQdrantRemote"),
    # object stores, whose libraries read the variables themselves
    ("resources/stores/blobs.py", "obstore.store.from_url"),
    ("resources/sources/files.py", "obstore.store.from_url"),
    ("resources/stores/lake.py", "deltalake.DeltaTable"),
    ("resources/stores/lake.py", "deltalake.write_deltalake"),
    # our own services: the standard library's client knows no proxies, and gRPC uses none for Unix sockets
    ("orchestration/diagnosis/outsider.py", "http.client.HTTPConnection"),
    ("orchestration/supervision/liveness.py", "http.client.HTTPConnection"),
    ("orchestration/supervision/services.py", "http.client.HTTPConnection"),
    ("orchestration/supervision/liveness.py", "grpc.insecure_channel"),
}
"""Clients that other modules make. `test_company_proxy.py` tries each of the first two groups behind a real proxy."""


def calls(tree: ast.AST) -> Iterator[str]:
    """Yield the full names of what a module calls by a name that it imports."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, _, rest = ast.unparse(node.func).rpartition(".")
            yield f"{names.get(first, first)}.{rest}" if first else names.get(rest, rest)


def test_every_client_is_made_in_one_place() -> None:
    opening = {f"{module}.{name}" for module, made in CLIENTS.items() for name in made}
    found = {
        (str(path.relative_to(ROOT)), name)
        for package in ("resources", "assets", "serving", "orchestration", "sql")
        for path in (ROOT / package).rglob("*.py")
        for name in calls(ast.parse(path.read_text()))
        if name in opening
    }
    assert {one for one in found if one[0] != MADE_HERE} == KNOWN
