"""Clients whose ID is the URL of their document, against draft-ietf-oauth-client-id-metadata-document-02."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest

from resources.core.errors import InvalidRequestError, OverloadedError, TemporaryError
from resources.public_web import LOOKUPS, UNRESOLVED_SECONDS, PublicWeb, is_public
from serving.agents.client_documents import (
    KNOWN,
    LEAST_CACHED,
    MAX_BYTES,
    MAX_CACHED,
    MAX_FETCHES,
    MOST_CACHED,
    UNREADABLE,
    ClientDocuments,
    is_document,
    url_fault,
)
from serving.agents.clients import AgentClient, acceptable, new_client_id

URL = "https://app.example/oauth/client.json"
VS_CODE = "https://vscode.dev/oauth/client-metadata.json"
REDIRECT = "https://app.example/callback"
Answer = Callable[[httpx.Request], httpx.Response]


def document(**changed: Any) -> dict[str, Any]:
    return {"client_id": URL, "client_name": "An app", "redirect_uris": [REDIRECT]} | changed


class Web:
    """The documents of a web whose names all have the same addresses, and the requests for them."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses or ("93.184.216.34",)
        self.answer: Answer = lambda _: httpx.Response(200, json=document())
        self.requests: list[httpx.Request] = []
        self.now = 0.0

    async def resolve(self, host: str) -> list[str]:  # noqa: ARG002 (the signature)
        return list(self.addresses)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer(request)

    def documents(self, *, seconds: float = 5.0) -> ClientDocuments:
        client = partial(httpx.AsyncClient, transport=httpx.MockTransport(self._answer))
        web = PublicWeb(most_bytes=MAX_BYTES, seconds=seconds, resolve=self.resolve, client=client)
        return ClientDocuments(web, lambda: self.now)


def read(web: Web, url: str = URL) -> AgentClient:
    return asyncio.run(web.documents().client(url))


def refusal(web: Web, url: str = URL) -> str:
    with pytest.raises(InvalidRequestError) as refused:
        read(web, url)
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        (URL, True),
        ("https://app.example:443/client", True),
        ("https://app.example/client?x=1", True),
        ("http://app.example/client", False),
        ("https://app.example", False),
        ("https://app.example/", False),
        ("https://app.example?client", False),
        ("https://app.example/a/../client", False),
        ("https://app.example/a/./client", False),
        ("https://app.example/a/%2e%2E/client", False),
        ("https://app.example/client#x", False),
        ("https://app.example/client#", False),
        ("https://user@app.example/client", False),
        ("https://user:secret@app.example/client", False),
        ("https://app.example:8443/client", False),
        ("https://app.example:x/client", False),
        ("https://[::1]/client", False),
        ("https://app.example\\@evil.example/client", False),
        ("https:///client", False),
        ("https://app.example/cli ent", False),
        ("https://app.example/" + "x" * 300, False),
    ],
)
def test_a_client_id_is_an_https_url_with_a_path(url: str, fine: bool) -> None:
    assert (url_fault(url) is None) is fine
    if not fine:
        web = Web()
        refusal(web, url)
        assert web.requests == []


def test_ids_that_we_give_out_are_no_documents() -> None:
    assert is_document(URL)
    assert not is_document(new_client_id("k" * 40, AgentClient("x", [REDIRECT])))


def test_the_document_describes_the_client() -> None:
    web = Web()
    assert read(web) == AgentClient("An app", [REDIRECT])
    (request,) = web.requests
    assert (request.url.host, request.headers["host"]) == ("93.184.216.34", "app.example")
    assert request.extensions["sni_hostname"] == "app.example"
    assert request.headers["accept-encoding"] == "identity"
    assert "cookie" not in request.headers
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": URL + "/"},
        {"client_id": "https://APP.example/oauth/client.json"},
        {"client_id": None},
        {"redirect_uris": []},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["https://["]},
        {"redirect_uris": ["https://app.example:99999/callback", "https://a%zz/callback"]},
        {"redirect_uris": "https://app.example/callback"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"token_endpoint_auth_method": "client_secret_jwt"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"client_secret": "x"},
        {"client_secret_expires_at": 0},
    ],
)
def test_a_document_that_the_draft_forbids_is_refused_and_not_kept(changed: dict[str, Any]) -> None:
    web = Web()
    web.answer = lambda _: httpx.Response(200, json=document(**changed))

    async def twice() -> None:
        documents = web.documents()
        for _ in range(2):
            with pytest.raises(InvalidRequestError):
                await documents.client(URL)

    asyncio.run(twice())
    assert len(web.requests) == 2


def test_a_client_that_can_do_without_its_key_is_public() -> None:
    web = Web()
    both = {
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_methods_supported": ["private_key_jwt", "none"],
    }
    web.answer = lambda _: httpx.Response(200, json=document(**both))
    assert read(web).redirect_uris == [REDIRECT]


def test_unacceptable_redirect_uris_are_left_out() -> None:
    web = Web()
    uris = ["data:text/html,x", REDIRECT, "http://app.example/callback"]
    web.answer = lambda _: httpx.Response(200, json=document(redirect_uris=uris))
    assert read(web).redirect_uris == [REDIRECT]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, json=document()),
        httpx.Response(201, json=document()),
        httpx.Response(302, headers={"Location": "https://elsewhere.example/client"}),
        httpx.Response(200, html="<p>Are you human?</p>"),
        httpx.Response(200, text=json.dumps(document())),
        httpx.Response(200, json=document(logo_uri="x" * MAX_BYTES)),
        httpx.Response(200, json=document(), headers={"Content-Encoding": "x-unknown"}),
    ],
)
def test_any_other_answer_is_an_error(answer: httpx.Response) -> None:
    web = Web()
    web.answer = lambda _: answer
    assert refusal(web) == UNREADABLE
    assert len(web.requests) == 1  # a redirect is not followed


def test_a_more_specific_type_of_json_is_accepted() -> None:
    web = Web()
    headers = {"Content-Type": "application/oauth-client+json; charset=utf-8"}
    web.answer = lambda _: httpx.Response(200, content=json.dumps(document()), headers=headers)
    assert read(web).name == "An app"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fd00::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:93.184.216.34",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:db8::1",
        "not an address",
    ],
)
def test_no_document_is_read_from_our_networks(address: str) -> None:
    assert not is_public(address)
    web = Web("93.184.216.34", address)  # one of them is enough
    assert refusal(web) == UNREADABLE
    assert web.requests == []


def test_public_addresses_are_public() -> None:
    assert all(map(is_public, ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111"]))


def test_a_host_that_does_not_answer_is_given_up() -> None:
    web = Web()

    async def never(host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    slow = PublicWeb(most_bytes=MAX_BYTES, seconds=0.01, resolve=never)
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        asyncio.run(ClientDocuments(slow).client(URL))

    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused by 10.0.0.1", request=request)

    web.answer = broken
    assert refusal(web) == UNREADABLE


def test_names_that_do_not_resolve_take_no_threads_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, over, asked = threading.Semaphore(0), threading.Event(), list[str]()

    def getaddrinfo(host: str, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        hanging.release()
        over.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    async def look_up() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        web = PublicWeb(most_bytes=MAX_BYTES, seconds=60)
        try:
            for number in range(LOOKUPS):
                read = asyncio.create_task(web.read(f"https://n{number}.evil.example/c.json"))
                assert await asyncio.wait_for(asyncio.to_thread(hanging.acquire, timeout=30), 30)
                read.cancel()  # as its time limit does
            with pytest.raises(OverloadedError):  # others are refused instead of waiting
                await web.read(URL)
        finally:
            over.set()
        assert len(asked) == LOOKUPS

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", getaddrinfo)
        asyncio.run(look_up())


def test_a_name_that_did_not_resolve_is_not_looked_up_again_at_once() -> None:
    asked, now = list[str](), 0.0

    async def resolve(host: str) -> list[str]:
        asked.append(host)
        if len(asked) == 1:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        await asyncio.Event().wait()
        return []

    async def look_up() -> None:
        nonlocal now
        web = PublicWeb(most_bytes=MAX_BYTES, seconds=0.01, resolve=resolve, clock=lambda: now)
        for later in (0.0, UNRESOLVED_SECONDS - 1, UNRESOLVED_SECONDS, UNRESOLVED_SECONDS * 2 - 1):
            now = later
            with pytest.raises(TemporaryError):
                await web.read(URL)

    asyncio.run(look_up())
    assert asked == ["app.example"] * 2


def test_further_documents_are_refused_while_as_many_are_read_as_may_be() -> None:
    answered = asyncio.Event()

    async def resolve(host: str) -> list[str]:
        await answered.wait()
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is unknown")

    async def read_many() -> None:
        documents = ClientDocuments(PublicWeb(most_bytes=MAX_BYTES, seconds=60, resolve=resolve))
        reads = [
            asyncio.create_task(documents.client(f"https://n{number}.example/c.json")) for number in range(MAX_FETCHES)
        ]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            await asyncio.wait_for(documents.client(URL), 30)
        assert await documents.client(VS_CODE) == KNOWN[VS_CODE]
        answered.set()
        assert all(isinstance(one, InvalidRequestError) for one in await asyncio.gather(*reads, return_exceptions=True))
        with pytest.raises(InvalidRequestError):
            await documents.client(URL)

    asyncio.run(read_many())


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", LEAST_CACHED),
        ("no-store", LEAST_CACHED),
        ("public, max-age=0", LEAST_CACHED),
        ("max-age=3600", 3600),
        ("public, s-maxage=9, max-age=3600", 3600),
        ("max-age=999999999", MOST_CACHED),
    ],
)
def test_a_document_is_kept_as_long_as_its_headers_say_within_bounds(header: str, seconds: float) -> None:
    web = Web()
    web.answer = lambda _: httpx.Response(200, json=document(), headers={"Cache-Control": header})

    async def reads() -> list[int]:
        documents, counts = web.documents(), list[int]()
        for now in (0.0, seconds - 1, seconds):
            web.now = now
            await documents.client(URL)
            counts.append(len(web.requests))
        return counts

    assert asyncio.run(reads()) == [1, 1, 2]


def test_the_cache_is_bounded() -> None:
    web = Web()
    web.answer = lambda request: httpx.Response(
        200, json=document(client_id=f"https://app.example{request.url.raw_path.decode()}")
    )

    async def reads() -> int:
        documents = web.documents()
        for number in range(MAX_CACHED + 1):
            await documents.client(f"https://app.example/{number}")
        await documents.client(f"https://app.example/{MAX_CACHED}")
        await documents.client("https://app.example/0")
        return len(web.requests)

    assert asyncio.run(reads()) == MAX_CACHED + 2


def test_known_agents_connect_where_their_document_cannot_be_read() -> None:
    web = Web()
    web.answer = lambda _: httpx.Response(403, html="<p>Are you human?</p>")
    for url, client in KNOWN.items():
        assert url_fault(url) is None
        assert acceptable(client.redirect_uris) == client.redirect_uris
        assert read(web, url) == client
    web.answer = lambda _: httpx.Response(200, json=document(client_id=VS_CODE))
    assert read(web, VS_CODE).redirect_uris == [REDIRECT]  # what its vendor says now
    web.answer = lambda _: httpx.Response(200, json=document())
    refusal(web, VS_CODE)
