"""What people are told when the object store of the lake fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from resources.core.errors import ServiceUnavailableError
from resources.stores.lake import Lake


class Refusing(BaseHTTPRequestHandler):
    """Answers everything as a store does whose bucket does not exist."""

    def do_GET(self) -> None:
        body = b"<Error><Code>NoSuchBucket</Code></Error>"
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_cause_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(ServiceUnavailableError, match=r"CONCORDANCE_LAKE_URL.*404 Not Found.*NoSuchBucket") as refused:
        Lake("s3://bucket/lake").open("parsed")
    assert str(refused.value).isprintable()
