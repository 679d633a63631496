"""`up` and `demo` started as root: they switch to an account of their own, which owns HOME; links are not followed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestration import systemd
from orchestration.diagnosis import preflight
from orchestration.supervision import rights, run_state
from orchestration.supervision.environment import ROOT, child_environment
from resources.servers import privileges
from resources.servers.drop_rights import CAP_DAC_READ_SEARCH
from resources.servers.handover import OWN_NAMES, hand_over
from resources.servers.privileges import (
    CAP_NET_BIND_SERVICE,
    FALLBACKS,
    NAME,
    SystemUser,
    passing,
    run_as,
    unprivileged,
)
from resources.servers.processes import free_port
from resources.servers.sockets import socket_path
from resources.settings import FileRoot, Settings

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or passing() != CAP_DAC_READ_SEARCH, reason="only root on Linux switches to another account"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may enter; pytest's own are closed."""
    made = Path(tempfile.mkdtemp(prefix="cc-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def settings(folder: Path) -> Settings:
    ports = {name: free_port() for name in ("http_port", "qdrant_port", "postgres_port", "dagster_port")}
    return Settings(_env_file=None, home=folder / "home", **ports)  # type: ignore[call-arg, arg-type]


@pytest.fixture
def account() -> SystemUser:
    found = unprivileged(make=True)
    assert found is not None
    if found.name != NAME:
        pytest.skip("no account can be made on this machine")
    return found


def run(script: str, settings: Settings) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from resources.settings import load; settings = load()\n{script}"],
        env=child_environment(settings), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


DROP = 'from orchestration.supervision.rights import drop; print(drop(settings, ["token", "ada@acme.example"]))'
"""A replacement for `up` that creates the keys."""


def test_a_command_goes_on_as_the_account_with_a_home_of_its_own(settings: Settings, account: SystemUser) -> None:
    done = run(DROP, settings)
    assert done.returncode == 0, done.stderr
    assert f"Started as root. Services run as the account {NAME} (uid {account.uid})" in done.stderr
    assert "None" not in done.stdout
    for path in (settings.home, settings.home / "run", settings.home / "keys.json"):
        assert (path.stat().st_uid, path.stat().st_gid) == (account.uid, account.gid), path
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_home_of_roots_is_handed_over(settings: Settings, account: SystemUser) -> None:
    made = run("from resources import keys; keys.ensure(settings)", settings)
    assert made.returncode == 0, made.stderr
    kept = (settings.home / "keys.json").read_bytes()
    assert (settings.home / "keys.json").stat().st_uid == 0
    done = run(DROP, settings)
    assert done.returncode == 0, done.stderr
    assert (settings.home / "keys.json").read_bytes() == kept
    assert {path.lstat().st_uid for path in (settings.home, *settings.home.rglob("*"))} == {account.uid}


def test_a_persons_home_stays_that_persons(settings: Settings) -> None:
    settings.home.mkdir(mode=0o700)
    shutil.chown(settings.home, "games", "games")
    done = run(DROP, settings)
    assert done.returncode == 0, done.stderr
    assert "run as the account games" in done.stderr
    assert (settings.home / "keys.json").owner() == "games"


def test_links_lead_nowhere(folder: Path, account: SystemUser) -> None:
    secret = folder / "secret"
    secret.write_text("root's")
    home = folder / "home"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "file").touch()
    (home / "deep" / "symbolic").symlink_to(secret)
    (home / "deep" / "hard").hardlink_to(secret)
    hand_over(home, account)
    assert secret.stat().st_uid == 0
    assert {path.stat().st_uid for path in (home, home / "deep", home / "deep" / "file")} == {account.uid}


def test_without_an_account_of_our_own_another_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "NAME", "no-such-account")
    found = unprivileged()
    assert found is not None
    assert found.name in FALLBACKS


def test_what_root_writes_belongs_to_the_owner_of_home(settings: Settings, account: SystemUser) -> None:
    settings.home.mkdir()
    os.chown(settings.home, account.uid, account.gid)
    script = """
import os, subprocess
from pathlib import Path
from orchestration.supervision.rights import write_as_owner
closed = settings.home.parent / "closed"
closed.touch(mode=0)
os.setgroups([])  # as in some containers
write_as_owner(settings.home)
(settings.home / "written").write_text(closed.read_text())
from resources.servers.postgres import binaries
subprocess.run([binaries() / "pg_dump", "--version"], check=True, stdout=subprocess.DEVNULL)
print(os.geteuid(), subprocess.check_output(["sh", "-c", "id -u; grep ^Uid /proc/self/status"], text=True).split())
"""
    done = run(script, settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:1] == ["0"]
    assert done.stdout.count("'0'") == 5, "programs that root starts are root's"
    assert (settings.home / "written").stat().st_uid == account.uid


def test_a_dump_that_root_makes_belongs_to_the_owner_of_home(
    settings: Settings, account: SystemUser, database: str
) -> None:
    settings.home.mkdir()
    os.chown(settings.home, account.uid, account.gid)
    script = f"""
from orchestration.supervision.rights import write_as_owner
from pydantic import SecretStr
from resources.servers.postgres.dump import dump
write_as_owner(settings.home)
dump(settings.model_copy(update=dict(postgres_url=SecretStr({database!r}))), settings.home / "postgres.dump")
"""
    done = run(script, settings)
    assert done.returncode == 0, done.stderr
    made = (settings.home / "postgres.dump").stat()
    assert (made.st_uid, made.st_gid) == (account.uid, account.gid)
    assert made.st_size > 0


def test_the_unit_belongs_to_root(folder: Path, settings: Settings, account: SystemUser) -> None:
    """Whoever owns it decides as which account it runs."""
    settings.home.mkdir()
    os.chown(settings.home, account.uid, account.gid)
    (folder / systemd.NAME).touch()
    os.chown(folder / systemd.NAME, account.uid, account.gid)  # as an earlier version left it
    command = [sys.executable, "-m", "orchestration.cli", "service", "install", "--folder", str(folder)]
    environment = {**child_environment(settings), "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environment, cwd=folder, stdout=subprocess.DEVNULL)
    assert (folder / systemd.NAME).stat().st_uid == 0
    assert f"User={account.name}" in (folder / systemd.NAME).read_text()


@pytest.mark.parametrize("given", ["home", "lake"])
def test_an_empty_folder_of_root_is_given_to_the_account_of_the_unit(
    given: str, folder: Path, settings: Settings, account: SystemUser
) -> None:
    """Such as a disk that is mounted there, which may have `lost+found`."""
    (folder / given / "lost+found").mkdir(parents=True)
    lake = settings.model_copy(update={"lake_url": (folder / "lake").as_uri()})
    command = [sys.executable, "-m", "orchestration.cli", "service", "install", "--folder", str(folder)]
    environment = {**child_environment(lake), "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environment, cwd=folder, stdout=subprocess.DEVNULL)
    assert {(folder / name).stat().st_uid for name in ("home", "lake")} == {account.uid}


def test_what_services_cannot_read_is_known(
    settings: Settings, account: SystemUser, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "_needs", lambda home: [home])  # this machine's interpreter may be in a closed folder
    docs, key = folder / "docs", folder / "key.json"
    docs.mkdir(mode=0o700)
    key.touch(mode=0o600)
    root = FileRoot(name="handbook", url=docs.as_uri(), tenant="acme", dataset="handbook")
    settings = settings.model_copy(update={"file_roots": (root,), "google_service_account_file": key})
    unreadable = dict(rights.unreadable(settings))
    assert unreadable == {"handbook": docs, "CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE": key}, account
    remedies = [
        fault.remedy or "" for fault in preflight.roots(settings) if fault.detail.endswith("not by the services")
    ]
    assert len(remedies) == 2
    for remedy in remedies:
        subprocess.run(remedy.partition("for example: ")[2], shell=True, check=True)  # noqa: S602 # as a person pastes it
    assert not dict(rights.unreadable(settings))
    assert key.stat().st_mode & 0o777 == 0o640, "a private key is not for everyone"


def test_a_home_that_holds_other_things_is_not_given_away(settings: Settings, account: SystemUser) -> None:
    settings.home.mkdir()
    (settings.home / "notes.txt").touch()
    done = run(DROP, settings)
    assert done.returncode == 0, done.stderr
    assert "Services run as root" in done.stdout
    assert "notes.txt" in done.stdout
    assert account.name in done.stdout
    assert settings.home.stat().st_uid == 0


def test_a_system_that_hands_on_no_right_past_closed_folders_keeps_root(folder: Path, settings: Settings) -> None:
    """As in most containers, which lack the capability to read everything."""
    (folder / "closed").mkdir(mode=0o700)
    closed = settings.model_copy(update={"home": folder / "closed" / "home"})
    limit = f"import ctypes; assert ctypes.CDLL(None).prctl(24, {CAP_DAC_READ_SEARCH}, 0, 0, 0) == 0"
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    command = [
        sys.executable,
        "-c",
        f"{limit}\n{again}",
        f"from resources.settings import load; settings = load()\n{DROP}",
    ]
    done = subprocess.run(
        command, env=child_environment(closed), cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Services run as root" in done.stdout
    assert "chmod o+x" in done.stdout
    assert not closed.home.exists() or closed.home.stat().st_uid == 0


def test_sockets_of_a_long_home_are_handed_over(folder: Path, settings: Settings, account: SystemUser) -> None:
    long = settings.model_copy(update={"home": folder / ("long" * 30)})
    place = socket_path(long.model_copy(update={"home": folder}), "code.sock").parent
    assert place.is_relative_to(folder)
    done = run("from resources.servers.sockets import socket_path; socket_path(settings, 'code.sock')", long)
    assert "FileNotFoundError" in done.stderr, "there is no HOME yet"
    long.home.mkdir()
    elsewhere = socket_path(long, "code.sock").parent
    assert not elsewhere.is_relative_to(long.home)
    try:
        assert elsewhere.stat().st_uid == 0
        done = run(DROP, long)
        assert done.returncode == 0, done.stderr
        assert (elsewhere.stat().st_uid, elsewhere.stat().st_mode & 0o777) == (account.uid, 0o700)
    finally:
        shutil.rmtree(elsewhere)


def test_a_closed_port_can_be_kept(settings: Settings, account: SystemUser) -> None:
    first = int(rights.FREE_PORTS.read_text())
    if first < 2:
        pytest.skip("every port is open to everyone here")
    assert rights._uses_a_privileged_port(settings.model_copy(update={"http_port": first - 1}))
    assert not rights._uses_a_privileged_port(settings)
    script = f"import socket; socket.create_server(('127.0.0.1', {free_port_below(first)})); print('bound')"
    for keep, said in (([CAP_NET_BIND_SERVICE], "bound\n"), ([], "")):
        command = run_as([sys.executable, "-c", script], account, [Path(sys.executable).resolve()], keep)
        assert subprocess.run(command, capture_output=True, text=True, check=False, cwd="/").stdout == said


def free_port_below(first: int) -> int:
    for port in range(first - 1, 1, -1):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    return pytest.skip("no such port is free")


def test_up_runs_everything_as_the_account(settings: Settings, account: SystemUser) -> None:
    def concordance(*arguments: str, statuses: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "orchestration.cli", *arguments],
            env=child_environment(settings), cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in statuses, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert f"run as the account {NAME}" in concordance("up", "--detach")
    try:
        state = run_state.read(settings)
        assert state.supervisor is not None
        seen = {pid: look for pid in family(state.supervisor.pid) if (look := rights_of(pid))}
        assert len(seen) > len(state.services)
        for uids, capabilities in seen.values():
            assert uids == {account.uid}
            assert capabilities <= {0, 1 << CAP_DAC_READ_SEARCH}
        assert f"as the account {NAME}" in concordance("status", statuses=(0, 1)), (
            "a busy machine may have a service restarted"
        )
        assert concordance("token", "ada@acme.example")
    finally:
        concordance("down")
    assert {path.lstat().st_uid for path in (settings.home, *settings.home.rglob("*"))} == {account.uid}
    assert {path.name for path in settings.home.iterdir()} <= OWN_NAMES


def family(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def rights_of(pid: int) -> tuple[set[int], set[int]] | None:
    """Return the user ids and the capabilities of a process; None when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = {name: values.split() for name, _, values in (line.partition(":") for line in lines)}
    return set(map(int, found["Uid"])), {int(found[name][0], 16) for name in ("CapEff", "CapPrm", "CapAmb")}
