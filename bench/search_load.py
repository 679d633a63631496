"""The load generator: a lightweight process that reads a job as JSON from standard input and prints its figures as JSON.

It uses plain sockets with prepared requests, because it shares the cores with the system under test: an HTTP client would cost about
as much as a search. Every body is sent once, unless `again` repeats them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
SEARCHED = ('"cached":false', '"warnings":[]')
"""What a response contains that is neither from the cache nor a fallback."""
_INSIDE = re.compile(rb'"latency_ms":([0-9.]+)')


class Job(NamedTuple):
    """The requests to send. `bodies`: a file with one JSON body per line. The job ends after `count` requests or `seconds`."""

    port: int
    path: str
    bodies: str
    clients: int = 1
    count: int | None = None
    seconds: float | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    again: bool = False
    must_hold: Sequence[str] = ()
    """Texts that every response must contain."""


def run(job: Job) -> dict[str, Any]:
    """Run the job in a separate process and return its figures."""
    command = [sys.executable, "-m", "bench.search_load"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        input=json.dumps(job._asdict() | {"headers": dict(job.headers)}),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"The load generator failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


class _Client:
    """One connection that sends requests sequentially."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: bytes) -> tuple[bool, bytes]:
        self._writer.write(request)
        head = (await self._reader.readuntil(_END)).lower()
        at = head.index(_LENGTH) + len(_LENGTH)
        body = await self._reader.readexactly(int(head[at : head.index(b"\r", at)]))
        return head.startswith(b"http/1.1 200"), body


async def _load(job: Job, lines: Sequence[bytes]) -> dict[str, Any]:
    head = "".join(f"{name}: {value}\r\n" for name, value in job.headers.items())
    start = f"POST {job.path} HTTP/1.1\r\nHost: 127.0.0.1:{job.port}\r\nContent-Type: application/json\r\n{head}"
    requests = [f"{start}Content-Length: {len(line)}\r\n\r\n".encode() + line for line in lines]
    source: Iterator[bytes] = itertools.cycle(requests) if job.again else iter(requests)
    source = itertools.islice(source, job.count) if job.count else source
    wanted = [text.encode() for text in job.must_hold]
    spent: list[float] = []
    inside: list[float] = []
    wrong: list[str] = []
    began, cpu = time.perf_counter(), time.process_time()

    async def one() -> None:
        client = _Client(*await asyncio.open_connection("127.0.0.1", job.port, limit=2**22))
        for request in source:
            sent = time.perf_counter()
            if job.seconds and sent - began > job.seconds:
                return
            ok, body = await client.ask(request)
            spent.append(time.perf_counter() - sent)
            if said := _INSIDE.search(body):
                inside.append(float(said[1]))
            if not ok or not all(text in body for text in wanted):
                wrong.append(body[:300].decode(errors="replace"))

    await asyncio.gather(*(one() for _ in range(job.clients)))
    took = time.perf_counter() - began
    return {
        "milliseconds": [round(seconds * 1000, 3) for seconds in spent],
        "inside_ms": inside,
        "per_s": round(len(spent) / took, 1),
        "wrong": wrong[:3],
        "cpu_s": round(time.process_time() - cpu, 3),
    }


if __name__ == "__main__":
    wanted = Job(**json.load(sys.stdin))
    print(json.dumps(asyncio.run(_load(wanted, Path(wanted.bodies).read_bytes().splitlines()))))
