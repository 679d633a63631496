"""The systemd unit of one machine."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

import pytest

from orchestration import systemd
from orchestration.cli import run
from orchestration.supervision import run_state
from resources.servers.processes import identify
from resources.settings import load


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))


def test_the_unit_runs_up_as_the_account(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    me = getpass.getuser()
    assert run(["service", "install", "--folder", str(tmp_path), "--account", me]) == 0
    unit = (tmp_path / systemd.NAME).read_text().splitlines()
    assert f"User={me}" in unit
    assert "OOMPolicy=continue" in unit, "systemd would end all processes if the kernel ends one"
    assert f"WorkingDirectory={tmp_path}" in unit
    assert f"ReadWritePaths={tmp_path / 'home'} /tmp" in unit
    assert next(line for line in unit if line.startswith("ExecStart=")).endswith("/concordance up")
    assert (tmp_path / "home").stat().st_mode & 0o077 in (0o00, 0o11)
    assert "systemctl enable --now concordance.service" in capsys.readouterr().out


def test_the_unit_may_write_to_a_lake_outside_of_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_LAKE_URL", (tmp_path / "data" / "lake").as_uri())
    assert run(["service", "install", "--folder", str(tmp_path), "--account", getpass.getuser()]) == 0
    unit = (tmp_path / systemd.NAME).read_text().splitlines()
    assert f"ReadWritePaths={tmp_path / 'home'} {tmp_path / 'data' / 'lake'} /tmp" in unit
    assert (tmp_path / "data" / "lake").is_dir(), "systemd starts no unit with a path that does not exist"


def test_the_unit_of_another_installation_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["service", "install", "--folder", str(tmp_path), "--account", getpass.getuser()]
    assert run(command) == run(command) == 0
    before = (tmp_path / systemd.NAME).read_text()
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "second home"))
    assert run(command) == 1
    assert f"{tmp_path / systemd.NAME} starts the installation in {tmp_path / 'home'}" in capsys.readouterr().err
    assert (tmp_path / systemd.NAME).read_text() == before
    assert not (tmp_path / "second home").exists()


def test_the_unit_is_shown_without_writing_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["service", "install", "--show"]) == 0
    assert "User=concordance" in capsys.readouterr().out
    assert not (tmp_path / "home").exists()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = tmp_path / "absent"
    assert run(["service", "install", "--folder", str(absent), "--account", getpass.getuser()]) == 1
    assert str(absent) in capsys.readouterr().err


def test_an_installation_that_systemd_runs_is_not_restarted_outside_of_its_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    me = identify(os.getpid())
    run_state.write(load(), run_state.RunState(supervisor=me))
    monkeypatch.setattr(systemd, "PROCESSES", tmp_path)
    groups = tmp_path / str(os.getpid()) / "cgroup"
    groups.parent.mkdir()
    groups.write_text("0::/user.slice/user-0.slice/session-1.scope\n")
    assert not systemd.runs(os.getpid())
    groups.write_text("0::/system.slice/concordance.service\n")
    assert run(["restart"]) == 1
    assert "Run: systemctl restart concordance.service" in capsys.readouterr().err


def test_restart_starts_no_installation_that_has_never_been_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as in a shell that lacks CONCORDANCE_HOME: the installation that should apply its settings runs with another one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that nothing is started here if it tries
        monkeypatch.setenv("CONCORDANCE_HTTP_PORT", str(taken.getsockname()[1]))
        assert run(["restart"]) == 3
    assert f"Concordance has never run in {tmp_path / 'home'}" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_an_account_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["service", "install", "--folder", str(tmp_path), "--account", "no-such-account"]) == 1
    assert "no-such-account" in capsys.readouterr().err
    assert not (tmp_path / systemd.NAME).exists()
    assert not (tmp_path / "home").exists()
