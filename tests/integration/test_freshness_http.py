"""Documents whose permissions were checked too long ago are withheld from every read and counted in searches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
ABSENT = "00000000-0000-4000-8000-00000000dead"
OLD = datetime.now(UTC) - timedelta(days=2)


def fill(site: Site) -> str:
    """One document checked now; one checked two days ago, whose doc_id is returned; one like it that Bob may not read."""
    site.add("Fresh", ["The ferry leaves at nine from the northern pier."], [ANN, BOB])
    stale = ["The ferry of yore left at ten.", "Its captain sang."]
    site.add("Private", ["The ferry contract of yore."], [ANN], partition="old", acl_checked_at=OLD)
    return site.add("Stale", stale, [ANN, BOB], partition="old", acl_checked_at=OLD)


def titles(answer: dict[str, Any]) -> list[str]:
    return [result["title"] for result in answer["results"]]


def test_a_search_holds_back_and_counts_what_the_caller_could_otherwise_read(site: Site, running: Running) -> None:
    fill(site)
    answer = running.search("ferry of yore", BOB)
    assert (titles(answer), answer["held_back"]) == (["Fresh"], 1)
    assert [warning["code"] for warning in answer["warnings"]] == ["held_back"]
    assert "1 document is left out" in answer["warnings"][0]["message"]
    assert "24h" in answer["warnings"][0]["message"]
    assert running.search("ferry of yore", ANN)["held_back"] == 2
    outsider = running.search("ferry of yore", "eve@other.com")
    assert (outsider["results"], outsider["held_back"], outsider["warnings"]) == ([], 0, [])


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_every_mode_holds_back(site: Site, running: Running, mode: str) -> None:
    fill(site)
    for by_document in (True, False):
        answer = running.search("ferry of yore", BOB, mode=mode, group_by_document=by_document, top_k=50)
        assert (titles(answer), answer["held_back"]) == (["Fresh"], 1)


def test_cached_candidates_are_held_back_once_they_are_too_old(site: Site, running: Running) -> None:
    fill(site)
    site.sql("UPDATE partitions SET acl_checked_at = now()")
    assert running.search("ferry of yore", BOB)["held_back"] == 0
    running.settle()
    site.sql("UPDATE partitions SET acl_checked_at = %s WHERE partition = 'old'", OLD)
    answer = running.search("ferry of yore", BOB)
    assert (answer["cached"], titles(answer), answer["held_back"]) == (True, ["Fresh"], 1)
    site.sql("UPDATE partitions SET acl_checked_at = now()")
    again = running.search("ferry of yore", BOB)
    assert (again["cached"], again["held_back"], again["warnings"]) == (True, 0, [])
    assert set(titles(again)) == {"Fresh", "Stale"}


@pytest.mark.parametrize("forget", ["UPDATE partitions SET acl_checked_at = NULL", "DELETE FROM partitions"])
def test_permissions_that_were_never_checked_count_as_too_old(site: Site, running: Running, forget: str) -> None:
    doc_id = site.add("Unknown", ["The ferry nobody asked about."], [BOB])
    site.sql(forget)
    site.sql("INSERT INTO held_deletions (source, partition, source_id) VALUES ('files', 'root', 'root/Unknown.md')")
    answer = running.search("ferry", BOB)
    assert (answer["results"], answer["held_back"]) == ([], 1)
    assert running.request("GET", f"/api/documents/{doc_id}", BOB).status_code == 404


def test_what_is_held_back_is_answered_as_if_it_did_not_exist(site: Site, running: Running) -> None:
    doc_id = fill(site)
    for path in ("/api/documents/{}", "/api/documents/{}?chunk=0", "/api/documents/{}?start=0&end=5"):
        held, absent = (running.request("GET", path.format(one), BOB) for one in (doc_id, ABSENT))
        assert (held.status_code, {**held.json(), "instance": ""}) == (404, {**absent.json(), "instance": ""})
    pages = [running.request("GET", f"/documents/{one}?chunk=0", BOB) for one in (doc_id, ABSENT)]
    assert (pages[0].status_code, pages[0].text) == (404, pages[1].text)
    cited = running.request("POST", "/api/citations/format", BOB, json={"doc_ids": [doc_id]})
    assert cited.json() == {"citations": []}
    site.sql("UPDATE partitions SET acl_checked_at = now()")
    assert running.request("GET", f"/api/documents/{doc_id}?chunk=1", BOB).json()["place"]["chunk_index"] == 1
    found = running.search("ferry of yore", BOB, neighbours=1)["results"]
    assert [len(one["neighbours"]) for one in found if one["title"] == "Stale"] == [1]


def test_a_document_that_is_held_back_is_no_other_place_of_a_passage(site: Site, running: Running) -> None:
    text = "The very same passage about the ferry."
    site.add("One", [text], [BOB])
    site.add("Two", [text], [BOB], partition="old", acl_checked_at=OLD)
    answer = running.search("passage about the ferry", BOB)
    assert (titles(answer), answer["results"][0]["also_in"], answer["held_back"]) == (["One"], [], 1)


def test_a_deletion_that_waits_for_approval_counts_as_checked_when_it_began_to_wait(
    site: Site, running: Running
) -> None:
    site.add("Waiting", ["The ferry that may be gone."], [BOB])
    held = "INSERT INTO held_deletions (source, partition, source_id, held_at) VALUES ('files', 'root', 'root/Waiting.md', %s)"
    began = datetime.now(UTC) - timedelta(hours=3)
    site.sql(held, began)
    found = running.search("ferry gone", BOB)["results"]
    assert [datetime.fromisoformat(one["acl_checked_at"]) for one in found] == [began]
    site.sql("UPDATE held_deletions SET held_at = %s", OLD)
    answer = running.search("ferry gone", BOB)
    assert (answer["results"], answer["held_back"]) == ([], 1)


def test_permissions_of_uploads_are_our_own_and_never_too_old(site: Site, running: Running) -> None:
    doc_id = site.add(
        "Upload", ["The ferry I uploaded."], [BOB], source=SourceName.UPLOAD, source_id="u", acl_checked_at=OLD
    )
    answer = running.search("ferry uploaded", BOB)
    assert (titles(answer), answer["held_back"]) == (["Upload"], 0)
    checked = datetime.fromisoformat(answer["results"][0]["acl_checked_at"])
    assert datetime.now(UTC) - checked < timedelta(minutes=5)
    assert running.request("GET", f"/api/documents/{doc_id}", BOB).status_code == 200


def test_without_postgres_uploads_too_are_held_back_by_their_age(site: Site) -> None:
    fill(site)
    site.add("Upload", ["The ferry I uploaded."], [BOB], source=SourceName.UPLOAD, source_id="new")
    site.add(
        "Aged",
        ["The ferry of my aunt."],
        [BOB],
        source=SourceName.UPLOAD,
        source_id="old",
        partition="old",
        acl_checked_at=OLD,
    )
    nowhere = type(site.settings.postgres_url)("postgresql://x@127.0.0.1:9/x")
    site.settings = site.settings.model_copy(update={"postgres_url": nowhere})
    with site.running() as running:
        answer = running.search("ferry", BOB)
        assert (set(titles(answer)), answer["held_back"]) == ({"Fresh", "Upload"}, 2)
        assert [one["code"] for one in answer["warnings"]] == ["registry_unavailable", "held_back"]


def test_without_the_vector_index_full_text_holds_back_too(site: Site) -> None:
    fill(site)
    site.settings = site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    with site.running() as running:
        answer = running.search("ferry", BOB)
        assert (titles(answer), answer["held_back"]) == (["Fresh"], 1)


def test_the_limit_is_the_setting(site: Site) -> None:
    fill(site)
    site.settings = site.settings.model_copy(update={"acl_max_age": "7d"})
    with site.running() as running:
        answer = running.search("ferry of yore", BOB)
        assert (set(titles(answer)), answer["held_back"]) == ({"Fresh", "Stale"}, 0)
