"""Ports that nobody has set: chosen where the default one is taken, and read from HOME by every command."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.supervision import ports
from orchestration.supervision.environment import child_environment
from resources.servers.processes import free_port
from resources.settings import Settings, load
from resources.settings.ports import PORTS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))
    for name in PORTS:
        monkeypatch.delenv(f"CONCORDANCE_{name.upper()}", raising=False)
    return tmp_path / "home"


def numbers(settings: Settings) -> list[int]:
    return [getattr(settings, name) for name in PORTS]


@pytest.fixture
def taken() -> Iterator[int]:
    """A taken port that is recorded for HTTP, because the defaults may be in use on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        ports.record(load().model_copy(update={"http_port": port}))
        yield port


def test_a_taken_port_is_replaced_and_every_command_reads_the_new_one(taken: int) -> None:
    before = load()
    assert before.http_port == taken
    found = ports.choose(before)
    assert found.http_port != taken
    assert len(set(numbers(found))) == 4
    assert load().http_port == taken, "nothing is written yet"
    ports.record(found)
    assert numbers(load()) == numbers(found)
    assert ports.changes(before, found)[0].startswith(f"Port {taken} is taken: the HTTP interface uses")
    assert numbers(ports.choose(load())) == numbers(found), "they stay while they are free"


def test_a_port_in_the_settings_is_never_replaced(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        monkeypatch.setenv("CONCORDANCE_HTTP_PORT", str(port))
        found = ports.choose(load())
        assert found.http_port == port
        ports.record(found)
    monkeypatch.delenv("CONCORDANCE_HTTP_PORT")
    assert load().http_port == 8080, "what was recorded before is forgotten"


def test_another_process_of_the_same_installation_chooses_the_same(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    found = ports.choose(load())
    ports.record(found)
    for name, value in child_environment(found).items():
        monkeypatch.setenv(name, value)
    again = ports.choose(load())
    ports.record(again)
    for name in PORTS:
        monkeypatch.delenv(f"CONCORDANCE_{name.upper()}", raising=False)
    assert numbers(again) == numbers(found) == numbers(load())


def test_a_new_home_is_not_made_by_choosing(home: Path) -> None:
    ports.choose(load())
    assert not home.exists()


def test_two_defaults_are_not_given_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_POSTGRES_PORT", "8080")
    assert ports.choose(load()).http_port != 8080


def test_a_free_port_is_none_that_an_outgoing_connection_could_take() -> None:
    # Kernels take these from 32768 on (Linux) or from 49152 on. Source: ip(7), RFC 6335
    found = [free_port() for _ in range(500)]
    assert all(20_000 <= port < 32_768 for port in found)
    assert len({*found}) == len(found)  # what will use one may not listen yet
