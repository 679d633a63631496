"""Search over real HTTP, Postgres, the vector engine and the bundled model: answers, rights, errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fixtures.serving import PUBLIC_URL, Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
VACATION = "Employees accrue twenty five vacation days a year and may carry over five of them until March."
SALARY = "The salary band of the chief vacation officer is confidential and reviewed in March."


@pytest.fixture
def company(site: Site) -> Site:
    site.add(
        "Handbook", [VACATION, "Expenses are refunded within two weeks."], ["domain:acme.com"], owner="hr@acme.com"
    )
    site.add("Salaries", [SALARY], [ANN])
    site.add("Board", ["The board meets in March to talk about vacation homes."], ["group:board@acme.com"])
    return site


def test_the_answer_has_every_field_of_the_interface(company: Site, running: Running) -> None:
    answer = running.search("How many vacation days?", BOB, top_k=3, explain=True, neighbours=1)
    assert set(answer) == {
        "results", "understood", "query_id", "latency_ms", "cached", "held_back", "warnings", "next_cursor",
    }  # fmt: skip
    first = answer["results"][0]
    assert set(first) == {
        "doc_id", "chunk_id", "chunk_index", "title", "source_type", "source_id", "collection_id", "path", "mime_type",
        "owner", "tags", "chunk_text", "snippet", "highlights", "section_path", "page_start", "page_end", "relevance_score",
        "created_at", "modified_at", "acl_checked_at", "also_in", "citation", "neighbours", "explain",
    }  # fmt: skip
    assert first["title"] == "Handbook"
    assert first["source_id"] == "root/Handbook.md"
    assert first["chunk_text"] == VACATION
    assert 0 < first["relevance_score"] <= 1
    assert [neighbour["chunk_index"] for neighbour in first["neighbours"]] == [1]
    assert set(first["explain"]) == {
        "dense_score", "dense_rank", "dense_weight", "floor", "keyword_score", "keyword_rank", "keyword_frequency",
        "fused_score", "fusion", "agreement", "boosts", "rerank_score", "parts",
    }  # fmt: skip
    assert first["explain"]["dense_rank"] == first["explain"]["keyword_rank"] == 1
    words = {first["snippet"][span["start"] : span["end"]] for span in first["highlights"]}
    assert {"vacation", "days"} <= words
    assert first["citation"]["link"] == f"{PUBLIC_URL}/documents/{first['doc_id']}?chunk=0#place"
    assert first["citation"]["text"].startswith("[1] Handbook (Files, ")
    assert answer["warnings"] == []


def test_each_person_finds_only_what_that_person_may_read(company: Site, running: Running) -> None:
    assert set(running.titles("vacation in March", ANN)) == {"Handbook", "Salaries"}
    assert running.titles("vacation in March", BOB) == ["Handbook"]
    assert set(running.titles("vacation in March", BOB, "board@acme.com")) == {"Handbook", "Board"}
    assert running.titles("vacation in March", "eve@other.com") == []


def test_every_mode_and_fusion_obeys_the_rights(company: Site, running: Running, subtests: pytest.Subtests) -> None:
    for fusion in ["weighted", "rrf", "dbsf", "minmax"]:
        for mode in ["hybrid", "vector", "keyword"]:
            with subtests.test(fusion=fusion, mode=mode):
                found = running.search("salary band vacation officer", BOB, mode=mode, fusion=fusion, explain=True)
                assert "Salaries" not in [result["title"] for result in found["results"]]
                assert running.titles("salary band vacation officer", ANN, mode=mode, fusion=fusion)[0] == "Salaries"


def test_the_cache_never_crosses_people_and_a_change_of_index_ends_it(company: Site, running: Running) -> None:
    assert running.search("vacation", ANN)["cached"] is False
    again = running.search("vacation", ANN)
    assert again["cached"] is True
    assert "Salaries" in [result["title"] for result in again["results"]]
    bob = running.search("vacation", BOB)
    assert bob["cached"] is False
    assert [result["title"] for result in bob["results"]] == ["Handbook"]
    company.add("Late", ["Vacation requests go to your lead."], ["domain:acme.com"])
    fresh = running.search("vacation", ANN)
    assert fresh["cached"] is False
    assert "Late" in [result["title"] for result in fresh["results"]]


def test_a_revoked_grant_and_a_deletion_hide_at_once_cached_or_not(company: Site, running: Running) -> None:
    assert "Salaries" in running.titles("vacation salary", ANN)
    company.sql("UPDATE documents SET permissions = '{}' WHERE title = 'Salaries'")
    assert "Salaries" not in running.titles("vacation salary", ANN)
    company.sql("UPDATE documents SET state = 'deleted' WHERE title = 'Handbook'")
    assert running.titles("vacation salary", ANN) == []
    assert running.titles("vacation salary days", ANN) == []


def test_rights_in_the_body_or_query_are_refused_and_never_count(company: Site, running: Running) -> None:
    body = {"query": "salary", "principals": [ANN]}
    assert running.request("POST", "/api/rag/search", BOB, json=body).status_code == 400
    others = running.request("POST", f"/api/rag/search?email={ANN}", BOB, json={"query": "vacation in March"}).json()
    assert [one["title"] for one in others["results"]] == ["Handbook"]
    assert running.titles("salary", BOB) == []


def test_filters_narrow(company: Site, running: Running) -> None:
    old = datetime(2020, 5, 5, tzinfo=UTC)
    company.add(
        "Old rules", ["Vacation rules of long ago."], [BOB], modified_at=old, author="kim@acme.com",
        tags={"dataset": "archive", "lifecycle": "archived"}, mime_type="application/pdf", collection_ids=["inner", "outer"],
    )  # fmt: skip
    everything = {"include_archived": True}
    assert running.titles("vacation", BOB) == ["Handbook"]
    assert set(running.titles("vacation", BOB, filters=everything)) == {"Handbook", "Old rules"}
    for narrow in (
        {"mime_types": ["application/pdf"]},
        {"collection_ids": ["outer"]},
        {"authors": ["kim@acme.com"]},
        {"tags": {"dataset": "archive"}},
        {"date_range": {"start": "2020-05-05", "end": "2020-05-05"}},
    ):
        assert running.titles("vacation", BOB, filters=everything | narrow) == ["Old rules"], narrow
    assert running.titles("vacation", BOB, filters=everything | {"source_types": ["google-drive"]}) == []
    assert set(running.titles("vacation", BOB, filters=everything | {"source_types": ["files"]})) == {
        "Handbook",
        "Old rules",
    }


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_archived_documents_take_no_place_of_a_live_one(company: Site, running: Running, mode: str) -> None:
    for number in range(60):
        text = f"Vacation days, vacation days, vacation days: rules of the year {1900 + number}."
        company.add(f"Rules {number}", [text], [BOB], tags={"lifecycle": "archived"})
    assert running.titles("vacation days rules", BOB, mode=mode) == ["Handbook"]
    company.sql("UPDATE documents SET tags = '{\"lifecycle\": \"archived\"}' WHERE title = 'Handbook'")
    assert running.titles("rules of vacation days", BOB, mode=mode) == []


def test_a_wrong_request_is_a_problem_that_names_the_field(running: Running, subtests: pytest.Subtests) -> None:
    for body, names in [
        ({"query": "x" * 2000}, "1000"),
        ({"query": "   "}, "query"),
        ({}, "query"),
        ({"query": "x", "top_k": 51}, "top_k"),
        ({"query": "x", "fusion": "magic"}, "fusion"),
        ({"query": "x", "unknown": 1}, "unknown"),
        ({"query": "x", "filters": {"date_range": {"start": "yesterday"}}}, "date_range.start"),
        ({"query": "x", "filters": {"document_ids": ["nope"]}}, "document_ids"),
        ({"query": "x", "filters": {"tags": {"a.b": 1}}}, "tags"),
        ({"query": "x", "filters": {"without": ["draft", "🚀"]}}, "filters.without"),
    ]:
        with subtests.test(names=names):
            response = running.request("POST", "/api/rag/search", BOB, json=body)
            problem = response.json()
            assert response.status_code == 400
            assert response.headers["content-type"].startswith("application/problem+json")
            assert problem["type"] == "/problems/invalid-request"
            assert names in problem["detail"]


def test_all_invalid_fields_are_named_at_once(running: Running) -> None:
    body = {
        "query": 7,
        "top_k": 51,
        "mode": "magic",
        "filters": {"date_range": {"start": 7}, "more": 1},
        "unknown": 1,
    }
    problem = running.request("POST", "/api/rag/search", BOB, json=body).json()
    fields = ["query", "top_k", "mode", "filters.date_range.start", "filters.more", "unknown"]
    assert sorted(one["field"] for one in problem["errors"]) == sorted(fields)
    assert all(name in problem["detail"] for name in fields)


def test_a_body_that_is_no_json_is_a_problem(running: Running) -> None:
    response = running.request(
        "POST", "/api/rag/search", BOB, content=b"{nope", headers={"Content-Type": "application/json"}
    )
    assert (response.status_code, response.json()["type"]) == (400, "/problems/invalid-request")


def test_grouping_duplicates_and_thresholds(site: Site, running: Running) -> None:
    twin = "The parking garage opens at seven and closes at nine."
    site.add("One", [twin, "The parking garage has two levels for parking cars."], [BOB])
    site.add("Two", [twin], [BOB])
    site.add("Hidden", [twin], [ANN])
    answer = running.search("parking garage opens", BOB)
    first = answer["results"][0]
    shown = {first["title"], *(place["title"] for place in first["also_in"])}
    assert shown == {"One", "Two"}
    assert all(place["title"] != "Hidden" for result in answer["results"] for place in result["also_in"])
    assert len(running.search("parking garage opens", BOB, group_by_document=False)["results"]) == 2
    assert running.search("parking garage opens", BOB, threshold=1.0, mode="vector")["results"] == []


def test_recent_documents_get_their_boost(site: Site, running: Running) -> None:
    now = datetime.now(UTC)
    site.add(
        "Aged", ["Coffee machines are cleaned on Mondays, every week."], [BOB], modified_at=now - timedelta(days=90)
    )
    site.add("New", ["Coffee machines are cleaned on Mondays, each week."], [BOB], modified_at=now - timedelta(days=2))
    found = running.search("coffee machines cleaned", BOB, explain=True)["results"]
    boosts = {result["title"]: result["explain"]["boosts"]["recency"] for result in found}
    assert boosts == {"New": 1.1, "Aged": 1.0}
    assert found[0]["title"] == "New"


def test_drops_do_not_leave_fewer_than_there_are(site: Site, running: Running) -> None:
    for number in range(30):
        site.add(f"Doc {number}", [f"Printer number {number} stands on floor {number}."], [BOB])
    site.sql(
        "UPDATE documents SET state = 'deleted' WHERE doc_id IN (SELECT doc_id FROM documents ORDER BY title LIMIT 20)"
    )
    assert len(running.titles("printer floor", BOB, top_k=10, depth=10)) == 10


@pytest.mark.parametrize("asked", ["vacation days", "vacation days\x00"])
def test_every_search_is_audited(company: Site, running: Running, asked: str) -> None:
    answer = running.search(asked, BOB)
    running.settle()
    assert company.sql("SELECT email, action, query, query_id::text, doc_ids::text[] FROM audit_log") == [
        (
            BOB,
            "search",
            "vacation days",
            answer["query_id"],
            [result["doc_id"] for result in answer["results"]],
        )
    ]


def test_the_audit_names_the_documents_that_were_returned_and_no_others(site: Site, running: Running) -> None:
    twin = "The parking garage opens at seven and closes at nine."
    one, two = (site.add(name, [twin], [BOB]) for name in ("One", "Two"))
    three = site.add("Three", ["The parking garage has two levels for parking cars."], [BOB])

    def recorded(path: str, **body: Any) -> tuple[str, set[str], Any]:
        asked = {"params": body} if path == "/api/why" else {"json": body}
        answer = running.request("GET" if path == "/api/why" else "POST", path, BOB, **asked)
        assert answer.status_code == 200, answer.text
        running.settle()
        event = site.sql("SELECT action, query, doc_ids::text[] FROM audit_log ORDER BY at DESC LIMIT 1")
        action, query, doc_ids = event[0]
        assert query == "parking garage"
        assert len(doc_ids) == len(set(doc_ids))
        return action, set(doc_ids), answer.json()

    action, documents, found = recorded("/api/rag/search", query="parking garage")
    assert (action, documents) == ("search", {one, two, three})
    assert {place["doc_id"] for result in found["results"] for place in result["also_in"]} < {one, two}
    action, documents, found = recorded("/api/rag.search", query="parking garage", limit=1)
    assert (action, documents) == ("search", {found["data"][0]["document"]["id"]})
    action, documents, found = recorded("/api/search", query="parking garage", limit=1)
    assert (action, documents) == ("search", {found["results"][0]["file"]["id"]})
    assert recorded("/api/why", source=two, query="parking garage")[:2] == ("why", set())
    assert running.request("GET", "/api/why", BOB, params={"source": two}).status_code == 200
    running.settle()
    (event,) = site.sql("SELECT action, query, doc_ids::text[] FROM audit_log ORDER BY at DESC LIMIT 1")
    assert tuple(event) == ("why", None, [two])
    action, documents, found = recorded("/api/ask", query="parking garage", top_k=2)
    also = {place["doc_id"] for result in found["sources"] for place in result["also_in"]}
    assert also
    assert (action, documents) == ("ask", {result["doc_id"] for result in found["sources"]} | also)


def test_the_audit_tells_when_it_was_asked_not_when_it_was_written(company: Site, running: Running) -> None:
    began = datetime.now(UTC)
    for asked in ("vacation", "salary", "officer"):
        running.search(asked, BOB)
    ended = datetime.now(UTC)
    running.settle()
    rows = company.sql("SELECT query, at FROM audit_log ORDER BY at")
    assert [row[0] for row in rows] == ["vacation", "salary", "officer"]
    assert began < rows[0][1] < rows[1][1] < rows[2][1] < ended


def test_rerank_without_a_reranker_warns(company: Site, running: Running) -> None:
    warnings = running.search("vacation", BOB, rerank=True)["warnings"]
    assert [warning["code"] for warning in warnings] == ["rerank_unavailable"]


def test_one_exact_thing_is_first_and_a_quoted_phrase_must_occur(site: Site) -> None:
    for number in range(8):
        site.add(f"Ticket {number}", [f"Ticket PKZ-082{number} is about a leaking pump in hall {number}."], [ANN])
    site.add(
        "Pumps", ["How a leaking pump is repaired: which ticket to open, whom to call, and which hall to close."], [ANN]
    )
    with site.running() as running:
        for query in ("PKZ-0825", "pkz-0825", "Which pump does ticket PKZ-0825 mean?"):
            assert running.titles(query, ANN, top_k=9)[0] == "Ticket 5", query
        assert running.titles("How do I repair a leaking pump?", ANN)[0] == "Pumps"
        assert running.titles('leaking "pump in hall 3"', ANN, top_k=9) == ["Ticket 3"]
        assert running.titles('"hall in pump"', ANN, top_k=9) == []
        assert running.titles('"pump in hall 3"', BOB, top_k=9) == []
