"""People, channels and folders whose names a query ends with: found while typing, and only in documents that the caller may read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from selectolax.lexbor import LexborHTMLParser

from resources.core.domain import SourceName
from resources.core.errors import OverloadedError
from serving.search.understanding import named, names
from sql.serving import WebReads
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
EVERYONE = ["domain:acme.com"]


def folders(*names: str, readers: list[str]) -> dict[str, Any]:
    """Return the fields of a document in these folders of a drive, outermost first."""
    entries = [{"id": f"id-{name}", "name": name, "readers": readers} for name in names]
    return {
        "folders": entries,
        "collection_ids": [one["id"] for one in reversed(entries)],
        "source": SourceName.GOOGLE_DRIVE,
    }


@pytest.fixture
def office(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(named, "WAIT_SECONDS", 30.0)
    site.add("Rent", ["The rent is due in March."], EVERYONE, author="Márta Kowalska", path="Contracts/2024/Rent.md",
             **folders("Contracts", "2024", readers=EVERYONE))  # fmt: skip
    site.add("Pumps", ["The pump leaks."], EVERYONE, author="tom.brandt@acme.com", source=SourceName.SLACK,
             tags={"channel": "support", "participants": ["Tom Brandt"]})  # fmt: skip
    site.add("Redundancies", ["The rent of the closed office."], [ANN], author="Wolfram Quist", path="Layoffs/Redundancies.md",
             **folders("Layoffs", readers=[ANN]))  # fmt: skip
    site.add("Board", ["The pump of the board."], [ANN], author="Quentin Board", source=SourceName.SLACK,
             tags={"channel": "boardroom", "participants": []})  # fmt: skip
    site.add("Open letter", ["A letter about the rent."], EVERYONE, path="Zeppelin/letter.md",
             **folders("Zeppelin", readers=[ANN]))  # fmt: skip
    return site


@pytest.fixture
def running(office: Site) -> Iterator[Running]:
    with office.running() as running:
        yield running


def found(running: Running, query: str, who: str = BOB) -> list[tuple[str, str]]:
    return [(one["kind"], one["name"]) for one in running.search(query, who, names=True)["names"]]


MARTA, SUPPORT = ("person", "Márta Kowalska"), ("channel", "support")
CONTRACTS, YEAR = ("folder", "Contracts"), ("folder", "Contracts/2024")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        *((query, [MARTA]) for query in ("mar", "Marta", "márta kowal", "rent kowalska", "Kowlaska", "MARTA KOWALSKA")),
        *((query, [("person", "tom.brandt@acme.com")]) for query in ("tom", "brandt", "tom.bra", "who is Tom Brandt?")),
        *((query, [SUPPORT]) for query in ("supp", "#supp", "pumps suport", "suppport")),
        *((query, [CONTRACTS]) for query in ("contr", "Contracts", "contratcs", "rent contracts")),
        *((query, [YEAR]) for query in ("2024", "202", "rent 2024")),
        *((query, []) for query in ("ma", "#marta", "rent", "marta rent", "from:marta", "#support", '"marta', "kwolaska", "in:contracts")),
    ],
)  # fmt: skip
def test_a_query_that_ends_with_a_name_or_its_beginning_finds_it(
    running: Running, query: str, names: list[tuple[str, str]]
) -> None:
    assert found(running, query) == names


def test_each_name_leads_to_the_same_search_narrowed(running: Running) -> None:
    for query, stated, filters, titles in (
        ("rent kowal", 'rent from:"Márta Kowalska"', {"authors": ["Márta Kowalska"]}, ["Rent"]),
        ("#supp", "in:#support", {"source_types": ["slack"], "tags": {"channel": "support"}}, ["Pumps"]),
        ("rent contr", "rent in:Contracts", {"collection_ids": ["id-Contracts"]}, ["Rent"]),
        ("2024", "in:Contracts/2024", {"collection_ids": ["id-2024"]}, ["Rent"]),
    ):
        (one,) = running.search(query, BOB, names=True)["names"]
        assert (one["query"], one["filters"]) == (stated, filters)
        assert running.titles(one["query"], BOB) == titles
        narrowed = running.search("rent" if "rent" in query else "pump rent", BOB, filters=filters)["results"]
        assert [result["title"] for result in narrowed] == titles


def test_a_folder_is_an_operator_by_its_name_or_its_path(running: Running) -> None:
    for query in ("in:contracts", "in:CONTRACTS rent", "in:contracts/2024", "in:2024"):
        assert running.titles(query, BOB) == ["Rent"]
    for query in ("in:layoffs", "in:zeppelin", "in:kitchen"):
        understood = running.search(query, BOB)
        assert (understood["results"], understood["understood"][0]["filters"]) == ([], {"collection_ids": [query[3:]]})
    assert running.titles("in:layoffs", ANN) == ["Redundancies"]


def test_names_are_returned_on_request_and_with_the_first_page(running: Running, office: Site) -> None:
    office.add("More rent", ["The rent of Marta."], EVERYONE)
    assert "names" not in running.search("rent marta", BOB)
    first = running.search("rent marta", BOB, names=True, top_k=1)
    assert first["names"]
    assert "names" not in running.search("rent marta", BOB, names=True, top_k=1, cursor=first["next_cursor"])


HIDDEN = ("Wolfram Quist", "Quentin Board", "boardroom", "Layoffs", "Zeppelin")


@pytest.mark.parametrize(
    "query",
    [
        "wolf",
        "Wolfram Quist",
        "quentn",
        "wolfarm",
        "boardr",
        "#boardr",
        "baordroom",
        "lay",
        "layofs",
        "zepp",
        "zepelin",
    ],
)
def test_a_name_that_only_hidden_documents_have_is_never_shown(running: Running, query: str) -> None:
    for text in (query, f"rent {query}"):
        assert found(running, text) == []
        page = running.http.get("/results", params={"q": text}, headers=running.site.session(BOB)).text
        assert not [name for name in HIDDEN if name in page.replace(text, "")]
        assert found(running, text, ANN) != []


def test_a_name_goes_with_the_right_to_its_documents_at_once(running: Running, office: Site) -> None:
    shown = {"marta": [MARTA], "support": [SUPPORT], "contracts": [CONTRACTS]}
    assert {query: found(running, query) for query in shown} == shown
    folder = Jsonb([{"id": "id-Contracts", "name": "Contracts", "readers": [ANN]}])
    office.sql("UPDATE documents SET folders = %s WHERE title = 'Rent'", folder)
    assert found(running, "contracts") == []
    office.sql("UPDATE documents SET permissions = %s WHERE title = 'Rent'", [ANN])
    office.sql(
        "UPDATE partitions SET acl_checked_at = %s WHERE source = 'slack'", datetime.now(UTC) - timedelta(days=9)
    )
    assert {query: found(running, query) for query in shown} == {query: [] for query in shown}


async def _fails(*_: Any, **__: Any) -> Any:
    raise OverloadedError("Postgres is too busy to answer in time.", 2.0)


async def _hangs(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(60)


@pytest.mark.parametrize("statement", ["names_of", "readable_names", "readable_folders"])
@pytest.mark.parametrize("looking_up", [_fails, _hangs])
def test_a_search_goes_on_without_names_that_cannot_be_looked_up(
    running: Running, monkeypatch: pytest.MonkeyPatch, looking_up: Any, statement: str
) -> None:
    monkeypatch.setattr(named, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(WebReads, statement, looking_up)
    response = running.search("rent marta", BOB, names=True)
    assert response["results"]
    assert "names" not in response


@pytest.mark.parametrize("looking_up", [_fails, _hangs])
def test_a_question_needs_no_folders(running: Running, monkeypatch: pytest.MonkeyPatch, looking_up: Any) -> None:
    monkeypatch.setattr(names, "FOLDERS_SECONDS", 0.1)
    monkeypatch.setattr(WebReads, "readable_folders", looking_up)
    for query in ("rent from:marta", "rent in:support", "What did Marta write about rent?"):
        assert "results" in running.search(query, BOB)
    [understood] = running.search("rent from:marta", BOB)["understood"]
    assert understood["filters"]["authors"] == ["Márta Kowalska"]


def test_folders_are_listed_for_one_caller_at_a_time(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = most = 0
    read = WebReads.readable_folders

    async def counted(*given: Any, **named: Any) -> Any:
        nonlocal listing, most
        listing += 1
        most = max(most, listing)
        await asyncio.sleep(0.1)
        listing -= 1
        return await read(*given, **named)

    monkeypatch.setattr(WebReads, "readable_folders", counted)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: running.search("rent", f"person-{number}@acme.com", names=True), range(6)))
    assert most == 1


def test_the_page_links_each_name_above_the_results(running: Running) -> None:
    def page(query: str) -> LexborHTMLParser:
        answer = running.http.get("/results", params={"q": query}, headers=running.site.session(BOB))
        return LexborHTMLParser(answer.text)

    line = page("rent contr").css_first(".names")
    assert " ".join(line.text().split()) == "Folders: Contracts"
    assert line.css_first("a").attributes["href"] == "/?q=rent+in%3AContracts"
    assert page("#supp").css_first(".names a").text() == "#support"
    assert page("rent").css_first(".names") is None
