"""An installation of a benchmark: its folder, servers and services, which are stopped and removed at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from orchestration.supervision.supervisor import start
from resources import keys, schema
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.processes import free_port
from resources.settings import Settings, load
from tests.fixtures.vector import VectorProcess

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Yield a folder that servers which drop privileges may traverse; it is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="concordance-bench-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def set_up(folder: Path, **more: str) -> Settings:
    """Set a home in the folder, free ports and more settings in the environment, also for processes that this one starts."""
    ports = {f"{name}_PORT": str(free_port()) for name in ("HTTP", "QDRANT", "POSTGRES", "DAGSTER")}
    values = ports | {"HOME": str(folder / "home")} | more
    os.environ.update({f"CONCORDANCE_{name}": value for name, value in values.items()})
    return load(_env_file=None)


@contextmanager
def running_set(folder: Path, **more: str) -> Generator[Settings]:
    """Run all services in the folder for the block, set up as by `set_up`."""
    settings = set_up(folder, **more)
    supervisor = start(settings)
    try:
        yield settings
    finally:
        supervisor.stop()


@contextmanager
def servers(folder: Path, options: tuple[str, ...] = (), **more: Any) -> Generator[tuple[Settings, dict[str, int]]]:
    """Run embedded databases in the folder for the block; yields their settings and process ids. `options` are the vector server's."""
    plain = Settings(_env_file=None, home=folder / "home", postgres_port=free_port(), **more)  # type: ignore[call-arg]
    postgres, vectors = EmbeddedPostgres(plain), VectorProcess(folder / "vectors", options=options)
    try:
        keys.ensure(plain)
        postgres.start()
        vectors.start()
        schema.prepare(plain.postgres_dsn)
        pids = {"postgres": postgres.pid or 0, "qdrant": vectors.pid}
        yield plain.model_copy(update={"qdrant_url": vectors.url}), pids
    finally:
        vectors.close()
        postgres.stop()


def environment(settings: Settings, **more: str) -> dict[str, str]:
    """Return the environment of a program that uses these databases, with further settings."""
    wanted = {
        "HOME": str(settings.home),
        "POSTGRES_PORT": str(settings.postgres_port),
        "QDRANT_URL": settings.qdrant_url or "",
        **more,
    }
    return os.environ | {f"CONCORDANCE_{name}": value for name, value in wanted.items()}


@contextmanager
def serving(settings: Settings, workers: int = 1, **more: str) -> Generator[tuple[int, int]]:
    """Run the HTTP service on these databases for the block, without a limit of searches; `more` are further settings.

    Yields its port and the id of the process that started it, once all of its processes have started. One process runs by itself,
    without a supervisor. Raises `SystemExit` if it is not ready within a minute.
    """
    port, log = free_port(), settings.home / "logs" / "serving.log"
    more |= {"HTTP_PORT": str(port), "LIMITS__SEARCH_RATE_LIMIT": "1000000", "SERVING_WORKERS": str(workers)}
    log.parent.mkdir(exist_ok=True)
    before = log.read_text().count('"serving_started"') if log.exists() else 0
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "serving" if workers == 1 else "bench.serving"],
            cwd=ROOT,
            env=environment(settings, **more),
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                ready = httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
                if ready and log.read_text().count('"serving_started"') - before >= workers:
                    break
            except httpx.TransportError:
                pass
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit(f"The HTTP service is not ready: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()
