"""A real Kinto server on loopback. `KINTO_PYTHON` names an interpreter that has the package `kinto`; default: this one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

START = "import sys; from pyramid.scripts.pserve import main; main(['pserve', sys.argv[1]])"
ADMIN = ("concordance", "s3cret")
INI = """
[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = {port}
[app:main]
use = egg:kinto
kinto.includes = kinto.plugins.accounts kinto.plugins.history
kinto.storage_backend = kinto.core.storage.memory
kinto.cache_backend = kinto.core.cache.memory
kinto.permission_backend = kinto.core.permission.memory
kinto.userid_hmac_secret = of-no-use-to-anyone
multiauth.policies = account
multiauth.policy.account.use = kinto.plugins.accounts.AccountsPolicy
kinto.account_create_principals = system.Everyone
kinto.bucket_create_principals = system.Authenticated
"""


class Server:
    """The server as its administrator sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, auth=ADMIN, timeout=30)

    def put(self, path: str, **body: Any) -> Any:
        """Create or replace an object."""
        return self._answer(self._http.put(path, json=body))

    def patch(self, path: str, **body: Any) -> Any:
        """Change fields of an object, or its permissions."""
        return self._answer(self._http.patch(path, json=body))

    def get(self, path: str) -> Any:
        """Return an object."""
        return self._answer(self._http.get(path))

    def delete(self, path: str) -> Any:
        """Delete an object."""
        return self._answer(self._http.delete(path))

    def _answer(self, response: httpx.Response) -> Any:
        response.raise_for_status()
        return response.json()


@contextmanager
def kinto(folder: Path) -> Iterator[Server]:
    """Start a server with an administrator, and the bucket `main` with the collection `pages`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ini = folder / "kinto.ini"
    ini.write_text(INI.format(port=port))
    with (folder / "kinto.log").open("wb") as log:
        process = subprocess.Popen(
            [os.environ.get("KINTO_PYTHON", sys.executable), "-c", START, str(ini)],
            stdout=log,
            stderr=log,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
    try:
        server = Server(f"http://127.0.0.1:{port}/v1")
        _wait(server, process, folder / "kinto.log")
        server.put(f"/accounts/{ADMIN[0]}", data={"password": ADMIN[1]})
        server.put("/buckets/main")
        server.put("/buckets/main/collections/pages")
        yield server
    finally:
        process.terminate()
        process.wait()


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(server.url + "/", timeout=5)
        except httpx.TransportError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "Kinto did not start within a minute"
            time.sleep(0.1)
        else:
            return
