"""What `doctor` finds as somebody without keys: nothing on a closed installation, and whatever is left open."""

from __future__ import annotations

import os
import shutil
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestration.diagnosis import outsider
from resources import keys
from resources.servers.processes import free_port
from resources.servers.sockets import socket_path
from resources.settings import Settings
from tests.fixtures import loopback
from tests.fixtures.postgres import PostgresProcess, make_home
from tests.fixtures.vector import VectorProcess


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder whose parents let everybody through, unlike pytest's own."""
    home = make_home()
    yield home
    shutil.rmtree(home)


def settings_of(home: Path, **more: object) -> Settings:
    ports = {name: free_port() for name in ("http_port", "dagster_port", "qdrant_port", "postgres_port")}
    settings = Settings(_env_file=None, home=home, **(ports | more))  # type: ignore[arg-type]
    keys.ensure(settings)
    return settings


def test_a_vector_server_with_a_key_is_closed_and_one_without_is_named(
    home: Path, make_vector_process: Callable[..., VectorProcess]
) -> None:
    closed, bare = make_vector_process(api_key="s3cret"), make_vector_process()
    assert outsider.probe(settings_of(home, qdrant_port=closed.port)).opened == []
    assert outsider.probe(settings_of(home, qdrant_port=bare.port)).opened == ["the vector server's collections"]


def test_a_server_that_checks_nothing_is_named_with_every_way_in(home: Path) -> None:
    class Anything(loopback.Handler):
        def do_GET(self) -> None:
            self.answer(200)

        def do_POST(self) -> None:
            self.answer(200)

    with loopback.serving(Anything) as url:
        opened = outsider.probe(settings_of(home, dagster_port=int(url.rpartition(":")[2]))).opened
    assert opened == [
        "Dagster's pages",
        "GraphQL of Dagster by GET",
        "GraphQL of Dagster by a page's text/plain",
        "GraphQL of Dagster by a page's application/json",
        "Dagster under a foreign host name",
    ]


def test_files_that_others_may_read_are_named(home: Path) -> None:
    settings = settings_of(home)
    assert outsider.probe(settings).opened == []
    keys.path(settings).chmod(0o644)
    (home / "lake").chmod(0o755)
    assert outsider.probe(settings).opened == [f"reading {keys.path(settings)}", f"reading {home / 'lake'}"]


def test_a_socket_that_others_may_open_is_named(home: Path) -> None:
    settings = settings_of(home)
    path = socket_path(settings, "code.sock")
    with socketserver.ThreadingUnixStreamServer(str(path), socketserver.BaseRequestHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert outsider.probe(settings).opened == []
        path.chmod(0o777)
        assert outsider.probe(settings).opened == []
        attempt = outsider.Attempt(what="the socket", kind="socket", target=str(path))
        path.parent.chmod(0o711)
        assert outsider.succeeds(attempt, other_account=False)
        assert outsider.succeeds(attempt, other_account=True)
        server.shutdown()


def test_postgres_wants_its_password(postgres_process: PostgresProcess) -> None:
    settings = postgres_process.settings
    assert outsider.probe(settings).opened == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_root_tries_it_as_another_account(home: Path) -> None:
    outcome = outsider.probe(settings_of(home))
    assert outcome.account in outsider.ACCOUNTS
    assert outcome.attempts > 10
