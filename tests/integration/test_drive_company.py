"""Everybody's My Drive, read in each user's name by domain-wide delegation, against a simulated Workspace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from resources.core.errors import AbortSyncError, AuthorizationError, LostPartitionError
from resources.settings import Settings
from resources.sources.drive.readers import Links
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite, partition_of, service_account_file
from tests.fixtures.drive_mirror import Mirror

ME = "sync@larkmoor.example"
ADA, BOB, CY = "ada@larkmoor.example", "bob@larkmoor.example", "cy@larkmoor.example"


class Workspace:
    """Three people with a few files each, and a shared drive."""

    def __init__(self, site: DriveSite, home: Path) -> None:
        self.site = site
        self.home = home
        drive = self.drive = site.drive
        drive.user(ME, "Sync Admin")
        self.top = {email: drive.user(email) for email in (ADA, BOB, CY)}
        self.plans = drive.folder("Plans", self.top[ADA])
        self.ada = drive.file("ada.txt", self.plans, "of Ada")
        self.bob = drive.file("bob.txt", self.top[BOB], "of Bob")
        self.cy = drive.file("cy.txt", self.top[CY], "of Cy")
        self.key = service_account_file(home, site.url)

    def mirror(self, users: tuple[str, ...] = ("*",), **settings: Any) -> Mirror:
        given = {"retry_seconds": (0.0, 0.0, 0.0), "google_service_account_file": self.key, "google_subject": ME}
        given |= {
            "drive_users": users,
            "drive_api_url": self.site.url,
            "google_directory_api_url": self.site.url,
            **settings,
        }
        return Mirror(Settings(_env_file=None, home=self.home, **given))

    def partition(self, email: str) -> str:
        return partition_of(self.drive, email)


@pytest.fixture
def company(drive_site: DriveSite, tmp_path: Path) -> Workspace:
    return Workspace(drive_site, tmp_path)


def everything(drive: SimulatedDrive, *emails: str) -> dict[str, set[str]]:
    """Return the readers of each file in the My Drives of some people."""
    return {
        item.id: {grant.name for held in drive.access.grants(item).values() for grant in held if grant.kind == "user"}
        for email in emails
        for item in drive.subtree(drive.items[drive.tops[email]])
        if not item.is_folder and not drive.access.trashed(item)
    }


def agrees(kept: Mirror, drive: SimulatedDrive, *emails: str) -> None:
    assert {one: kept.readers(one) for one in kept.items()} == everything(drive, *emails)


def test_everybodys_drive_is_read_in_their_name(company: Workspace) -> None:
    kept = company.mirror()
    kept.sync()
    agrees(kept, company.drive, ADA, BOB, CY)
    assert kept.titles[company.partition(ADA)] == "My Drive of Ada"
    item = kept.items()[company.ada]
    assert (item.partition, item.owner, item.path) == (company.partition(ADA), ADA, "My Drive of Ada/Plans/ada.txt")
    assert kept.fetch(company.ada) == b"of Ada"


def test_nothing_changed_costs_one_call_a_user(company: Workspace) -> None:
    kept = company.mirror(drive_roots=("my_drive",))
    kept.sync()
    users = len(company.drive.workspace.users)
    assert kept.sync() == Counter({"users.list": 1, "changes.list": users, "oauth2.token": users + 1})


def test_a_file_that_several_see_is_one_document_in_its_owners_drive(company: Workspace) -> None:
    drive = company.drive
    drive.share(company.plans, f"user:{BOB}", "writer")
    drive.share(company.ada, f"user:{CY}")
    beside = drive.file("beside.txt", company.plans, "by Bob, in Ada's folder", owner=BOB)
    kept = company.mirror()
    kept.sync()
    agrees(kept, drive, ADA, BOB, CY)
    assert {kept.items()[one].partition for one in (company.ada, beside)} == {company.partition(ADA)}
    assert kept.versions == dict.fromkeys((company.ada, company.bob, company.cy, beside), 1)
    drive.edit(beside, "changed")
    kept.sync()
    assert kept.versions[beside] == 2
    agrees(kept, drive, ADA, BOB, CY)


def test_a_shortcut_to_what_another_account_reads_moves_nothing(company: Workspace) -> None:
    drive = company.drive
    team = drive.shared_drive("Team", {f"user:{ADA}": "writer"})
    offers = drive.folder("Offers", team)
    offer = drive.file("offer.txt", offers, "an offer")
    for target in (company.plans, company.ada, offers, offer):
        drive.share(target, f"user:{BOB}", "writer")
        drive.shortcut(target, company.top[BOB], "to it")
    outside = drive.folder("Outside", None, owner="zoe@other.example")
    theirs = drive.file("theirs.txt", outside, "theirs")
    drive.share(outside, f"user:{BOB}")
    drive.shortcut(outside, company.top[BOB], "to hers")
    kept = company.mirror(drive_follow_shortcuts=True)
    for _ in range(2):
        kept.sync()
        assert {one: item.partition for one, item in kept.items().items()} == {
            company.ada: company.partition(ADA),
            company.bob: company.partition(BOB),
            company.cy: company.partition(CY),
            offer: team,
            theirs: company.partition(BOB),
        }


def test_allow_and_deny(company: Workspace) -> None:
    kept = company.mirror(("*@larkmoor.example", f"-{BOB}"))
    kept.sync()
    agrees(kept, company.drive, ADA, CY)
    kept.settings = company.mirror((ADA,)).settings
    assert kept.source.lost([company.partition(CY)]) == []
    kept.sync()
    assert kept.source.retired([company.partition(CY), company.partition(ADA)]) == [company.partition(CY)]
    kept.settings = company.mirror(("*", f"-{ADA}")).settings
    kept.sync()
    assert company.partition(ADA) in kept.source.lost(list(kept.cursors))
    assert company.ada not in kept.items()


@pytest.mark.parametrize("how", ["suspend", "delete_user"])
def test_the_drive_of_somebody_who_left_is_hidden_and_returns(company: Workspace, how: str) -> None:
    kept = company.mirror()
    kept.sync()
    partition = company.partition(ADA)
    before = company.drive.workspace.users[ADA]
    getattr(company.drive, how)(ADA)
    kept.sync()
    assert kept.source.lost([partition]) == [partition]
    agrees(kept, company.drive, BOB, CY)
    before.suspended = False
    company.drive.workspace.users[ADA] = before
    company.drive.workspace.former.clear()
    kept.sync()
    agrees(kept, company.drive, ADA, BOB, CY)


@pytest.mark.parametrize("first", [ADA, BOB])
def test_a_transfer_keeps_the_document(company: Workspace, first: str) -> None:
    drive = company.drive
    kept = company.mirror()
    kept.sync()
    drive.transfer(company.plans, BOB)
    kept.sync(only=[company.partition(first)])
    kept.sync()
    agrees(kept, drive, ADA, BOB, CY)
    assert kept.items()[company.ada].partition == company.partition(BOB)
    assert kept.items()[company.ada].owner == BOB


def test_what_is_somebodys_follows_a_new_address(company: Workspace) -> None:
    drive, new = company.drive, "ada.long@larkmoor.example"
    kept = company.mirror()
    kept.sync()
    drive.rename_user(ADA, new)
    drive.user(ADA)
    kept.sync()
    agrees(kept, drive, new, BOB, CY)
    assert kept.items()[company.ada].owner == new
    assert kept.versions[company.ada] == 1
    assert kept.sync()["files.list"] == 0


def test_a_move_to_a_shared_drive_and_back(company: Workspace) -> None:
    drive = company.drive
    team = drive.shared_drive("Team", {f"user:{ADA}": "writer"})
    kept = company.mirror()
    kept.sync()
    drive.move(company.ada, team)
    kept.sync()
    assert kept.items()[company.ada].partition == team
    assert kept.readers(company.ada) == {ADA, ME}


def test_one_user_who_cannot_be_read_does_not_stop_the_others(company: Workspace) -> None:
    kept = company.mirror()
    kept.sync()
    company.drive.workspace.users[ADA].no_drive = True
    company.drive.workspace.users[BOB].no_delegation = True
    source = kept.source
    fresh = company.mirror()
    with pytest.raises(LostPartitionError, match=ADA):
        list(fresh.source.changes(company.partition(ADA), None))
    with pytest.raises(AbortSyncError, match=BOB) as raised:
        list(fresh.source.changes(company.partition(BOB), None))
    assert not isinstance(raised.value, AuthorizationError)
    assert list(fresh.source.changes(company.partition(CY), None))
    assert source.partitions()


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(company: Workspace) -> None:
    kept = company.mirror()
    company.drive.sessions.delegated = {"https://www.googleapis.com/auth/drive.readonly"}
    with pytest.raises(AuthorizationError, match="CONCORDANCE_GOOGLE_SUBJECT"):
        kept.sync()
    company.drive.sessions.delegated = None
    company.drive.workspace.users.clear()
    with pytest.raises(AbortSyncError, match="no users"):
        kept.sync()


def test_a_listing_of_a_users_drive_goes_on_where_it_was_killed(company: Workspace) -> None:
    for number in range(450):
        company.drive.file(f"{number}.txt", company.plans, f"text {number}")
    kept = company.mirror()
    partition, seen = company.partition(ADA), [0]

    def killed(at: str, batch: Any) -> bool:
        seen[0] += len(batch.seen)
        return at == partition and seen[0] > 400

    kept.sync(stop=killed)
    before = kept.versions.copy()
    kept.sync()
    agrees(kept, company.drive, ADA, BOB, CY)
    assert set(kept.versions.values()) == {1}
    assert sum(before.values()) >= 200


def link_shared(company: Workspace) -> str:
    """Share a file of Ada's with anyone who has the link, and let Cy open it."""
    company.drive.share(company.ada, "anyone")
    company.drive.open(company.ada, CY)
    return company.ada


def test_a_link_grants_nobody_unless_the_setting_says_so(company: Workspace) -> None:
    file = link_shared(company)
    kept = company.mirror()
    kept.sync()
    assert kept.readers(file) == {ADA}


def test_those_who_opened_a_link_find_the_file_and_nobody_else(company: Workspace) -> None:
    drive, file = company.drive, link_shared(company)
    kept = company.mirror()
    kept.sync()
    kept.settings = company.mirror(drive_link_sharing="opened").settings
    kept.sync()
    assert kept.readers(file) == {ADA, CY}
    assert kept.versions[file] == 1
    drive.open(file, BOB)
    kept.sync()
    assert kept.readers(file) == {ADA, BOB, CY}
    users = len(drive.workspace.users)
    idle = kept.sync()
    assert (idle["files.list"], idle["changes.list"]) == (users, users)
    drive.unshare(file, "anyone")
    kept.sync()
    assert kept.readers(file) == {ADA}
    drive.share(file, "anyone")
    kept.sync()
    kept.settings = company.mirror().settings
    kept.sync()
    assert kept.readers(file) == {ADA}


def test_a_link_can_grant_the_domain_and_never_another_or_the_public(company: Workspace) -> None:
    drive, file = company.drive, link_shared(company)
    drive.share(company.bob, "domain:larkmoor.example")
    drive.share(company.cy, "domain:partner.example")
    kept = company.mirror()
    kept.sync()
    kept.settings = company.mirror(drive_link_sharing="domain").settings
    kept.sync()
    assert kept.readers(file) == {ADA, "domain:larkmoor.example"}
    assert kept.readers(company.bob) == {BOB, "domain:larkmoor.example"}
    assert kept.readers(company.cy) == {CY}
    assert set(kept.versions.values()) == {1}
    kept.settings = company.mirror().settings
    kept.sync()
    assert (kept.readers(file), kept.readers(company.bob)) == ({ADA}, {BOB})


@pytest.mark.parametrize("account", ["someone@gmail.com", "sync@larkmoor.iam.gserviceaccount.com"])
def test_accounts_without_an_organisation_have_no_domain_to_grant(account: str) -> None:
    assert Links("domain", lambda: account).organisation is None
