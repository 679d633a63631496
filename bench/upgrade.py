"""Upgrade an installation with data while people search: how long the migration takes, and how many searches fail meanwhile.

`python -m bench.upgrade FOLDER [--passages 50000]`. FOLDER is a checkout of the version before, after `make setup`. Its own code fills
an installation and serves searches by four clients, and goes on while this version migrates the database and for some seconds afterwards;
then this version serves them, as in a rolling update. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from bench.installation import ROOT
from bench.search_setup import say
from resources import schema
from resources.servers.processes import free_port

CLIENTS = 4
SECONDS = 8.0
"""Duration of the phases before and after the migration."""
QUESTIONS = 400
COMPARED = 60


class Asked(NamedTuple):
    """A search: when it began, its status (0: no response) and its seconds."""

    at: float
    status: int
    seconds: float


class Load:
    """Clients that search one address until it is stopped; the address may change."""

    def __init__(self, port: int, token: str, questions: Sequence[str]) -> None:
        self.port = port
        self.asked: list[Asked] = []
        self._headers = {"Authorization": f"Bearer {token}"}
        self._questions = cycle(questions)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._client = httpx.AsyncClient(timeout=60)
        self._tasks = [asyncio.create_task(self._search()) for _ in range(CLIENTS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in self._tasks:
            one.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    async def _search(self) -> None:
        while True:
            at, status = time.perf_counter(), 0
            try:
                response = await self.ask(next(self._questions))
                status = response.status_code
            except httpx.TransportError as error:
                say(f"no response: {error!r}")
            self.asked.append(Asked(at, status, time.perf_counter() - at))

    async def ask(self, question: str) -> httpx.Response:
        """Search once."""
        url, body = f"http://127.0.0.1:{self.port}/api/rag/search", {"query": question, "top_k": 10}
        return await self._client.post(url, json=body, headers=self._headers)

    def within(self, began: float, ended: float) -> dict[str, float]:
        """Return figures of the searches that were under way between these moments."""
        found = [one for one in self.asked if one.at <= ended and one.at + one.seconds >= began]
        seconds = [one.seconds for one in found]
        return {
            "seconds": round(ended - began, 2),
            "searches": len(found),
            "failed": sum(one.status != 200 for one in found),
            "p50_ms": round(float(np.median(seconds)) * 1000, 1),
            "longest_ms": round(max(seconds) * 1000, 1),
        }


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, metavar="FOLDER")
    parser.add_argument("--passages", type=int, default=50_000)
    arguments = parser.parse_args()
    with _installation(arguments.before.resolve(), arguments.passages) as told:
        print(json.dumps({"passages": arguments.passages, **asyncio.run(_upgraded(arguments.before.resolve(), told))}))


@contextmanager
def _installation(before: Path, passages: int) -> Generator[dict[str, Any]]:
    command = [_python(before), "-P", str(ROOT / "bench" / "upgrade_before.py"), str(passages), str(QUESTIONS)]
    filling = subprocess.Popen(
        command,
        cwd=before,
        env=os.environ | {"PYTHONPATH": str(before)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = next((line for line in filling.stdout or () if line.startswith("{")), None)
        if line is None:
            raise SystemExit("The installation of the version before could not be filled; see above.")
        yield json.loads(line)
    finally:
        filling.communicate(timeout=60)  # the end of its input ends it


async def _upgraded(before: Path, told: Mapping[str, Any]) -> dict[str, Any]:
    questions: list[str] = told["questions"]
    async with _serving(before, told) as old, Load(old, told["token"], questions) as load:
        began = time.perf_counter()
        await asyncio.sleep(SECONDS)
        found = [await _documents(load, one) for one in questions[:COMPARED]]
        migrating = time.perf_counter()
        applied = await asyncio.to_thread(schema.prepare, told["dsn"])
        migrated = time.perf_counter()
        await asyncio.sleep(SECONDS)
        async with _serving(ROOT, told) as new:
            load.port = new
            served = time.perf_counter()
            await asyncio.sleep(SECONDS)
            after = [await _documents(load, one) for one in questions[:COMPARED]]
            ended = time.perf_counter()
            load.port = old  # the new one ends first
            phases = {
                "before": load.within(began, migrating),
                "migration": load.within(migrating, migrated),
                "old_version_on_new_tables": load.within(migrated, served),
                "new_version": load.within(served, ended),
            }
    return {
        "migrations": applied,
        "phases": phases,
        "compared": COMPARED,
        "equal": sum(one == other for one, other in zip(found, after, strict=True)),
    }


async def _documents(load: Load, question: str) -> list[str]:
    response = (await load.ask(question)).raise_for_status().json()
    if not response["results"]:
        raise SystemExit(f"A search found nothing, so there is nothing to compare: {question}")
    return [one["chunk_id"] for one in response["results"]]


@asynccontextmanager
async def _serving(version: Path, told: Mapping[str, Any]) -> AsyncGenerator[int]:
    """Yield the port of a serving process of this version, once it is ready."""
    port = free_port()
    wanted = {name: told[name] for name in ("HOME", "POSTGRES_PORT", "QDRANT_URL")}
    wanted |= {"HTTP_PORT": str(port), "SERVING_WORKERS": "1", "LIMITS__SEARCH_RATE_LIMIT": "1000000"}
    environment = os.environ | {f"CONCORDANCE_{name}": value for name, value in wanted.items()}
    process = await asyncio.create_subprocess_exec(
        *(_python(version), "-m", "serving"), cwd=version, env=environment, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while not await asyncio.to_thread(_ready, port):
            if process.returncode is not None or time.monotonic() > deadline:
                raise SystemExit(f"The service of {version} is not ready.")
            await asyncio.sleep(0.1)
        yield port
    finally:
        process.terminate()
        await process.wait()


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _python(version: Path) -> str:
    return sys.executable if version == ROOT else str(version / ".venv" / "bin" / "python")


if __name__ == "__main__":
    main()
