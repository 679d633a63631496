"""Each process by itself, without `concordance up`: it needs nothing but its environment, and ends without losing a request."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from resources.servers.processes import free_port
from tests.fixtures.mounts import Mount, mount
from tests.fixtures.postgres import PostgresProcess
from tests.fixtures.processes import Load, Processes
from tests.fixtures.vector import VectorProcess
from tests.fixtures.waiting import until

__all__ = ["mount"]

KEY = "q" * 32


@pytest.fixture
def processes(postgres_process: PostgresProcess, tmp_path: Path) -> Iterator[Processes]:
    vector = VectorProcess(tmp_path / "vector", api_key=KEY)
    vector.start()
    made = Processes(tmp_path, postgres_process, vector, KEY)
    yield made
    made.close()
    vector.close()


def close_home(processes: Processes, mount: Mount) -> None:
    """Make HOME read-only but for the folder of the audit log."""
    if os.geteuid() == 0:
        mount(processes.home, read_only=True)
        mount(processes.home / "audit", megabytes=64)
    else:
        processes.home.chmod(0o500)


def test_the_processes_run_alone_with_a_read_only_home(processes: Processes, mount: Mount) -> None:
    (processes.docs / "ferry.md").write_text("# Ferry\n\nThe ferry leaves at nine.\n")
    close_home(processes, mount)
    assert processes.command("migrate", "--wait", "0", check=False).returncode == 1
    assert "0001" in processes.command("migrate").stdout
    assert processes.command("migrate").stdout == ""
    processes.command("migrate", "--wait", "0")

    processes.start("code")
    processes.start("webserver")
    processes.start("daemon")
    processes.start("serve", "--host", "0.0.0.0", "--drain", "1")  # noqa: S104
    dagster, ours = f"http://127.0.0.1:{processes.dagster_port}", f"http://127.0.0.1:{processes.port}"
    processes.await_status("webserver", f"{dagster}/readyz")
    processes.await_status("serve", f"{ours}/readyz")
    assert processes.http.get(f"{dagster}/livez").text == "alive"
    assert processes.http.get(f"{dagster}/graphql").status_code == 401
    until(lambda: processes.command("daemon", "--check", check=False).returncode == 0, "the daemon's heartbeat")

    report = json.loads(processes.command("sync", "files", "--wait", "--json").stdout.splitlines()[-1])
    assert (report["status"], report["synced"]) == ("success", 1), report
    found = json.loads(processes.command("search", "ferry", "--as", "ann@acme.com", "--json").stdout.splitlines()[-1])
    assert [one["title"] for one in found["results"]] == ["Ferry"]
    assert "FAULT" not in processes.command("doctor").stdout
    assert "1 live, 0 skipped, 0 failed" in processes.command("status").stdout
    held = psutil.Process(processes.pid("daemon")).environ()
    assert "CONCORDANCE_SECRET_KEY" not in held
    assert "CONCORDANCE_ENCRYPTION_KEYS_FILE" not in held

    load = Load([ours], processes.command("token", "ann@acme.com").stdout.strip())
    until(lambda: load.answered[ours] > 20 or load.failures, "searches")
    for name in ("serve", "webserver", "daemon", "code"):
        processes.terminate(name)
    assert {name: processes.status(name) for name in ("serve", "webserver", "daemon", "code")} == dict.fromkeys(
        ("serve", "webserver", "daemon", "code"), 0
    )
    load.stop()
    assert load.failures == []
    assert {name.name: name.read_text() for name in processes.logs.glob("*.err") if name.stat().st_size} == {}
    assert [entry.name for entry in processes.home.iterdir()] == ["audit"]


def test_a_serving_process_is_replaced_under_load(processes: Processes) -> None:
    (processes.docs / "ferry.md").write_text("# Ferry\n\nThe ferry leaves at nine.\n")
    processes.command("migrate")
    processes.start("code")
    processes.start("webserver")
    processes.await_status("webserver", f"http://127.0.0.1:{processes.dagster_port}/readyz")
    processes.command("sync", "files", "--wait")
    addresses: list[str] = []
    for number in (1, 2):
        port = free_port()
        addresses.append(f"http://127.0.0.1:{port}")
        home = processes.home.with_name(f"home-{number}")
        (home / "audit").mkdir(parents=True)
        own = {"CONCORDANCE_HOME": str(home)}
        processes.start("serve", "--port", str(port), "--drain", "1.5", name=f"serve-{number}", environment=own)
        processes.await_status(f"serve-{number}", f"{addresses[-1]}/readyz")
    load = Load(addresses, processes.command("token", "ann@acme.com").stdout.strip())
    until(lambda: load.answered[addresses[0]] > 20 or load.failures, "searches")
    processes.terminate("serve-1")
    assert processes.status("serve-1") == 0
    until(lambda: load.answered[addresses[1]] > 20 or load.failures, "searches of the other")
    load.stop()
    print(f"\n{sum(load.answered.values())} searches, {len(load.failures)} failed")  # noqa: T201
    assert load.failures == []


def test_a_run_is_executed_by_its_id(processes: Processes) -> None:
    """What a run launcher starts in a container: here a run that nothing else has started."""
    (processes.docs / "ferry.md").write_text("# Ferry\n\nThe ferry leaves at nine.\n")
    own = processes.secrets.parent / "dagster"
    own.mkdir()
    kept = Path("dagster.yaml").read_text().partition("\n")[2].replace("WarmRunLauncher", "IdleLauncher")
    (own / "dagster.yaml").write_text(
        kept.replace("orchestration.supervision.launcher", "tests.fixtures.idle_launcher")
    )
    processes.environment["DAGSTER_HOME"] = str(own)
    processes.command("migrate")
    processes.start("code")
    processes.start("webserver")
    processes.await_status("webserver", f"http://127.0.0.1:{processes.dagster_port}/readyz")
    processes.command("sync", "files")
    url = (processes.secrets / "POSTGRES_URL").read_text().strip()
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT run_id FROM dagster.runs").fetchone()
    assert row is not None
    processes.command("run", row[0])
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT status FROM sync_jobs").fetchall() == [("success",)]
    assert (own / "dagster.yaml").read_text().startswith(kept[:20])
    assert processes.command("run", "nonsense", check=False).returncode == 2


def test_a_backup_holds_no_keys_if_the_settings_give_them(processes: Processes, mount: Mount, tmp_path: Path) -> None:
    copy, url = tmp_path / "backup", processes.secrets / "POSTGRES_URL"
    processes.command("migrate")
    with psycopg.connect(url.read_text().strip(), autocommit=True) as connection:
        connection.execute("CREATE TABLE mark AS SELECT 7 AS number")
        connection.execute("CREATE DATABASE restored")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/note").write_text("kept")
    close_home(processes, mount)
    said = processes.command("backup", str(copy))
    assert "CONCORDANCE_ENCRYPTION_KEYS" in said.stderr
    assert not (copy / "keys.json").exists()
    restored = f"{url.read_text().rpartition('/')[0]}/restored"
    url.write_text(restored)
    processes.environment["CONCORDANCE_LAKE_URL"] = (tmp_path / "moved").as_uri()
    processes.command("restore", str(copy))
    assert not (processes.home / "keys.json").exists()
    assert (tmp_path / "moved/note").read_text() == "kept"
    with psycopg.connect(restored) as connection:
        assert connection.execute("SELECT number FROM mark").fetchall() == [(7,)]
    del processes.environment["CONCORDANCE_SECRET_KEY_FILE"]
    refused = processes.command("restore", str(copy), check=False)
    assert (refused.returncode, "has no keys.json" in refused.stderr) == (2, True)
