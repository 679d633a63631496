"""Idle connections are not closed while a client may be sending its next request."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from resources.settings import Settings
from serving.workers.uvicorn_config import config

PATIENCE = 30
STRANGER = "127.0.0.2"
"""An address of this machine that is no trusted proxy."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def serving(wanted: uvicorn.Config) -> Generator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    wanted.lifespan = "off"
    server = uvicorn.Server(wanted)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listener.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]


def ask(connection: http.client.HTTPConnection, path: str = "/") -> int:
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def test_connections_are_kept_longer_than_clients_and_proxies_keep_them(settings: Settings) -> None:
    clients = {"httpx": httpx.Limits().keepalive_expiry or 5, "aiohttp": 15, "nginx, AWS load balancers": 60}
    assert config(app, settings).timeout_keep_alive > max(clients.values())


def test_an_idle_connection_makes_room_for_another_one_of_its_address(settings: Settings) -> None:
    with serving(config(app, settings, per_address=3)) as port:
        kept = [
            http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE, source_address=(STRANGER, 0))
            for _ in range(10)
        ]
        assert [ask(connection) for connection in kept] == [200] * 10
        for connection in kept:
            connection.close()
