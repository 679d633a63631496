"""The source `files` over local folders: what is listed, what is refused and why, and that no path leads out of a root."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from resources.core.domain import DEFAULT_PROFILE, Batch, Item, Refusal, SourceName
from resources.core.errors import AbortSyncError, ChangedDocumentError, FailedDocumentError, SkipDocumentError
from resources.core.reasons import kind_of
from resources.settings import Settings
from resources.sources import folders, tree
from resources.sources.files import BATCH, LISTING_VERSION, Files
from tests.fixtures.known_keys import unchanged

PROJECT = Path(__file__).resolve().parents[2]


def files(folder: Path, *, more: dict[str, Any] | None = None, **root: Any) -> Files:
    """The source over one root called `r`."""
    spec = {"name": "r", "url": folder.as_uri(), "tenant": "acme", "dataset": "handbook", **root}
    return Files(Settings(_env_file=None, home=folder.parent / "home", file_roots=json.dumps([spec]), **(more or {})))


def listing(source: Files) -> tuple[dict[str, Item], dict[str, Refusal], list[Batch]]:
    batches = list(source.changes("r", None))
    seen = {item.path: item for batch in batches for item in batch.seen}
    refused = {refusal.path: refusal for batch in batches for refusal in batch.refused}
    return seen, refused, batches


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def put(folder: Path, path: str, content: str | bytes = "# Hello\n", sidecar: Any = None) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    if sidecar is not None:
        text = sidecar if isinstance(sidecar, str) else json.dumps(sidecar)
        file.with_name(file.name + ".meta.json").write_text(text)
    return file


def test_a_file_and_all_that_is_known_of_it(root: Path) -> None:
    file = put(root, "a/b/plan.md")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    source = files(root, permissions=["domain:Acme.com"], owner="Ada@acme.com", base_url="https://files.example/")
    seen, refused, batches = listing(source)
    item = seen["a/b/plan.md"]
    assert not refused
    assert batches[-1].listing == "complete"
    assert (source.name, source.partitions()) == (SourceName.FILES, ["r"])
    assert item.source_id == "r/a/b/plan.md"
    assert item.partition == "r"
    assert item.collection_ids == ("r", "r/a", "r/a/b")
    assert item.title == "plan.md"
    assert item.mime_type == "text/markdown"
    assert item.permissions == ("domain:acme.com",)
    assert item.owner == "ada@acme.com"
    assert item.url == "https://files.example/a/b/plan.md"
    assert item.size == 8
    assert item.modified_at == item.created_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert item.tags == {"source": "files", "tenant": "acme", "dataset": "handbook"}
    assert b"".join(source.fetch(item)) == b"# Hello\n"


def test_a_sidecar_wins_over_the_root(root: Path) -> None:
    put(
        root,
        "plan.md",
        sidecar={
            "title": "The plan",
            "owner": "bob@acme.com",
            "author": "Bob",
            "description": "Ours.",
            "permissions": ["group:board@acme.com"],
            "modified_at": "2025-01-01",
            "tags": {"tenant": "sub", "topic": "x"},
        },
    )
    source = files(root, permissions=["public"], owner="ada@acme.com", tags={"topic": "y", "region": "eu"})
    item = listing(source)[0]["plan.md"]
    assert (item.title, item.owner, item.author, item.description) == ("The plan", "bob@acme.com", "Bob", "Ours.")
    assert item.permissions == ("group:board@acme.com",)
    assert item.modified_at == datetime(2025, 1, 1, tzinfo=UTC)
    assert item.tags == {"source": "files", "tenant": "sub", "dataset": "handbook", "topic": "x", "region": "eu"}


@pytest.mark.parametrize(
    ("default", "sidecar", "readers"),
    [
        ([], None, ()),
        (["public"], None, ("public",)),
        (["public"], {"title": "x"}, ("public",)),
        (["public"], {"permissions": []}, ()),
        ([], {"permissions": ["ada@acme.com"]}, ("ada@acme.com",)),
        (["public"], {"lifecycle": "draft"}, ()),
        (["public"], {"lifecycle": "draft", "owner": "ada@acme.com"}, ("ada@acme.com",)),
    ],
)
def test_who_may_read(root: Path, default: list[str], sidecar: Any, readers: tuple[str, ...]) -> None:
    put(root, "plan.md", sidecar=sidecar)
    assert listing(files(root, permissions=default))[0]["plan.md"].permissions == readers


def test_a_broken_sidecar_hides_its_document_alone(root: Path) -> None:
    put(root, "ok.md")
    put(root, "secret.md", sidecar="{not json")
    put(root, "huge.md", sidecar=json.dumps({"title": "x" * 2_000_000}))
    put(root, "folder.md")
    (root / "folder.md.meta.json").mkdir()
    put(root, "linked.md")
    (root / "linked.md.meta.json").symlink_to(root / "ok.md")
    seen, refused, batches = listing(files(root, permissions=["public"]))
    assert list(seen) == ["ok.md"]
    assert set(refused) == {"secret.md", "huge.md", "folder.md", "linked.md"}
    assert all("sidecar" in refusal.reason and "no one may see it" in refusal.reason for refusal in refused.values())
    assert batches[-1].listing == "complete"


def test_a_sidecar_changes_metadata_and_not_the_version(root: Path) -> None:
    put(root, "plan.md")
    before = listing(files(root))[0]["plan.md"]
    (root / "plan.md.meta.json").write_text('{"permissions": ["public"]}')
    after = listing(files(root))[0]["plan.md"]
    assert (before.version, before.permissions, after.permissions) == (after.version, (), ("public",))


def test_the_version_follows_the_bytes_even_when_their_time_is_put_back(root: Path) -> None:
    file = put(root, "plan.md", "one")
    before, stat = listing(files(root))[0]["plan.md"], file.stat()
    file.write_text("two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert listing(files(root))[0]["plan.md"].version != before.version
    assert listing(files(root))[0]["plan.md"] == listing(files(root))[0]["plan.md"]


def test_hidden_files_and_sidecars_are_not_reported(root: Path) -> None:
    put(root, ".env", "SECRET=1")
    put(root, ".git/config.md")
    put(root, "~$plan.docx", b"x")
    put(root, "gone.md.meta.json", '{"title": "its file is gone"}')
    assert listing(files(root))[:2] == ({}, {})


def test_our_own_state_is_not_listed(tmp_path: Path) -> None:
    put(tmp_path, "home/keys.json", "{}")
    put(tmp_path, "docs/a.md")
    spec = {"name": "r", "url": tmp_path.as_uri(), "tenant": "t", "dataset": "d"}
    source = Files(Settings(_env_file=None, home=tmp_path / "home", file_roots=json.dumps([spec])))
    assert list(listing(source)[0]) == ["docs/a.md"]


def test_refusals_have_reasons(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # a socket's path must be short
    put(root, "setup.exe", b"MZ")
    put(root, "empty.md", b"")
    put(root, "long.txt", b"x" * 200)
    os.mkfifo(root / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        _, refused, batches = listing(files(root, more={"max_file_bytes": 100}))
    reasons = {path: refusal.reason for path, refusal in refused.items()}
    assert "not supported. Supported: .md" in reasons["setup.exe"]
    assert reasons["empty.md"] == "It is empty."
    assert "200 bytes, and CONCORDANCE_LIMITS__MAX_FILE_BYTES allows 100" in reasons["long.txt"]
    assert "not a file" in reasons["pipe.md"]
    assert "not a file" in reasons["socket.md"]
    assert batches[-1].listing == "complete"


def test_a_sparse_file_of_2_gb_is_refused_unread(root: Path) -> None:
    with (root / "huge.csv").open("wb") as file:
        file.truncate(2 * 1024**3)
    source = files(root)
    seen, refused, _ = listing(source)
    assert not seen
    assert "too large" in refused["huge.csv"].reason
    with pytest.raises(SkipDocumentError, match="too large"):
        next(source.fetch(item_for("huge.csv")))


def item_for(locator: str) -> Item:
    return Item(
        source_id=f"r/{locator}",
        partition="r",
        title="x",
        path=locator,
        mime_type="text/plain",
        version="v",
        permissions=(),
        locator=locator,
    )


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/hostname",
        "..",
        ".",
        "",
        "a//b.txt",
        "./a.txt",
        "a\0.txt",
        "%2e%2e/x",
    ],
)
def test_no_path_leads_out_of_the_root(root: Path, path: str) -> None:
    put(root.parent, "secret.txt", "secret")
    put(root, "a/b.txt")
    with pytest.raises((SkipDocumentError, FailedDocumentError)):
        list(files(root).fetch(item_for(path)))


def test_links_are_refused_when_listed_and_when_read(root: Path) -> None:
    outside = put(root.parent, "outside/secret.txt", "secret").parent
    put(root, "real/a.txt", "real")
    (root / "out.txt").symlink_to(outside / "secret.txt")
    (root / "out").symlink_to(outside)
    (root / "in.txt").symlink_to("real/a.txt")
    (root / "in").symlink_to("real")
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to("..")
    source = files(root, permissions=["public"])
    seen, refused, batches = listing(source)
    assert list(seen) == ["real/a.txt"]
    assert set(refused) == {"out.txt", "out", "in.txt", "in", "loop", "up"}
    assert all("leads out of the root" in refused[path].reason for path in ("out.txt", "out", "up"))
    assert all("within the root" in refused[path].reason for path in ("in.txt", "in"))
    assert not any("outside" in refusal.reason for refusal in refused.values())
    assert batches[-1].listing == "complete"
    for path in ("out.txt", "out/secret.txt", "in.txt", "in/a.txt", "loop", "up/outside/secret.txt"):
        with pytest.raises(SkipDocumentError, match="link"):
            list(source.fetch(item_for(path)))


def test_a_link_put_in_place_after_the_listing_is_not_followed(root: Path) -> None:
    secret = put(root.parent, "outside/a.txt", "secret").parent
    put(root, "folder/a.txt", "harmless")
    source = files(root)
    item = listing(source)[0]["folder/a.txt"]
    (root / "folder").rename(root / "moved")
    (root / "folder").symlink_to(secret)
    with pytest.raises(SkipDocumentError, match="link"):
        list(source.fetch(item))


def test_a_root_may_itself_be_a_link(root: Path) -> None:
    put(root, "a.txt", "x")
    current = root.parent / "current"
    current.symlink_to(root)
    source = files(current)
    item = listing(source)[0]["a.txt"]
    assert b"".join(source.fetch(item)) == b"x"


def test_reading_a_pipe_does_not_wait(root: Path) -> None:
    os.mkfifo(root / "a.txt")
    with pytest.raises(SkipDocumentError, match="not a file"):
        list(files(root).fetch(item_for("a.txt")))


def test_a_file_that_grows_while_it_is_read_is_tried_again(root: Path) -> None:
    file = put(root, "a.txt", b"x" * 3_000_000)
    source = files(root)
    pieces = source.fetch(listing(source)[0]["a.txt"])
    next(pieces)
    with file.open("ab") as end:
        end.write(b"more")
    with pytest.raises(ChangedDocumentError, match="changed while it was read"):
        list(pieces)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_file_that_is_not_the_one_listed_is_not_read(root: Path, swapped: bool) -> None:
    """Its readers may have become fewer before."""
    file = put(root, "a.txt", "for all")
    source = files(root, permissions=["public"])
    item = listing(source)[0]["a.txt"]
    secret = put(root, "b.txt" if swapped else "a.txt", "a secret", {"permissions": ["ada@acme.com"]})
    if swapped:
        secret.replace(file)
        (root / "b.txt.meta.json").replace(root / "a.txt.meta.json")
    with pytest.raises(ChangedDocumentError):
        list(source.fetch(item))
    now = source.look_again(item)
    assert now is not None
    assert now.permissions == ("ada@acme.com",)
    assert b"".join(source.fetch(now)) == b"a secret"


def test_a_sidecar_that_is_written_during_the_listing_counts_for_the_files_written_after_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "LARGEST", 1)
    for number in range(BATCH + 1):
        put(root, f"{number:04}.txt", "for all")
    batches = files(root, permissions=["public"]).changes("r", None)
    next(batches)
    put(root, f"{BATCH:04}.txt.meta.json", json.dumps({"permissions": ["ada@acme.com"]}))
    put(root, f"{BATCH:04}.txt", "a secret")
    (item,) = next(batches).seen
    assert item.permissions == ("ada@acme.com",)


def test_a_sidecar_that_is_written_before_the_file_is_looked_at_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(entry: os.DirEntry[str]) -> os.stat_result | OSError:
        put(root, "a.txt.meta.json", json.dumps({"permissions": ["ada@acme.com"]}))
        put(root, "a.txt", "a secret")
        return (root / entry.name).stat()

    put(root, "a.txt", "for all")
    monkeypatch.setattr(folders, "_status", status)
    (item,) = listing(files(root, permissions=["public"]))[0].values()
    assert item.permissions == ("ada@acme.com",)


@pytest.mark.parametrize("others", [0, folders.LOOKED_AT], ids=["alone", "among many"])
def test_a_sidecar_that_leads_nowhere_hides_its_document_however_it_is_looked_for(root: Path, others: int) -> None:
    put(root, "plan.md")
    (root / "plan.md.meta.json").symlink_to(root / "gone.json")
    for number in range(others):
        put(root, f"{number}.md")
    source = files(root, permissions=["public"])
    seen, refused, _ = listing(source)
    assert "plan.md" not in seen
    assert "no one may see it: it is a link" in refused["plan.md"].reason
    assert isinstance(source.look("r", "plan.md"), Refusal)


@pytest.mark.parametrize(("name", "sidecar"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_sidecar_is_its_files_in_either_form_of_unicode(root: Path, name: Any, sidecar: Any) -> None:
    put(root, unicodedata.normalize(name, "\u00e9t\u00e9.md"))
    put(root, unicodedata.normalize(sidecar, "\u00e9t\u00e9.md.meta.json"), '{"permissions": ["ada@acme.com"]}')
    source = files(root, permissions=["public"])
    (item,) = listing(source)[0].values()
    assert item.permissions == ("ada@acme.com",)
    assert source.look("r", item.path) == item


def test_the_size_bound_holds_while_reading(root: Path) -> None:
    file = put(root, "a.txt", b"x" * 1_500_000)
    source = files(root, more={"max_file_bytes": 2_000_000})
    pieces = source.fetch(listing(source)[0]["a.txt"])
    next(pieces)
    with file.open("ab") as end:
        end.write(b"x" * 1_500_000)
    with pytest.raises(SkipDocumentError, match="too large"):
        list(pieces)


def test_content_that_is_not_what_the_name_says_yields_nothing(root: Path) -> None:
    put(root, "invoice.pdf", b"MZ\x90\x00" + b"\x00" * 100)
    source = files(root)
    item = listing(source)[0]["invoice.pdf"]
    with pytest.raises(SkipDocumentError, match="a Windows program"):
        next(source.fetch(item))


def test_a_file_that_is_gone_is_tried_again(root: Path) -> None:
    with pytest.raises(FailedDocumentError, match="no longer there"):
        list(files(root).fetch(item_for("gone.txt")))


def test_names_that_are_not_utf8_are_refused(root: Path) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/bad\xff.md"))).write_text("x")
    Path(os.fsdecode(os.fsencode(root) + b"/dir\xfe")).mkdir()
    put(root, "good.md")
    seen, refused, batches = listing(files(root))
    assert list(seen) == ["good.md"]
    assert {path: "not valid UTF-8" in refusal.reason for path, refusal in refused.items()} == {
        "bad\\xff.md": True,
        "dir\\xfe": True,
    }
    json.dumps([refusal.source_id for refusal in refused.values()]).encode()
    assert batches[-1].listing == "complete"


def test_a_path_too_long_for_an_id_is_refused_by_a_shorter_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for depth in range(10):  # step by step: the whole path is longer than a system call may name
        monkeypatch.chdir(root if depth == 0 else "d" * 250)
        Path("d" * 250).mkdir()
    monkeypatch.chdir("d" * 250)
    Path("a.md").write_text("x")
    Path("b.md").write_text("x")
    monkeypatch.undo()
    seen, refused, batches = listing(files(root))
    assert not seen
    assert ["2000 bytes" in refusal.reason for refusal in refused.values()] == [True, True]
    assert all(len(refusal.source_id) < 300 for refusal in refused.values())
    assert batches[-1].listing == "complete"


def test_names_are_composed_and_twins_refused(root: Path) -> None:
    put(root, "u\u0308ber.md", "decomposed")
    source = files(root)
    item = listing(source)[0]["\u00fcber.md"]
    assert item.source_id == "r/\u00fcber.md"
    assert b"".join(source.fetch(item)) == b"decomposed"
    put(root, "\u00fcber.md", "composed")
    batches = list(source.changes("r", None))
    ids = [one.source_id for batch in batches for one in (*batch.seen, *batch.refused)]
    assert len(ids) == len(set(ids)) == 2
    assert sum(len(batch.seen) for batch in batches) == 1


def test_a_root_that_cannot_be_listed_aborts(root: Path) -> None:
    for missing in (root / "missing", put(root, "file.md")):
        with pytest.raises(AbortSyncError, match="cannot be listed"):
            list(files(missing).changes("r", None))
    with pytest.raises(AbortSyncError, match="CONCORDANCE_FILE_ROOTS"):
        list(files(root).changes("unknown", None))


def test_an_empty_root_is_a_complete_listing(root: Path) -> None:
    assert [batch.listing for batch in files(root).changes("r", None)] == ["complete"]


def test_batches_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.sources.files.BATCH", 10)
    monkeypatch.setattr(tree, "LARGEST", 2)
    monkeypatch.setattr(tree, "PAGE", 10**9)
    for number in range(21):
        put(root, f"{number:05}.md")
    batches = list(files(root).changes("r", None))
    assert [len(batch.seen) for batch in batches] == [10, 10, 1, 0]
    assert [batch.listing for batch in batches] == ["page", "page", "page", "complete"]


@pytest.mark.parametrize("most", [0, 1000])
def test_one_file_more_or_less_changes_its_page_alone(root: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(tree, "PAGE", 8)
    monkeypatch.setattr(folders, "LOOKED_AT", most)
    for number in range(600):
        put(root, f"{number:03}.md")
    source = files(root)
    source.known_keys = unchanged({})
    keys = Counter(key for batch in listing(source)[2] for key in batch.keys.values())
    assert keys.total() == 600
    described = []
    for change in (
        lambda: None,
        lambda: put(root, "0000.md"),
        lambda: put(root, "300.md", sidecar={"permissions": ["ada@acme.com"]}),
        lambda: (root / "599.md").unlink(),
    ):
        change()
        source.known_keys = unchanged(keys)
        seen, _, batches = listing(source)
        assert len(seen) + sum(batch.unchanged for batch in batches) == len(list(root.glob("*.md")))
        described.append(set(seen))
    first, added, narrowed, removed = described
    assert first == set()
    assert "0000.md" in added < narrowed
    assert "300.md" in narrowed < removed | {"599.md"}
    assert len(removed) < 100


def test_a_page_with_what_may_pass_is_described_each_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def status(entry: os.DirEntry[str]) -> os.stat_result | OSError:
        return PermissionError(errno.EACCES, "Permission denied") if entry.name == "b.txt" else entry.stat()

    def exists(name: str) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    put(root, "a.txt")
    put(root, "b.txt")
    source = files(root)
    source.known_keys = unchanged({})
    for name, value in (("_status", status), ("_sidecars", lambda _: exists)):
        with monkeypatch.context() as patch:
            patch.setattr(folders, name, value)
            _, refused, batches = listing(source)
        assert "b.txt" in refused
        assert batches[-1].listing == "page"
        assert not any(batch.keys for batch in batches)
    (root / os.fsdecode(b"\xff.txt")).write_text("text")
    _, refused, batches = listing(source)
    assert len(refused) == 1
    assert not any(batch.keys for batch in batches)


@pytest.mark.parametrize("at", [-(2**62), 2**63, 2**64])
def test_a_time_that_no_clock_shows_is_no_fault(root: Path, at: int) -> None:
    os.utime(put(root, "a.txt"), ns=(0, at))
    source = files(root)
    source.known_keys = unchanged({})
    assert list(listing(source)[0]) == ["a.txt"]


def test_a_book(root: Path) -> None:
    put(root, "01-start/README.md")
    put(root, "_parts/note.md")
    put(root, "01-start/_category_.json", "{}")
    seen, refused, _ = listing(files(root, kind="book", base_url="https://book.example/docs", profile="d1000"))
    item = seen["01-start/README.md"]
    assert (item.url, item.tags["kind"], item.profile) == ("https://book.example/docs/start/", "book", "d1000")
    assert set(refused) == {"_parts/note.md", "01-start/_category_.json"}


def test_a_sidecar_does_not_turn_a_file_into_a_book(root: Path) -> None:
    put(root, "a.md", sidecar={"tags": {"tenant": "t"}})
    item = listing(files(root, more={"chunk_profile": "a500"}))[0]["a.md"]
    assert "kind" not in item.tags
    assert item.profile == DEFAULT_PROFILE, "which the setting names"


def test_tenant_and_dataset_from_the_path(root: Path) -> None:
    put(root, "north/sales/2025/a.md")
    put(root, "north/b.md")
    put(root, "north/c.md", sidecar={"tags": {"dataset": "misc"}})
    seen, refused, _ = listing(files(root, tenant="*", dataset="*"))
    tags = {path: (item.tags["tenant"], item.tags["dataset"]) for path, item in seen.items()}
    assert tags == {"north/sales/2025/a.md": ("north", "sales"), "north/c.md": ("north", "misc")}
    assert "no dataset" in refused["north/b.md"].reason


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"permissions": ["everyone"]}, "not a principal"),
        ({"owner": "finance"}, "not an email"),
        ({"url": "file://server/share"}, "absolute path on this machine"),
        ({"url": "file:///srv/../etc"}, "absolute path on this machine"),
        ({"url": "file:///srv/%2e%2e/etc"}, "absolute path on this machine"),
    ],
)
def test_wrong_roots_are_refused_at_start(root: Path, spec: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        files(root, **spec)


def test_a_root_taken_out_of_the_settings_is_retired(root: Path) -> None:
    assert files(root).retired(["r", "old"]) == ["old"]


UNPRIVILEGED = """
import json, os, sys
from pathlib import Path
import msgspec
from resources.settings import Settings
from resources.sources.files import Files
if os.geteuid() == 0:  # only after the imports: an ordinary user may not be let into the project's folder
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
folder = sys.argv[1]
spec = {"name": "r", "url": Path(folder).as_uri(), "tenant": "t", "dataset": "d"}
files = Files(Settings(_env_file=None, home="/nonexistent", file_roots=json.dumps([spec])))
batches = list(files.changes("r", None))
try:
    list(files.fetch(msgspec.structs.replace(batches[0].seen[0], locator="open/locked.md")))
except Exception as error:
    fetched = type(error).__name__
print(json.dumps({
    "seen": [item.path for batch in batches for item in batch.seen],
    "refused": {refusal.path: refusal.reason for batch in batches for refusal in batch.refused},
    "listing": batches[-1].listing,
    "closed": batches[-1].closed,
    "fetched": fetched,
}))
"""


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("sidecar", ["Report.md.meta.json", "report.md.META.json", "REPORT.MD.META.JSON"])
def test_a_file_whose_sidecar_differs_in_case_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, sidecar: str, *, large: bool
) -> None:
    """On a share that does not distinguish case, the sidecar is the file's."""
    monkeypatch.setattr("resources.sources.folders.LOOKED_AT", 0 if large else 1000)
    put(root, "report.md", "for a few")
    put(root, sidecar, '{"permissions": ["ada@acme.com"]}')
    put(root, "gone.md.meta.json", '{"permissions": ["ada@acme.com"]}')
    put(root, "other.md", "for all")
    source = files(root, permissions=["public"])
    seen, refused, _ = listing(source)
    assert list(seen) == ["other.md"]
    assert refused["report.md"].reason == (
        "Its sidecar's name differs in case, so no one may see it: rename it to report.md.meta.json."
    )
    looked = source.look("r", "report.md")
    assert isinstance(looked, Refusal)
    assert looked.reason == refused["report.md"].reason
    assert kind_of(looked.reason) == "permissions"
    (root / sidecar).rename(root / "report.md.meta.json")
    assert listing(source)[0]["report.md"].permissions == ("ada@acme.com",)


@pytest.mark.parametrize("large", [False, True])
def test_files_whose_names_differ_in_case_have_their_own_sidecars(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    monkeypatch.setattr("resources.sources.folders.LOOKED_AT", 0 if large else 1000)
    put(root, "Report.md", "for one")
    put(root, "Report.md.meta.json", '{"permissions": ["ada@acme.com"]}')
    put(root, "report.md", "for all")
    seen, refused, _ = listing(files(root, permissions=["public"]))
    assert not refused
    assert (seen["Report.md"].permissions, seen["report.md"].permissions) == (("ada@acme.com",), ("public",))


def test_what_may_not_be_read_is_refused_and_nothing_is_taken_as_deleted() -> None:
    with tempfile.TemporaryDirectory() as base:  # pytest's own folders are closed to other users
        Path(base).chmod(0o755)
        root = Path(base) / "root"
        put(root, "open/a.md")
        put(root, "closed/b.md")
        put(root, "lost+found/c.md")
        put(root, "open/locked.md").chmod(0)
        (root / "closed").chmod(0)
        (root / "lost+found").chmod(0)
        try:
            run = subprocess.run(
                [sys.executable, "-c", UNPRIVILEGED, str(root)],
                cwd=PROJECT,
                env={**os.environ, "PYTHONPATH": str(PROJECT)},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        finally:
            (root / "closed").chmod(0o755)
            (root / "lost+found").chmod(0o755)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["seen"] == ["open/a.md"]
    assert set(result["refused"]) == {"closed", "open/locked.md"}
    assert all("Permission denied" in reason for reason in result["refused"].values())
    assert (result["listing"], result["closed"]) == ("complete", ["r/closed"])
    assert "Documents in it that are indexed are kept, but held back" in result["refused"]["closed"]
    assert result["fetched"] == "FailedDocumentError", "one that is closed after it was listed is read by a later sync"


def test_the_version_of_listings_is_raised_with_what_they_give(root: Path) -> None:
    """Unchanged files are known by keys: if the items here differ, raise `LISTING_VERSION`, and write the new hash beside it."""
    put(
        root,
        "pond/Ada's notes.md.meta.json",
        '{"permissions": ["ada@acme.com"], "title": "Notes", "tags": {"team": "birds"}}',
    )
    for name in ("a.pdf", "b.docx", "c.csv", "pond/Ada's notes.md", "pond/d.py", "pond/README", "e.xyz", "été.txt"):
        os.utime(put(root, name), ns=(0, 1_700_000_000_000_000_000))
    seen, refused, _ = listing(files(root, permissions=["domain:acme.com"], owner="bob@acme.com"))
    facts = [msgspec.structs.replace(item, version="", created_at=None) for item in seen.values()]
    facts += [msgspec.structs.replace(refusal, version="") for refusal in refused.values()]
    given = hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()[:16]
    assert (LISTING_VERSION, given) == (1, "1e3c2311eaa62ce8")
