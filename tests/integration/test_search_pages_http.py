"""Pages, totals and facets of `POST /api/rag/search`."""

from __future__ import annotations

from typing import Any

import pytest

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
FERRY = "The ferry leaves the northern pier"


def fill(site: Site, number: int, readers: list[str], title: str = "Ferry") -> list[str]:
    return [site.add(f"{title} {place}", [f"{FERRY} at {place} o'clock."], readers) for place in range(number)]


def pages(running: Running, who: str = ANN, query: str = "ferry pier", **body: Any) -> list[list[str]]:
    """The titles of every page."""
    found: list[list[str]] = []
    cursor: str | None = None
    while True:
        answer = running.search(query, who, **body, **({"cursor": cursor} if cursor else {}))
        found.append([one["title"] for one in answer["results"]])
        cursor = answer["next_cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize("total", [False, True])
def test_pages_hold_every_result_once(site: Site, running: Running, mode: str, total: bool) -> None:
    fill(site, 23, [ANN])
    fill(site, 5, [BOB], "Secret")
    found = pages(running, mode=mode, top_k=5, total=total)
    assert [len(page) for page in found[:5]] == [5, 5, 5, 5, 3]
    assert sorted(title for page in found for title in page) == sorted(f"Ferry {place}" for place in range(23))


def test_passages_have_pages_too(site: Site, running: Running) -> None:
    site.add("Long", [f"{FERRY} at {place} o'clock." for place in range(9)], [ANN])
    seen: list[str] = []
    cursor = None
    for size in (4, 4, 1):
        answer = running.search("ferry", ANN, mode="keyword", top_k=4, group_by_document=False, cursor=cursor)
        assert len(answer["results"]) == size
        seen += [one["chunk_id"] for one in answer["results"]]
        cursor = answer["next_cursor"]
    assert (len(set(seen)), cursor) == (9, None)
    mixed = running.search("ferry", ANN, mode="keyword", top_k=4, group_by_document=False)["next_cursor"]
    refused = running.request("POST", "/api/rag/search", ANN, json={"query": "ferry", "cursor": mixed})
    assert refused.status_code == 400
    assert refused.json()["detail"].startswith("cursor: is of a search with another")


def test_what_changes_between_two_pages_repeats_nothing_and_skips_nothing(site: Site, running: Running) -> None:
    ids = fill(site, 8, [ANN])
    first = running.search("ferry pier", ANN, mode="keyword", top_k=3)
    shown = {one["doc_id"] for one in first["results"]}
    gone = next(one for one in ids if one not in shown)
    site.sql("UPDATE documents SET permissions = '{}' WHERE doc_id = %s", gone)
    site.sql("UPDATE documents SET state = 'deleted' WHERE doc_id = %s", next(iter(shown)))
    site.add("Ferry pier", ["ferry pier ferry pier"], [ANN])  # now the best
    rest = pages_after(running, first["next_cursor"])
    assert rest == {"Ferry pier"} | {title for title, doc_id in titles_of(ids) if doc_id not in {*shown, gone}}


def titles_of(ids: list[str]) -> list[tuple[str, str]]:
    return [(f"Ferry {place}", doc_id) for place, doc_id in enumerate(ids)]


def pages_after(running: Running, cursor: str | None) -> set[str]:
    found: list[str] = []
    while cursor is not None:
        answer = running.search("ferry pier", ANN, mode="keyword", top_k=3, cursor=cursor)
        found += [one["title"] for one in answer["results"]]
        cursor = answer["next_cursor"]
    assert len(found) == len(set(found))
    return set(found)


def test_a_cursor_gives_no_access_and_pages_end(site: Site, running: Running) -> None:
    fill(site, 4, [ANN])
    secret = fill(site, 4, [BOB], "Secret")
    cursor = running.search("ferry pier", BOB, top_k=2)["next_cursor"]
    answer = running.search("ferry pier", ANN, top_k=50, cursor=cursor, total=True)
    assert sorted(one["title"] for one in answer["results"]) == [f"Ferry {place}" for place in range(4)]
    assert answer["total"] == {"count": 4, "exact": True}
    assert not any(doc_id in str(answer) for doc_id in secret)
    for wrong in ("x", "wA", "", "k8LCkA", cursor[:-3]):
        refused = running.request("POST", "/api/rag/search", ANN, json={"query": "ferry", "cursor": wrong})
        assert (refused.status_code, refused.json()["type"]) == (400, "/problems/invalid-request"), wrong
        assert refused.json()["detail"].startswith("cursor: ")


def test_totals_and_facets_count_only_what_may_be_read(site: Site, running: Running) -> None:
    fill(site, 3, [ANN])
    hidden = {"mime_type": "application/pdf", "author": "eve@acme.com", "tags": {"topic": "secret"}}
    for place in range(4):
        site.add(f"Secret {place}", [f"{FERRY} at night {place}."], [BOB], **hidden)
    revoked = site.add("Revoked", [f"{FERRY} never."], [ANN], **hidden)
    site.sql("UPDATE documents SET permissions = '{}' WHERE doc_id = %s", revoked)
    site.add(
        "Talk", [f"{FERRY} late."], [ANN], source=SourceName.SLACK, partition="C1", collection_ids=["C1"], folders=[],
        tags={"participants": ["Marta", "Tom"], "topic": ["rent", 7]},
    )  # fmt: skip
    names = ["source_type", "mime_type", "author", "collection_id", "tags.topic", "tags.none"]
    for _ in range(2):  # the second time from the cache
        answer = running.search("ferry pier", ANN, top_k=1, total=True, facets=names)
        assert len(answer["results"]) == 1
        assert answer["total"] == {"count": 4, "exact": True}
        assert {
            name: [(one["value"], one["count"]) for one in values] for name, values in answer["facets"].items()
        } == {
            "source_type": [("files", 3), ("slack", 1)],
            "mime_type": [("text/markdown", 4)],
            "author": [("Marta", 1), ("Tom", 1)],
            "collection_id": [("root", 3), ("C1", 1)],
            "tags.topic": [("7", 1), ("rent", 1)],
            "tags.none": [],
        }
    plain = running.search("ferry pier", ANN)
    assert not {"total", "facets"} & plain.keys()
    refused = running.request("POST", "/api/rag/search", ANN, json={"query": "ferry", "facets": ["owner"]})
    assert refused.json()["detail"].startswith("facets: 'owner' is not a facet; allowed: source_type, mime_type")


def test_hidden_documents_do_not_decide_whether_a_document_is_about_the_query(site: Site, running: Running) -> None:
    """The rarer a word, the more it counts, in hidden documents too, for which passage of a document is the best one."""
    cake = "{}. Whisk eggs with quorl butter and sugar, {} fold in the flour, and bake the cake for forty minutes until golden{}."
    notes = (
        "Birds sing, trees grow, boats sail; {} limit, mountains, rivers and approval of football, weather and music.",
        "Weather, football, music, travel, approval, limit, birds, trees, rivers, mountains, boats, cars, trains {}.",
    )
    for kind, note in enumerate(notes):
        for times in (1, 2, 3):
            dish = cake.format(f"Cake {kind}{times}", "quorl" if times > 1 else "", " quorl" * times)
            site.add(f"Notes {kind}{times}", [dish, note.format(times)], [ANN])
    for number in range(30):
        texts = [
            f"Approval of the travel limit number {number} is with the office.",
            f"The harbour has {number} cranes.",
        ]
        site.add(f"Form {number}", texts, [ANN])

    def counted() -> tuple[int, bool, Any]:
        answer = running.search("quorl approval limit", ANN, total=True, facets=["mime_type"])
        return answer["total"]["count"], answer["total"]["exact"], answer["facets"]

    before = counted()
    for number in range(150):
        site.add(f"Secret {number}", [f"quorl here and there {number}"], [BOB])
    assert before == counted()
    titles = [title for page in pages(running, query="quorl approval limit", top_k=5) for title in page]
    assert before[:2] == (len(titles), True)
    assert len(set(titles)) == len(titles)


def test_a_collection_that_is_hidden_is_no_facet(site: Site, running: Running) -> None:
    folders = [{"id": "F0", "name": "Shared", "readers": [ANN]}, {"id": "F1", "name": "Layoffs", "readers": [BOB]}]
    place = {"source": SourceName.GOOGLE_DRIVE, "collection_ids": ["F1", "F0"], "folders": folders}
    site.add("Letter", [FERRY], [ANN], path="Shared/Layoffs/letter.md", **place)
    answer = running.search("ferry pier", ANN, facets=["collection_id", "tags.folder"])
    assert answer["facets"] == {"collection_id": [], "tags.folder": []}


def test_filters_that_were_ignored_stay_ignored_on_the_next_page(site: Site, running: Running) -> None:
    fill(site, 4, [ANN])
    first = running.search("ferry pier from Slack", ANN, top_k=2)
    assert [one["applied"] for one in first["understood"]] == [False]
    second = running.search("ferry pier from Slack", ANN, top_k=2, cursor=first["next_cursor"])
    assert len({one["doc_id"] for one in (*first["results"], *second["results"])}) == 4
    site.add(
        "Talk", [f"{FERRY} late."], [ANN], source=SourceName.SLACK, partition="C1", collection_ids=["C1"], folders=[],
    )  # fmt: skip
    first = running.search("ferry pier from Slack", ANN, top_k=1)
    assert [one["title"] for one in first["results"]] == ["Talk"]
    assert first["next_cursor"]
    second = running.search("ferry pier from Slack", ANN, top_k=1, cursor=first["next_cursor"])
    assert (second["results"], second["next_cursor"]) == ([], None)


def test_pages_end_at_the_bound(site: Site, running: Running) -> None:
    site.add("Long", [f"{FERRY} at {place} o'clock." for place in range(230)], [ANN])
    body = {"mode": "keyword", "top_k": 50, "group_by_document": False, "threshold": 0}
    sizes: list[int] = []
    cursor = None
    for _ in range(4):
        answer = running.search("ferry", ANN, cursor=cursor, **body)
        sizes.append(len(answer["results"]))
        cursor = answer["next_cursor"]
    assert (sizes, cursor) == ([50] * 4, None)
    assert running.search("ferry", ANN, total=True, **body)["total"] == {"count": 200, "exact": False}
