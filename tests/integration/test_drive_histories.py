"""Random histories of a Drive: after each sync what the connector reported equals the Drive's state, despite faults and kills.

The seed determines the history; a failure reports it with the operations since the last sync.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources.settings import Settings
from simulators import serve
from simulators.drive import FOLDER, DriveApp, SimulatedDrive
from tests.fixtures.drive_mirror import Mirror

MEMBERS = ("user:ada@larkmoor.example", "user:bob@larkmoor.example", "group:staff@larkmoor.example")
WHO = (*MEMBERS, "domain:larkmoor.example", "anyone", "user:guest@other.example")
KINDS = ("text/plain", "text/markdown", "document")


class History:
    """A Drive with random changes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        drive = self.drive = SimulatedDrive(seed=seed)
        self.drives = [drive.shared_drive(f"D{n}", dict.fromkeys(MEMBERS[n:], "reader")) for n in range(2)]
        self.folders = [drive.folder(f"F{n}", self._any(drive.my_drive, *self.drives)) for n in range(3)]
        self.folders += [drive.folder(f"G{n}", self._any(*self.folders)) for n in range(6)]
        self.outside = [drive.file(f"o{n}", None, f"outside {n}", owner="zoe@other.example") for n in range(3)]
        self.files: list[str] = []
        self.shortcuts: list[str] = []
        self.own: set[str] = set()
        """The items that are inside a root, not only linked from one."""
        self.trees = [drive.folder("T0", None, owner="zoe@other.example"), drive.shared_drive("T1", {})]
        self.trees += [drive.folder(f"U{n}", self._any(*self.trees)) for n in range(4)]
        for _ in range(15):
            self.new()
        one, two, *_, deep = self.folders
        drives = ("my_drive", *self.drives)
        self.roots: tuple[str, ...] = self._any(drives, (one, two), (*drives, one, deep), (deep,))

    def happen(self, times: int) -> list[str]:
        """Perform this many random operations and return their descriptions."""
        done: list[str] = []
        while len(done) < times:
            name = self.chance.choice(OPERATIONS)
            try:
                getattr(self, name)()
            except (IndexError, KeyError, ValueError):
                continue  # no item to which it applies
            done.append(name)
        return done

    def truth(self, *, follows_shortcuts: bool) -> dict[str, set[str]]:
        """Return who may find each item."""
        drive = self.drive
        open_drives = [one for one in self.drives if not drive.items[one].lost]
        self.own = set[str]()
        tops = list(self.roots if "my_drive" not in self.roots else (drive.my_drive, *open_drives))
        items: dict[str, Any] = {}
        roots = len(tops)
        for number, top in enumerate(tops):
            below = drive.everything(top)
            items |= below
            self.own |= below.keys() if number < roots else set()
            if follows_shortcuts:
                tops += [one for one in self._folders_to(below) if one not in tops]
        targets = {file.target for file in items.values() if file.target and file.target_mime_type != FOLDER}
        found = {one: drive.readers(one) for one, file in items.items() if not file.target}
        outside = {one for one in targets - set(found) if one in drive.items and drive.readers(one)}
        return {**found, **{one: {"target"} for one in outside if follows_shortcuts}}

    def _folders_to(self, items: dict[str, Any]) -> list[str]:
        """Return the folders that shortcuts among these items lead to, and that can be opened."""
        found = [self.drive.items.get(item.target) for item in items.values() if item.target_mime_type == FOLDER]
        access = self.drive.access
        return [one.id for one in found if one is not None and access.readable(one) and not access.trashed(one)]

    def new(self) -> None:
        place = self._any(*self._alive(self.folders), *self.drives, self.drive.my_drive)
        self.files.append(self.drive.file(f"n{len(self.files)}.txt", place, self._text(), self._any(*KINDS)))

    def new_folder(self) -> None:
        self.folders.append(self.drive.folder("N", self._place()))

    def edit(self) -> None:
        self.drive.edit(self._file(), self._text())

    def rename(self) -> None:
        self.drive.rename(self._any(self._file(), self._folder()), f"r{self.chance.randrange(99)}.txt")

    def move(self) -> None:
        self.drive.move(self._file(), self._any(self._place(), *self._alive(self.trees)))

    def move_folder(self) -> None:
        self.drive.move(self._folder(), self._place())

    def trash(self) -> None:
        self.drive.trash(self._any(self._file(), self._folder()))

    def restore(self) -> None:
        items = self.drive.items
        self.drive.restore(
            self._any(*(one for one in self.files + self.folders if one in items and items[one].trashed_at))
        )

    def delete(self) -> None:
        self.drive.delete(self._any(self._file(), self._file(), self._folder()))

    def share(self) -> None:
        one = self._any(self._file(), self._folder())
        self.drive.share(one, self._any(*WHO), discoverable=self._any(True, False))

    def unshare(self) -> None:
        one = self._any(self._file(), self._folder())
        grants = self.drive.items[one].grants
        self.drive.unshare(one, self._any(*(who for who, grant in grants.items() if grant.role != "owner")))

    def limit(self) -> None:
        self.drive.limit(self._folder())

    def inherit(self) -> None:
        self.drive.inherit(self._folder())

    def join(self) -> None:
        self.drive.add_member(self._any(*self.drives), self._any(*MEMBERS))

    def leave(self) -> None:
        one = self._any(*self.drives)
        self.drive.remove_member(one, self._any(*MEMBERS))

    def rename_drive(self) -> None:
        self.drive.rename_drive(self._any(*self.drives), f"D{self.chance.randrange(99)}")

    def lose(self) -> None:
        self.drive.lose_drive(self._any(*self.drives))

    def regain(self) -> None:
        for one in self.drives:
            self.drive.regain_drive(one)

    def point(self) -> None:
        self.shortcuts.append(self.drive.shortcut(self._any(self._file(), *self.outside), self._place(), "s"))

    def link(self) -> None:
        target = self._any(*self._alive(self.trees), self._folder())
        self.shortcuts.append(self.drive.shortcut(target, self._any(self._place(), *self._alive(self.trees)), "l"))

    def fill_tree(self) -> None:
        self.files.append(self.drive.file("t.txt", self._any(*self._alive(self.trees)), self._text()))

    def grow_tree(self) -> None:
        self.trees.append(self.drive.folder("U", self._any(*self._alive(self.trees))))

    def move_tree(self) -> None:
        self.drive.move(self._any(*self._alive(self.trees)), self._any(self._place(), *self._alive(self.trees)))

    def trash_tree(self) -> None:
        self.drive.trash(self._any(*self._alive(self.trees)[1:]))

    def move_shortcut(self) -> None:
        self.drive.move(self._any(*self._alive(self.shortcuts)), self._any(self._place(), *self._alive(self.trees)))

    def trash_shortcut(self) -> None:
        self.drive.trash(self._any(*self._alive(self.shortcuts)))

    def rename_outside(self) -> None:
        self.drive.rename(self._any(*self.outside), f"o{self.chance.randrange(99)}.txt")

    def expire(self) -> None:
        if self.chance.random() < 0.3:
            self.drive.expire_tokens()

    def _any(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def _text(self) -> str:
        return f"text {self.chance.random()}"

    def _alive(self, ids: list[str]) -> list[str]:
        return [one for one in ids if one in self.drive.items and not self.drive.access.trashed(self.drive.items[one])]

    def _file(self) -> str:
        return self._any(*self._alive(self.files))

    def _folder(self) -> str:
        return self._any(*self._alive(self.folders))

    def _place(self) -> str:
        return self._any(*self._alive(self.folders), *self.drives, self.drive.my_drive)


OPERATIONS = [name for name in vars(History) if not name.startswith("_") and name not in {"happen", "truth"}]


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 100))])
def test_every_history_ends_in_the_truth(seed: int, tmp_path: Path) -> None:
    history = History(seed)
    follows = seed % 4 < 2
    with serve(DriveApp(history.drive)) as url:
        settings = {"drive_token": history.drive.token, "retry_seconds": (0.0,) * 6, "drive_roots": history.roots}
        kept = Mirror(
            Settings(_env_file=None, home=tmp_path, drive_api_url=url, drive_follow_shortcuts=follows, **settings)
        )
        for step in range(15):
            done = history.happen(history.chance.randrange(1, 6))
            if seed % 2:
                history.drive.faults.random(seed * 1000 + step, 0.05)
                kept.sync(stop=after(history.chance.randrange(1, 8)))
            kept.sync()
            history.drive.faults.clear()
            truth = history.truth(follows_shortcuts=follows)
            found = {one: {"target"} if truth.get(one) == {"target"} else kept.readers(one) for one in kept.items()}
            assert found == truth, f"seed {seed}, step {step}: {done}"
            for one, item in kept.items().items():
                if truth[one] != {"target"}:
                    length = item.path.count("/") + 1 if one in history.own else 2
                    assert item.path.endswith(path_of(history.drive, one, length)), f"seed {seed}: {done}"


def after(batches: int) -> Callable[..., bool]:
    """Return a kill after a random number of batches."""
    left = [batches]

    def stop(*_: Any) -> bool:
        left[0] -= 1
        return left[0] == 0

    return stop


def path_of(drive: SimulatedDrive, file_id: str | None, length: int) -> str:
    """Return the last names of a file's path."""
    names: list[str] = []
    while file_id is not None and len(names) < length:
        names.append(drive.drives[file_id].name if file_id in drive.drives else drive.items[file_id].name)
        file_id = drive.items[file_id].parent
    return "/".join(reversed(names))
