"""Requests to a vector server that is away are repeated for a minute. They are read with the models of Qdrant's own client."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from qdrant_client import models
from qdrant_client.http.exceptions import ResponseHandlingException
from qdrant_client.qdrant_remote import QdrantRemote

from resources.core.bm25 import SparseVector
from resources.core.errors import LostLeaseError, ServiceUnavailableError
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.repeating import REPEATED_SECONDS, Repeating, once
from resources.stores.withheld import WithheldCollection
from tests.fixtures import loopback

DONE = {"operation_id": 1, "status": "completed"}
NAME = "documents_m_3"
ID = "00000000-0000-4000-8000-000000000001"
DROPPED = 0
"""Instead of a status: the connection is closed without an answer."""


@dataclass
class Node:
    """A server that meets each of its next requests with a fault, and answers the ones after them."""

    url: str = ""
    faults: list[int] = field(default_factory=list)
    sent: list[tuple[str, str, Any]] = field(default_factory=list)


@contextmanager
def running(node: Node) -> Generator[Node]:
    class Handler(loopback.Handler):
        def _take(self) -> None:
            body = self.body()
            node.sent.append((self.command, self.path, json.loads(body) if body else None))
            status = node.faults.pop(0) if node.faults else 200
            if status == DROPPED:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            batch = self.path.partition("?")[0].endswith("/batch")
            content = json.dumps({"result": [DONE] if batch else DONE, "status": "ok", "time": 0}).encode()
            self.answer(status, content, content_type="application/json")

        do_PUT = do_POST = do_GET = _take

    with loopback.serving(Handler) as node.url:
        yield node


@pytest.fixture
def node() -> Iterator[Node]:
    with running(Node()) as found:
        yield found


@dataclass
class Waits:
    """A clock that only waiting moves."""

    now: float = 0.0
    made: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.made.append(seconds)
        self.now += seconds

    def repeating(self, confirm: Callable[[], None] = lambda: None) -> Repeating:
        return Repeating(confirm, sleep=self.sleep, clock=lambda: self.now)


def client(url: str, repeating: Repeating | None) -> closing[QdrantRemote]:
    settings = Settings(_env_file=None, qdrant_url=url, index_prefix="north_")  # type: ignore[call-arg]
    return closing(qdrant.client(settings, repeating=repeating))


def upsert(index: QdrantRemote) -> None:
    qdrant.upsert(index, NAME, [ID], [[0.1, 0.2, 0.3]], [SparseVector([7], [1.5])], [{"doc_id": ID}])


WRITES: dict[str, tuple[Callable[[QdrantRemote], None], str, Callable[[Any], BaseModel]]] = {
    "upsert": (upsert, f"/collections/north_{NAME}/points", models.PointsBatch.model_validate),
    "set payload": (
        lambda index: qdrant.set_payload(index, NAME, {ID: {"permissions": ["public"]}}),
        f"/collections/north_{NAME}/points/batch",
        models.UpdateOperations.model_validate,
    ),
    "delete by ids": (
        lambda index: qdrant.delete_points(index, NAME, [ID]),
        f"/collections/north_{NAME}/points/delete",
        models.PointIdsList.model_validate,
    ),
    "delete documents": (
        lambda index: qdrant.delete_documents(index, NAME, [ID], keep=[ID]),
        f"/collections/north_{NAME}/points/delete",
        models.FilterSelector.model_validate,
    ),
    "withhold": (
        lambda index: WithheldCollection(index).people(["ann@acme.example"]),
        "/collections/north_withheld/points",
        models.PointsList.model_validate,
    ),
}


@pytest.mark.parametrize("fault", [502, 503, 504, DROPPED])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_repeated_as_it_was(node: Node, write: str, fault: int) -> None:
    make, path, read = WRITES[write]
    node.faults, waits = [fault, fault], Waits()
    with client(node.url, waits.repeating()) as index:
        make(index)
    assert len(node.sent) == 3
    assert waits.made == [0.25, 0.5]
    first, *again = node.sent
    assert again == [first, first]
    assert first[1].partition("?")[0] == path
    read(first[2])


def test_a_refused_connection_is_tried_for_a_minute_and_no_longer() -> None:
    with running(Node()) as gone:
        pass
    waits = Waits()
    with client(gone.url, waits.repeating()) as index, pytest.raises(ServiceUnavailableError):
        upsert(index)
    assert REPEATED_SECONDS - 4 < sum(waits.made) <= REPEATED_SECONDS


def test_a_timeout_is_repeated() -> None:
    waits, calls = Waits(), list[int]()

    def send(request: httpx.Request) -> httpx.Response:
        calls.append(1)
        if len(calls) == 1:
            raise ResponseHandlingException(httpx.ReadTimeout("", request=request))
        return httpx.Response(200)

    request = httpx.Request("PUT", f"http://qdrant/collections/{NAME}/points")
    assert waits.repeating().middleware(request, send).status_code == 200
    assert len(calls) == 2


@pytest.mark.parametrize("fault", [503, DROPPED])
def test_the_creation_of_a_collection_is_not_repeated_once_it_was_sent(node: Node, fault: int) -> None:
    node.faults, waits = [fault], Waits()
    with (
        client(node.url, waits.repeating()) as index,
        pytest.raises(ServiceUnavailableError),
        qdrant.qdrant_errors("create"),
    ):
        index.create_collection(NAME, vectors_config={})
    assert len(node.sent) == 1


@pytest.mark.parametrize("status", [400, 404, 429, 500])
def test_other_answers_are_final(node: Node, status: int) -> None:
    node.faults = [status]
    with client(node.url, Waits().repeating()) as index, pytest.raises(Exception, match="write points"):
        upsert(index)
    assert len(node.sent) == 1


def test_a_process_that_lost_its_lease_repeats_nothing(node: Node) -> None:
    def lost() -> None:
        raise LostLeaseError("Another process has taken over.")

    node.faults = [503]
    with client(node.url, Waits().repeating(lost)) as index, pytest.raises(LostLeaseError):
        upsert(index)
    assert len(node.sent) == 1


def test_nothing_is_repeated_while_locks_are_held_or_by_clients_that_answer_people(node: Node) -> None:
    node.faults = [503]
    with client(node.url, Waits().repeating()) as index, once(), pytest.raises(ServiceUnavailableError):
        upsert(index)
    node.faults = [503]
    with client(node.url, None) as index, pytest.raises(ServiceUnavailableError):
        upsert(index)
    assert len(node.sent) == 2
