"""Slow and hostile clients: attacks as from the internet, in small and bounded amounts."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable

import httpx

from bench.soak.people import DEADLINE_SECONDS, client, error_kind
from bench.soak.site import Site

PAUSE_SECONDS = 1.0
SLOW_CLIENTS = 30
_JSON = {"content-type": "application/json"}


class Hostile(threading.Thread):
    """Runs random attacks until the end and counts the server's responses to each."""

    def __init__(self, site: Site, until: threading.Event) -> None:
        super().__init__(name="hostile", daemon=True)
        self.answers: Counter[str] = Counter()
        self._site, self._until = site, until
        self._random = random.Random(13)
        self._slow: list[socket.socket] = []
        self._mallory = client(site, "mallory@elsewhere.example")

    def run(self) -> None:
        """Run attacks until the end."""
        attacks: dict[str, Callable[[], httpx.Response | None]] = {
            "half a request": self._half_request,
            "many headers": self._many_headers,
            "semicolons in Content-Type": self._semicolons,
            "forged token": self._forged,
            "aborted upload": self._aborted_upload,
            "search and leave": self._search_and_leave,
            "deep JSON": self._deep,
            "60,000 tags": self._tags,
            "upload that is hard to parse": self._bomb,
            "path traversal": lambda: self._mallory.get("/documents/..%2f..%2fkeys.json"),
            "flood of feedback": self._flood,
        }
        while not self._until.wait(PAUSE_SECONDS):
            name = self._random.choice(sorted(attacks))
            try:
                answer = attacks[name]()
                said = "closed" if answer is None else error_kind(answer)
            except httpx.HTTPError as error:
                said = error_kind(error)
            except OSError as error:
                said = type(error).__name__
            self.answers[f"{name}: {said}"] += 1
        for one in self._slow:
            one.close()
        self._mallory.close()

    @property
    def server_errors(self) -> list[str]:
        """Return the attacks that got a 500 response."""
        return [name for name in self.answers if ": 500" in name]

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._site.settings.http_port), timeout=DEADLINE_SECONDS)

    def _half_request(self) -> None:
        one = self._connect()
        one.sendall(b"POST /api/rag/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n")
        self._slow.append(one)
        if len(self._slow) > SLOW_CLIENTS:
            self._slow.pop(0).close()

    def _many_headers(self) -> None:
        with self._connect() as one:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            for number in range(20_000):
                one.sendall(f"x-{number}: {'a' * 80}\r\n".encode())

    def _semicolons(self) -> httpx.Response:
        return self._mallory.post("/api/upload", headers={"content-type": "multipart/form-data; x=" + ";" * 30_000})

    def _forged(self) -> httpx.Response:
        token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGFAc29hay5leGFtcGxlIn0."
        return httpx.get(f"{self._site.address}/api/sources", headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def _aborted_upload(self) -> None:
        with self._connect() as one:
            token = self._mallory.headers["Authorization"]
            head = (
                f"POST /api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n"
                "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n"
                '--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'
            )
            one.sendall(head.encode() + b"a" * 50_000)
            time.sleep(0.2)

    def _search_and_leave(self) -> None:
        body = json.dumps({"query": "leave " * 150, "top_k": 50}).encode()
        with self._connect() as one:
            head = (
                f"POST /api/rag/search HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {self._mallory.headers['Authorization']}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            one.sendall(head.encode() + body)

    def _deep(self) -> httpx.Response:
        body = '{"query": "x", "filters": {"tags": ' + '{"a":' * 20_000 + "1" + "}" * 20_000 + "}}"
        return self._mallory.post("/api/rag/search", content=body, headers=_JSON)

    def _tags(self) -> httpx.Response:
        tags = {f"t{number}": "x" for number in range(60_000)}
        return self._mallory.post("/api/rag/search", json={"query": "x", "filters": {"tags": tags}})

    def _bomb(self) -> httpx.Response:
        text = self._random.choice(["<div>" * 50_000, "a-\nb" * 200_000, "import x from\n" * 20_000 + "{/*" * 20_000])
        name = "bomb.html" if text.startswith("<") else "bomb.md"
        text = f"{self._random.random()} {text}" if name.endswith("md") else f"<p>{self._random.random()}</p>{text}"
        kind = "text/html" if name.endswith("html") else "text/markdown"
        return self._mallory.post("/api/upload", files={"file": (name, text.encode(), kind)})

    def _flood(self) -> httpx.Response:
        answer = self._mallory.post("/track", json={})
        for _ in range(50):
            answer = self._mallory.post("/track", json={"event": "x" * 1000})
        return answer
