"""Behind a company's proxy: outward requests go through it and trust the company's authority; our own services are called directly."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from resources import alerts, http_clients, proxies
from resources.core.retrying import Tally
from resources.embedding.openai_compatible import OpenAICompatible
from resources.settings import Settings
from resources.settings.sign_in import OidcProvider
from resources.sources.drive.auth import Authority
from resources.sources.drive.client import DriveClient
from resources.sources.slack.client import SlackClient
from resources.stores import qdrant
from resources.stores.blobs import Blobs
from resources.stores.lake import Lake
from resources.stores.qdrant_search import PointQuery, VectorSearch, raw
from serving.answers.model import ChatModel
from serving.identity.sign_in.provider import Provider
from serving.sources.slack_connection import SlackConnection
from tests.fixtures.company_proxy import VENDOR, CompanyAuthority, CompanyProxy, company_proxy
from tests.fixtures.installed import Installed
from tests.fixtures.llm import ModelServer
from tests.fixtures.s3 import S3Server

SECONDS = 20


class Vendor:
    """An HTTPS server that answers everything with a JSON object; `asked` holds host and path of each request."""

    def __init__(self, certificate: Path) -> None:
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def host(self, name: str) -> str:
        return f"{name}{VENDOR}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(vendor) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (`self` is the handler below)
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _reply(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                vendor.asked.append(f"{self.headers['host']}{self.path}".partition("?")[0])
                answer = json.dumps({"ok": True, "url": f"wss://{vendor.host('sockets')}/link"}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _reply

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        return Handler


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompanyProxy]:
    with company_proxy(tmp_path_factory.mktemp("proxy")) as made:
        yield made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CompanyAuthority:
    return CompanyAuthority(tmp_path_factory.mktemp("company"))


@pytest.fixture(scope="module")
def vendor(authority: CompanyAuthority) -> Iterator[Vendor]:
    with Vendor(authority.issue(f"*{VENDOR}")) as made:
        yield made


@pytest.fixture
def behind(proxy: CompanyProxy, authority: CompanyAuthority, monkeypatch: pytest.MonkeyPatch) -> Iterator[CompanyProxy]:
    """Put this process behind the proxy."""
    for name, value in (proxy.variables() | {"SSL_CERT_FILE": str(authority.file)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("no_proxy", "")  # restored at the end, which `exempt_this_machine` changes
    proxies.exempt_this_machine()
    http_clients.tls.cache_clear()
    yield proxy
    http_clients.tls.cache_clear()


class Call(NamedTuple):
    host: str
    path: str
    make: Callable[[str], object]
    """Sends a request to the vendor at a URL; the answer is not the one that it expects."""


def settings(**more: Any) -> Settings:
    return Settings(_env_file=None, retry_seconds=(), **more)  # type: ignore[call-arg]


def drive(url: str) -> object:
    made = settings(drive_api_url=url, drive_token="token")
    return DriveClient(made, Authority(made, Tally()), Tally()).call("files.list")


def token_of_google(url: str) -> object:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    row = {"client_email": "a@b.example", "private_key": key.decode(), "private_key_id": "x"}
    return Authority.of_key(settings(drive_api_url=url), json.dumps(row), None, Tally(), SECONDS).token()


def sign_in(url: str) -> object:
    async def metadata() -> None:
        provider = Provider(OidcProvider(name="Acme", issuer=url, client_id="x"))
        try:
            await provider.metadata()
        finally:
            await provider.close()

    return asyncio.run(metadata())


def language_model(url: str) -> object:
    async def complete() -> None:
        model = ChatModel(url, None, "model", SECONDS, 100, 1)
        try:
            await model.complete([{"role": "user", "content": "Hello"}], person="ann@acme.com")
        finally:
            await model.close()

    return asyncio.run(complete())


def vector_search(url: str) -> object:
    async def query() -> None:
        search = VectorSearch(settings(qdrant_url=url, qdrant_api_key="x" * 32))
        try:
            await search.query("documents", [PointQuery(raw([0.1]), "dense", raw({}), 1)], SECONDS)
        finally:
            await search.close()

    return asyncio.run(query())


def qdrant_async(url: str) -> object:
    return asyncio.run(qdrant.async_client(settings(qdrant_url=url)).get_collections())


CALLS = {
    "Drive": Call("drive", "/drive/v3/files", drive),
    "Google's tokens": Call("oauth", "/token", token_of_google),
    "Slack": Call("slack", "/auth.test", lambda url: SlackClient("xoxb-1", url, Tally()).call("auth.test")),
    "sign-in": Call("id", "/.well-known/openid-configuration", sign_in),
    "embeddings": Call("embed", "/embeddings", lambda url: OpenAICompatible(url, None, model="model").embed(["text"])),
    "language model": Call("llm", "/chat/completions", language_model),
    "webhook": Call("hook", "/hook", lambda url: alerts.alert(settings(alert_webhook_url=f"{url}/hook"), "text")),
    "Qdrant": Call("qdrant", "/collections", lambda url: qdrant.client(settings(qdrant_url=url)).get_collections()),
    "Qdrant, asynchronous": Call("qdrant", "/collections", qdrant_async),
    "Qdrant, searches": Call("qdrant", "/collections/documents/points/query/batch", vector_search),
    "object store": Call("s3", "/bucket/blobs/00/00/" + "0" * 64, lambda _: Blobs("s3://bucket").exists("0" * 64)),
    "tables in an object store": Call("s3", "/bucket", lambda _: Lake("s3://bucket").open("parsed")),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_outward_request_goes_through_the_proxy(
    behind: CompanyProxy, vendor: Vendor, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call = CALLS[name]
    for variable, value in {"ENDPOINT_URL": f"https://{vendor.host('s3')}", "REGION": "x", "ACCESS_KEY_ID": "x",
                            "SECRET_ACCESS_KEY": "x"}.items():  # fmt: skip
        monkeypatch.setenv(f"AWS_{variable}", value)
    passed, asked = len(behind.passed()), len(vendor.asked)
    with suppress(Exception):
        call.make(f"https://{vendor.host(call.host)}")
    assert vendor.host(call.host) in behind.passed()[passed:]
    assert [one for one in vendor.asked[asked:] if one.startswith(f"{vendor.host(call.host)}{call.path}")]


def test_socket_mode_goes_through_the_proxy(behind: CompanyProxy, vendor: Vendor) -> None:
    async def handle(*_: Any) -> None: ...

    async def opened() -> None:
        connection = SlackConnection("xapp-1", f"https://{vendor.host('slack')}", handle)
        task = asyncio.create_task(connection.open())
        try:
            async with asyncio.timeout(SECONDS):
                while f"{vendor.host('sockets')}/link" not in vendor.asked:
                    assert not task.done()
                    await asyncio.sleep(0.01)
        finally:
            task.cancel()
            await connection.end()

    asyncio.run(opened())
    assert {vendor.host("slack"), vendor.host("sockets")} <= set(behind.passed())


def test_an_object_store_on_this_machine_is_called_directly(
    behind: CompanyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = len(behind.passed())
    with S3Server() as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        assert not Blobs("s3://bucket").exists("0" * 64)
        assert Lake("s3://bucket").open("parsed") is None
    assert behind.passed()[passed:] == []


@pytest.fixture
def installed(tmp_path: Path, proxy: CompanyProxy, model_server: ModelServer) -> Iterator[Installed]:
    one = Installed(tmp_path / "home")
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        one.environment.pop(name, None)
    one.environment |= proxy.variables()
    model = {"URL": model_server.url.replace("127.0.0.1", f"llm{VENDOR}"), "NAME": "stand-in"}
    one.environment |= {"CONCORDANCE_LLM_BASE_URL": model["URL"], "CONCORDANCE_LLM_MODEL": model["NAME"]}
    yield one
    one.run("down")


@pytest.mark.slow
def test_an_installation_starts_syncs_and_answers_behind_the_proxy(
    installed: Installed, proxy: CompanyProxy, model_server: ModelServer
) -> None:
    passed = len(proxy.passed())
    started = installed.run("up", "--detach", "--sample")
    assert started.returncode == 0, started.stderr
    synced = installed.run("sync", "files", "--wait")
    assert synced.returncode == 0, synced.stdout + synced.stderr
    token = installed.run("token", "helen.marsh@larkmoor.example").stdout.strip()
    with http_clients.own(started.stdout.split()[5], timeout=SECONDS) as http:
        body = {"query": "How many unused holidays may I carry over?"}
        answered = http.post("/api/ask", json=body, headers={"Authorization": f"Bearer {token}"})
    assert answered.status_code == 200, answered.text
    assert model_server.requests
    assert {service["state"] for service in installed.status().values()} == {"ready"}
    host = urlsplit(installed.environment["CONCORDANCE_LLM_BASE_URL"]).netloc
    assert set(proxy.passed()[passed:]) == {host}, "only what leaves the machine passes the proxy"
    held = {path.name: path.read_text() for path in (installed.home / "logs").rglob("*.log")}
    assert [name for name, text in held.items() if "token=" in text] == [], "no log holds a sign-in link"
    assert "token=" not in started.stdout, "which is shown on a terminal only"
