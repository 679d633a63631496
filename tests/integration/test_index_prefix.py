"""Several installations in one vector server, told apart by the prefix of their collections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from qdrant_client import models

from assets.upkeep.reconcile import reconcile
from assets.upkeep.sweep import sweep
from resources.core.domain import SourceName
from resources.settings import BUNDLED_MODEL, Settings
from resources.stores import qdrant
from resources.stores.namespace import Namespace
from resources.stores.postgres import session
from resources.stores.qdrant_search import PointQuery, VectorSearch, raw
from resources.stores.withheld import TOKEN, WithheldCollection
from resources.stores.withholding import settle
from tests.fixtures.installation import BUNDLED_DIMENSIONS, Installation, install
from tests.fixtures.postgres import PostgresProcess, fresh_database
from tests.fixtures.vector import VectorProcess

FILES = SourceName.FILES
PREFIXES = ("", "north_", "south-")
NAME = qdrant.collection_name(BUNDLED_MODEL, BUNDLED_DIMENSIONS)


@pytest.fixture
def shared(
    vector_process: VectorProcess, postgres_server: PostgresProcess, models_home: Path, tmp_path: Path
) -> Iterator[dict[str, Installation]]:
    """Installations with a database each on one vector server, by prefix; each has a document of its own."""
    with ExitStack() as databases:
        made: dict[str, Installation] = {}
        for prefix in PREFIXES:
            folder = tmp_path / f"at{prefix}"
            folder.mkdir()
            dsn = databases.enter_context(fresh_database(postgres_server))
            made[prefix] = install(folder, models_home, dsn, vector_process.url)
        for prefix, one in made.items():
            one.settings = one.settings.model_copy(update={"index_prefix": prefix})
            one.write("otter.txt", f"The otter of {prefix or 'nowhere'} sleeps until noon.\n")
            one.sync()
        yield made
        for one in made.values():
            one.disconnect()


@contextmanager
def client(installation: Installation) -> Generator[qdrant.QdrantRemote]:
    with closing(qdrant.client(installation.settings)) as found:
        yield found


def seen(installation: Installation) -> list[str]:
    return [point["chunk_text"] for point in installation.points()]


def test_installations_keep_to_their_own_collections(
    shared: dict[str, Installation], vector_process: VectorProcess
) -> None:
    listed = httpx.get(f"{vector_process.url}/collections").json()["result"]["collections"]
    assert {one["name"] for one in listed} >= {f"{prefix}{name}" for prefix in PREFIXES for name in (NAME, "withheld")}
    for prefix, one in shared.items():
        assert seen(one) == [f"The otter of {prefix or 'nowhere'} sleeps until noon."]
        assert one.agrees()
        with client(one) as found:
            assert qdrant.collections(found) == [NAME]
            assert qdrant.current_collection(found) == NAME
        # the registry, and so a backup, has names without the prefix
        assert one.rows("SELECT name FROM index_collections") == [{"name": NAME}]


def test_repairs_and_removals_leave_the_others_alone(shared: dict[str, Installation]) -> None:
    north = shared["north_"]
    (north.root / "otter.txt").unlink()
    north.sync()
    sweep(north.settings, FILES)
    assert reconcile(north.settings, FILES, apply=True, deep=True).orphans.total() == 0
    with client(north) as found:
        found.delete_collection(NAME)
    assert [len(seen(one)) for prefix, one in shared.items() if prefix != "north_"] == [1, 1]
    for prefix in ("", "south-"):
        report = reconcile(shared[prefix].settings, FILES, apply=False)
        assert (report.orphans.total(), report.missing.total()) == (0, 0)


def test_what_one_withholds_concerns_nobody_else(shared: dict[str, Installation]) -> None:
    for one in shared.values():
        with client(one) as found, session(one.settings.postgres_dsn, autocommit=True) as connection:
            settle(connection, WithheldCollection(found))
    with client(shared["south-"]) as found:
        WithheldCollection(found).tokens({"revoked-in-the-south": 4e9})
    for prefix in ("", "north_"):
        one = shared[prefix]
        with client(one) as found, session(one.settings.postgres_dsn, autocommit=True) as connection:
            settle(connection, WithheldCollection(found))
            assert list(WithheldCollection(found).entries(TOKEN)) == []
    with client(shared["south-"]) as found:
        assert [[entry.key for entry in page] for page in WithheldCollection(found).entries(TOKEN)] == [
            ["revoked-in-the-south"]
        ]


def test_searches_read_the_collection_of_their_installation(shared: dict[str, Installation]) -> None:
    async def found(settings: Settings, name: str) -> list[str]:
        searches = VectorSearch(settings)
        try:
            vector = raw([0.05] * BUNDLED_DIMENSIONS)
            query = PointQuery(
                query=vector, using=qdrant.DENSE, filter=raw(models.Filter()), limit=9, with_payload=True
            )
            (answer,) = await searches.query(name, [query], 10)
        finally:
            await searches.close()
        return [hit.payload["chunk_text"] for hit in answer.points if hit.payload]

    async def points(settings: Settings) -> int | None:
        reads = qdrant.async_client(settings)
        try:
            return (await reads.get_collection(qdrant.ALIAS)).points_count
        finally:
            await reads.close()

    for prefix, one in shared.items():
        assert asyncio.run(points(one.settings)) == 1
        for name in (qdrant.ALIAS, NAME):
            assert asyncio.run(found(one.settings, name)) == [f"The otter of {prefix or 'nowhere'} sleeps until noon."]


def test_another_prefix_begins_an_index_anew_from_the_lake(shared: dict[str, Installation]) -> None:
    north = shared["north_"]
    north.settings = north.settings.model_copy(update={"index_prefix": "moved-"})
    (north.root / "otter.txt").touch()
    north.sync()
    assert seen(north) == ["The otter of north_ sleeps until noon."]
    assert north.agrees()
    assert north.last["embedded"]["embedded"] == 0


def answer_of(status: int, **result: Any) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, json={"result": result, "status": "ok", "time": 0})


@pytest.mark.parametrize("base", ["", "/qdrant"])
def test_every_request_has_the_prefix(base: str) -> None:
    names, sent = Namespace("north_", base.encode()), list[httpx.Request]()

    def send(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answer_of(200)(request)

    def path(method: str, path: str, **more: Any) -> str:
        names.middleware(httpx.Request(method, f"http://qdrant{base}{path}", **more), send)
        return sent[-1].url.raw_path.decode()

    assert path("PUT", "/collections/documents_m_3?timeout=60") == f"{base}/collections/north_documents_m_3?timeout=60"
    assert path("POST", "/collections/withheld/points/delete?wait=true", json={"points": [1]}) == (
        f"{base}/collections/north_withheld/points/delete?wait=true"
    )
    assert json.loads(sent[-1].content) == {"points": [1]}
    assert path("GET", "/collections") == f"{base}/collections"
    assert path("GET", "/healthz") == f"{base}/healthz"
    actions = models.ChangeAliasesOperation(
        actions=[
            models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name="documents")),
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name="documents_m_3", alias_name="documents")
            ),
        ]
    )
    body = actions.model_dump_json(exclude_unset=True)
    assert path("POST", "/collections/aliases?timeout=60", content=body) == f"{base}/collections/aliases?timeout=60"
    asked = models.ChangeAliasesOperation.model_validate_json(sent[-1].content)
    assert asked.model_dump(exclude_none=True) == {
        "actions": [
            {"delete_alias": {"alias_name": "north_documents"}},
            {"create_alias": {"collection_name": "north_documents_m_3", "alias_name": "north_documents"}},
        ]
    }


def test_lists_show_what_is_ours_without_the_prefix() -> None:
    names = Namespace("north_")
    request = httpx.Request("GET", "http://qdrant/collections")
    listed = [{"name": name} for name in ("documents_m_3", "north_documents_m_3", "north_withheld", "northern_x")]
    answer = names.middleware(request, answer_of(200, collections=listed))
    found = models.CollectionsResponse.model_validate(answer.json()["result"])
    assert [one.name for one in found.collections] == ["documents_m_3", "withheld"]
    aliases = [{"alias_name": f"{prefix}documents", "collection_name": f"{prefix}documents_m_3"} for prefix in PREFIXES]
    answer = names.middleware(httpx.Request("GET", "http://qdrant/aliases"), answer_of(200, aliases=aliases))
    found_aliases = models.CollectionsAliasesResponse.model_validate(answer.json()["result"])
    assert [(one.alias_name, one.collection_name) for one in found_aliases.aliases] == [("documents", "documents_m_3")]


@pytest.mark.parametrize("prefix", ["documents_", "my-documents", "North", "a/b", "../x", "_a", "a" * 41])
def test_a_prefix_that_could_be_mistaken_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match=r"index_prefix|INDEX__PREFIX"):
        Settings(_env_file=None, index_prefix=prefix)  # type: ignore[call-arg]
