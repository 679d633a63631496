"""Quotas of uploads per user: files, bytes and documents waiting to be indexed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from resources.core.domain import SourceName
from resources.stores.blobs import Blobs
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
KB = 1024


def upload(running: Running, who: str, text: str, *, admin: bool = False) -> httpx.Response:
    return running.request(
        "POST", "/api/upload", who, admin=admin, files={"file": ("a.txt", text.encode(), "text/plain")}
    )


def ingest(running: Running, who: str, text: str, doc_id: str | None = None) -> httpx.Response:
    body = {"content": text, "tags": {"tenant": "a", "dataset": "b"}, "doc_id": doc_id}
    return running.request("POST", "/api/ingest", who, json=body)


def limited(site: Site, **quota: int) -> None:
    settings = {f"upload_quota_{name}": value for name, value in quota.items()}
    site.settings = site.settings.model_copy(update=settings)


def stored(site: Site) -> int:
    return sum(1 for _ in Blobs(site.settings.lake_address).stored())


def test_quota_errors_name_the_limit_and_store_nothing(site: Site) -> None:
    limited(site, files=3, bytes=100 * KB)
    with site.running() as running:
        assert upload(running, ANN, "x" * 60 * KB).status_code == 202
        assert upload(running, ANN, "x" * 60 * KB).status_code == 202  # the same again is no more
        for refused in (upload(running, ANN, "y" * 60 * KB), ingest(running, ANN, "y" * 60 * KB)):
            assert refused.status_code == 413
            assert refused.json()["type"] == "/problems/quota-exceeded"
            assert "CONCORDANCE_LIMITS__UPLOAD_QUOTA_BYTES" in refused.json()["detail"]
        assert stored(site) == 1
        assert ingest(running, ANN, "Two.").status_code == 202
        assert upload(running, ANN, "Three.").status_code == 202
        for refused in (upload(running, ANN, "Four."), ingest(running, ANN, "Four.")):
            assert refused.status_code == 413
            assert "CONCORDANCE_LIMITS__UPLOAD_QUOTA_FILES" in refused.json()["detail"]
        assert stored(site) == 3
        assert upload(running, BOB, "Four.").status_code == 202
        assert upload(running, ANN, "Four.", admin=True).status_code == 202


def test_deleted_uploads_count_until_they_are_erased(site: Site) -> None:
    limited(site, files=1)
    with site.running() as running:
        doc_id = upload(running, ANN, "One.").json()["doc_id"]
        assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
        refused = upload(running, ANN, "Two.")
        assert refused.status_code == 413
        assert "until they are erased" in refused.json()["detail"]
        site.sql("DELETE FROM uploads WHERE doc_id = %s", doc_id)  # as the erasure does
        assert upload(running, ANN, "Two.").status_code == 202


def test_documents_waiting_to_be_indexed_are_limited(site: Site) -> None:
    limited(site, waiting=2)
    with site.running() as running:
        assert upload(running, ANN, "One.").status_code == 202
        assert ingest(running, ANN, "Two.", "mine").status_code == 202
        for refused in (upload(running, ANN, "Three."), ingest(running, ANN, "Three.")):
            assert refused.status_code == 429
            assert refused.json()["type"] == "/problems/too-many-waiting"
            assert "CONCORDANCE_LIMITS__UPLOAD_QUOTA_WAITING" in refused.json()["detail"]
            assert refused.headers["retry-after"] == "60"
        assert (
            ingest(running, ANN, "Two again.", "mine").status_code == 429
        )  # replacing a text is one more to be indexed
        # a sync has read them; one document is not indexed yet
        site.sql(
            "INSERT INTO partitions (source, partition, cursor) SELECT source, partition, max(change)::text FROM uploads GROUP BY 1, 2"
        )
        site.add("One", ["One."], [ANN], source=SourceName.UPLOAD, source_id=f"{ANN}:one", owner=ANN)
        site.sql("DELETE FROM index_entries")
        assert upload(running, ANN, "Four.").status_code == 202
        assert upload(running, ANN, "Five.").status_code == 429
        site.sql("INSERT INTO index_entries (collection, doc_id) SELECT name, doc_id FROM index_collections, documents")
        assert upload(running, ANN, "Five.").status_code == 202


def test_parallel_uploads_cannot_pass_the_quota(site: Site) -> None:
    limited(site, files=5)
    with site.running() as running, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: upload(running, ANN, f"Text {number}."), range(24)))
    assert sorted(answer.status_code for answer in answers) == [202] * 5 + [413] * 19
    assert site.sql("SELECT count(*) FROM uploads") == [(5,)]
