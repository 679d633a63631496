"""Several serving processes behind one port: limits, caches and metrics are those of one service, and processes that end are replaced."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from orchestration.supervision import run_state
from serving.http.request_limits import CLASSES
from tests.fixtures.postgres import PostgresProcess, fresh_database, make_home
from tests.fixtures.serving import Site, fresh_site
from tests.fixtures.waiting import until
from tests.fixtures.workers import Processes, serving_processes

pytestmark = pytest.mark.xdist_group("workers")  # one started set, not one in each worker

ANN, BOB = "ann@acme.com", "bob@acme.com"
SEARCH, ASK = "/api/rag/search", "/api/ask"
QUESTION = b'{"query": "When is the kettle descaled?"}'
ONE, TWO = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}


@pytest.fixture(scope="module")
def company(postgres_server: PostgresProcess, vector_url: str, bundled_model: Any, models_home: Path) -> Iterator[Site]:
    """An installation with a document for Ann and Bob, and the converted model. No fresh one for each test: a start takes 6 s."""
    home = make_home()
    with (
        fresh_database(postgres_server) as database,
        fresh_site(database, vector_url, bundled_model, home / "home") as site,
    ):
        (site.settings.home / "models").symlink_to(models_home)
        site.add("Tea", ["The kettle is descaled on Fridays."], [ANN, BOB])
        yield site
    shutil.rmtree(home)


class Started:
    """The service in two processes, started again if a test has ended it."""

    def __init__(self, company: Site, stack: ExitStack) -> None:
        self._company, self._stack = company, stack
        self._processes: Processes | None = None

    def get(self) -> Processes:
        if self._processes is None or not self._processes.running:
            self._processes = self._stack.enter_context(serving_processes(self._company))
        return self._processes


@pytest.fixture(scope="module")
def started(company: Site) -> Iterator[Started]:
    with ExitStack() as stack:
        yield Started(company, stack)


@pytest.fixture
def running(company: Site, started: Started) -> Processes:
    """The service in two processes, with the document as it was added."""
    company.sql("UPDATE documents SET permissions = %s, state = 'live'", [ANN, BOB])
    return started.get()


def search(running: Processes, client: httpx.Client, who: str) -> httpx.Response:
    return client.post(SEARCH, json={"query": "When is the kettle descaled?"}, headers=running.headers(who))


@pytest.fixture(scope="module")
def limited(company: Site) -> Iterator[Processes]:
    """Two processes with low limits."""
    with serving_processes(company, search_rate_limit=7, sign_in_failures=5, http_connections=6) as running:
        yield running


def test_limits_and_metrics_are_those_of_all_processes(limited: Processes) -> None:
    with limited.clients() as clients:
        found = [search(limited, clients[number % 2], ANN).status_code for number in range(12)]
        assert found[:7] == [200] * 7
        assert 429 in found[7:9]
        assert search(limited, clients[0], BOB).status_code == 200
        searches = 'rag_searches_total{cached="false",mode="hybrid"} '
        total = found.count(200) + 1
        for client in clients:  # the other's figures are at most a second old
            until(lambda: _figure(limited, client, searches) + _cached(limited, client) == total, "the sum")  # noqa: B023

        bob = {**ONE, **limited.headers(BOB)}
        assert clients[0].get("/api/sources", headers=bob).status_code == 200
        wrong = {**ONE, "Authorization": "Bearer nonsense"}
        guesses = [clients[number % 2].get("/api/sources", headers=wrong).status_code for number in range(8)]
        assert guesses[:5] == [401] * 5
        assert 429 in guesses[5:7]
        # a credential that one process has accepted is known to the other, so Bob is not locked out
        assert clients[1].get("/api/sources", headers=bob).status_code == 200
        assert clients[1].get("/api/sources", headers={**TWO, "Authorization": "Bearer x"}).status_code == 401


def _figure(running: Processes, client: httpx.Client, name: str) -> float:
    found = re.search(rf"^{re.escape(name)}(\S+)$", running.metrics(client), re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def _cached(running: Processes, client: httpx.Client) -> float:
    return _figure(running, client, 'rag_searches_total{cached="true",mode="hybrid"} ')


def test_connections_are_limited_over_all_processes(limited: Processes) -> None:
    opened = [socket.create_connection(("127.0.0.1", limited.port)) for _ in range(20)]
    for connection in opened:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    until(lambda: 1 <= sum(len(limited.peers(one.pid)) for one in limited.workers) <= 6, "the limit")
    for connection in opened:
        connection.close()


def test_a_permission_change_is_seen_by_all_processes_at_once(company: Site, running: Processes) -> None:
    with running.clients() as clients:
        for client in clients:
            answers = [search(running, client, ANN).json() for _ in range(2)]
            assert [len(answer["results"]) for answer in answers] == [1, 1]
            assert answers[1]["cached"]
        company.sql("UPDATE documents SET permissions = %s", [BOB])  # as a sync does before it changes the index
        assert [search(running, client, ANN).json()["results"] for client in clients] == [[], []]
        assert [len(search(running, client, BOB).json()["results"]) for client in clients] == [1, 1]
        company.sql("UPDATE documents SET permissions = %s", [ANN, BOB])
        assert [len(search(running, client, ANN).json()["results"]) for client in clients] == [1, 1]
        doc_id = company.sql("SELECT doc_id FROM documents")[0][0]
        assert clients[0].get(f"/api/documents/{doc_id}", headers=running.headers(ANN)).status_code == 200
        company.sql("UPDATE documents SET state = 'deleted'")
        assert [search(running, client, ANN).json()["results"] for client in clients] == [[], []]


def test_an_answer_of_one_process_is_known_to_the_other(running: Processes) -> None:
    with running.clients() as clients:
        for asked, other in (clients, reversed(clients)):
            answer = asked.post(ASK, content=QUESTION, headers=_json(running.headers(ANN))).json()
            kept = other.get(f"/api/answers/{answer['answer_id']}", headers=running.headers(ANN))
            assert kept.status_code == 200, kept.text


def _json(headers: dict[str, str]) -> dict[str, str]:
    return {**headers, "Content-Type": "application/json"}


def test_a_killed_process_is_replaced_and_its_requests_are_not_counted(running: Processes) -> None:
    limit = CLASSES["answer"].per_caller
    logged = len(running.log.read_text())
    busy = [running.begin(ANN, ASK, QUESTION) for _ in range(limit)]
    until(lambda: _ask(running) == 429, "the limit")
    [_, killed] = running.workers
    held = running.peers(killed.pid)
    assert 0 < len(held) < limit, "each process has some of the connections"
    killed.kill()
    until(lambda: _ask(running) == 200, "requests of the killed process no longer counted")
    running.wait()
    assert killed.pid not in [one.pid for one in running.workers]
    for connection in busy:
        connection.close()
    assert '"worker": 1' in running.log.read_text()[logged:]


@pytest.mark.parametrize("worker", [0, 1])
def test_no_request_fails_while_a_killed_process_is_replaced(running: Processes, worker: int) -> None:
    before = running.workers
    before[worker].kill()
    asked = 0

    def replaced() -> bool:
        nonlocal asked
        asked += 1
        assert httpx.get(f"{running.url}/healthz", timeout=60).status_code == 200
        assert httpx.get(f"{running.url}/api/sources", headers=running.headers(BOB), timeout=60).status_code == 200
        now = running.workers  # between two processes, one is missing
        return run_state.running(running.settings) and len(now) == len(before) and now[worker] != before[worker]

    until(replaced, "the other process")
    assert asked > 1
    assert running.workers[1 - worker] == before[1 - worker]
    running.wait()


def test_connections_wait_while_the_only_process_is_replaced(company: Site) -> None:
    with serving_processes(company, count=1) as running:
        [killed] = running.workers
        killed.kill()
        killed.wait(60)
        assert httpx.get(f"{running.url}/healthz", timeout=60).status_code == 200
        assert running.workers != [killed]


def _ask(running: Processes) -> int:
    return httpx.post(
        f"{running.url}{ASK}", content=QUESTION, headers=_json(running.headers(ANN)), timeout=60
    ).status_code


def test_sigterm_finishes_requests_in_all_processes(running: Processes) -> None:
    begun = [running.begin(ANN, ASK, QUESTION) for _ in range(4)]
    processes = running.workers

    def shared() -> bool:
        if all(running.peers(one.pid) for one in processes):
            return True
        begun.append(running.begin(ANN, ASK, QUESTION))
        return False

    until(shared, "requests of each process", pause=0.2)
    until(lambda: sum(len(running.peers(one.pid)) for one in processes) == len(begun), "all requests")
    stopping = Thread(target=running.stop)
    stopping.start()
    until(lambda: not _accepts(running.port), "no new connections")
    for connection in begun:
        with closing(connection):
            connection.sendall(QUESTION[-1:])
            assert connection.recv(12) == b"HTTP/1.1 200"
    stopping.join(60)
    assert not any(one.is_running() for one in processes)


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_process_that_hangs_is_replaced(company: Site) -> None:
    with serving_processes(company) as running:
        [hung, _] = running.workers
        hung.suspend()
        until(lambda: not hung.is_running(), "the end of the hung process")
        running.wait()
