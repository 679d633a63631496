"""The source `files` over object stores, with stores of obstore's own handed in."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore, MemoryStore, ObjectStore, S3Store

from resources.core.domain import Batch, Item, Refusal
from resources.core.errors import (
    AbortSyncError,
    ChangedDocumentError,
    ConfigurationError,
    FailedDocumentError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.settings import Settings
from resources.sources import tree
from resources.sources.buckets import Bucket, _brief, _Sidecar
from resources.sources.files import Files
from tests.fixtures.known_keys import unchanged
from tests.fixtures.s3 import BUCKET, S3Server


def files(store: ObjectStore | None, **more: Any) -> Files:
    spec = {
        "name": "b",
        "url": "s3://bucket/prefix",
        "tenant": "acme",
        "dataset": "d",
        "permissions": ["domain:acme.com"],
    }
    settings = Settings(_env_file=None, file_roots=json.dumps([{**spec, **more.pop("root", {})}]), **more)
    return Files(settings, {} if store is None else {"b": store})


def listing(source: Files) -> tuple[dict[str, Item], dict[str, str], list[Batch]]:
    batches = list(source.changes("b", None))
    seen = {item.path: item for batch in batches for item in batch.seen}
    return seen, {refusal.path: refusal.reason for batch in batches for refusal in batch.refused}, batches


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


def test_objects_with_their_sidecars(store: ObjectStore) -> None:
    obstore.put(store, "a/plan.md", b"# Plan")
    obstore.put(store, "a/plan.md.meta.json", b'{"title": "The plan", "permissions": ["public"]}')
    obstore.put(store, "a/plan.md-old.txt", b"old")
    obstore.put(store, "b/\u00fcber uns.txt", b"text")
    source = files(store)
    seen, refused, batches = listing(source)
    assert not refused
    assert list(seen) == ["a/plan.md", "a/plan.md-old.txt", "b/\u00fcber uns.txt"]
    plan = seen["a/plan.md"]
    assert (plan.source_id, plan.title, plan.permissions) == ("b/a/plan.md", "The plan", ("public",))
    assert plan.collection_ids == ("b", "b/a")
    assert seen["a/plan.md-old.txt"].permissions == ("domain:acme.com",)
    assert batches[-1].listing == "complete"
    assert [b"".join(source.fetch(item)) for item in seen.values()] == [b"# Plan", b"old", b"text"]


def test_known_objects_are_left_out(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "LARGEST", 1)
    source = files(store)
    names = ["a/plan.md", "b.md", "c.md", "d.md"]
    for name in names:
        obstore.put(store, name, b"# Plan")
    source.known_keys = unchanged({})
    keys = {key: value for batch in source.changes("b", None) for key, value in batch.keys.items()}
    assert list(keys) == [f"b/{name}" for name in names]
    source.known_keys = known = unchanged(dict.fromkeys(keys.values(), 1))
    obstore.put(store, "b.md", b"# Another plan")
    obstore.put(store, "c.md.meta.json", b'{"permissions": ["public"]}')
    obstore.delete(store, "d.md")
    seen, _, batches = listing(source)
    assert (list(seen), sum(batch.unchanged for batch in batches)) == (["b.md", "c.md"], 1)
    assert (len(known), set(known.unlisted())) == (1, {keys[f"b/{name}"] for name in ("b.md", "c.md", "d.md")})


def test_a_sidecar_that_was_read_in_another_version_is_read_at_each_listing(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is put back afterwards, the next listing shows what this one did."""
    obstore.put(store, "a.md", b"# Plan")
    obstore.put(store, "a.md.meta.json", b'{"permissions": ["ada@acme.com"]}')
    source = files(store)
    source.known_keys = unchanged({})
    _, _, batches = listing(source)
    assert [list(batch.keys) for batch in batches] == [["b/a.md"], []]
    for other in (_Sidecar(b"{}", version="other"), _Sidecar(fault="permission denied")):
        monkeypatch.setattr(Bucket, "_sidecar", lambda _self, _key, other=other: other)
        _, _, batches = listing(source)
        assert not any(batch.keys for batch in batches)


def test_one_object_is_looked_at_as_a_listing_shows_it(store: ObjectStore) -> None:
    obstore.put(store, "a/plan.md", b"# Plan")
    obstore.put(store, "a/plan.md.meta.json", b'{"title": "The plan", "permissions": ["public"]}')
    obstore.put(store, "a/.hidden.md", b"text")
    obstore.put(store, "a/bad.md", b"text")
    obstore.put(store, "a/bad.md.meta.json", b"no JSON")
    source = files(store)
    assert source.look("b", "a/plan.md") == listing(source)[0]["a/plan.md"]
    assert not isinstance(source.look("b", "a/bad.md"), Item | None)
    assert [source.look("b", path) for path in ("a/none.md", "a/.hidden.md", "a/plan.md.meta.json")] == [None] * 3
    assert source.look("other", "a/plan.md") is None
    with pytest.raises(SkipDocumentError):
        source.look("b", "../a/plan.md")


@pytest.mark.parametrize("sidecar", ["Report.md.meta.json", "report.md.META.json", "REPORT.MD.META.JSON"])
def test_an_object_whose_sidecar_differs_in_case_is_refused(sidecar: str) -> None:
    store = MemoryStore()
    obstore.put(store, "a/report.md", b"for a few")
    obstore.put(store, "a/other.md", b"for all")
    obstore.put(store, "b/report.md", b"for all")
    source = files(store)
    source.known_keys = unchanged({})
    keys = {key: value for batch in source.changes("b", None) for key, value in batch.keys.items()}
    source.known_keys = unchanged(dict.fromkeys(keys.values(), len(keys)))
    obstore.put(store, f"a/{sidecar}", b'{"permissions": ["ada@acme.com"]}')
    for known_keys in (source.known_keys, None):
        source.known_keys = known_keys
        seen, refused, _ = listing(source)
        assert refused == {
            "a/report.md": "Its sidecar's name differs in case, so no one may see it: rename it to report.md.meta.json."
        }
    assert list(seen) == ["a/other.md", "b/report.md"]
    looked = source.look("b", "a/report.md")
    assert isinstance(looked, Refusal)
    assert looked.reason == refused["a/report.md"]
    assert isinstance(source.look("b", "a/other.md"), Item)
    assert source.look("b", f"a/{sidecar}") is None
    obstore.put(store, "a/report.md.meta.json", b'{"permissions": ["ada@acme.com"]}')
    assert listing(source)[0]["a/report.md"].permissions == ("ada@acme.com",)


def test_objects_whose_names_differ_in_case_have_their_own_sidecars() -> None:
    store = MemoryStore()
    for name in ("Report.md", "report.md", unicodedata.normalize("NFD", "\u00dcber.md"), "\u00fcber.md"):
        obstore.put(store, name, b"text")
    for name in ("Report.md", "\u00dcber.md"):
        obstore.put(store, f"{name}.meta.json", b'{"permissions": ["ada@acme.com"]}')
    source = files(store)
    seen, refused, _ = listing(source)
    assert not refused
    assert [one.permissions == ("ada@acme.com",) for _, one in sorted(seen.items())] == [True, False, True, False]
    assert source.look("b", "report.md") == seen["report.md"]


def test_the_version_is_the_etag(store: ObjectStore) -> None:
    obstore.put(store, "a.md", b"one")
    before = listing(files(store))[0]["a.md"].version
    assert listing(files(store))[0]["a.md"].version == before
    obstore.put(store, "a.md", b"two or more")
    assert listing(files(store))[0]["a.md"].version != before


def test_what_is_left_out_and_what_is_refused(store: ObjectStore) -> None:
    obstore.put(store, ".hidden/a.md", b"x")
    obstore.put(store, "folder", b"")
    obstore.put(store, "ok.md", b"x")
    obstore.put(store, "empty.md", b"")
    obstore.put(store, "tool.exe", b"MZ")
    obstore.put(store, "long.md", b"x" * 200)
    obstore.put(store, "broken.md", b"x")
    obstore.put(store, "broken.md.meta.json", b"{")
    seen, refused, _ = listing(files(store, max_file_bytes=100))
    assert list(seen) == ["ok.md"]
    assert set(refused) == {"empty.md", "tool.exe", "long.md", "broken.md"}
    assert "no one may see it" in refused["broken.md"]


def test_a_prefix_that_holds_nothing_is_never_a_complete_listing() -> None:
    seen, refused, batches = listing(files(MemoryStore()))
    assert not seen
    assert "may be mistyped" in refused[""]
    assert "complete" not in [batch.listing for batch in batches]


def item_for(locator: str, version: str | None = None) -> Item:
    return Item(
        source_id=f"b/{locator}",
        partition="b",
        title="x",
        path=locator,
        mime_type="text/plain",
        version=version or "v",
        permissions=(),
        locator=locator,
    )


@pytest.mark.parametrize("path", ["../x.md", "a/../../x.md", "/x.md", "a//x.md", ""])
def test_no_key_leads_out_of_the_prefix(store: ObjectStore, path: str) -> None:
    obstore.put(store, "a/x.md", b"x")
    with pytest.raises(SkipDocumentError, match="leads out of the root"):
        list(files(store).fetch(item_for(path)))


def test_an_object_that_is_not_the_one_listed_is_not_read(store: ObjectStore) -> None:
    """Its readers may have become fewer before."""
    obstore.put(store, "a.md", b"for all")
    source = files(store)
    item = listing(source)[0]["a.md"]
    obstore.put(store, "a.md.meta.json", b'{"permissions": ["ada@acme.com"]}')
    obstore.put(store, "a.md", b"a secret")
    with pytest.raises(ChangedDocumentError):
        list(source.fetch(item))
    now = source.look_again(item)
    assert now is not None
    assert now.permissions == ("ada@acme.com",)
    assert b"".join(source.fetch(now)) == b"a secret"


@pytest.mark.parametrize(("name", "sidecar"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_sidecar_is_its_objects_in_either_form_of_unicode(store: ObjectStore, name: Any, sidecar: Any) -> None:
    obstore.put(store, unicodedata.normalize(name, "\u00e9t\u00e9.md"), b"text")
    key = unicodedata.normalize(sidecar, "\u00e9t\u00e9.md.meta.json")
    obstore.put(store, key, b'{"permissions": ["ada@acme.com"]}')
    source = files(store)
    (item,) = listing(source)[0].values()
    assert item.permissions == ("ada@acme.com",)
    assert source.look("b", item.locator) == item


def test_fetch_faults_are_distinguished(store: ObjectStore) -> None:
    with pytest.raises(FailedDocumentError, match="no longer there"):
        list(files(store).fetch(item_for("gone.md")))
    obstore.put(store, "a.pdf", b"MZ" + b"\0" * 50)
    with pytest.raises(SkipDocumentError, match="a Windows program"):
        list(files(store).fetch(item_for("a.pdf", obstore.head(store, "a.pdf")["e_tag"])))
    obstore.put(store, "a.md", b"x" * 500)
    with pytest.raises(SkipDocumentError, match="too large"):
        list(files(store, max_file_bytes=100).fetch(item_for("a.md")))


def test_a_store_that_does_not_answer_aborts_the_listing() -> None:
    nowhere = S3Store(
        "bucket",
        endpoint="http://127.0.0.1:1",
        access_key_id="k",
        secret_access_key="s",
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(AbortSyncError, match="root b cannot be listed") as caught:
        list(files(nowhere).changes("b", None))
    assert "127.0.0.1:1: HTTP error" in str(caught.value)
    assert "list-type" not in str(caught.value)
    with pytest.raises(RetryLaterError):
        list(files(nowhere).fetch(item_for("a.md")))


@pytest.mark.parametrize("odd", ["a//secret.md", "a/./secret.md", "a/../secret.md", "a/secret\x7f.md"])
def test_a_key_that_cannot_be_read_ends_the_listing_with_a_reason_that_does_not_name_it(odd: str) -> None:
    with S3Server() as server:
        store = S3Store(
            BUCKET,
            prefix="docs",
            endpoint=server.environment["AWS_ENDPOINT_URL"],
            access_key_id="k",
            secret_access_key="s",
            region="us-east-1",
            client_options={"allow_http": True},
        )
        server.objects = {"docs/a.md": b"text", f"docs/{odd}": b"text"}
        with pytest.raises(AbortSyncError, match=r"root b cannot be listed: the key of an object .* Rename") as caught:
            list(files(store).changes("b", None))
    assert "secret" not in str(caught.value)


def test_errors_of_a_store_do_not_name_objects() -> None:
    """Jobs' errors are shown to auditors."""
    assert _brief(GenericError("Object secret.md is odd")) == "the store's answer makes no sense (GenericError)."


def test_a_bucket_that_cannot_be_opened_names_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    source = files(None, root={"url": "az://container/prefix"})
    with pytest.raises(ConfigurationError, match=r"CONCORDANCE_FILE_ROOTS \(b\).*cannot be opened"):
        list(source.changes("b", None))
