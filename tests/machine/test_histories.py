"""Random histories of a Drive and of a Slack, under random faults and kill -9: at the end the index equals the simulator's truth.

A history is a seed. Ten run with the quick tests, two hundred with all (`make test-all`). A failure names its seed and the
operations before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from resources.core.domain import SourceName
from resources.core.errors import ConcordanceError
from simulators.drive import SimulatedDrive
from simulators.faults import Faults
from simulators.slack import Workspace
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.slack import SlackSite
from tests.fixtures.step import WORD, Readers, Step, Worker, follow

QUICK = int(os.environ.get("CONCORDANCE_TEST_HISTORIES", "5"))
MANY = 100
ROUNDS = 4
FAULT_SHARE = 0.04
SEEDS = [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, MANY))]
PEOPLE = ("user:ada@acme.example", "user:bob@acme.example", "group:eng@acme.example", "domain:acme.example", "anyone")
DOC = "application/vnd.google-apps.document"

Operation = Callable[[], str | None]


class History:
    """Plays rounds of random operations, each followed by a sync that may meet faults or be killed."""

    def __init__(self, step: Step, faults: Faults, random: Random, operations: list[Operation]) -> None:
        self._step, self._faults, self._random, self._operations = step, faults, random, operations
        self.told: list[str] = []
        self._worker: Worker | None = None

    def play(self, seed: int, kills: int = 1) -> None:
        """Play the rounds, then mend everything, sync and compare."""
        killed = set(self._random.sample(range(ROUNDS), kills))
        try:
            for number in range(ROUNDS):
                for _ in range(self._random.randint(1, 6)):
                    told = self._random.choice(self._operations)()
                    self.told += [told] if told else []
                self._faults.random(seed * 100 + number, FAULT_SHARE)
                self._sync(kill=number in killed)
        finally:
            self._faults.clear()
            if self._worker is not None:
                self._worker.close()
        self._step.sync()
        try:
            self._step.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}:\n" + "\n".join(self.told)) from error
        again = self._step.sync()
        assert (again.counts.embedded, self._step.installation.last["raw"]["fetched"]) == (0, 0)
        self._step.check()

    def _sync(self, *, kill: bool) -> None:
        if kill:
            self._worker = self._worker or Worker(self._step.installation.settings)
            seconds = self._random.uniform(0.0, 0.8)
            self.told.append(f"-- killed after {seconds:.2f} s")
            self._worker.sync_and_die(self._step.source, seconds)
            return
        try:
            run = self._step.installation.sync(self._step.source)
            self.told.append(f"-- synced: {run.error or 'well'}")
        except ConcordanceError as error:  # faults may end a sync; what counts is what the next one makes of it
            self.told.append(f"-- sync failed: {error}")


class DriveWorld:
    """A Drive that changes at random."""

    def __init__(self, drive: SimulatedDrive, random: Random, word: Callable[[str], str]) -> None:
        self.drive, self.random, self._word = drive, random, word
        self.words: dict[str, str] = {}
        self.root = drive.folder("Root", drive.my_drive)
        self.outside = drive.folder("Outside", drive.my_drive)
        self.shared = drive.shared_drive("Team", {"user:ada@acme.example": "organizer"})
        self.folders = [self.root, self.shared, self.outside, drive.folder("Deep", self.root)]
        self.trashed: list[str] = []
        self.shares: dict[str, set[str]] = {}
        self.members = {"user:ada@acme.example"}
        self.lost = False
        for _ in range(4):
            self.create()

    def truth(self) -> Readers:
        found: Readers = {}
        for root in (self.root, *(() if self.lost else (self.shared,))):
            for file in self.drive.everything(root):
                if file in self.words:
                    found[self.words[file]] = frozenset(self.drive.readers(file))
        return found

    def operations(self) -> list[Operation]:
        often = [self.create, self.edit, self.move, self.share, self.unshare]
        seldom = [self.rename, self.trash, self.restore, self.delete, self.folder, self.share_folder, self.move_folder]
        return often * 2 + seldom + [self.trash_folder, self.member, self.lose]

    def create(self) -> str:
        word = self._word("d")
        kind = self.random.choice(["text/plain", DOC])
        parent = self._some_folder()
        file = self.drive.file(f"{word}.txt", parent, f"The word of this file is {word}.\n", kind)
        self.words[file] = word
        return f"create {word} in {parent}"

    def edit(self) -> str | None:
        if (file := self._some_file()) is None:
            return None
        word = self._word("e")
        old, self.words[file] = self.words[file], word
        self.drive.edit(file, f"Now the word is {word}.\n")
        return f"edit {old} to {word}"

    def rename(self) -> str | None:
        target = self.random.choice([*self._files(), self.folders[-1]])
        self.drive.rename(target, f"name {self.random.randint(0, 999)}")
        return f"rename {self.words.get(target, target)}"

    def move(self) -> str | None:
        if (file := self._some_file()) is None:
            return None
        parent = self._some_folder()
        self.drive.move(file, parent)
        return f"move {self.words[file]} to {parent}"

    def share(self) -> str | None:
        return self._share(self._some_file())

    def unshare(self) -> str | None:
        if (file := self._some_file()) is None:
            return None
        shared = [who for who in PEOPLE if who in self.shares.get(file, ())]
        if not shared:
            return None
        who = self.random.choice(shared)
        self.shares[file].discard(who)
        self.drive.unshare(file, who)
        return f"unshare {self.words[file]} from {who}"

    def share_folder(self) -> str | None:
        return self._share(self.random.choice([self.root, self.folders[-1]]))

    def trash(self) -> str | None:
        if (file := self._some_file()) is None:
            return None
        self.drive.trash(file)
        self.trashed.append(file)
        return f"trash {self.words[file]}"

    def restore(self) -> str | None:
        if not self.trashed:
            return None
        file = self.trashed.pop()
        self.drive.restore(file)
        return f"restore {self.words.get(file, file)}"

    def delete(self) -> str | None:
        if (file := self._some_file()) is None:
            return None
        self.drive.delete(file)
        return f"delete {self.words.pop(file)}"

    def folder(self) -> str:
        parent = self.random.choice([self.root, self.shared, self.outside])
        self.folders.append(self.drive.folder(f"Folder {len(self.folders)}", parent))
        return f"folder {self.folders[-1]} in {parent}"

    def move_folder(self) -> str | None:
        if len(self.folders) < 5:
            return None
        folder = self.random.choice(self.folders[4:])
        parent = self.random.choice([self.root, self.outside])
        if folder in self.trashed or self._of_shared(folder):
            return None
        self.drive.move(folder, parent)
        return f"move folder {folder} to {parent}"

    def trash_folder(self) -> str | None:
        candidates = [folder for folder in self.folders[3:] if folder not in self.trashed]
        if not candidates:
            return None
        self.trashed.append(self.random.choice(candidates))
        self.drive.trash(self.trashed[-1])
        return f"trash folder {self.trashed[-1]}"

    def member(self) -> str:
        who = self.random.choice(PEOPLE[1:3])
        if who in self.members:
            self.drive.remove_member(self.shared, who)
        else:
            self.drive.add_member(self.shared, who)
        self.members ^= {who}
        return f"member {who} {'joins' if who in self.members else 'leaves'} the shared drive"

    def lose(self) -> str:
        (self.drive.regain_drive if self.lost else self.drive.lose_drive)(self.shared)
        self.lost = not self.lost
        return f"shared drive {'lost' if self.lost else 'back'}"

    def _share(self, target: str | None) -> str | None:
        if target is None:
            return None
        who, discoverable = self.random.choice(PEOPLE), self.random.random() < 0.5
        self.drive.share(target, who, discoverable=discoverable)
        self.shares.setdefault(target, set()).add(who)
        return f"share {self.words.get(target, target)} with {who}{' (discoverable)' if discoverable else ''}"

    def _files(self) -> list[str]:
        there = {file for root in (self.root, self.shared, self.outside) for file in self.drive.everything(root)}
        return sorted(file for file in self.words if file in there)

    def _some_file(self) -> str | None:
        files = self._files()
        return self.random.choice(files) if files else None

    def _some_folder(self) -> str:
        there = [folder for folder in self.folders if folder not in self.trashed]
        return self.random.choice(there)

    def _of_shared(self, folder: str) -> bool:
        return folder in self.drive.everything(self.shared)


class SlackWorld:
    """A Slack that changes at random."""

    def __init__(self, workspace: Workspace, random: Random, word: Callable[[str], str]) -> None:
        self.slack, self.random, self._word = workspace, random, word
        self.users = [workspace.user(f"User {name}", f"{name}@acme.example") for name in ("ada", "bob", "carol")]
        self.users.append(workspace.user("Gil", "gil@guest.example", guest=True))
        self.channels = [
            workspace.channel("general", self.users[:3]),
            workspace.channel("secret", self.users[:1], private=True),
        ]
        self.files: dict[str, str] = {}
        for _ in range(6):
            self.post()

    def truth(self) -> Readers:
        found: dict[str, set[str]] = {}
        for channel in self.channels:
            readers = self.slack.readers(channel)
            for message in self.slack.messages(channel):
                words = WORD.findall(message.text) + [self.files[file] for file in message.files if file in self.files]
                for word in words:
                    found.setdefault(word, set()).update(readers)
        return {word: frozenset(readers) for word, readers in found.items()}

    def operations(self) -> list[Operation]:
        often = [self.post, self.reply, self.edit]
        return often * 3 + [
            self.delete,
            self.delete,
            self.share_file,
            self.join,
            self.leave,
            self.rename,
            self.private,
            self.bot,
        ]

    def post(self) -> str:
        channel, word = self.random.choice(self.channels), self._word("m")
        self.slack.post(channel, self.random.choice(self.users[:3]), f"The word is {word}.")
        return f"post {word} to {channel}"

    def reply(self) -> str | None:
        channel = self.random.choice(self.channels)
        roots = [message.ts for message in self.slack.messages(channel) if message.thread_ts in (None, message.ts)]
        if not roots:
            return None
        word, root = self._word("r"), self.random.choice(roots)
        self.slack.post(channel, self.random.choice(self.users[:3]), f"A reply, {word}.", thread=root)
        return f"reply {word} to {root} in {channel}"

    def edit(self) -> str | None:
        if (found := self._some_message()) is None:
            return None
        channel, message = found
        word = self._word("e")
        self.slack.edit(channel, message.ts, f"Edited, the word is {word}.")
        return f"edit {message.text!r} of {message.ts} to {word}"

    def delete(self) -> str | None:
        if (found := self._some_message()) is None:
            return None
        channel, message = found
        self.slack.delete(channel, message.ts)
        return f"delete {message.text!r} of {message.ts}"

    def share_file(self) -> str:
        word, user = self._word("f"), self.users[0]
        file = self.slack.upload(user, f"{word}.txt", f"The file's word is {word}.\n".encode(), "text/plain")
        self.files[file] = word
        channel = self.random.choice(self.channels)
        self.slack.post(channel, user, "A file.", files=[file])
        return f"file {word} in {channel}"

    def join(self) -> str:
        channel, user = self.random.choice(self.channels), self.random.choice(self.users)
        self.slack.join(channel, user)
        return f"{user} joins {channel}"

    def leave(self) -> str:
        channel, user = self.random.choice(self.channels), self.random.choice(self.users)
        self.slack.leave(channel, user)
        return f"{user} leaves {channel}"

    def rename(self) -> str:
        channel = self.random.choice(self.channels)
        self.slack.rename(channel, f"name{self.random.randint(0, 999)}")
        return f"rename {channel}"

    def private(self) -> str:
        self.slack.make_private(self.channels[0])
        return f"{self.channels[0]} made private"

    def bot(self) -> str:
        channel = self.random.choice(self.channels)
        change = self.random.choice([self.slack.invite_bot, self.slack.remove_bot])
        change(channel)
        return f"{change.__name__} {channel}"

    def _some_message(self) -> tuple[str, Any] | None:
        channel = self.random.choice(self.channels)
        messages = self.slack.messages(channel)
        return (channel, self.random.choice(messages)) if messages else None


@pytest.fixture
def drive_step(installation: Installation, drive_site: DriveSite) -> Step:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url, prune_share=1.0)
    return Step(installation, SourceName.GOOGLE_DRIVE, dict, drive_site.drive.calls)


@pytest.fixture
def slack_step(installation: Installation, slack_site: SlackSite) -> Step:
    workspace = slack_site.workspace
    follow(installation, slack_bot_token=workspace.token, slack_api_url=slack_site.url, prune_share=1.0)
    return Step(installation, SourceName.SLACK, dict, workspace.calls)


@pytest.mark.parametrize("seed", SEEDS)
def test_drive(seed: int, drive_step: Step, drive_site: DriveSite) -> None:
    random = Random(seed)
    world = DriveWorld(drive_site.drive, random, drive_step.word)
    drive_step.truth = world.truth
    settings = drive_step.installation.settings
    drive_step.installation.settings = settings.model_copy(update={"drive_roots": (world.root, "shared_drives")})
    History(drive_step, drive_site.faults, random, world.operations()).play(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_slack(seed: int, slack_step: Step, slack_site: SlackSite) -> None:
    random = Random(seed)
    world = SlackWorld(slack_site.workspace, random, slack_step.word)
    slack_step.truth = world.truth
    History(slack_step, slack_site.faults, random, world.operations()).play(seed)
