"""Manus knowledge retrieval: each example of its section "APIs and Interfaces", field by field, over real HTTP."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import pytest

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site

ANN, ROOT = "ann@acme.com", "root@acme.com"
POSITIONING = "M3rcury focuses on defense contractors, while Anthropic positions itself for every industry."
DRIVE_LINK = "https://drive.google.com/file/d/1XyZ"
SLACK_LINK = "https://workspace.slack.com/archives/C01ABC123/p1699886400000100"
NOV_10, NOV_12 = datetime(2025, 11, 10, 15, 30, tzinfo=UTC), datetime(2025, 11, 12, 14, 0, tzinfo=UTC)


@pytest.fixture
def documents(site: Site) -> list[str]:
    strategy = site.add(
        "Q4 Strategy Doc", [POSITIONING], [ANN], source=SourceName.GOOGLE_DRIVE, source_id="1XyZ", url=DRIVE_LINK,
        created_at=NOV_10, modified_at=NOV_10,
    )  # fmt: skip
    thread = site.add(
        "#general thread", ["Ada: the lunch menu changes on Friday."], [ANN], source=SourceName.SLACK, url=SLACK_LINK,
        source_id="T0/C01ABC123/1699886400.000100", created_at=NOV_12, modified_at=NOV_12,
    )  # fmt: skip
    return [strategy, thread]


def test_the_search_example(documents: list[str], running: Running) -> None:
    body = {
        "query": "What's our competitive positioning vs Anthropic?",
        "top_k": 5,
        "filters": {
            "source_types": ["google_drive", "slack"],
            "date_range": {"start": "2025-01-01", "end": "2025-12-31"},
        },
    }
    answer = running.request("POST", "/api/rag/search", ANN, json=body)
    assert answer.status_code == 200, answer.text
    reply = answer.json()
    assert uuid.UUID(reply["query_id"])
    assert reply["latency_ms"] > 0
    first = reply["results"][0]
    expected = {
        "doc_id": documents[0],
        "title": "Q4 Strategy Doc",
        "source_type": "google_drive",
        "source_id": "1XyZ",
        "chunk_text": POSITIONING,
        "created_at": "2025-11-10T15:30:00Z",
    }
    assert {name: first[name] for name in expected} == expected
    assert 0 < first["relevance_score"] <= 1
    this_year = datetime.now(UTC).year == NOV_10.year
    day = "Nov 10" if this_year else "Nov 10, 2025"
    assert first["citation"]["text"] == f"[1] Q4 Strategy Doc (Google Drive, {day})"
    assert first["citation"]["link"] == DRIVE_LINK
    body["filters"]["date_range"] = {"start": "2024-01-01", "end": "2024-12-31"}  # type: ignore[index]
    assert running.request("POST", "/api/rag/search", ANN, json=body).json()["results"] == []


def test_the_citation_example(documents: list[str], running: Running) -> None:
    answer = running.request("POST", "/api/citations/format", ANN, json={"doc_ids": documents, "format": "inline"})
    assert answer.status_code == 200
    year = "" if datetime.now(UTC).year == NOV_10.year else ", 2025"
    expected = [
        {"index": 1, "text": f"[1] Q4 Strategy Doc (Google Drive, Nov 10{year})", "link": DRIVE_LINK, "source_type": "google_drive"},
        {"index": 2, "text": f"[2] #general thread (Slack, Nov 12{year})", "link": SLACK_LINK, "source_type": "slack"},
    ]  # fmt: skip
    reply = answer.json()["citations"]
    assert [{name: one[name] for name in expected[0]} for one in reply] == expected
    for style in ("footnote", "endnote"):
        one = running.request("POST", "/api/citations/format", ANN, json={"doc_ids": documents[:1], "format": style})
        assert DRIVE_LINK in one.json()["citations"][0]["text"]


def test_the_sync_example(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"drive_token": "token"})
    job = "00000000-0000-4000-8000-000000000001"
    with site.running() as running:
        body = {"folder_ids": ["1XyZ", "1AbC"], "full_sync": False}
        answer = running.request("POST", "/api/sync/google-drive", ROOT, admin=True, json=body)
        assert answer.status_code == 202, answer.text
        assert answer.json()["job_id"] == job
        assert answer.json()["status"] == "running"
        assert datetime.fromisoformat(answer.json()["started_at"]).tzinfo is not None
        called = site.launcher.calls[0]
        assert (called["source"], called["partitions"], called["full"]) == ("google_drive", ["1XyZ", "1AbC"], False)
        site.sql(
            "INSERT INTO sync_jobs (job_id, source, status, completed_at, synced, failed)"
            " VALUES (%s, 'google_drive', 'success', '2025-11-13T10:37:00Z', 47, 2)", job
        )  # fmt: skip
        site.sql(
            "INSERT INTO sync_errors (job_id, source_id, stage, reason) VALUES (%s, '1AbC', 'raw', 'Permission denied')",
            job,
        )
        reply = running.request("GET", f"/api/sync/status/{job}", ROOT, admin=True).json()
    expected = {
        "job_id": job,
        "status": "success",
        "documents_synced": 47,
        "documents_failed": 2,
        "completed_at": "2025-11-13T10:37:00Z",
    }
    assert {name: reply[name] for name in expected} == expected
    assert [(one["file_id"], one["error"]) for one in reply["errors"]] == [("1AbC", "Permission denied")]


def test_the_upload_example(site: Site, running: Running) -> None:
    metadata = json.dumps({"title": "Custom Market Research", "description": "Uploaded by user"})
    files = {"file": ("research.md", b"# Research\n")}
    answer = running.request("POST", "/api/upload", ANN, files=files, data={"metadata": metadata})
    assert answer.status_code == 202
    reply = answer.json()
    assert uuid.UUID(reply["doc_id"])
    assert reply["status"] == "processing"
    assert reply["message"] == "File uploaded, indexing in progress"
    assert site.sql("SELECT title, description FROM uploads") == [("Custom Market Research", "Uploaded by user")]
