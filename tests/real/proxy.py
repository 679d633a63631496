"""A proxy on the loopback that passes requests on to a real server and injects the faults that servers behind proxies show."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

import httpx

Fault = Literal["cut", "no end", "hang", "500", "html", "broken", "length"]
KEPT = 600
"""Bytes of an answer that are passed on before it is cut."""


class Proxy:
    """Serves while the `with` block lasts. `fault` holds until it is changed.

    `written` is what the real server last wrote, `ends` why its answers ended (None: without a reason), `prompt_tokens` how long the
    longest prompt of a whole answer was.
    """

    def __init__(self, upstream: str) -> None:
        self.fault: Fault | None = None
        self.requests = 0
        self.written = ""
        self.ends: list[str | None] = []
        self.prompt_tokens = 0
        self._upstream = httpx.Client(base_url=upstream, timeout=300)
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._upstream.close()

    def _read(self, reply: str) -> None:
        """Keep what a model wrote, in a whole reply or a stream."""
        written, end = "", None
        for line in reply.splitlines():
            parsed = _parsed(line.removeprefix("data: "))
            self.prompt_tokens = max(self.prompt_tokens, (parsed.get("usage") or {}).get("prompt_tokens", 0))
            for choice in parsed.get("choices", []):
                written += (choice.get("delta") or choice.get("message") or {}).get("content") or ""
                end = choice.get("finish_reason") or end
        self.written = written
        self.ends.append(end)

    def _handler(proxy) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (`self` is the handler below)
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on(b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                proxy.requests += 1
                try:
                    match proxy.fault:
                        case "hang":
                            proxy._released.wait(300)
                        case "500":
                            self._send(500, "application/json", b'{"error": {"message": "out of memory"}}')
                        case "html":
                            self._send(200, "text/html", b"<html><body>Please sign in</body></html>")
                        case "broken":
                            self._send(200, "application/json", b'{"choices": [{"mess')
                        case "length":
                            self._pass_on(json.dumps(json.loads(body) | {"max_tokens": 4}).encode())
                        case _:
                            self._pass_on(body)
                except OSError:
                    self.close_connection = True  # the client left

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.send_header("retry-after-ms", "10")
                self.end_headers()
                self.wfile.write(body)

            def _pass_on(self, body: bytes) -> None:
                """Copy the real server's reply as it comes, up to the fault. The end of the connection ends it."""
                kind = {"content-type": "application/json"}
                received = b""
                with proxy._upstream.stream(
                    self.command, self.path.removeprefix("/v1"), content=body, headers=kind
                ) as reply:
                    self.send_response(reply.status_code)
                    self.send_header("content-type", reply.headers["content-type"])
                    if proxy.fault == "cut":
                        self.send_header(
                            "content-length", "1000000"
                        )  # so that the end of the connection is seen as a cut
                    self.end_headers()
                    try:
                        for line in reply.iter_lines():
                            data = f"{line}\n".encode()
                            if proxy.fault == "no end" and b'"finish_reason":"' in data.replace(b" ", b""):
                                break
                            received += data
                            self.wfile.write(data)
                            self.wfile.flush()
                            if proxy.fault == "cut" and len(received) > KEPT:
                                break
                    except httpx.TransportError:
                        self.close_connection = True  # the real server broke off
                proxy._read(received.decode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the signature is the library's)
                """Stay silent."""

        return Handler


def _parsed(data: str) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except ValueError:
        return {}  # the end of a stream, or cut
    return parsed if isinstance(parsed, dict) else {}
