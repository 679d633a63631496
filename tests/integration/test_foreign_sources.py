"""Documents of another package's source are shown as its declaration says, with the registry and without it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from litestar import Litestar, Request, post
from pydantic import SecretStr

from resources import sources
from resources.core.domain import SourceName
from resources.schema import prepare
from resources.settings import Settings
from resources.stores import credentials
from simulators import serve
from tests.fixtures.installation import Installation
from tests.fixtures.serving import PUBLIC_URL, Running, Site
from tests.fixtures.shelf import Shelf

ANN = "ann@acme.com"
PATH = "Projects/Heron/plan.md"
OLD = datetime.now(UTC) - timedelta(days=3)
Place = tuple[str | None, ...]
SHOWN: dict[str, Place] = {
    "board": (PATH, "p1", "board-1", "https://board.example/1"),
    "inbox": (PATH, "p1", "inbox-1", "https://inbox.example/1"),
    "link_store": ("plan.md", None, "link_store-1", "https://link_store.example/1"),
    "vault": ("plan.md", None, None, None),
    "unknown": ("plan.md", None, None, None),
}
"""Path, collection, source id and address for a reader who may not be known to know the folders; no source id: the `doc_id`."""
OPEN = ("board", "inbox")


@pytest.fixture
def filled(foreign_sources: None, site: Site) -> Site:
    prepare(site.settings.postgres_dsn)
    for name in SHOWN:
        source_id = f"p1/{PATH}" if name == "vault" else f"{name}-1"
        site.add(
            f"Plan of {name}", [f"The heron of {word(name)} nests."], [ANN], source=SourceName(name), source_id=source_id,
            path=PATH, partition="p1", collection_ids=["p1"], folders=[], url=f"https://{name}.example/1",
        )  # fmt: skip
    return site


@contextmanager
def without_registry(site: Site) -> Iterator[Running]:
    before = site.settings
    site.settings = before.model_copy(update={"postgres_url": SecretStr("postgresql://x@127.0.0.1:9/x")})
    with site.running() as running:
        yield running
    site.settings = before


def word(name: str) -> str:
    return f"qz{name.replace('_', '')}q"


def place(found: dict[str, Any]) -> Place:
    """Return what is shown of a document's place; a link to our own page of it names none."""
    address = found["url"] if "url" in found else found["citation"]["link"]
    address = None if address is None or address.startswith(PUBLIC_URL) else address
    source_id = None if found["source_id"] == found["doc_id"] else found["source_id"]
    return found["path"], found["collection_id"], source_id, address


def searched(running: Running, name: str, **filters: Any) -> list[Place]:
    return [place(one) for one in running.search(word(name), ANN, mode="keyword", filters=filters)["results"]]


def listed(running: Running, name: str) -> list[dict[str, Any]]:
    params = {"title": f"Plan of {name}"}
    return running.request("GET", "/api/documents", ANN, params=params).json()["documents"]


@pytest.mark.parametrize("registry", [True, False], ids=["registry", "index"])
def test_a_search_shows_and_filters_by_the_places_that_a_source_declares(filled: Site, registry: bool) -> None:
    with filled.running() if registry else without_registry(filled) as running:
        assert {name: searched(running, name) for name in SHOWN} == {name: [one] for name, one in SHOWN.items()}
        assert {name for name in SHOWN if searched(running, name, collection_ids=["p1"])} == set(OPEN)


def test_lists_and_documents_show_the_same_places(filled: Site) -> None:
    with filled.running() as running:
        found = {name: listed(running, name)[0] for name in SHOWN}
        opened = {
            name: running.request("GET", f"/api/documents/{one['doc_id']}", ANN).json() for name, one in found.items()
        }
        assert {name: place(one) for name, one in found.items()} == SHOWN
        assert {name: place(one) for name, one in opened.items()} == SHOWN
        collections = running.request("GET", "/api/collections", ANN).json()["collections"]
        assert [(one["source_type"], one["collection_id"]) for one in collections] == [(name, "p1") for name in OPEN]
        inside = running.request("GET", "/api/documents", ANN, params={"collection_id": "p1"}).json()["documents"]
        assert {one["source_type"] for one in inside} == set(OPEN)


def test_a_guessed_path_confirms_nothing(filled: Site) -> None:
    """Nobody who may not know a path finds the document by an id or an address that contains it."""

    def known(running: Running, text: str) -> bool:
        return running.request("GET", "/api/why", ANN, params={"source": text}).json()["found"]

    with filled.running() as running:
        assert [known(running, f"{name}:{name}-1") for name in ("board", "link_store")] == [True, True]
        assert [known(running, f"vault:p1/{PATH}"), known(running, "https://vault.example/1")] == [False, False]
        assert known(running, listed(running, "vault")[0]["doc_id"])

        def in_file(name: str, file_id: str) -> bool:
            sent = {"query": f"The heron of {word(name)}", "file_id": file_id}
            return bool(running.request("POST", "/api/search", ANN, json=sent).json()["results"])

        assert [in_file(name, f"{name}-1") for name in ("board", "link_store")] == [True, True]
        assert not in_file("vault", f"p1/{PATH}")
        assert in_file("vault", listed(running, "vault")[0]["doc_id"])


def test_only_permissions_that_are_kept_here_are_never_too_old(filled: Site) -> None:
    """Who hands documents in does not matter: `inbox` takes them from users and reads their permissions elsewhere."""
    for source in (SourceName.UPLOAD, SourceName.PUSH):
        filled.add(f"Plan of {source}", [f"The {source} of {word(source)}."], [ANN], source=source, folders=[])
    filled.sql("UPDATE partitions SET acl_checked_at = %s", OLD)
    with filled.running() as running:
        fresh = {name for name in (*SHOWN, "upload", "push") if searched(running, name)}
        assert fresh == {name for name in (*SHOWN, "upload", "push") if listed(running, name)} == {"upload", "push"}


def test_a_package_that_is_gone_leaves_the_least(filled: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not one.endswith("/package")])
    sources.rediscover()
    prepare(filled.settings.postgres_dsn)
    assert {name for (name,) in filled.sql("SELECT source FROM sources")} == set(sources.names())
    with filled.running() as running:
        assert place(listed(running, "board")[0]) == SHOWN["unknown"]
    with without_registry(filled) as running:
        assert searched(running, "board") == [SHOWN["unknown"]]


def test_a_second_start_writes_no_declaration_again(filled: Site) -> None:
    before = filled.sql("SELECT xmin::text, * FROM sources ORDER BY source")
    assert len(before) == len(sources.names())
    prepare(filled.settings.postgres_dsn)
    assert filled.sql("SELECT xmin::text, * FROM sources ORDER BY source") == before


def test_a_source_declares_how_it_is_set_up_and_connected(filled: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    forms: list[dict[str, str]] = []

    @post("/token", status_code=200)
    async def token(request: Request[Any, Any, Any]) -> dict[str, str]:
        forms.append(dict(parse_qsl((await request.body()).decode())))
        return {"email": ANN, "refresh_token": "r1"}

    roles = Settings(_env_file=None, roles=json.dumps({"administrator": [ANN]})).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    filled.settings = filled.settings.model_copy(update={"roles": roles})
    with serve(Litestar([token], openapi_config=None)) as address, filled.running() as running:

        def begun() -> httpx.Response:
            return running.request("GET", "/api/auth/board", ANN, headers={"Accept": "application/json"})

        assert (
            "Create a client of Board." in running.http.get("/sources/board/set-up", headers=filled.session(ANN)).text
        )
        assert begun().json()["detail"].startswith("Signing in with Board needs CONCORDANCE_BOARD_CLIENT_ID and ")
        for name, value in {"URL": address, "CLIENT_ID": "concordance", "CLIENT_SECRET": "s3"}.items():
            monkeypatch.setenv(f"CONCORDANCE_BOARD_{name}", value)
        page = urlsplit(begun().json()["url"])
        asked = dict(parse_qsl(page.query))
        assert (page.path, asked["redirect_uri"]) == ("/agree", f"{PUBLIC_URL}/api/auth/board/callback")
        done = running.http.get("/api/auth/board/callback", params={"state": asked["state"], "code": "c1"})
        assert (done.status_code, "Board is connected" in done.text) == (200, True), done.text
        assert (forms[0]["code"], forms[0]["client_secret"]) == ("c1", "s3")
        other = running.http.get("/api/auth/google/callback", params={"state": asked["state"], "code": "c1"})
        assert other.status_code == 400, "a state is for one provider"
        assert running.request("GET", "/api/auth/unknown", ANN).status_code == 404
    credential = credentials.load(filled.settings.postgres_dsn, filled.settings, "board")
    assert credential is not None
    assert (credential.account, credential.secret, credential.updated_by) == (ANN, "r1", ANN)


@pytest.mark.usefixtures("foreign_sources")
def test_a_sync_declares_its_source_before_its_documents(installation: Installation) -> None:
    shelf = Shelf(source=SourceName("board"))
    shelf.put("plan.md")
    assert installation.sync(shelf.name, port=shelf).error is None
    (row,) = installation.rows("SELECT private_folders, named_by_path FROM sources WHERE source = 'board'")
    assert row == {"private_folders": False, "named_by_path": False}
