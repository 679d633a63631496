"""The cluster as an installation: our processes, each started by its own command, on the stores of `bench.cluster.parts`."""

from __future__ import annotations

import os
import secrets
import sys
import time
from functools import partial

import httpx
import psutil
from cryptography.fernet import Fernet

from bench.cluster.parts import BUCKET, ObjectStore, Postgres, caddy, vector_server
from bench.cluster.programs import START_SECONDS, Program
from bench.soak.site import Site
from orchestration.demo import sample
from orchestration.demo.simulated import SIMULATORS
from resources.servers.processes import free_port
from resources.settings import load

SERVING = ("serve-1", "serve-2")
RUN_WORKERS = 3
DRAIN_SECONDS = 3


class ClusterSite(Site):
    """Processes of ours that nothing supervises, with a HOME for each serving process, and the sample company's sources."""

    def __init__(self) -> None:
        self.parts: dict[str, Program] = {}
        self._ports = {name: free_port() for name in (*SERVING, "proxy", "dagster", "code", "vector")}
        self._key = secrets.token_hex(16)
        super().__init__()
        self.settings = sample.with_sample_roots(self.settings)
        self.settings = load(_env_file=None)

    def _environment(self) -> dict[str, str]:
        self.postgres = Postgres(self.folder)
        self.lake = ObjectStore(self.folder)
        proxy = f"http://127.0.0.1:{self._ports['proxy']}"
        values = {
            "HTTP_PORT": str(self._ports["proxy"]),
            "PUBLIC_URL": proxy,
            "HTTP__INTERNAL_URL": proxy,
            "HTTP__DAGSTER_CODE_ADDRESS": f"127.0.0.1:{self._ports['code']}",
            "DAGSTER_PORT": str(self._ports["dagster"]),
            "DAGSTER_URL": f"http://127.0.0.1:{self._ports['dagster']}",
            "POSTGRES_URL": self.postgres.url,
            "POSTGRES_PREPARE_THRESHOLD": "0",
            "DAGSTER_DATABASE_URL": f"{self.postgres.url}_dagster",
            "QDRANT_URL": f"http://127.0.0.1:{self._ports['vector']}",
            "QDRANT_API_KEY": self._key,
            "LAKE_URL": f"s3://{BUCKET}/lake",
            "SECRET_KEY": secrets.token_urlsafe(48),
            "ENCRYPTION_KEYS": Fernet.generate_key().decode(),
            "METRICS_TOKEN": secrets.token_hex(20),
            "DAGSTER_SECRET": secrets.token_hex(20),
            "LIMITS__SYNC_RUNS": str(RUN_WORKERS),
            "LOG_LEVEL": "info",
        }
        own = {f"CONCORDANCE_{name}": value for name, value in values.items()}
        switches = {f"CONCORDANCE_{one.switch.upper()}": "true" for one in SIMULATORS if one.switch}
        return {**super()._environment(), **own, **switches, **self.lake.environment}

    def start(self) -> None:
        """Start the simulators, the stores, our processes and the proxy. Raises `SystemExit` with the end of a log."""
        for name, address in (("drive", self.drive), ("slack", self.slack)):
            port = address.rpartition(":")[2]
            self._simulators.append(self._spawn(name, "simulate", name, "--sample", "--port", port))
        self.parts |= {
            "postgres": self.postgres.server,
            "pgbouncer": self.postgres.pooler,
            "seaweedfs": self.lake.server,
        }
        self.postgres.start()
        self.lake.start()
        self._add(vector_server(self.folder, self._ports["vector"], self._key))
        migrated = self.command("migrate")
        if migrated.returncode:
            raise SystemExit(f"The database was not migrated: {migrated.stderr}")
        self._add(self._ours("code", ready=None))
        self._add(self._ours("workers", ready=None))
        self._add(self._ours("daemon", ready=None))
        self._add(self._ours("webserver", ready=f"{self.settings.dagster_address}/readyz"))
        for name in SERVING:
            self._add(self._serving(name))
        self._add(caddy(self.folder, self._ports["proxy"], [self._ports[name] for name in SERVING]))

    def _add(self, part: Program) -> None:
        self.parts[part.name] = part
        part.start()

    def _ours(self, name: str, *options: str, ready: str | None, command: str = "", **more: str) -> Program:
        return Program(
            name,
            [sys.executable, "-m", "orchestration.cli", command or name, *options],
            self._log(name),
            ready=(lambda: True) if ready is None else partial(_answers, ready),
            environment={**os.environ, **more},
        )

    def _serving(self, name: str) -> Program:
        home, port = self.folder / name, self._ports[name]
        (home / "audit").mkdir(parents=True, exist_ok=True)
        options = ("--port", str(port), "--drain", str(DRAIN_SECONDS))
        ready = f"http://127.0.0.1:{port}/readyz"
        return self._ours(name, *options, ready=ready, command="serve", CONCORDANCE_HOME=str(home))

    @property
    def ready(self) -> bool:
        """Return True if every process runs and both serving processes can answer searches."""
        return all(part.pid is not None for part in self.parts.values()) and all(
            _answers(f"http://127.0.0.1:{self._ports[name]}/readyz") for name in SERVING
        )

    def await_ready(self) -> None:
        """Wait until every part is ready. Raises `SystemExit` after a minute."""
        deadline = time.monotonic() + START_SECONDS
        while not self.ready:
            if time.monotonic() > deadline:
                raise SystemExit(f"The cluster was not ready {START_SECONDS} s after a part was replaced.")
            time.sleep(0.2)

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Return the running processes by role; a run worker is a child of `workers`."""
        found: dict[str, list[psutil.Process]] = {}
        for name, part in self.parts.items():
            if part.pid is not None:
                leader = psutil.Process(part.pid)
                found[name] = [leader, *([] if name == "workers" else leader.children(recursive=True))]
                if name == "workers":
                    found["run worker"] = leader.children()
        return found

    def stop(self) -> list[str]:
        """Stop everything, the proxy first; return the command lines of processes of ours that are left, after ending them."""
        for name in reversed(list(self.parts)):
            self.parts.pop(name).stop()
        return super().stop()


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
