"""The stores and the proxy of the cluster: Postgres, PgBouncer, SeaweedFS, the vector server and Caddy."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from bench.cluster.programs import Program, debian_programs, listens, low_port, wheel_program
from orchestration.supervision.environment import ROOT
from resources.servers.processes import free_port

BUCKET = "concordance"
DATABASE_USER = "postgres" if os.geteuid() == 0 else None
"""Account of Postgres and PgBouncer, which refuse to run as root."""
BUCKET_SECONDS = 60


class Postgres:
    """Debian's Postgres with one database, and PgBouncer in transaction mode before it."""

    def __init__(self, folder: Path) -> None:
        programs, pooler = debian_programs()
        self.password = secrets.token_hex(16)
        self.port, self.pooled = free_port(), free_port()
        self._data, self._folder = folder / "postgres", folder / "pgbouncer"
        self._programs = programs
        for made in (self._data, self._folder):
            made.mkdir(mode=0o700)
            if DATABASE_USER is not None:
                shutil.chown(made, DATABASE_USER, DATABASE_USER)
        options = [
            "-p",
            str(self.port),
            "-k",
            "",
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
            "-c",
            "max_connections=200",
        ]
        self.server = Program(
            "postgres",
            [str(programs / "postgres"), "-D", str(self._data), *options],
            folder / "postgres.log",
            ready=lambda: _accepts(self._maintenance),
            user=DATABASE_USER,
        )
        self.pooler = Program(
            "pgbouncer",
            [str(pooler), str(self._folder / "pgbouncer.ini")],
            folder / "pgbouncer.log",
            ready=lambda: _accepts(self.url),
            user=DATABASE_USER,
        )

    @property
    def _maintenance(self) -> str:
        return f"postgresql://concordance:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def url(self) -> str:
        """URL of the database through the pooler."""
        return f"postgresql://concordance:{self.password}@127.0.0.1:{self.pooled}/concordance"

    def start(self) -> None:
        """Make the database and start both."""
        given = self._folder / "password"
        given.write_text(self.password)
        made = subprocess.run(
            [str(self._programs / "initdb"), "-D", str(self._data), "-U", "concordance", "-A", "scram-sha-256", f"--pwfile={given}"],
            capture_output=True,
            text=True,
            check=False,
            user=DATABASE_USER,
        )  # fmt: skip
        if made.returncode:
            raise SystemExit(f"initdb failed: {made.stderr}")
        self.server.start()
        with psycopg.connect(self._maintenance, autocommit=True) as connection:
            connection.execute("CREATE DATABASE concordance TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'")
        place = f"host=127.0.0.1 port={self.port} dbname=concordance"
        (self._folder / "users.txt").write_text(f'"concordance" "{self.password}"\n')
        (self._folder / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"concordance = {place}\nconcordance_dagster = {place} connect_query='SET search_path TO dagster'\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.pooled}\nunix_socket_dir =\nauth_type = scram-sha-256\n"
            f"auth_file = {self._folder / 'users.txt'}\npool_mode = transaction\nmax_client_conn = 600\ndefault_pool_size = 60\n"
        )
        self.pooler.start()


class ObjectStore:
    """SeaweedFS with one bucket."""

    def __init__(self, folder: Path) -> None:
        self.key, self.secret = secrets.token_hex(10), secrets.token_hex(20)
        self._weed = wheel_program("weed")
        self._master, self._s3 = low_port(), low_port()
        data = folder / "seaweedfs"
        data.mkdir()
        identity = {"accessKey": self.key, "secretKey": self.secret}
        (folder / "s3.json").write_text(
            json.dumps({"identities": [{"name": "concordance", "credentials": [identity], "actions": ["Admin"]}]})
        )
        self.server = Program(
            "seaweedfs",
            [
                str(self._weed), "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={self._master}",
                f"-volume.port={low_port()}", f"-filer.port={low_port()}", "-s3", f"-s3.port={self._s3}",
                f"-s3.config={folder / 's3.json'}", "-master.volumeSizeLimitMB=256", "-volume.max=50", "-master.telemetry=false",
            ],
            folder / "seaweedfs.log",
            ready=lambda: listens(self._s3) and listens(self._master),
        )  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._s3}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    def start(self) -> None:
        """Start it and create the bucket."""
        self.server.start()
        deadline = time.monotonic() + BUCKET_SECONDS
        shell = [str(self._weed), "shell", f"-master=127.0.0.1:{self._master}"]
        while True:
            made = subprocess.run(
                shell,
                input=f"s3.bucket.create -name {BUCKET}\ns3.bucket.list\n",
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            if f"  {BUCKET}\t" in made.stdout:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"The bucket was not created: {made.stdout}{made.stderr}")
            time.sleep(0.5)


def vector_server(folder: Path, port: int, api_key: str) -> Program:
    """Return the vector server."""
    environment = {**_plain(), "CONCORDANCE_QDRANT_API_KEY": api_key, "PYTHONPATH": str(ROOT)}
    return Program(
        "qdrant",
        [sys.executable, "-m", "resources.servers.vector", "--path", str(folder / "vector"), "--host", "127.0.0.1", "--port", str(port)],
        folder / "vector.log",
        ready=lambda: listens(port),
        environment=environment,
    )  # fmt: skip


def caddy(folder: Path, port: int, serving: Sequence[int]) -> Program:
    """Return the proxy, with the configuration of `deploy/compose` for these serving processes."""
    text = (ROOT / "deploy/compose/Caddyfile").read_text(encoding="utf-8")
    text = text.replace("\n:8080 {", f"\n:{port} {{\n\tbind 127.0.0.1").replace(
        "serve-1:8080 serve-2:8080", " ".join(f"127.0.0.1:{one}" for one in serving)
    )
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
    return Program(
        "caddy",
        [str(wheel_program("caddy")), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"],
        folder / "caddy.log",
        ready=lambda: listens(port),
        environment={**_plain(), "HOME": str(folder), "XDG_DATA_HOME": str(folder / "caddy")},
    )


def _plain() -> dict[str, str]:
    """Return the environment without our settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CONCORDANCE_")}


def _accepts(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
