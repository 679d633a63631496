"""The connector passes Concordance's tests of connectors, against a real Kinto server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from concordance_kinto import SPEC, KintoSettings
from concordance_kinto.readers import readers
from concordance_kinto.source import Kinto

from resources.core.errors import AbortSyncError
from resources.core.ports import Memory, Source
from resources.settings import Settings
from resources.sources.conformance import Conformance, Fault, Index, Stage, World

sys.path.insert(0, str(Path(__file__).parent))
from kinto_server import ADMIN, Server, kinto

ANN, BOB = "account:ann@acme.example", "account:bob@acme.example"
STATUS = {"unavailable": 503, "rate_limit": 429, "unauthorized": 401}


class Faulty(httpx.HTTPTransport):
    """A connection that answers in place of the server while a fault lasts."""

    fault: Fault | None = None
    times = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.fault is None:
            return super().handle_request(request)
        status = STATUS[self.fault]
        self.times -= 1
        if self.times == 0:
            self.fault = None
        return httpx.Response(status, headers={"Retry-After": "0"}, request=request)


class KintoWorld:
    """The collection `pages`. A document is a record, named by its path."""

    faults: frozenset[Fault] = frozenset({"unavailable", "rate_limit", "unauthorized"})

    def __init__(self, server: Server, home: Path) -> None:
        self.server = server
        self.transport = Faulty()
        self.settings = Settings(_env_file=None, home=home, retry_seconds=(0.0,))
        self.own = KintoSettings(_env_file=None, url=server.url, user=ADMIN[0], password=ADMIN[1])
        self._count = 0

    def open(self, memory: Memory) -> Source:
        return Kinto(self.settings, self.own, page=3, transport=self.transport)

    def add(self, text: str) -> str:
        self._count += 1
        path = f"/buckets/main/collections/pages/records/page-{self._count}"
        data = {"title": f"Page {self._count}", "content": text}
        self.server.put(path, data=data, permissions={"read": [ANN]})
        return path

    def change(self, document: str, text: str) -> None:
        self.server.patch(document, data={"content": text})

    def delete(self, document: str) -> None:
        self.server.delete(document)

    def give(self, document: str, reader: str) -> None:
        self.server.patch(document, permissions={"read": [ANN, f"account:{reader}"]})

    def take(self, document: str, reader: str) -> None:
        self.server.patch(document, permissions={"read": [ANN]})

    def readers(self, document: str) -> set[str]:
        names = self.server.get(document)["permissions"]["read"]
        return {name.removeprefix("account:") for name in names}

    def fail(self, fault: Fault | None, *, times: int = 0) -> None:
        self.transport.fault, self.transport.times = fault, times


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with kinto(tmp_path_factory.mktemp("kinto")) as running:
        yield running


@pytest.fixture
def world(server: Server, tmp_path: Path) -> KintoWorld:
    server.delete("/buckets/main")
    server.put("/buckets/main")
    server.put("/buckets/main/collections/pages")
    return KintoWorld(server, tmp_path)


class TestKinto(Conformance):
    @pytest.fixture
    def world(self, world: World) -> World:
        return world


def test_permissions_of_a_collection_and_of_groups_reach_all_its_records(world: KintoWorld) -> None:
    stage = Stage(world)
    stage.add(2)
    stage.followed()
    group = "/buckets/main/groups/eng"
    world.server.put(group, data={"members": [BOB, "account:robot"]})
    world.server.patch("/buckets/main/collections/pages", permissions={"read": [group]})
    stage.sync()
    assert set(map(frozenset, stage.index.words().values())) == {frozenset({"ann@acme.example", "bob@acme.example"})}
    world.server.patch(group, data={"members": []})
    stage.followed()


def _give_above(world: KintoWorld, level: str) -> Callable[[], Any]:
    """Let Bob read all records by something above them; return what withdraws that."""
    group = "/buckets/main/groups/eng"
    if level == "group":
        world.server.put(group, data={"members": [BOB]})
        world.server.patch("/buckets/main/collections/pages", permissions={"read": [group]})
        return lambda: world.server.patch(group, data={"members": []})
    path = "/buckets/main" if level == "bucket" else "/buckets/main/collections/pages"
    world.server.patch(path, permissions={"read": [BOB]})
    return lambda: world.server.patch(path, permissions={"read": []})


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("level", ["bucket", "collection", "group"])
def test_a_right_that_ends_above_the_records_during_a_listing_ends_with_the_next_sync(
    world: KintoWorld, level: str, killed: bool
) -> None:
    stage, index = Stage(world), Index()
    stage.add(7)
    withdraw = _give_above(world, level)
    assert index.sync(world.open(index), meanwhile=withdraw, batches=2 if killed else None) is not killed
    assert "bob@acme.example" in set().union(*index.words().values())
    for _ in range(2):
        index.sync(world.open(index))
    stage.check(index)
    index.sync(world.open(index))
    assert "complete" not in index.listings


def test_a_right_that_ends_between_the_listings_of_two_collections_is_noticed(world: KintoWorld) -> None:
    stage, index = Stage(world), Index()
    stage.add(2)
    world.server.put("/buckets/main/collections/first")
    world.server.put("/buckets/main/collections/first/records/a", data={"content": "Apples"})
    index.sync(world.open(index), meanwhile=_give_above(world, "bucket"))
    index.sync(world.open(index))
    stage.check(index)


def test_a_bucket_that_the_account_may_not_write_is_no_empty_one(world: KintoWorld) -> None:
    own = world.own.model_copy(update={"bucket": "other"})
    with pytest.raises(AbortSyncError, match="CONCORDANCE_KINTO_BUCKET"):
        Index().sync(Kinto(world.settings, own))


@pytest.mark.parametrize(
    ("granted", "expected"),
    [
        (
            [{"read": ["account:Ann@Acme.example"]}, {"write": ["account:bob@acme.example"]}],
            ("ann@acme.example", "bob@acme.example"),
        ),
        ([{"read": ["system.Everyone"]}], ("public",)),
        ([{"read": ["system.Authenticated", "account:robot", "basicauth:1f"]}, {}], ()),
    ],
)
def test_what_is_not_understood_gives_access_to_no_one(granted: list[Any], expected: tuple[str, ...]) -> None:
    assert readers(granted, lambda _: ()) == expected


def test_links_of_the_server_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_KINTO_URL", "https://kinto.acme.example/v1")
    assert SPEC.link is not None
    found = SPEC.link(urlsplit("https://kinto.acme.example/v1/buckets/main/collections/pages/records/a-b"))
    assert found is not None
    assert found.source_id == "main/pages/a-b"
    assert SPEC.link(urlsplit("https://elsewhere.example/v1/buckets/main/collections/pages/records/a-b")) is None
