"""A busy or hung Postgres: permissions still apply, waits are limited, and an outage is distinguished from overload."""

from __future__ import annotations

import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from resources import keys
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings
from resources.stores.migrate import migrate
from resources.stores.postgres import session
from tests.fixtures.serving import PUBLIC_URL, Running, Site, configured
from tests.machine.test_degradation_http import codes, own_postgres, titles, until_ready

__all__ = ["own_postgres"]

ANN, BOB = "ann@acme.com", "bob@acme.com"
MANY = 16
"""More searches than the pool has connections."""


@contextmanager
def locked(site: Site, table: str) -> Generator[None]:
    """Hold a table, so that every statement that reads it waits."""
    with psycopg.connect(site.settings.postgres_dsn) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")  # type: ignore[arg-type]
        yield


def ask(running: Running, who: str = BOB) -> httpx.Response:
    return running.request("POST", "/api/rag/search", who, json={"query": "ferry contract"})


def test_a_full_pool_and_a_slow_statement_do_not_bypass_permissions(site: Site, running: Running) -> None:
    site.add("Contract", ["The ferry contract is confidential."], [ANN, BOB])
    site.sql("UPDATE documents SET permissions = %s", [ANN])  # revoked; the index does not know yet
    assert ask(running).json()["results"] == []
    with locked(site, "chunks"), ThreadPoolExecutor(MANY) as pool:
        answers = list(pool.map(lambda _: ask(running), range(MANY)))
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.json()["type"] for answer in answers} == {"/problems/overloaded"}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)
    assert not any("confidential" in answer.text for answer in answers)
    assert running.titles("ferry contract", ANN) == ["Contract"]


def test_a_request_fails_if_memberships_cannot_be_read_in_time(site: Site, running: Running) -> None:
    site.add("Contract", ["The ferry contract is confidential."], [ANN])
    with locked(site, "directory"):
        assert (ask(running).status_code, ask(running, ANN).status_code) == (503, 503)


@contextmanager
def stopped(pids: list[int]) -> Generator[None]:
    """Hang processes (SIGSTOP): their sockets stay open and nothing answers."""
    found: list[psutil.Process] = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):  # one of the server's that ends by itself
            process = psutil.Process(pid)
            process.send_signal(signal.SIGSTOP)
            found.append(process)
    try:
        yield
    finally:
        for process in found:
            with suppress(psutil.NoSuchProcess):  # one that had ended already, and is gone once the first has gone on
                process.send_signal(signal.SIGCONT)


def family(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def test_a_hung_postgres_delays_requests_only_briefly(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    site.add("Open", ["The ferry leaves at nine."], ["public"])
    with site.running() as running:
        assert codes(running.search("ferry", BOB)) == []
        with stopped(family(process.pid)):
            answer = running.search("ferry", BOB)
            assert (titles(answer), codes(answer)) == ({"Open"}, ["registry_unavailable"])
            ready = running.ready().json()
            assert (ready["status"], ready["services"]["postgres"]["state"]) == ("degraded", "down")
            file = {"file": ("notes.md", b"# Notes\n\nThe ferry.", "text/markdown")}
            upload = running.request("POST", "/api/upload", BOB, files=file)
            assert (upload.status_code, upload.json()["type"]) == (503, "/problems/service-unavailable")
            doc_id = answer["results"][0]["doc_id"]
            assert running.request("DELETE", f"/api/documents/{doc_id}", BOB).status_code == 503
        until_ready(running)
        assert codes(running.search("ferry", BOB)) == []


def test_an_upload_during_a_hang_of_postgres_is_refused(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        with stopped(family(process.pid)):
            file = {"file": ("notes.md", b"# Notes\n\nThe ferry.", "text/markdown")}
            assert running.request("POST", "/api/upload", BOB, files=file).status_code == 503
        until_ready(running)


def take_every_slot(dsn: str, taken: list[Any]) -> None:
    while True:
        taken.append(psycopg.connect(dsn))


def test_a_postgres_without_free_connections_is_busy_not_down(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    site.add("Contract", ["The ferry contract is confidential."], [ANN, BOB])
    site.sql("UPDATE documents SET permissions = %s", [ANN])
    taken: list[Any] = []
    try:
        with pytest.raises(psycopg.OperationalError, match=r"clients|slots"):
            take_every_slot(process.dsn, taken)
        with site.running() as running:
            answer = ask(running)
            assert (answer.status_code, answer.json()["type"]) == (503, "/problems/overloaded")
            assert running.ready().json()["services"]["postgres"]["state"] == "ok"
    finally:
        for connection in taken:
            connection.close()


def test_a_hung_vector_server_costs_one_search_a_wait_and_the_next_ones_none(
    database: str, vector_process: Any, bundled_model: Any, tmp_path: Path
) -> None:
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]
        home=tmp_path / "home",
        postgres_url=database,  # type: ignore[arg-type]
        qdrant_url=vector_process.url,
        public_url=PUBLIC_URL,
        search_cache_seconds=0,
    )
    keys.ensure(settings)
    site = Site(settings, bundled_model)
    site.reset_index()
    site.add("Open", ["The ferry leaves at nine."], ["public"])
    with site.running() as running:
        assert codes(running.search("ferry", BOB)) == []
        with stopped(family(vector_process.pid)):
            assert codes(running.search("ferry", BOB)) == ["vector_index_unavailable"]
            down = running.ready().json()["services"]["qdrant"]["state"]
            assert down == "down"
            for _ in range(5):  # each would wait ten seconds, longer than the client does
                answer = running.request("POST", "/api/rag/search", BOB, json={"query": "ferry"}, timeout=8)
                assert codes(answer.json()) == ["vector_index_unavailable"]
        until_ready(running)
        assert codes(running.search("ferry", BOB)) == []
    site.qdrant.close()


@contextmanager
def read_only(site: Site) -> Generator[None]:
    """A Postgres that accepts no writes, as a standby that connections reach while servers change their roles."""

    def turn(state: str) -> None:
        site.sql("SET default_transaction_read_only = off")
        site.sql(f"ALTER ROLE CURRENT_USER SET default_transaction_read_only = {state}")
        site.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = user AND pid <> pg_backend_pid()"
        )
        site.disconnect()

    turn("on")
    yield
    turn("off")


def test_while_postgres_accepts_no_writes_reading_goes_on(own_postgres: tuple[Site, Any]) -> None:
    site, _ = own_postgres
    site.settings = site.settings.model_copy(update={"oidc_providers": configured().oidc_providers})
    doc_id = site.add("Contract", ["The ferry contract is confidential."], [ANN])
    browser = {**site.session(ANN), "Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}
    with site.running() as running:
        until_ready(running)
        with read_only(site):
            found = running.search("ferry contract", ANN)
            assert (titles(found), codes(found)) == ({"Contract"}, [])
            assert running.search("ferry contract", BOB)["results"] == []
            assert running.request("GET", f"/api/documents/{doc_id}", ANN).status_code == 200
            file = {"file": ("u.txt", b"A lighthouse.", "text/plain")}
            refused = [
                running.request("POST", "/api/upload", ANN, files=file, data={"metadata": "{}"}),
                running.request("POST", "/api/saved-searches", ANN, json={"name": "Ferry", "query": "ferry"}),
                running.http.get("/api/me", headers=browser),  # that a session is used is noted
            ]
            assert [(one.status_code, one.json()["type"]) for one in refused] == [
                (503, "/problems/service-unavailable")
            ] * 3
            assert all("accepts no writes" in one.json()["detail"] and one.headers["Retry-After"] for one in refused)
            with (
                pytest.raises(ServiceUnavailableError, match="accepts no writes"),
                session(site.settings.postgres_dsn) as one,
            ):
                one.execute("CREATE TABLE written ()")
            with pytest.raises(ServiceUnavailableError, match="accepts no writes"):
                migrate(site.settings.postgres_dsn)
        assert (
            running.request("POST", "/api/saved-searches", ANN, json={"name": "Ferry", "query": "ferry"}).status_code
            == 200
        )
        assert running.http.get("/api/me", headers=browser).status_code == 200
        running.settle()
    actions = site.sql("SELECT email, action FROM audit_log ORDER BY event_id")
    assert actions == [(ANN, "search"), (BOB, "search"), (ANN, "open")]
