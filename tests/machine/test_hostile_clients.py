"""Clients that try to overload the service: endless headers, half-sent requests, slow senders and readers, hostile header values.

Against `python -m serving`, the process that people run, so that its memory can be measured and its log read.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from resources.servers.connections import Bounds
from resources.servers.processes import free_port
from tests.fixtures.postgres import PostgresProcess, fresh_database
from tests.fixtures.serving import Running, Site, fresh_site
from tests.fixtures.waiting import until

pytestmark = pytest.mark.xdist_group("hostile")  # one process of the service, not one in each worker

ROOT = Path(__file__).resolve().parents[2]
MB = 1024 * 1024
PATIENCE = 20
"""Seconds that another client waits for `/healthz` meanwhile: far more than it takes, far less than any of these hangs took."""
ANN = "ann@acme.com"
STRANGER = "127.0.0.2"
"""An address of this machine that is no trusted proxy."""


class Served:
    """`python -m serving` and what it may be asked."""

    def __init__(self, site: Site, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.site, self.port, self.log = site, port, log
        self.process = psutil.Process(process.pid)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE)

    def alive(self) -> None:
        """Fail unless another client is answered."""
        assert self.http.get("/healthz").status_code == 200

    def memory(self) -> int:
        """Resident bytes."""
        return self.process.memory_info().rss

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Open a connection from an address of this machine."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE, (source, 0))


@pytest.fixture(scope="module")
def served(
    postgres_server: PostgresProcess, vector_url: str, bundled_model: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """The service as a separate process, for all tests of this module: each must leave it as it was."""
    home = tmp_path_factory.mktemp("served")
    log = home / "serving.log"
    with (
        fresh_database(postgres_server) as database,
        fresh_site(database, vector_url, bundled_model, home / "home") as site,
    ):
        process, port = start(site, log)
        with process:
            served = Served(site, process, port, log)
            try:
                served.alive()
                yield served
            finally:
                served.http.close()
                process.terminate()
                process.wait(PATIENCE)


def start(site: Site, log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the service on a free port, on another one if a connection has taken that port by the time the service needs it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONCORDANCE_")}
    assert site.settings.postgres_url is not None
    environment |= {
        "CONCORDANCE_HOME": str(site.settings.home),
        "CONCORDANCE_POSTGRES_URL": site.settings.postgres_url.get_secret_value(),
        "CONCORDANCE_QDRANT_URL": site.settings.qdrant_address,
    }
    for _ in range(5):
        port = free_port()
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "serving"],
                cwd=ROOT,
                env=environment | {"CONCORDANCE_HTTP_PORT": str(port)},
                stderr=sink,
            )
        until(lambda started=process, at=port: started.poll() is not None or listens(at), "the service listens")
        if process.poll() is None:
            return process, port
    raise AssertionError(f"the service does not start: {log.read_text()}")


def listens(port: int) -> bool:
    """Return True if the service accepts connections. Without a listener, a socket may be connected to itself."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0 and probe.getsockname() != probe.getpeername()


def answer(connection: socket.socket) -> bytes:
    """Read until the other end closes."""
    read = b""
    try:
        while piece := connection.recv(65536):
            read += piece
    except ConnectionError:
        pass
    return read


def send(connection: socket.socket, data: bytes) -> bool:
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


HEAD = b"POST /api/rag/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_endless_headers_are_cut_off(served: Served) -> None:
    before = served.memory()
    for line in (b"X-A: b\r\n", b"X-" + b"a" * 1000, b"X-A: " + b"b" * 1000, b"\r\n"):
        with served.connect() as connection:
            sent, piece = 0, line * (64 * 1024 // len(line))
            connection.sendall(HEAD if line != b"\r\n" else b"")
            while sent < 64 * MB and send(connection, piece):
                sent += len(piece)
            assert sent < 64 * MB, "64 MB of headers were taken"
        served.alive()
    assert served.memory() - before < 40 * MB


def test_endless_trailers_and_pipelined_requests_are_cut_off(served: Served) -> None:
    before = served.memory()
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    for first, line in (
        (chunked, b"X-A: " + b"b" * 60_000),
        (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000),
    ):
        with served.connect() as connection:
            sent = 0
            connection.sendall(first)
            while sent < 64 * MB and send(connection, line):
                sent += len(line)
            assert sent < 64 * MB
        served.alive()
    assert served.memory() - before < 60 * MB


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"GET /healthz HTTP/1.1\r\n" + b"X-A: b\r\n" * 200 + b"\r\n", b"more than 100 headers"),
        (b"GET /healthz HTTP/1.1\r\nCookie: " + b"c" * 17_000 + b"\r\n\r\n", b"The header cookie is larger than 16 kB"),
        (b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\n\r\n", b"The URL is larger than 16 kB"),
        (
            b"GET /healthz HTTP/1.1\r\n" + (b"X-A: " + b"b" * 8000 + b"\r\n") * 5 + b"\r\n",
            b"larger than 32 kB together",
        ),
    ],
)
def test_what_is_too_much_is_named(running: Running, head: bytes, says: bytes) -> None:
    with socket.create_connection(("127.0.0.1", running.http.base_url.port), PATIENCE) as connection:
        connection.sendall(head)
        said = answer(connection)
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b'"type": "/problems/headers-too-large"' in said
    assert b"cache-control: no-store\r\nx-content-type-options: nosniff\r\n" in said
    assert says in said


NASTY = (
    ";", "; ", ";x=", ';x="', ';x="\\', "\\", '"', '\\"', ",", ", ;", "=", "; a=b", "%", "a=", "a*0*=b;", "bytes=0-1,",
    "/", "(", "\t", "q=0.1,",
)  # fmt: skip
PARSED = (
    "Content-Type", "Content-Disposition", "Cookie", "Authorization", "Accept", "Accept-Encoding", "Range", "Host", "X-API-Key",
    "X-Forwarded-For", "If-Modified-Since", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect",
)  # fmt: skip
LEADS = {
    "Content-Type": "multipart/form-data",
    "Authorization": "Bearer ",
    "Cookie": "__Host-concordance=",
    "Range": "bytes=",
}
PATHS = {
    "Content-Type": "/api/upload",
    "Cookie": "/documents/00000000-0000-4000-8000-000000000000",
    "Range": "/docs/static/swagger-ui.css",
    "If-Modified-Since": "/docs/static/swagger-ui.css",
}


def test_no_header_value_stalls_the_service(served: Served) -> None:
    """Each of these costs milliseconds; before there were limits, one of them stopped the service for 35 seconds."""
    token = served.site.token(ANN)
    for name in PARSED:
        path = PATHS.get(name, "/api/ask")
        method = "POST" if path.startswith("/api") else "GET"
        for pattern in NASTY:
            value = (LEADS.get(name, "") + pattern * Bounds().value_bytes)[: Bounds().value_bytes - 200]
            sent = {
                "Host": "localhost",
                "Content-Type": "application/json",
                "Content-Length": "2",
                "Authorization": f"Bearer {token}",
                name: value,
            }
            if name == "Transfer-Encoding":
                del sent["Content-Length"]
            lines = "".join(f"{one}: {what}\r\n" for one, what in sent.items())
            with served.connect() as connection:
                send(connection, f"{method} {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n{{}}".encode())
                said = answer(connection)
            assert not said.startswith(b"HTTP/1.1 500"), (name, pattern, path, said[:600])
        served.alive()


def test_a_content_type_of_any_length_is_refused_or_parsed_at_once(served: Served) -> None:
    token = served.site.token(ANN)
    for length in (1_000, 15_000, 30_000, 256_000):
        kind = ("multipart/form-data; x=" + ";" * length)[:length]
        with served.connect() as connection:
            head = f"POST /api/upload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n"
            send(connection, f"{head}Connection: close\r\nContent-Type: {kind}\r\n\r\n".encode())
            said = answer(connection)
        served.alive()
        assert not said or said.split()[1] in (b"400", b"431")


def test_hostile_forms_are_refused_at_once(served: Served) -> None:
    def post(body: bytes) -> httpx.Response:
        headers = {
            "Content-Type": "multipart/form-data; boundary=B",
            "Authorization": f"Bearer {served.site.token(ANN)}",
        }
        return served.http.post("/api/upload", content=body, headers=headers)

    disposition = b'Content-Disposition: form-data; name="file"; filename="a.md"'
    forms = {
        "many headers": b"--B\r\n" + (disposition + b"\r\n") * 50_000,
        "a long header": b"--B\r\n" + disposition + b";x=" * 200_000,
        "many parts": (b"--B\r\n" + disposition.replace(b'"file"; filename="a.md"', b'"f"') + b"\r\n\r\nx\r\n")
        * 20_000,
        "quotes": (b'--B\r\nContent-Disposition: form-data; name="f"' + b';x="' * 480 + b"\r\n\r\nx\r\n") * 40,
        "line breaks before": b"\r\n" * 500_000 + b"--B\r\n",
        "line breaks after": b"--B--" + b"\r\n" * 500_000,
        "almost boundaries": b"--B\r\n" + disposition + b"\r\n\r\n" + b"\r\n--A" * 200_000,
    }
    for name, body in forms.items():
        response = post(body)
        assert response.status_code == 400, (name, response.text)
        assert response.json()["detail"], name
        served.alive()


def test_half_sent_requests_end_and_leave_no_trace_in_the_log(site: Site) -> None:
    """A header that never ends, a body that never comes, and a body that trickles: each is answered with 408 and closed."""
    token = site.token(ANN).encode()
    signed = HEAD + b"Authorization: Bearer " + token
    slow = {"header_seconds": 1.0, "idle_seconds": 1.5, "linger_seconds": 1.0, "least_rate": 1000}
    with site.running(**slow) as running, ExitStack() as opened:

        def connect() -> socket.socket:
            port = running.http.base_url.port
            return opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))

        silent, header, body, refused, trickle = (connect() for _ in range(5))
        header.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        body.sendall(signed + b"\r\nContent-Length: 1000\r\n\r\n{")
        refused.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n{")
        trickle.sendall(signed + b"\r\nContent-Length: 100000\r\n\r\n")

        def trickled() -> bool:
            return not send(trickle, b" ")

        assert answer(silent) == b""
        assert answer(header).startswith(b"HTTP/1.1 408 ")
        said = answer(body)
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b'"type": "/problems/request-timeout"' in said
        assert answer(refused).startswith(b"HTTP/1.1 401 ")
        until(trickled, "the connection that trickles is closed")
        assert running.http.get("/healthz").status_code == 200


def test_thousands_of_half_sent_requests_leave_room_for_others_and_the_log_short(served: Served) -> None:
    before, logged = served.memory(), served.log.stat().st_size
    head = HEAD + b"Authorization: Bearer " + served.site.token(ANN).encode() + b"\r\nContent-Length: 1000\r\n\r\n{"
    with ExitStack() as opened:
        for _ in range(700):
            connection = opened.enter_context(served.connect())
            send(connection, head)
        served.alive()
        assert len(served.process.net_connections("tcp")) < 600
    until(lambda: len(served.process.net_connections("tcp")) < 50, "the connections are gone")
    served.alive()
    assert served.memory() - before < 80 * MB
    text = served.log.read_bytes()[logged:].decode()
    assert "Traceback" not in text
    assert len(text) < 20_000


def test_connections_of_one_address_are_limited_and_those_of_others_go_on(served: Served) -> None:
    with ExitStack() as opened:
        taken = [opened.enter_context(served.connect(STRANGER)) for _ in range(100)]
        until(lambda: len(served.process.net_connections("tcp")) > 100, "all are open")
        with served.connect(STRANGER) as one_more:
            said = answer(one_more)
            assert said.startswith(b"HTTP/1.1 503 ")
            assert b"too-many-connections" in said
            assert b"retry-after: 5" in said
        served.alive()
        taken[0].close()
        until(lambda: answers(served, STRANGER), "a closed connection's place is free")


def answers(served: Served, source: str) -> bool:
    with served.connect(source) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return answer(connection).startswith(b"HTTP/1.1 200 ")


def test_a_reader_that_reads_nothing_is_cut_off(site: Site) -> None:
    with site.running(idle_seconds=1.0) as running:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(PATIENCE)
            connection.connect(("127.0.0.1", running.http.base_url.port))
            connection.sendall(b"GET /docs/static/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: not send(connection, b"\r\n"), "the connection is reset")
        assert running.http.get("/healthz").status_code == 200
