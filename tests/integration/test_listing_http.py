"""`GET /api/documents` and `GET /api/collections`: pages, filters and counts of what the caller may read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site

ANN, BOB, CAROL = "ann@acme.com", "bob@acme.com", "carol@acme.com"
DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


def listed(running: Running, who: str = ANN, **parameters: Any) -> dict[str, Any]:
    answer = running.request("GET", "/api/documents", who, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def titles(running: Running, who: str = ANN, **parameters: Any) -> list[str]:
    return [one["title"] for one in listed(running, who, **parameters)["documents"]]


def collections(running: Running, who: str = ANN, **parameters: Any) -> list[tuple[str, str, str, int]]:
    answer = running.request("GET", "/api/collections", who, params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] == len(answer.json()["collections"])
    return [(one["collection_id"], one["name"], one["path"], one["documents"]) for one in answer.json()["collections"]]


def test_pages_follow_each_other_without_a_gap(site: Site, running: Running) -> None:
    for number in range(7):  # pairs were modified at the same moment, and of the last the time is unknown
        when = None if number == 6 else DAY - timedelta(days=number // 2)
        site.add(f"Note {number}", ["Text."], [ANN], modified_at=when)
    site.add("Bob's", ["Text."], [BOB], modified_at=DAY)
    seen: list[str] = []
    cursor: str | None = None
    for size in (3, 3, 1):
        page = listed(running, limit=3, **({"cursor": cursor} if cursor else {}))
        assert (len(page["documents"]), page["total"]) == (size, 7)
        seen += [one["title"] for one in page["documents"]]
        cursor = page["next_cursor"]
        if size == 3 and len(seen) == 3:  # what comes and goes meanwhile moves nothing else
            site.add("New", ["Text."], [ANN], modified_at=DAY + timedelta(days=1))
            site.sql("UPDATE documents SET state = 'deleted' WHERE title = %s", seen[0])
    assert cursor is None
    assert sorted(seen) == [f"Note {number}" for number in range(7)]
    assert {*seen[:2]} == {"Note 0", "Note 1"}
    assert seen[-1] == "Note 6"


def test_filters_narrow(site: Site, running: Running) -> None:
    site.add("Ferry plan", ["x"], [ANN], author="Tom", tags={"topic": ["rent", "lease"], "year": 2026}, modified_at=DAY)
    site.add("Heron", ["x"], [ANN], mime_type="application/pdf", modified_at=DAY - timedelta(days=40))
    site.add(
        "Talk", ["x"], [ANN], source=SourceName.SLACK, partition="C1", collection_ids=["C1"], folders=[],
        tags={"channel": "support", "participants": ["Marta", "Tom"]}, modified_at=DAY - timedelta(days=80),
    )  # fmt: skip
    site.add("Old", ["x"], [ANN], tags={"lifecycle": "archived"})
    assert titles(running) == ["Ferry plan", "Heron", "Talk"]
    assert titles(running, source_type="slack") == ["Talk"]
    assert titles(running, source_type=["slack", "google-drive"]) == ["Talk"]
    assert titles(running, mime_type="application/pdf") == ["Heron"]
    assert titles(running, author="Tom") == ["Ferry plan", "Talk"]
    assert titles(running, title="FERRY ") == ["Ferry plan"]
    assert titles(running, title="%") == []
    assert titles(running, tag="topic:lease") == ["Ferry plan"]
    assert titles(running, tag=["topic:rent", "topic:none"]) == ["Ferry plan"]
    assert titles(running, tag=["topic:rent", "channel:support"]) == []
    assert titles(running, collection_id="C1") == ["Talk"]
    assert titles(running, start="2026-03-01", end="2026-03-01") == ["Ferry plan"]
    assert titles(running, end="2026-02-28") == ["Heron", "Talk"]
    assert titles(running, include_archived=True, title="old") == ["Old"]
    assert listed(running, limit=1, source_type="files")["total"] == 2


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"source_type": "nowhere"}, "source_type: "),
        ({"start": "yesterday"}, "start: 'yesterday' is not a valid date"),
        ({"start": "2026-02-01", "end": "2026-01-01"}, "start: start comes after end"),
        ({"tag": "no name:x"}, "tag: 'no name' is not a valid tag name"),
        ({"tag": "topic"}, "tag: 'topic' has no value; write name:value, such as topic:rent."),
        ({"cursor": "x"}, "cursor: is not one of this list"),
        ({"cursor": "wA"}, "cursor: is not one of this list"),
        ({"limit": 1000}, "limit: "),
        ({"date_field": "day"}, "date_field: "),
        ({"limit": "many"}, "limit: "),
    ],
)
def test_a_wrong_parameter_is_named(running: Running, parameters: dict[str, Any], says: str) -> None:
    answer = running.request("GET", "/api/documents", ANN, params=parameters)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-request")
    assert answer.json()["detail"].startswith(says)


def test_lists_and_counts_hold_only_what_may_be_read(site: Site, running: Running) -> None:
    site.add("Mine", ["x"], [ANN])
    site.add("Everybody's", ["x"], ["public"])
    for number, (state, readers) in enumerate(
        (("live", []), ("deleted", [ANN]), ("lost_access", [ANN]), ("live", [BOB]))
    ):
        doc_id = site.add(f"Secret {number}", ["x"], [ANN])
        site.sql("UPDATE documents SET state = %s, permissions = %s WHERE doc_id = %s", state, readers, doc_id)
    site.add("Stale", ["x"], [ANN], partition="stale", acl_checked_at=datetime.now(UTC) - timedelta(days=9))
    site.add("Left", ["x"], [ANN], partition="left")
    site.sql("INSERT INTO departures VALUES ('files', 'left', %s, 'e')", ANN)
    page = listed(running)
    assert sorted(one["title"] for one in page["documents"]) == ["Everybody's", "Mine"]
    assert page["total"] == 2
    assert collections(running) == [("root", "root", "", 2)]
    assert titles(running, "eve@elsewhere.org") == ["Everybody's"]
    running.settle()
    ((found,),) = site.sql("SELECT doc_ids::text[] FROM audit_log WHERE action = 'list' AND email = %s", ANN)
    assert sorted(found) == sorted(one["doc_id"] for one in page["documents"])


def test_folders_that_are_hidden_are_neither_listed_nor_found(site: Site, running: Running) -> None:
    folders = [
        {"id": "F0", "name": "Shared", "readers": [ANN, BOB]},
        {"id": "F1", "name": "Layoffs", "readers": [BOB]},
    ]
    for number, readers in enumerate(([ANN, BOB], [BOB])):
        site.add(
            f"Letter {number}", ["x"], readers, source=SourceName.GOOGLE_DRIVE, source_id=f"letter-{number}", folders=folders,
            collection_ids=["F1", "F0"], path=f"Shared/Layoffs/letter-{number}.md",
        )  # fmt: skip
    assert collections(running, ANN) == [("F0", "Shared", "Shared", 1)]
    assert collections(running, BOB) == [("F0", "Shared", "Shared", 2), ("F1", "Layoffs", "Shared/Layoffs", 2)]
    assert collections(running, CAROL) == []
    assert titles(running, ANN, collection_id="F0") == ["Letter 0"]
    assert titles(running, ANN, collection_id="F1") == []
    assert sorted(titles(running, BOB, collection_id="F1")) == ["Letter 0", "Letter 1"]
    (letter,) = listed(running, ANN)["documents"]
    assert (letter["path"], letter["collection_id"]) == ("Shared/letter-0.md", None)


def test_collections_have_pages_and_names_of_channels_and_days(site: Site, running: Running) -> None:
    site.add(
        "Talk", ["x"], [ANN], source=SourceName.SLACK, partition="C1", collection_ids=["C1"], folders=[], tags={"channel": "support"},
    )  # fmt: skip
    site.add("Upload", ["x"], [ANN], source=SourceName.UPLOAD, collection_ids=["2026-03-01"], folders=[])
    site.add("File", ["x"], [ANN])
    site.add("Old", ["x"], [ANN], tags={"lifecycle": "archived"})
    wanted = [("root", "root", "", 1), ("C1", "support", "", 1), ("2026-03-01", "2026-03-01", "", 1)]
    assert collections(running) == wanted
    assert collections(running, source_type="slack") == wanted[1:2]
    assert collections(running, include_archived=True)[0] == ("root", "root", "", 2)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = running.request(
            "GET", "/api/collections", ANN, params={"limit": 1} | ({"cursor": cursor} if cursor else {})
        ).json()
        assert page["total"] == 3
        seen += [one["collection_id"] for one in page["collections"]]
        cursor = page["next_cursor"]
    assert seen == [one[0] for one in wanted]
