"""What the services find before they start, and what is asked of them."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from orchestration.supervision.services import check_fresh, services
from orchestration.supervision.serving import Serving, serving_address
from resources.core.errors import ConfigurationError
from resources.servers.listening import listen, refused
from resources.servers.processes import free_port
from resources.settings import Settings


def test_captured_output_of_earlier_versions_is_deleted(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, qdrant_url="http://127.0.0.1:9")  # type: ignore[call-arg]
    captured = tmp_path / "dagster" / "storage" / "a-run" / "compute_logs"
    captured.mkdir(parents=True)
    (captured / "files__raw.err").write_text("secret.pdf")
    (captured.parent / "result").write_text("kept")
    (code,) = (one for stage in services(settings) for one in stage if one.name == "dagster-code")
    code.prepare()
    assert [file.name for file in (tmp_path / "dagster" / "storage").rglob("*") if file.is_file()] == ["result"]
    assert "NoOpComputeLogManager" in (tmp_path / "dagster" / "dagster.yaml").read_text()


def test_the_daemon_is_restarted_if_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = SecretStr("postgresql://127.0.0.1:9/none")
    settings = Settings(_env_file=None, home=tmp_path, postgres_url=nowhere)  # type: ignore[call-arg]
    monkeypatch.setattr("orchestration.supervision.services._prepare", lambda _: None)
    (daemon,) = (one for stage in services(settings) for one in stage if one.name == "dagster-daemon")
    daemon.prepare()
    assert daemon.probe() is None, "Postgres does not say"
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    assert daemon.probe() is None
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert daemon.probe() is False
    daemon.prepare()
    assert daemon.probe() is None


def test_a_process_by_itself_is_reached_over_each_family_too(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, http_host="::", http_port=free_port())  # type: ignore[call-arg]
    with listen(settings):
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, settings.http_port)).close()
        with pytest.raises(ConfigurationError, match="CONCORDANCE_HTTP_PORT"):
            listen(settings)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EADDRINUSE, "is taken by another program. Set CONCORDANCE_HTTP_PORT to a free port."),
        (
            errno.EACCES,
            "This account may not use port 80, which serving needs. Set CONCORDANCE_HTTP_PORT to 1024 or more.",
        ),
        (errno.EADDRNOTAVAIL, "This machine has no address 192.0.2.1. Set CONCORDANCE_HTTP__HOST to one that it has."),
        (errno.EAFNOSUPPORT, "This machine has no address 192.0.2.1. Set CONCORDANCE_HTTP__HOST to one that it has."),
        (errno.EMFILE, "serving cannot listen on port 80: Too many open files."),
    ],
)
def test_a_socket_that_cannot_be_opened_is_refused_with_its_reason(code: int, said: str) -> None:
    refusal = str(refused(OSError(code, os.strerror(code)), "serving", "CONCORDANCE_HTTP_PORT", "192.0.2.1", 80))
    assert said in refusal


def test_an_address_of_another_machine_is_no_port_that_is_taken(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path / "home", http_host="192.0.2.1", http_port=free_port())  # type: ignore[call-arg]
    service = Serving(settings).services()[0]
    for begin in (lambda: listen(settings), lambda: check_fresh(settings), service.check_port):
        with pytest.raises(ConfigurationError, match="This machine has no address"):
            begin()


def test_the_address_of_all_families_is_reached_over_each(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, http_host="::", http_port=free_port())  # type: ignore[call-arg]
    service = Serving(settings).services()[0]
    service.prepare()
    try:
        for url in (serving_address(settings), settings.base_url):
            parts = urlsplit(url)
            socket.create_connection((parts.hostname or "", parts.port or 0)).close()
    finally:
        service.close()
