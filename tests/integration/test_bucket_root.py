"""A bucket as a file root whose credentials are lost during a sync: what is indexed stays, and what changed is read by the next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from assets.upkeep.erase import erase
from assets.upkeep.sweep import sweep
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError, RetryLaterError
from resources.settings import FileRoot
from resources.sources.files import Files
from resources.stores.blobs import Blobs
from tests.fixtures.installation import Installation
from tests.fixtures.s3 import BUCKET, S3Server

TEXT = b"The heron waits in the shallow water of the old pond.\n"
SIDECAR = b'{"permissions": ["domain:acme.example"]}'


@pytest.fixture
def bucket(installation: Installation, store: S3Server) -> Installation:
    """An installation with a bucket of two documents, one of which has a sidecar, as its root."""
    store.objects |= {"docs/a.txt": TEXT, "docs/b.txt": b"More. " + TEXT, "docs/b.txt.meta.json": SIDECAR}
    root = FileRoot(
        name="docs", url=f"s3://{BUCKET}/docs", tenant="acme", dataset="docs", permissions=("domain:acme.example",)
    )
    installation.settings = installation.settings.model_copy(update={"file_roots": (root,)})
    installation.sync()
    return installation


@pytest.mark.parametrize("lost", [".txt", ".meta.json"], ids=["content", "sidecar"])
def test_credentials_that_expire_after_the_listing_take_nothing_away(
    bucket: Installation, store: S3Server, lost: str
) -> None:
    store.objects["docs/a.txt"] = b"Changed. " + TEXT
    store.objects["docs/c.txt"] = b"New. " + TEXT
    store.refused = lost
    with pytest.raises(
        AbortSyncError, match=r"docs.* HTTP 403 Forbidden \(ExpiredToken\)\. Check its credentials"
    ) as caught:
        bucket.sync()
    assert lost not in str(caught.value), "logs and Dagster have this reason, and it names no document"
    assert {point["source_id"] for point in bucket.points()} >= {"docs/a.txt", "docs/b.txt"}
    store.refused = None
    bucket.sync()
    assert bucket.rows("SELECT source_id FROM documents WHERE state <> 'live'") == []
    assert {point["source_id"] for point in bucket.points()} == {"docs/a.txt", "docs/b.txt", "docs/c.txt"}
    assert bucket.agrees()


def test_objects_that_are_refused_after_the_listing_are_read_by_a_later_sync(
    bucket: Installation, store: S3Server
) -> None:
    store.objects["docs/a.txt"] = b"Changed. " + TEXT
    store.objects["docs/c.txt"] = b"New. " + TEXT
    store.refused, store.code = ".txt", "AccessDenied"
    bucket.sync()
    assert {point["source_id"] for point in bucket.points()} == {"docs/a.txt", "docs/b.txt"}
    errors = bucket.rows("SELECT source_id, reason FROM sync_errors ORDER BY source_id")
    assert [one["source_id"] for one in errors] == ["docs/a.txt", "docs/c.txt"]
    assert all("Permission denied" in one["reason"] for one in errors)
    store.refused = None
    bucket.sync()
    assert {point["source_id"] for point in bucket.points()} == {"docs/a.txt", "docs/b.txt", "docs/c.txt"}
    assert bucket.agrees()


def test_a_sidecar_that_is_refused_after_the_listing_does_not_count_as_missing(
    bucket: Installation, store: S3Server
) -> None:
    """Or its document would get the readers of the root."""
    store.refused, store.code = ".meta.json", "AccessDenied"
    with pytest.raises(RetryLaterError, match="docs cannot be read just now"):
        Files(bucket.settings).look("docs", "b.txt")


def test_a_document_that_returns_unchanged_after_an_interrupted_erasure_is_fetched(
    bucket: Installation, store: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = store.objects.pop("docs/a.txt")
    bucket.sync()
    sweep(bucket.settings, SourceName.FILES)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("assets.upkeep.erase.scrub", killed)
        with pytest.raises(KeyboardInterrupt):
            erase(bucket.settings, after=timedelta())
    store.objects["docs/a.txt"] = data
    bucket.sync()
    (row,) = bucket.rows("SELECT state, reason, content_hash FROM documents WHERE source_id = 'docs/a.txt'")
    assert (row["state"], row["reason"]) == ("live", None)
    assert Blobs(bucket.settings.lake_address).exists(row["content_hash"])
    erase(bucket.settings, after=timedelta())
    assert Blobs(bucket.settings.lake_address).exists(row["content_hash"])
    assert {point["source_id"] for point in bucket.points()} == {"docs/a.txt", "docs/b.txt"}
    assert bucket.agrees()
