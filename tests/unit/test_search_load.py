"""The load generator of the benchmarks refuses searches that are not what is measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from bench import search_load
from bench.search_load import SEARCHED, Job


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers with what it is sent."""

    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ('{"cached":false,"warnings":[]}', True),
        ('{"cached":true,"warnings":[]}', False),
        ('{"cached":false,"warnings":["rerank_skipped"]}', False),
    ],
)
def test_a_search_from_the_cache_or_with_a_warning_is_not_measured(
    answer: str, right: bool, port: int, tmp_path: Path
) -> None:
    (tmp_path / "bodies").write_text(answer)
    found = search_load.run(Job(port, "/", str(tmp_path / "bodies"), must_hold=SEARCHED))
    assert found["wrong"] == ([] if right else [answer])
