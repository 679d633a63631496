"""Try to access a running installation without its keys, like other accounts of this machine and web pages could.

`python -m orchestration.diagnosis.outsider` makes the attempts in a process without our environment. Started as root, it first switches to
another account, so that files and sockets are really opened. Every request is harmless, even if it succeeds.
"""

import http.client
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec
import psycopg

from orchestration.supervision.environment import ROOT
from orchestration.supervision.serving import serving_address
from resources import keys
from resources.core.errors import ServiceUnavailableError
from resources.servers.sockets import socket_path
from resources.settings import Settings

ACCOUNTS = ("nobody", "daemon", "bin")
FOREIGN = "concordance-doctor.example"
SECONDS = 10
"""Longest wait for one reply; no reply counts as closed."""
FOLDERS = ("lake", "qdrant", "logs", "run", "dagster", "postgres/data")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One access attempt. The target is a URL for `http`, a conninfo for `postgres`, else a path."""

    what: str
    kind: Literal["http", "postgres", "socket", "path"]
    target: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None


_CLOSED_HTTP = Attempt(what="nothing", kind="http", target="http://127.0.0.1:1/")
_CLOSED_POSTGRES = Attempt(
    what="nothing", kind="postgres", target="host=127.0.0.1 port=1 user=nobody connect_timeout=1"
)


class OutsiderReport(msgspec.Struct, frozen=True):
    """The account that made the attempts, and those that succeeded."""

    account: str
    opened: list[str]
    attempts: int


def attempts(settings: Settings) -> list[Attempt]:
    """Return the attempts for a running installation; external services are left out."""
    listeners = {"HTTP interface": serving_address(settings)}
    tried = [
        Attempt(what="GET /api/sources of the HTTP interface", kind="http", target=f"{serving_address(settings)}/api/sources"),
        Attempt(what="figures of the HTTP interface", kind="http", target=f"{serving_address(settings)}/metrics"),
    ]  # fmt: skip
    if settings.dagster_url is None:
        listeners["Dagster"] = settings.dagster_address
        graphql = f"{settings.dagster_address}/graphql"
        tried += [
            Attempt(what="Dagster's pages", kind="http", target=f"{settings.dagster_address}/"),
            Attempt(what="GraphQL of Dagster by GET", kind="http", target=f"{graphql}?query=%7Bversion%7D"),
            *_forms("GraphQL of Dagster", graphql, '{"query": "{ version }"}'),
        ]
    if settings.embedded_qdrant:
        listeners["vector server"] = settings.qdrant_address
        counting = f"{settings.qdrant_address}/collections/documents/points/count"
        tried += [
            Attempt(what="the vector server's collections", kind="http", target=f"{settings.qdrant_address}/collections"),
            *_forms("the vector server", counting, "{}"),
        ]  # fmt: skip
    for name, address in listeners.items():
        path = "/livez" if name != "HTTP interface" else "/healthz"
        foreign = {"Host": FOREIGN}
        tried.append(
            Attempt(what=f"{name} under a foreign host name", kind="http", target=address + path, headers=foreign)
        )
    if settings.embedded_postgres:
        conninfo = f"host=127.0.0.1 port={settings.postgres_port} dbname=concordance user=concordance connect_timeout=5"
        tried.append(Attempt(what="Postgres without its password", kind="postgres", target=conninfo))
    return [*tried, *_local(settings)]


def _forms(what: str, url: str, body: str) -> Iterator[Attempt]:
    """Yield requests that a page of another site can make a browser send."""
    for kind in ("text/plain", "application/json"):
        headers = {"Content-Type": kind, "Origin": f"https://{FOREIGN}"}
        name = f"{what} by a page's {kind}"
        yield Attempt(what=name, kind="http", target=url, method="POST", headers=headers, body=body)


def _local(settings: Settings) -> Iterator[Attempt]:
    for path in (keys.path(settings), settings.passfile, *(settings.home / name for name in FOLDERS)):
        yield Attempt(what=f"reading {path}", kind="path", target=str(path))
    sockets = socket_path(settings, "code.sock").parent
    for path in sorted(sockets.glob("*.sock")):
        yield Attempt(what=f"the socket {path}", kind="socket", target=str(path))


def probe(settings: Settings) -> OutsiderReport:
    """Make the attempts in a separate process. Raises `ServiceUnavailableError` if that fails."""
    environment = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "PGPASSFILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-m", "orchestration.diagnosis.outsider", _other_account(settings)],
        input=msgspec.json.encode(attempts(settings)),
        capture_output=True,
        check=False,
        env=environment,
        cwd="/",
    )
    if done.returncode != 0:
        raise ServiceUnavailableError(
            f"Access without keys could not be tested: {done.stderr.decode(errors='replace')[-500:]}"
        )
    return msgspec.json.decode(done.stdout, type=OutsiderReport)


def _other_account(settings: Settings) -> str:
    """Return an account that owns nothing of the installation if we are root; otherwise an empty string, for our own."""
    if os.geteuid() != 0:
        return ""
    owners = {path.stat().st_uid for path in (settings.home, settings.home / "postgres" / "data") if path.exists()}
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return next((name for name in ACCOUNTS if name in known and known[name] not in owners), "")


def succeeds(attempt: Attempt, *, other_account: bool) -> bool:
    """Return True if the attempt succeeds. Paths and sockets of our own account are checked by their modes."""
    match attempt.kind:
        case "http":
            return _http(attempt)
        case "postgres":
            return _postgres(attempt.target)
        case "path" | "socket" if not other_account:
            return _open_to_others(Path(attempt.target), attempt.kind)
        case "path":
            return os.access(attempt.target, os.R_OK)
        case "socket":
            with socket.socket(socket.AF_UNIX) as client:
                return client.connect_ex(attempt.target) == 0


def _http(attempt: Attempt) -> bool:
    parts = urlsplit(attempt.target)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(attempt.method, path, attempt.body, attempt.headers)
        return connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _postgres(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return False
    return True


def _open_to_others(path: Path, kind: str) -> bool:
    """Return True if the modes of the path and of all its parent folders give access to anyone but the owner."""
    wanted = 0o044 if kind == "path" else 0o022
    return (
        path.exists() and bool(path.stat().st_mode & wanted) and all(one.stat().st_mode & 0o011 for one in path.parents)
    )


def main() -> int:
    """Read attempts from standard input, switch to the given account, and print the report."""
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Attempt])
    name = sys.argv[1]
    if name:
        # Load modules that are imported on first use now: the other account may not be able to read them.
        for known in (_CLOSED_HTTP, _CLOSED_POSTGRES):
            succeeds(known, other_account=True)
        entry = pwd.getpwnam(name)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    opened = [attempt.what for attempt in wanted if succeeds(attempt, other_account=bool(name))]
    sys.stdout.buffer.write(msgspec.json.encode(OutsiderReport(name, opened, len(wanted))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
