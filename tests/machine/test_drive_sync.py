"""Every change that a Drive can see, one after the other: after the next sync the document is found by exactly its readers.

The simulator replaces Google; connector, stages, stores and HTTP interface are the real ones. The table is printed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from resources.core.domain import SourceName
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import WORD, Person, Readers, Step, follow, web

ADA, BOB, CAROL, DAN = (
    Person("ada@acme.example"),
    Person("bob@acme.example", ("eng@acme.example",)),
    Person("carol@acme.example"),
    Person("dan@other.example"),
)
DOC = "application/vnd.google-apps.document"


class World:
    """A Drive with two roots, a folder and a shared drive, and items outside both."""

    def __init__(self, drive: SimulatedDrive) -> None:
        self.drive = drive
        self.words: dict[str, str] = {}
        self.company = drive.folder("Company", drive.my_drive)
        self.elsewhere = drive.folder("Elsewhere", drive.my_drive)
        self.handbook = drive.folder("Handbook", self.company)
        members = {"user:ada@acme.example": "organizer", "group:eng@acme.example": "reader"}
        self.shared = drive.shared_drive("Engineering", members)
        self.roots = (self.company, "shared_drives")

    def text(self, word: str, about: str = "the ferry") -> str:
        """A text that contains the word."""
        return f"Notes on {about}.\n\nThe word of this document is {word}, and the rest of it is plain.\n"

    def file(self, step: Step, name: str, parent: str, mime_type: str = "text/plain", **more: Any) -> str:
        """Create a file there and return its id."""
        word = step.word("d")
        made = self.drive.file(name, parent, self.text(word), mime_type, **more)
        self.words[made] = word
        return made

    def edit(self, step: Step, file: str) -> str:
        """Write a new text and return its word."""
        word = self.words[file] = step.word("e")
        self.drive.edit(file, self.text(word, "the pier"))
        return word

    def truth(self) -> Readers:
        """Expected state: every word below a root, and who may find it."""
        found: Readers = {}
        drives = [self.shared] if self.drive.readers(self.shared) else []
        for root in (self.company, *drives):
            for file in self.drive.everything(root):
                if file in self.words:
                    found[self.words[file]] = frozenset(self.drive.readers(file))
        return found


@pytest.fixture
def world(drive_site: DriveSite) -> World:
    return World(drive_site.drive)


@pytest.fixture
def step(installation: Installation, drive_site: DriveSite, world: World, bundled_model: Any) -> Iterator[Step]:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url, drive_roots=world.roots)
    step = Step(installation, SourceName.GOOGLE_DRIVE, world.truth, world.drive.calls, (ADA, BOB, CAROL, DAN))
    with web(installation, bundled_model) as running:
        step.web = running
        yield step


def test_every_mutation(step: Step, world: World, show: Callable[[str], None]) -> None:
    drive, word = world.drive, world.words
    team = world.file(step, "team.md", world.handbook, DOC)
    plan = world.file(step, "plan.txt", world.company)
    design = world.file(step, "design.txt", world.shared)
    outside = world.file(step, "outside.txt", world.elsewhere)
    drive.share(team, "domain:acme.example", discoverable=True)
    step.mutate("first sync", lambda: None, word[team], word[plan], word[design], word[outside], embedded=True)
    step.mutate("nothing", lambda: None, word[team])
    assert world.drive.calls.total() > 0

    new = ""

    def create() -> None:
        nonlocal new
        new = world.file(step, "new.txt", world.company)

    step.mutate("create", create, embedded=True)
    step.search(word[new])
    step.mutate("edit", lambda: world.edit(step, plan), embedded=True)
    step.mutate("edit a document", lambda: world.edit(step, team), embedded=True)
    step.mutate("rename", lambda: drive.rename(plan, "the plan.txt"), word[plan])
    step.mutate("share with a user", lambda: drive.share(plan, "user:carol@acme.example"), word[plan])
    step.mutate("unshare a user", lambda: drive.unshare(plan, "user:carol@acme.example"), word[plan])
    step.mutate("share with a group", lambda: drive.share(plan, "group:eng@acme.example"), word[plan])
    step.mutate("unshare a group", lambda: drive.unshare(plan, "group:eng@acme.example"), word[plan])
    step.mutate("share with a domain", lambda: drive.share(plan, "domain:acme.example", discoverable=True), word[plan])
    step.mutate("unshare a domain", lambda: drive.unshare(plan, "domain:acme.example"), word[plan])
    step.mutate("share by link", lambda: drive.share(plan, "anyone"), word[plan])
    step.mutate("publish", lambda: drive.share(plan, "anyone", discoverable=True), word[plan])
    step.mutate("unpublish", lambda: drive.unshare(plan, "anyone"), word[plan])
    step.mutate("share a folder", lambda: drive.share(world.handbook, "user:dan@other.example"), word[team])
    step.mutate("unshare a folder", lambda: drive.unshare(world.handbook, "user:dan@other.example"), word[team])
    step.mutate("rename a folder", lambda: drive.rename(world.handbook, "Old handbook"), word[team])
    (row,) = step.installation.rows("SELECT path FROM documents WHERE source_id = %s", team)
    assert "Old handbook" in row["path"]
    step.mutate("move out", lambda: drive.move(plan, world.elsewhere), word[plan])
    step.mutate("move in", lambda: drive.move(plan, world.handbook), word[plan])
    step.mutate("move to another root", lambda: drive.move(plan, world.shared), word[plan])
    step.mutate("move back", lambda: drive.move(plan, world.company), word[plan])
    step.mutate("move in a folder", lambda: drive.move(world.elsewhere, world.company), word[outside], embedded=True)
    step.mutate("move out the folder", lambda: drive.move(world.elsewhere, drive.my_drive), word[outside])
    step.mutate("trash", lambda: drive.trash(plan), word[plan])
    step.mutate("restore", lambda: drive.restore(plan), word[plan])
    step.mutate("trash a folder", lambda: drive.trash(world.handbook), word[team])
    step.mutate("restore a folder", lambda: drive.restore(world.handbook), word[team])
    step.mutate("delete", lambda: drive.delete(new), word[new])
    shortcut = drive.shortcut(outside, world.company, "shortcut to outside")
    settings = step.installation.settings
    step.installation.settings = settings.model_copy(update={"drive_follow_shortcuts": True})
    _shortcuts(step, world, shortcut, outside)
    step.installation.settings = settings
    step.mutate(
        "new member of a drive", lambda: drive.add_member(world.shared, "user:carol@acme.example"), word[design]
    )
    step.mutate(
        "member leaves a drive", lambda: drive.remove_member(world.shared, "user:carol@acme.example"), word[design]
    )
    step.mutate("shared drive lost", lambda: drive.lose_drive(world.shared), word[design])
    step.mutate("shared drive back", lambda: drive.regain_drive(world.shared), word[design])
    show(step.lines("Google Drive, against the simulator: what each change did by the next sync"))


def test_a_file_is_found_by_its_name_and_after_a_rename_by_the_new_one_alone(step: Step, world: World) -> None:
    file = world.file(step, "timetable_2026-final.txt", world.company)
    doc = world.file(step, "Ledger of tolls", world.handbook, DOC)
    for made in (file, doc):
        world.drive.share(made, "domain:acme.example", discoverable=True)
    step.sync()
    assert (_found(step, "timetable 2026"), _found(step, "ledger toll")) == ([world.words[file]], [world.words[doc]])
    step.mutate("rename", lambda: world.drive.rename(file, "sailings_2027.txt"), world.words[file])
    step.mutate("rename a document", lambda: world.drive.rename(doc, "Book of fares"), world.words[doc])
    assert (_found(step, "sailings 2027"), _found(step, "fares")) == ([world.words[file]], [world.words[doc]])
    assert (_found(step, "timetable 2026"), _found(step, "ledger toll")) == ([], [])


def _found(step: Step, query: str) -> list[str]:
    """Return the words of the passages that keyword search finds."""
    assert step.web is not None
    results = step.web.search(query, ADA.email, mode="keyword")["results"]
    return [word for result in results for word in WORD.findall(result["chunk_text"])]


def _shortcuts(step: Step, world: World, shortcut: str, target: str) -> None:
    """A shortcut to a file outside every root adds the file, once, under its own permissions; without the shortcut it is deleted."""
    plain = step.truth

    def with_target() -> Readers:
        return plain() | {world.words[target]: frozenset(world.drive.readers(target))}

    step.truth = with_target
    step.mutate("shortcut to a file outside", lambda: None, world.words[target])
    step.truth = plain
    step.mutate("shortcut removed", lambda: world.drive.delete(shortcut), world.words[target])


def test_a_shortcut_brings_in_nothing_from_outside_the_roots(step: Step, world: World) -> None:
    outside, within = world.file(step, "outside.txt", world.elsewhere), world.file(step, "within.txt", world.handbook)
    for file in (outside, within):
        world.drive.share(file, "domain:acme.example", discoverable=True)
        world.drive.shortcut(file, world.company, f"shortcut to {file}")
    step.sync()
    step.check()
    assert step.search(world.words[outside]) == []
    assert step.search(world.words[within]) == [ADA.email, BOB.email, CAROL.email]


def test_nothing_changed_costs_at_most_two_calls_a_feed(step: Step, world: World) -> None:
    for number in range(3):
        world.file(step, f"{number}.txt", world.company)
        world.file(step, f"{number}.txt", world.shared)
    step.sync()
    before = world.drive.calls.copy()
    step.sync()
    calls = world.drive.calls - before
    assert calls.total() <= 4, calls  # two feeds: My Drive's and the shared drive's
    step.check()


def test_a_refused_token_lists_the_root_again_under_the_hold_on_deletions(step: Step, world: World) -> None:
    files = [world.file(step, f"{number}.txt", world.company) for number in range(12)]
    step.sync()
    step.installation.settings = step.installation.settings.model_copy(update={"prune_minimum": 3, "prune_share": 0.1})
    world.drive.faults.add("unnamed_page_token", match="changes.list")
    for file in files:
        world.drive.delete(file)
    run = step.sync()
    assert run.results["raw"].counts["held"] == len(files)
    (row,) = step.installation.rows("SELECT reason, outcome FROM sync_errors WHERE job_id = %s", run.job_id)
    assert (row["outcome"], "listed from the beginning" in row["reason"]) == ("skipped", True)
    (row,) = step.installation.rows("SELECT status FROM sync_jobs WHERE job_id = %s", run.job_id)
    assert row["status"] == "success"
    step.installation.settings = step.installation.settings.model_copy(update={"prune_share": 1.0})
    assert step.sync().error is None


def _results(step: Step, who: Person, query: str, **body: Any) -> list[dict[str, Any]]:
    """Return a user's view of the documents that a query finds."""
    assert step.web is not None
    return step.web.search(query, who.email, *who.groups, mode="keyword", top_k=50, **body)["results"]


def test_names_of_folders_are_hidden_from_people_who_may_not_open_them(step: Step, world: World) -> None:
    drive = world.drive
    board = drive.folder("2027 Layoffs (board only)", world.company)
    deal = drive.folder("Acquisition of Qzfalcon", board)
    drive.share(board, f"user:{ADA.email}")
    drive.share(deal, f"user:{CAROL.email}")
    letter = world.file(step, "letter.txt", deal)
    word = world.words[letter]
    drive.share(letter, f"user:{DAN.email}")
    step.sync()
    names = ("layoffs", "acquisition", "qzfalcon", "company", "my drive")
    paths = {who.email: [one["path"] for one in _results(step, who, word)] for who in (ADA, CAROL, DAN)}
    assert paths == {
        ADA.email: ["2027 Layoffs (board only)/Acquisition of Qzfalcon/letter.txt"],
        CAROL.email: ["Acquisition of Qzfalcon/letter.txt"],
        DAN.email: ["letter.txt"],
    }
    for query in (word, *names, "2027 Layoffs", board, deal):
        assert not [name for name in names if name in str(_results(step, DAN, query)).lower()], query
        assert [one["title"] for one in _results(step, DAN, query)] == (["letter.txt"] if query == word else [])
    (found,) = _results(step, DAN, word)
    assert found["collection_id"] is None
    assert step.web is not None
    for path in (f"/api/documents/{found['doc_id']}", f"/api/why?source={found['doc_id']}", "/api/sources"):
        shown = step.web.request("GET", path, DAN.email).text.lower()
        assert not [name for name in names if name in shown], path
    # a filter does not reveal which hidden folder holds it, and still narrows for those who know the folder
    for one in (board, deal, world.company):
        assert _results(step, DAN, word, filters={"collection_ids": [one]}) == []
    for who, one in ((ADA, board), (CAROL, deal)):
        assert len(_results(step, who, word, filters={"collection_ids": [one]})) == 1


def test_names_of_folders_follow_their_sharing(step: Step, world: World) -> None:
    drive = world.drive
    plans = drive.folder("Qzplans", world.company)
    file = world.file(step, "plan.txt", plans)
    drive.share(file, f"user:{DAN.email}")
    step.sync()

    def path() -> list[str]:
        step.sync()
        return [one["path"] for one in _results(step, DAN, world.words[file])]

    assert path() == ["plan.txt"]
    drive.share(plans, f"user:{DAN.email}")
    assert path() == ["Qzplans/plan.txt"]
    drive.rename(plans, "Qzschemes")
    assert path() == ["Qzschemes/plan.txt"]
    drive.unshare(plans, f"user:{DAN.email}")
    assert path() == ["plan.txt"]
    drive.share(world.company, f"user:{DAN.email}")
    assert path() == ["Company/Qzschemes/plan.txt"]
    drive.unshare(world.company, f"user:{DAN.email}")
    assert path() == ["plan.txt"]
    drive.move(file, world.shared)
    drive.add_member(world.shared, f"user:{DAN.email}")
    assert path() == ["Engineering/plan.txt"]
    drive.remove_member(world.shared, f"user:{DAN.email}")
    assert path() == ["plan.txt"]


def test_what_is_left_out_has_its_reason(step: Step, world: World) -> None:
    drive = world.drive
    drive.file("film.mp4", world.company, b"\x00\x00\x00\x18ftyp", "video/mp4")
    drive.shortcut(world.elsewhere, world.company, "to a folder")
    world.file(step, "fine.txt", world.company)
    step.sync()
    step.check()
    rows = step.installation.rows("SELECT source_title, state, reason FROM documents ORDER BY source_title")
    reasons = {row["source_title"]: row["reason"] for row in rows if row["state"] == "skipped"}
    assert set(reasons) == {"film.mp4", "to a folder"}
    assert "CONCORDANCE_DRIVE_ROOTS" in reasons["to a folder"]
    (part,) = step.installation.rows("SELECT source_count FROM partitions WHERE partition = %s", world.company)
    assert part["source_count"] == len(rows)
    assert not WORD.findall(" ".join(reasons.values()))
