"""The Drive connector against a simulated Drive: whatever happens there, what the connector reports matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from assets.stages.parse import parse
from resources.core.domain import Batch
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    ChangedDocumentError,
    ConcordanceError,
    ConfigurationError,
    FailedDocumentError,
    RateLimitedError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.settings import Settings
from resources.sources.drive import feeds
from resources.stores import credentials
from resources.stores.postgres import session
from simulators.drive.exports import MAX_EXPORT_BYTES
from simulators.faults import PASSING, Kind
from tests.fixtures.drive import DriveSite, consent, service_account_file
from tests.fixtures.drive_mirror import Mirror

ME = "sync@larkmoor.example"
ADA, BOB = "ada@larkmoor.example", "bob@larkmoor.example"
STAFF = "group:staff@larkmoor.example"
MEMBERS = {f"user:{ADA}": "writer", STAFF: "reader"}
REFUSALS: tuple[Kind, ...] = ("not_found", "lost_access", "unauthorized", "bad_request")
QUIET = Counter({"drives.list": 1, "changes.list": 2, "permissions.list": 1})


def mirror(site: DriveSite, home: Path, **settings: Any) -> Mirror:
    given = {"drive_token": site.drive.token, "retry_seconds": (0.0, 0.0, 0.0), **settings}
    return Mirror(Settings(_env_file=None, home=home, drive_api_url=site.url, **given))


@pytest.fixture
def kept(drive_site: DriveSite, tmp_path: Path) -> Mirror:
    return mirror(drive_site, tmp_path)


class SampleDrive:
    """A Drive with some content."""

    def __init__(self, site: DriveSite) -> None:
        drive = self.drive = site.drive
        self.plans = drive.folder("Plans", drive.my_drive)
        self.deep = drive.folder("2026", self.plans)
        self.top = drive.file("top.txt", drive.my_drive, "at the top")
        self.note = drive.file("note.md", self.deep, "# Heron", "text/markdown")
        self.sales = drive.shared_drive("Sales", MEMBERS)
        self.offers = drive.folder("Offers", self.sales)
        self.offer = drive.file("offer.txt", self.offers, "An offer")
        self.outside = drive.folder("Hers", None, owner="zoe@other.example")


@pytest.fixture
def sample_drive(drive_site: DriveSite) -> SampleDrive:
    return SampleDrive(drive_site)


def agrees(kept: Mirror, site: DriveSite, *roots: str) -> None:
    """Assert that what can be found is what exists, by its readers, at its location, and nothing else."""
    drive = site.drive
    truth = {
        one: drive.readers(one)
        for root in roots or (drive.my_drive, *(one for one in drive.drives if not drive.items[one].lost))
        for one, file in drive.everything(root).items()
        if not file.mime_type.endswith(".shortcut")
    }
    assert {one: kept.readers(one) for one in kept.items()} == truth
    for one, item in kept.items().items():
        assert item.title == drive.items[one].name
        assert item.collection_ids[0] == drive.items[one].parent


def test_first_listing(kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive) -> None:
    drive = drive_site.drive
    sheet = drive.file("Budget", sample_drive.plans, {"Q1": [["a", 1]], "Q2": [["b", 2]]}, "spreadsheet")
    kept.sync()
    agrees(kept, drive_site)
    assert kept.titles == {"my_drive": "My Drive", sample_drive.sales: "Sales"}
    item = kept.items()[sample_drive.note]
    assert item.path == "My Drive/Plans/2026/note.md"
    assert item.collection_ids == (sample_drive.deep, sample_drive.plans, drive.my_drive)
    assert item.url is not None
    assert item.owner == ME
    assert item.tags == {"sharing": "private"}
    assert kept.items()[sample_drive.offer].path == "Sales/Offers/offer.txt"
    assert kept.items()[sample_drive.offer].tags == {"sharing": "shared"}
    assert kept.fetch(sample_drive.note) == b"# Heron"
    assert kept.fetch(sheet).startswith(b"PK")


def test_slides_are_exported_with_their_notes(kept: Mirror, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    slides = drive.file("Pitch", drive.my_drive, "Heron\nNotes: breathe\n---\nPrices", "presentation")
    kept.sync()
    item = kept.items()[slides]
    parsed = parse(kept.fetch(slides), item.mime_type, title=item.title)
    assert (parsed.page_count, "breathe" in parsed.text) == (2, True)


def test_an_existing_installation_fetches_its_slides_again_and_nothing_else(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    slides = drive_site.drive.file("Pitch", sample_drive.plans, "Heron", "presentation")
    with monkeypatch.context() as before:
        before.setattr("resources.sources.drive.cursor._EXPORTS", "slides as text")
        before.setattr("resources.sources.drive.content.SLIDES", "")
        kept.sync()
    was = {one: item.version for one, item in kept.items().items()}
    kept.sync()
    now = {one: item.version for one, item in kept.items().items()}
    assert {one for one in now if now[one] != was[one]} == {slides}


def test_what_is_too_large_to_export_is_read_by_its_link_or_as_text(kept: Mirror, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    picture = "![](data:image/png;base64," + "A" * MAX_EXPORT_BYTES + ")"
    doc = drive.file("Long", drive.my_drive, f"# Heron\n\n{picture}\n\nwaits", "document")
    sheet = drive.file("Wide", drive.my_drive, {"A": [["heron", 1]]}, "spreadsheet")
    kept.sync()
    for kind in PASSING:
        drive.faults.add(kind, times=1, match="files.exportLinks")
        with pytest.raises(RetryLaterError):
            kept.fetch(doc)
    assert kept.fetch(doc).endswith(b"waits")
    drive.calls.clear()
    assert kept.fetch(sheet).startswith(b"PK")
    assert drive.calls["files.exportLinks"] == 0
    for kind in REFUSALS:
        drive.faults.add(kind, times=0, match="files.exportLinks")
        assert kept.fetch(doc) == b"# Heron\n\n\n\nwaits"
        drive.faults.clear()


def test_what_is_read_by_its_link_comes_in_pieces_up_to_the_limit(
    drive_site: DriveSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.sources.drive.client.PIECE", 100_000)
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, max_file_bytes=1_000_000)
    doc = drive.file("Long", drive.my_drive, "heron " * (MAX_EXPORT_BYTES // 5), "document")
    kept.sync()
    pieces: list[bytes] = []
    with pytest.raises(SkipDocumentError, match="larger than"):
        pieces.extend(kept.source.fetch(kept.items()[doc]))
    assert [len(piece) for piece in pieces] == [100_000] * 10


def test_nothing_changed_costs_two_calls_a_feed(kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive) -> None:
    for number in range(30):
        drive_site.drive.file(
            f"{number}.txt", drive_site.drive.folder(f"f{number}", sample_drive.sales), f"text {number}"
        )
    kept.sync()
    assert kept.sync() == QUIET


Change = Callable[[SampleDrive], Any]
CHANGES: dict[str, Change] = {
    "new file": lambda s: s.drive.file("new.txt", s.deep, "new"),
    "edit": lambda s: s.drive.edit(s.note, "# Egret"),
    "rename": lambda s: s.drive.rename(s.note, "other.md"),
    "move": lambda s: s.drive.move(s.note, s.drive.my_drive),
    "move to another root": lambda s: s.drive.move(s.note, s.offers),
    "move from a shared drive": lambda s: s.drive.move(s.offer, s.plans),
    "move out of every root": lambda s: s.drive.move(s.note, s.outside),
    "trash": lambda s: s.drive.trash(s.note),
    "delete": lambda s: s.drive.delete(s.offer),
    "share with a user": lambda s: s.drive.share(s.note, f"user:{BOB}"),
    "share with a group": lambda s: s.drive.share(s.note, STAFF),
    "share with a domain": lambda s: s.drive.share(s.offer, "domain:larkmoor.example", discoverable=True),
    "share with a domain by link": lambda s: s.drive.share(s.offer, "domain:larkmoor.example"),
    "publish": lambda s: s.drive.share(s.note, "anyone", discoverable=True),
    "share by link": lambda s: s.drive.share(s.note, "anyone"),
    "rename a folder": lambda s: s.drive.rename(s.plans, "Schemes"),
    "move a folder": lambda s: s.drive.move(s.deep, s.drive.my_drive),
    "move a folder to another root": lambda s: s.drive.move(s.plans, s.sales),
    "move a folder out of a shared drive": lambda s: s.drive.move(s.offers, s.drive.my_drive),
    "trash a folder": lambda s: s.drive.trash(s.plans),
    "delete a folder": lambda s: s.drive.delete(s.offers),
    "share a folder": lambda s: s.drive.share(s.plans, f"user:{BOB}"),
    "share a folder with a domain": lambda s: s.drive.share(s.offers, "domain:larkmoor.example", discoverable=True),
    "limit a folder": lambda s: s.drive.limit(s.offers),
    "new member": lambda s: s.drive.add_member(s.sales, f"user:{BOB}"),
    "member leaves": lambda s: s.drive.remove_member(s.sales, STAFF),
    "rename the drive": lambda s: s.drive.rename_drive(s.sales, "Vending"),
    "lose the drive": lambda s: s.drive.lose_drive(s.sales),
    "a folder of folders": lambda s: s.drive.file("x.txt", s.drive.folder("b", s.drive.folder("a", s.plans)), "x"),
    "a shortcut inside": lambda s: s.drive.shortcut(s.note, s.drive.my_drive, "to the note"),
    "tokens expire": lambda s: (s.drive.expire_tokens(), s.drive.trash(s.note)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_a_change(kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive, change: Change) -> None:
    kept.sync()
    before = +kept.versions
    change(sample_drive)
    kept.sync()
    agrees(kept, drive_site)
    again = kept.versions - before
    assert set(again) <= {one for one in kept.items() if drive_site.drive.items[one].revision > 1 or one not in before}


BACK: dict[str, tuple[Change, Change]] = {
    "trash a file": (lambda s: s.drive.trash(s.note), lambda s: s.drive.restore(s.note)),
    "trash a folder": (lambda s: s.drive.trash(s.plans), lambda s: s.drive.restore(s.plans)),
    "move a file": (lambda s: s.drive.move(s.note, s.offers), lambda s: s.drive.move(s.note, s.deep)),
    "move a folder out": (lambda s: s.drive.move(s.deep, s.outside), lambda s: s.drive.move(s.deep, s.plans)),
    "share": (lambda s: s.drive.share(s.plans, STAFF), lambda s: s.drive.unshare(s.plans, STAFF)),
    "limit": (lambda s: s.drive.limit(s.offers), lambda s: s.drive.inherit(s.offers)),
    "lose a drive": (lambda s: s.drive.lose_drive(s.sales), lambda s: s.drive.regain_drive(s.sales)),
}


@pytest.mark.parametrize(("there", "back"), BACK.values(), ids=BACK)
def test_there_and_back(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive, there: Change, back: Change
) -> None:
    kept.sync()
    there(sample_drive)
    kept.sync()
    agrees(kept, drive_site)
    back(sample_drive)
    kept.sync()
    agrees(kept, drive_site)
    assert kept.sync() == QUIET


def test_what_drive_says_of_the_time_of_a_deletion(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    kept.sync()
    drive_site.drive.trash(sample_drive.offer)
    kept.sync()
    assert kept.times[sample_drive.offer] == drive_site.drive.items[sample_drive.offer].trashed_at


def test_a_right_that_ends_is_noticed_without_a_change(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive, kept = drive_site.drive, mirror(drive_site, tmp_path)
    soon = datetime.now(UTC) + timedelta(days=1)
    drive.share(sample_drive.note, f"user:{BOB}", expires=soon)
    kept.sync()
    assert kept.readers(sample_drive.note) == {ME, BOB}
    kept.sync(now=lambda: soon + timedelta(minutes=1))
    assert kept.readers(sample_drive.note) == {ME}


LAGGING: dict[str, tuple[Change, Change]] = {
    "share of a folder": (lambda s: s.drive.share(s.plans, STAFF), lambda s: s.drive.unshare(s.plans, STAFF)),
    "limited folder": (lambda s: s.drive.inherit(s.offers), lambda s: s.drive.limit(s.offers)),
    "member who keeps a file": (
        lambda s: (
            s.drive.share(s.drive.file("own.txt", s.sales, "own"), STAFF),
            s.drive.file("later.txt", s.offers, "later"),
        ),
        lambda s: s.drive.remove_member(s.sales, STAFF),
    ),
    "folder that moves": (
        lambda s: s.drive.share(s.plans, STAFF),
        lambda s: s.drive.move(s.deep, s.drive.my_drive),
    ),
}


@pytest.mark.parametrize(("before", "change"), LAGGING.values(), ids=LAGGING)
def test_readers_in_a_listing_that_lags_are_read_once_more(
    clock_site: tuple[DriveSite, Any], tmp_path: Path, before: Change, change: Change
) -> None:
    site, advance = clock_site
    sample, kept = SampleDrive(site), mirror(site, tmp_path)
    begun = datetime.now(UTC)
    before(sample)
    kept.sync(now=lambda: begun)
    site.drive.lag(300)
    change(sample)
    kept.sync(now=lambda: begun)
    advance(timedelta(minutes=10))
    kept.sync(now=lambda: begun + timedelta(minutes=10))
    agrees(kept, site)
    assert kept.sync(now=lambda: begun + timedelta(minutes=20)) == QUIET


@pytest.mark.parametrize("on", ["offer", "offers"])
def test_a_right_in_a_shared_drive_ends_for_somebody_known_from_another_file(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path, on: str
) -> None:
    drive, kept = drive_site.drive, mirror(drive_site, tmp_path)
    lasting = drive.file("lasting.txt", sample_drive.sales, "Prices")
    drive.share(lasting, f"user:{BOB}")
    kept.sync()
    soon = datetime.now(UTC) + timedelta(days=1)
    drive.share(getattr(sample_drive, on), f"user:{BOB}", expires=soon)
    kept.sync()
    added = drive.file("added.txt", sample_drive.offers, "Another offer")
    kept.sync()
    agrees(kept, drive_site)
    assert (BOB in kept.readers(added)) is (on == "offers")
    kept.sync(now=lambda: soon + timedelta(minutes=1))
    for file in (sample_drive.offer, added):
        assert kept.readers(file) == drive.readers(file) - {BOB}
    assert BOB in kept.readers(lasting)
    assert kept.sync() == QUIET


def test_a_right_on_a_folder_above_a_root_ends(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    heron = drive.folder("Heron", sample_drive.offers)
    file, lasting = (drive.file(name, heron, name) for name in ("heron.txt", "lasting.txt"))
    drive.share(lasting, f"user:{BOB}")
    kept = mirror(drive_site, tmp_path, drive_roots=(heron,))
    kept.sync()
    soon = datetime.now(UTC) + timedelta(days=1)
    drive.share(sample_drive.offers, f"user:{BOB}", expires=soon)
    kept.sync()
    assert BOB in kept.readers(file)
    kept.sync(now=lambda: soon + timedelta(minutes=1))
    assert kept.readers(file) == drive.readers(file) - {BOB}


def test_an_address_that_is_seen_to_have_changed_is_followed_in_the_whole_root(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    drive = drive_site.drive
    drive.user(BOB)
    drive.share(sample_drive.note, f"user:{BOB}")
    drive.share(sample_drive.top, f"user:{BOB}")
    kept.sync()
    drive.rename_user(BOB, "robert@larkmoor.example")
    drive.user(BOB)
    drive.edit(sample_drive.top, "at the very top")
    kept.sync(stop=lambda _, batch: batch.begins)
    kept.sync()
    agrees(kept, drive_site)
    assert kept.sync() == QUIET


def test_an_address_that_changes_while_a_root_is_listed(kept: Mirror, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    drive.user(BOB)
    for number in range(250):
        drive.share(drive.file(f"{number}.txt", drive.my_drive, f"text {number}"), f"user:{BOB}")

    def rename(_: str, batch: Batch) -> bool:
        if batch.seen and BOB in drive.tops:
            drive.rename_user(BOB, "robert@larkmoor.example")
        return False

    kept.sync(stop=rename)
    agrees(kept, drive_site)
    assert set(kept.versions.values()) == {1}


def test_a_limited_folder_that_the_account_cannot_open(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    drive = drive_site.drive
    drive.add_member(sample_drive.sales, f"user:{ME}", "reader")
    direct = drive.file("direct.txt", sample_drive.offers, "shared directly")
    drive.share(direct, f"user:{ME}")
    kept.sync()
    drive.limit(sample_drive.offers)
    kept.sync()
    agrees(kept, drive_site)
    assert sample_drive.offer not in kept.items()
    drive.inherit(sample_drive.offers)
    kept.sync()
    agrees(kept, drive_site)


def test_permissions_that_cannot_be_read_leave_the_owner_alone(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    hers = drive.file("hers.txt", sample_drive.outside, "hers", owner="zoe@other.example")
    drive.share(hers, f"user:{BOB}")
    drive.faults.add("lost_access", times=0, match="permissions.list")
    kept = mirror(drive_site, tmp_path, drive_roots=(sample_drive.outside,))
    kept.sync()
    assert kept.readers(hers) == {"zoe@other.example"}


def test_unknown_ids_are_asked_once(kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive) -> None:
    drive = drive_site.drive
    drive.share(sample_drive.offers, "user:guest@other.example")
    files = [drive.file(f"{number}.txt", sample_drive.offers, f"text {number}") for number in range(50)]
    calls = kept.sync()
    agrees(kept, drive_site)
    assert calls["permissions.list"] == 2  # the drive itself, and the folder
    for file in files[:3]:
        drive.share(file, "user:another@other.example")
    assert kept.sync()["permissions.list"] == 1 + 3  # permissions of its own: only while it is new or changed
    agrees(kept, drive_site)
    assert kept.sync() == QUIET


# Roots


def test_chosen_folders(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    drive = drive_site.drive
    for number in range(90):
        folder = drive.folder(f"f{number}", sample_drive.plans)
        drive.file("a.txt", folder, f"text {number}")
    kept = mirror(drive_site, tmp_path, drive_roots=(sample_drive.plans, sample_drive.offers))
    kept.sync()
    agrees(kept, drive_site, sample_drive.plans, sample_drive.offers)
    assert kept.items()[sample_drive.note].path == "Plans/2026/note.md"
    assert kept.items()[sample_drive.note].partition == sample_drive.plans
    drive.move(sample_drive.top, sample_drive.deep)
    drive.move(sample_drive.note, drive.my_drive)
    drive.rename(sample_drive.plans, "Schemes")
    kept.sync()
    agrees(kept, drive_site, sample_drive.plans, sample_drive.offers)
    assert kept.items()[sample_drive.top].path == "Schemes/2026/top.txt"
    kept.sync()
    assert kept.sync() == QUIET


@pytest.mark.parametrize("change", ["unshared", "trashed"])
def test_a_page_that_another_root_reads_again_brings_no_reader_back(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    drive = drive_site.drive
    monkeypatch.setattr(feeds, "_PAGE", 1)
    other = drive.folder("Other", drive.my_drive)
    first, second = sorted((sample_drive.plans, other))  # roots are read in this order
    drive.share(second, f"user:{ADA}")
    secret = drive.file("secret.txt", second, "a secret")
    drive.share(secret, f"user:{BOB}")
    kept = mirror(drive_site, tmp_path, drive_roots=(first, second))
    kept.sync()
    drive.edit(secret, "a greater secret")
    between = drive.file("between.txt", first, "between")
    read_page = feeds.Feeds.page
    read: list[int] = []

    def page(self: feeds.Feeds, drive_id: str | None, token: str) -> feeds.FeedPage:
        found = read_page(self, drive_id, token)
        if not read:
            if change == "unshared":
                drive.unshare(secret, f"user:{BOB}")
            else:
                drive.trash(secret)
        read.append(found.number)
        return found

    monkeypatch.setattr(feeds.Feeds, "page", page)
    found: list[set[str]] = []

    def look(_partition: str, batch: Batch) -> bool:
        found.extend(set(one.permissions) for one in batch.seen if one.source_id == secret)
        return False

    kept.sync(stop=look)
    assert between in kept.items()
    assert read == [0, 1, 2, 0, 1, 2]
    ended = [BOB in readers for readers in found]
    assert ended == sorted(ended, reverse=True)
    assert len(found) == (3 if change == "unshared" else 1)
    assert BOB not in kept.readers(secret)


def test_a_file_that_is_gone_when_asked_for_is_deleted_though_another_root_has_read_on(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = drive_site.drive
    monkeypatch.setattr(feeds, "_PAGE", 1)
    first, second = sorted((sample_drive.plans, drive.folder("Other", drive.my_drive)))  # roots are read in this order
    secret = drive.file("secret.txt", second, "a secret")
    soon = datetime.now(UTC) + timedelta(days=1)
    drive.share(secret, f"user:{BOB}", expires=soon)
    kept = mirror(drive_site, tmp_path, drive_roots=(first, second))
    kept.sync()
    drive.file("before.txt", first, "before")
    drive.edit(secret, "a greater secret")

    def trash(_partition: str, batch: Batch) -> bool:
        if secret in {one.source_id for one in batch.seen}:
            drive.trash(secret)
        return False

    kept.sync(stop=trash, now=lambda: soon + timedelta(minutes=1))
    assert secret not in kept.items()


def test_a_chosen_folder_is_trashed_restored_and_deleted(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, drive_roots=(sample_drive.plans,))
    kept.sync()
    drive.trash(sample_drive.plans)
    kept.sync()
    assert kept.items() == {}
    drive.restore(sample_drive.plans)
    kept.sync()
    agrees(kept, drive_site, sample_drive.plans)
    drive.delete(sample_drive.plans)
    kept.sync()
    assert kept.items() == {}


def test_a_chosen_folder_goes_with_one_above_it_into_a_shared_drive(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, drive_roots=(sample_drive.deep,))
    kept.sync()
    drive.move(sample_drive.plans, sample_drive.sales)
    kept.sync()
    agrees(kept, drive_site, sample_drive.deep)
    drive.add_member(sample_drive.sales, f"user:{BOB}")
    kept.sync()
    agrees(kept, drive_site, sample_drive.deep)
    drive.lose_drive(sample_drive.sales)
    kept.sync()
    assert kept.items() == {}


@pytest.mark.parametrize("who", [f"user:{BOB}", "anyone"])
def test_shares_of_a_folder_above_a_chosen_one_begin_and_end(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path, who: str
) -> None:
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, drive_roots=(sample_drive.deep,))
    kept.sync()
    alone = kept.readers(sample_drive.note)
    drive.share(sample_drive.plans, who, discoverable=True)
    kept.sync()
    assert kept.readers(sample_drive.note) > alone
    agrees(kept, drive_site, sample_drive.deep)
    drive.unshare(sample_drive.plans, who)
    kept.sync()
    assert kept.readers(sample_drive.note) == alone


def test_a_folder_above_a_chosen_one_is_trashed_restored_and_limited(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, drive_roots=(sample_drive.deep,))
    drive.share(sample_drive.plans, f"user:{BOB}")
    above = drive.folder("Above", drive.my_drive)
    drive.share(above, f"user:{ADA}")
    drive.move(sample_drive.plans, above)
    kept.sync()
    agrees(kept, drive_site, sample_drive.deep)
    drive.trash(above)
    kept.sync()
    assert kept.items() == {}
    drive.restore(above)
    kept.sync()
    agrees(kept, drive_site, sample_drive.deep)
    assert ADA in kept.readers(sample_drive.note)
    drive.limit(sample_drive.plans)
    kept.sync()
    assert ADA not in kept.readers(sample_drive.note)
    agrees(kept, drive_site, sample_drive.deep)


def test_roots_that_overlap_make_one_record(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive", sample_drive.deep))
    kept.sync()
    agrees(kept, drive_site, drive_site.drive.my_drive)
    assert kept.items()[sample_drive.note].partition == sample_drive.deep
    assert kept.items()[sample_drive.note].path == "My Drive/Plans/2026/note.md"
    drive_site.drive.move(sample_drive.deep, drive_site.drive.my_drive)
    kept.sync()
    assert kept.items()[sample_drive.note].path == "My Drive/2026/note.md"


def test_roots_that_are_no_longer_configured(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    kept = mirror(drive_site, tmp_path)
    kept.sync()
    kept.settings = mirror(drive_site, tmp_path, drive_roots=("my_drive",)).settings
    kept.sync()
    agrees(kept, drive_site, drive_site.drive.my_drive)
    assert kept.source.retired(["my_drive", sample_drive.sales]) == [sample_drive.sales]


def test_a_root_that_does_not_exist_is_lost(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive", "1nonsense", sample_drive.top))
    kept.sync()
    agrees(kept, drive_site, drive_site.drive.my_drive)


# Shortcuts


def test_a_shortcut_to_a_file_outside(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, drive_follow_shortcuts=True)
    hers = drive.file("hers.txt", sample_drive.outside, "hers", owner="zoe@other.example")
    one = drive.shortcut(hers, sample_drive.plans, "hers")
    two = drive.shortcut(hers, sample_drive.offers, "hers too")
    kept.sync()
    assert kept.items()[hers].title == "hers.txt"
    assert kept.items()[hers].path in {"My Drive/Plans/hers.txt", "Sales/Offers/hers.txt"}
    drive.edit(hers, "still hers")
    kept.sync()
    assert kept.fetch(hers) == b"still hers"
    drive.trash(one)
    kept.sync()
    assert kept.items()[hers].path == "Sales/Offers/hers.txt"
    drive.trash(sample_drive.outside)
    kept.sync()
    assert hers not in kept.items()
    drive.restore(sample_drive.outside)
    kept.sync()
    assert hers in kept.items()
    drive.delete(two)
    kept.sync()
    assert hers not in kept.items()
    assert kept.sync() == QUIET


def test_a_reader_whom_a_folder_above_101_targets_loses_is_gone_after_one_sync(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    drive.share(sample_drive.offers, f"user:{BOB}")
    targets = [drive.file(f"{one}.txt", sample_drive.offers, "an offer") for one in range(101)]
    for one in targets:
        drive.shortcut(one, sample_drive.plans, "an offer")
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive",), drive_follow_shortcuts=True)
    kept.sync()
    assert [one for one in targets if BOB not in kept.readers(one)] == []
    drive.unshare(sample_drive.offers, f"user:{BOB}")
    kept.sync()
    assert [one for one in targets if BOB in kept.readers(one)] == []


def test_a_shortcut_does_not_lead_out_of_the_roots(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    drive = drive_site.drive
    hers = drive.file("hers.txt", sample_drive.outside, "hers", owner="zoe@other.example")
    shortcut = drive.shortcut(hers, sample_drive.plans, "hers")
    inside = drive.shortcut(sample_drive.offer, sample_drive.plans, "the offer")
    kept.sync()
    agrees(kept, drive_site)
    assert hers not in kept.documents
    assert inside not in kept.documents
    assert "CONCORDANCE_DRIVE__FOLLOW_SHORTCUTS=true" in kept.reasons()[shortcut]
    drive.edit(hers, "still hers")
    drive.rename(shortcut, "still hers")
    calls = kept.sync()
    assert hers not in kept.documents
    assert calls["files.export"] + calls["files.get_media"] == 0
    drive.trash(shortcut)
    kept.sync()
    assert shortcut not in kept.documents
    assert kept.sync() == QUIET


def test_a_target_that_changes_while_its_shortcut_ends_is_gone(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    hers = drive.file("hers.txt", None, "hers", owner="zoe@other.example")
    shortcut = drive.shortcut(hers, sample_drive.plans, "to hers")
    kept = mirror(drive_site, tmp_path, drive_follow_shortcuts=True)
    kept.sync()
    assert hers in kept.items()
    drive.rename(hers, "still hers.txt")
    drive.trash(shortcut)
    kept.sync()
    assert hers not in kept.items()


def test_a_shortcut_that_moved_to_another_feed_has_left_every_root_of_its_former_one(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    folders = sorted(drive.folder(f"F{number}", drive.my_drive) for number in range(20))
    between = next(one for _ in range(50) if folders[0] < (one := drive.folder("G", sample_drive.sales)) < folders[-1])
    hers = drive.file("hers.txt", None, "hers", owner="zoe@other.example")
    shortcut = drive.shortcut(hers, folders[-1], "to hers")
    roots = (folders[0], between, folders[-1])  # they are read in this order
    kept = mirror(drive_site, tmp_path, drive_roots=roots, drive_follow_shortcuts=True)
    kept.sync()
    assert kept.items()[hers].partition == folders[-1]
    drive.move(shortcut, between)
    kept.sync()
    assert kept.items()[hers].partition == between
    drive.trash(shortcut)
    kept.sync()
    assert hers not in kept.items()


@pytest.mark.parametrize("follows", [False, True])
def test_a_file_leaves_the_roots_while_a_shortcut_in_another_root_points_to_it(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path, *, follows: bool
) -> None:
    drive = drive_site.drive
    far = drive.shared_drive("Far", {})
    before, home = sorted((sample_drive.sales, drive.shared_drive("Other", MEMBERS)))
    file = drive.file("moves.txt", home, "moves on")
    drive.shortcut(file, before, "to the file")
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive", before, home), drive_follow_shortcuts=follows)
    kept.sync()
    assert kept.readers(file) == drive.readers(file) > {ME}
    drive.move(file, far)
    drive.remove_member(before, f"user:{ADA}")  # so that it is listed again, with the shortcut
    kept.sync()
    assert kept.readers(file) == (drive.readers(file) if follows else set())


def test_the_setting_for_shortcuts_takes_effect_at_the_next_sync(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    hers = drive.file("hers.txt", sample_drive.outside, "hers", owner="zoe@other.example")
    shortcut = drive.shortcut(hers, sample_drive.plans, "hers")
    kept = mirror(drive_site, tmp_path, drive_follow_shortcuts=True)
    kept.sync()
    assert hers in kept.items()
    kept.settings = mirror(drive_site, tmp_path).settings
    kept.sync()
    assert hers not in kept.documents
    assert shortcut in kept.reasons()
    kept.settings = mirror(drive_site, tmp_path, drive_follow_shortcuts=True).settings
    kept.sync()
    assert hers in kept.items()
    assert shortcut not in kept.documents


def test_shortcuts_that_lead_nowhere_say_so(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, drive_follow_shortcuts=True)
    hers = drive.file("hers.txt", sample_drive.outside, "hers", owner="zoe@other.example")
    lost = drive.folder("Lost", None, owner="zoe@other.example")
    to_folder = drive.shortcut(lost, sample_drive.plans, "her folder")
    drive.lose_file(lost)
    to_ours = drive.shortcut(sample_drive.offers, sample_drive.plans, "our folder")
    to_file = drive.shortcut(hers, sample_drive.plans, "hers")
    drive.lose_file(hers)
    kept.sync()
    assert "not shared" in kept.reasons()[to_folder]
    assert "not shared" in kept.reasons()[to_file]
    assert to_ours not in kept.documents
    drive.regain_file(hers)
    kept.sync()
    assert hers in kept.items()
    assert to_file not in kept.documents


# Crashes and faults


def test_a_listing_goes_on_where_it_was_killed(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    for number in range(700):
        drive.file(f"{number}.txt", sample_drive.deep, f"text {number}")
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive",))
    kept.sync(stop=lambda *_: len(kept.items()) >= 400)
    assert 400 <= len(kept.items()) < 700
    drive.trash(next(iter(kept.items())))
    calls = kept.sync()
    agrees(kept, drive_site, drive.my_drive)
    assert calls["files.list"] <= 2
    assert max(kept.versions.values()) == 1


def test_a_refused_page_token_lists_again(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    drive = drive_site.drive
    for number in range(300):
        drive.file(f"{number}.txt", sample_drive.deep, f"text {number}")
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive",))
    kept.sync(stop=lambda *_: len(kept.items()) >= 200)
    drive.delete(sample_drive.note)
    drive.listings.forget()
    kept.sync()
    agrees(kept, drive_site, drive.my_drive)


@pytest.mark.parametrize("kind", ["bad_page_token", "unnamed_page_token"])
def test_a_saved_token_that_drive_refuses_lists_the_root_again_and_says_so(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path, kind: Any
) -> None:
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive",))
    kept.sync()
    drive_site.drive.delete(sample_drive.note)
    drive_site.faults.add(kind, match="changes.list")
    kept.sync()
    agrees(kept, drive_site, drive_site.drive.my_drive)
    assert len(kept.notices) == 1
    assert "page token" in kept.notices[0]
    assert "listed from the beginning" in kept.notices[0]
    assert max(kept.versions.values()) == 1
    calls = kept.sync()
    assert calls["files.list"] == 0
    assert len(kept.notices) == 1


def test_a_feed_that_refuses_every_token_is_listed_once_a_sync(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive",))
    listing = kept.sync()["files.list"]
    drive_site.faults.add("unnamed_page_token", times=0, match="changes.list")
    for _ in range(2):
        with pytest.raises(AbortSyncError, match="next sync"):
            kept.sync()
        assert kept.source.tally.calls["files.list"] == listing
    agrees(kept, drive_site, drive_site.drive.my_drive)
    drive_site.faults.clear()
    drive_site.drive.trash(sample_drive.note)
    kept.sync()
    agrees(kept, drive_site, drive_site.drive.my_drive)


def test_a_search_that_is_incomplete_is_no_listing(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    kept.sync()
    drive_site.drive.expire_tokens()
    drive_site.drive.incomplete.add("user")
    with pytest.raises(AbortSyncError, match="incomplete search"):
        kept.sync()
    agrees(kept, drive_site)


def test_a_folder_that_goes_while_it_is_listed(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive = drive_site.drive
    kept = mirror(drive_site, tmp_path, drive_roots=(sample_drive.plans,))
    kept.sync(stop=lambda _, batch: batch.listing == "complete")
    drive.delete(sample_drive.deep)
    kept.sync()
    agrees(kept, drive_site, sample_drive.plans)


@pytest.mark.parametrize("kind", ["rate_limit", "server_error", "drop"])
def test_passing_faults_are_waited_out(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive, kind: Any
) -> None:
    drive_site.faults.add(kind, times=3, match="files.list", seconds=2)
    drive_site.faults.add(kind, times=1, match="changes.", seconds=2)
    kept.sync()
    agrees(kept, drive_site)
    assert (2.0 in kept.slept) == (kind == "rate_limit")
    assert (kept.source.tally.retries > 0) == (kind != "rate_limit")


def test_limits_without_a_time_are_waited_out_for_longer_each_time(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    drive_site.faults.add("bare_rate_limit", times=4, match="files.list")
    kept.sync()
    agrees(kept, drive_site)
    assert [seconds for seconds in kept.slept if seconds in {1.0, 2.0, 4.0, 8.0}] == [1.0, 2.0, 4.0, 8.0]
    assert kept.source.tally.retries == 0


def test_changes_without_their_files_are_no_deletions(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    drive, kept = drive_site.drive, mirror(drive_site, tmp_path, drive_roots=("my_drive",))
    kept.sync()
    drive.bare_changes = True
    drive.edit(sample_drive.note, "# Egret")
    drive.rename(sample_drive.plans, "Schemes")
    drive.trash(sample_drive.top)
    kept.sync()
    agrees(kept, drive_site, drive.my_drive)
    assert kept.items().keys() == {sample_drive.note}


def test_faults_that_last_end_the_sync_and_keep_the_cursor(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    kept.sync()
    before = dict(kept.cursors)
    drive_site.drive.trash(sample_drive.note)
    drive_site.faults.add("server_error", times=0, match="changes.list")
    with pytest.raises(RetryLaterError):
        kept.sync()
    assert kept.cursors == before
    assert kept.source.tally.gave_up == 1
    drive_site.faults.clear()
    kept.sync()
    agrees(kept, drive_site)


def test_the_list_of_drives_that_fails_is_not_an_empty_one(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    kept.sync()
    drive_site.faults.add("server_error", times=0, match="drives.list")
    with pytest.raises(RetryLaterError):
        kept.sync()
    assert sample_drive.offer in kept.items()


@pytest.mark.parametrize(
    ("kind", "error"),
    [("rate_limit", RateLimitedError), ("server_error", RetryLaterError), ("drop", RetryLaterError)],
)
def test_what_fetching_raises(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive, kind: Any, error: type[ConcordanceError]
) -> None:
    kept.sync()
    drive_site.faults.add(kind, times=1, match="files.get", seconds=3)
    with pytest.raises(error):
        kept.fetch(sample_drive.note)
    assert kept.fetch(sample_drive.note) == b"# Heron"


def test_what_cannot_be_fetched_has_its_reason(kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive) -> None:
    drive = drive_site.drive
    empty = drive.file("Empty", sample_drive.plans, "", "document")
    false = drive.file("false.pdf", sample_drive.plans, "not a pdf", "application/pdf")
    kept.sync()
    for one, reason in ((empty, "empty"), (false, "not match its extension")):
        with pytest.raises(SkipDocumentError, match=reason):
            kept.fetch(one)
    drive.faults.add("bad_request", match="files.get_media")
    with pytest.raises(FailedDocumentError, match="HTTP 400"):
        kept.fetch(sample_drive.note)
    drive.delete(sample_drive.note)
    with pytest.raises(FailedDocumentError, match="deleted"):
        kept.fetch(sample_drive.note)


def test_a_file_that_cannot_be_looked_at_again_says_nothing_of_the_others(
    kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive
) -> None:
    kept.sync()
    item = kept.documents[sample_drive.note]
    drive_site.faults.add("bad_request", times=0, match="files.get")
    with pytest.raises(FailedDocumentError, match="HTTP 400"):
        kept.source.look_again(item)


def test_a_large_file_comes_in_pieces(kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive) -> None:
    text = ("The heron waits. " * 1_100_000).encode()
    large = drive_site.drive.file("large.txt", sample_drive.plans, text)
    kept.sync()
    before = kept.source.tally.calls["files.get"]
    pieces = list(kept.source.fetch(kept.items()[large]))
    assert b"".join(pieces) == text
    assert len(pieces) == kept.source.tally.calls["files.get"] - before == 3
    content = kept.source.fetch(kept.items()[large])
    next(content)
    drive_site.drive.edit(large, text.swapcase())
    with pytest.raises(ChangedDocumentError):
        list(content)


def test_a_large_file_that_shrinks_before_it_is_read_has_changed(
    kept: Mirror, drive_site: DriveSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.sources.drive.client.PIECE", 10)
    drive = drive_site.drive
    file = drive.file("large.txt", drive.my_drive, "The heron waits. " * 3)
    kept.sync()
    for shorter in ("The heron waits.", "The heron."):
        drive.edit(file, shorter)
        with pytest.raises(ChangedDocumentError):
            kept.fetch(file)


# Credentials


def test_a_token_that_is_refused_pauses(kept: Mirror, drive_site: DriveSite, sample_drive: SampleDrive) -> None:
    kept.sync()
    before = dict(kept.cursors)
    drive_site.faults.add("unauthorized", times=0)
    with pytest.raises(AuthorizationError, match="CONCORDANCE_DRIVE_TOKEN") as raised:
        kept.sync()
    assert drive_site.drive.token not in str(raised.value)
    assert kept.cursors == before


def test_a_service_account(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    key = service_account_file(tmp_path, drive_site.url)
    kept = mirror(drive_site, tmp_path, drive_token=None, google_service_account_file=key, google_subject=ME)
    kept.sync()
    agrees(kept, drive_site)
    drive_site.drive.sessions.expire()
    calls = kept.sync()
    agrees(kept, drive_site)
    assert calls["oauth2.token"] == 1
    drive_site.drive.revoke()
    with pytest.raises(AuthorizationError, match="SERVICE_ACCOUNT"):
        kept.sync()


def test_a_token_that_ends_within_a_batch_is_renewed(
    drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path
) -> None:
    key = service_account_file(tmp_path, drive_site.url)
    given = {"google_service_account_file": key, "google_subject": ME, "drive_follow_shortcuts": True}
    kept = mirror(drive_site, tmp_path, drive_token=None, **given)
    drive = drive_site.drive
    for number in range(2):
        file = drive.file(f"{number}.txt", sample_drive.outside, f"text {number}", owner="zoe@other.example")
        drive.shortcut(file, drive.my_drive, f"to {number}")
    kept.sync()
    # Google's library repeats the two calls at once, with the same token
    drive.faults.add("unauthorized", times=4, match="files.get")
    assert kept.sync()["oauth2.token"] == 2
    assert drive.faults.committed["unauthorized"] == 4
    drive.faults.add("unauthorized", times=0, match="files.get")
    with pytest.raises(AuthorizationError, match="SERVICE_ACCOUNT"):
        kept.sync()


def test_a_key_file_that_is_none(drive_site: DriveSite, tmp_path: Path) -> None:
    broken = tmp_path / "key.json"
    broken.write_text("{}")
    kept = mirror(drive_site, tmp_path, drive_token=None, google_service_account_file=broken)
    with pytest.raises(ConfigurationError, match="GOOGLE_SERVICE_ACCOUNT_FILE"):
        kept.sync()


def test_a_connected_account(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path, database: str) -> None:
    given = {
        "drive_token": None,
        "google_client_id": "client",
        "google_client_secret": "secret",
        "postgres_url": database,
        "encryption_keys": Fernet.generate_key().decode(),
    }
    kept = mirror(drive_site, tmp_path, **given)
    with pytest.raises(AuthorizationError, match="concordance connect google"):
        kept.sync()
    refresh = consent(drive_site)
    with session(database) as conn:
        credentials.save(conn, kept.settings, credentials.GOOGLE, ME, refresh, ["drive.readonly"], ADA)
    kept.sync()
    agrees(kept, drive_site)
    source = kept.source
    drive_site.drive.sessions.expire()
    assert b"".join(source.fetch(kept.items()[sample_drive.note])) == b"# Heron"
    drive_site.drive.revoke()
    with pytest.raises(AuthorizationError, match="Connect Google Drive again") as raised:
        kept.sync()
    assert refresh not in str(raised.value)


def test_another_account_lists_again(drive_site: DriveSite, sample_drive: SampleDrive, tmp_path: Path) -> None:
    kept = mirror(drive_site, tmp_path)
    kept.sync()
    key = service_account_file(tmp_path, drive_site.url)
    kept.settings = mirror(
        drive_site, tmp_path, drive_token=None, google_service_account_file=key, google_subject=ME
    ).settings
    assert kept.sync()["files.list"] > 0
    agrees(kept, drive_site)
