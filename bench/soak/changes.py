"""Make changes while people search (uploads, pushes, files with sidecars, Drive, Slack) and run the syncs that follow."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

from bench.soak.people import client, error_kind
from bench.soak.pushes import Pushes
from bench.soak.site import Site
from bench.soak.truth import Fact, Truth

ADA, BOB, EVE = "ada@soak.example", "bob@soak.example", "eve@stranger.example"
ENGINEERS = "group:eng@soak.example"
PEOPLE: dict[str, tuple[str, ...]] = {ADA: ("eng@soak.example",), BOB: (), EVE: ()}
"""Each person with the groups in their token."""
AUDIENCES: dict[str, frozenset[str]] = {
    ENGINEERS: frozenset({ADA}),
    "domain:soak.example": frozenset({ADA, BOB}),
    BOB: frozenset({BOB}),
    EVE: frozenset({EVE}),
}
"""Principals to share with, and which of the three people each one includes."""
PAUSE_SECONDS = 0.6
RETRY_SECONDS = 0.5
SYNC_SECONDS = 180.0
MAX_DELETIONS = 4
"""Maximum deletions of a source between two syncs: fewer than the share that requires approval."""


def _text(fact: Fact, topic: str) -> str:
    return f"# {topic}\n\nThe word of this note is {fact.word}. No other note contains it.\n"


class Changes(threading.Thread):
    """Makes random changes, one after the other. Each is retried until the source accepts it."""

    def __init__(self, site: Site, truth: Truth, until: threading.Event) -> None:
        super().__init__(name="changes", daemon=True)
        self.made: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._site, self._truth, self._until = site, truth, until
        self._random = random.Random(7)
        self._deleted: Counter[str] = Counter()
        self._uploads: dict[str, tuple[Fact, str, str]] = {}
        self._files: dict[str, Fact] = {}
        self._drive: dict[str, tuple[Fact, set[str]]] = {}
        self._messages: dict[tuple[str, str], Fact] = {}
        self._channels: dict[str, set[str]] = {}
        self._users: dict[str, str] = {}
        self._owners = {email: client(site, email, groups) for email, groups in PEOPLE.items()}
        inside = {
            who: audience for who, audience in AUDIENCES.items() if who != EVE
        }  # a push cannot share beyond its domain
        self._pushes = Pushes(site, truth, self._until_taken, inside)

    def prepare(self) -> None:
        """Create the people and channels of the Slack workspace."""
        for email in (ADA, BOB):
            self._users[email] = self._site.simulate("slack", "user", name=email.split("@")[0], email=email)
        members = [self._users[ADA], self._users[BOB]]
        general = self._site.simulate("slack", "channel", name="soak", members=members)
        secret = self._site.simulate("slack", "channel", name="soak-secret", members=members, private=True)
        self._channels = {general: {ADA, BOB}, secret: {ADA, BOB}}
        self._general, self._secret = general, secret

    def synced(self, source: str) -> None:
        """Allow deletions of a source again after a sync has processed the last ones."""
        self._deleted[source] = 0

    def run(self) -> None:
        """Make changes until the end."""
        steps: list[tuple[str, Callable[[], None]]] = [
            ("upload", self._upload), ("upload", self._upload), ("share", self._share), ("revoke", self._revoke),
            ("delete upload", self._delete_upload), ("write file", self._write_file), ("write file", self._write_file),
            ("edit file", self._edit_file), ("permissions of a file", self._permit_file), ("delete file", self._delete_file),
            ("drive file", self._drive_file), ("drive file", self._drive_file), ("drive edit", self._drive_edit),
            ("drive share", self._drive_share), ("drive unshare", self._drive_unshare), ("drive trash", self._drive_trash),
            ("message", self._post), ("message", self._post), ("edit message", self._edit_message),
            ("delete message", self._delete_message), ("channel member", self._member),
            *self._pushes.steps,
        ]  # fmt: skip
        while not self._until.wait(PAUSE_SECONDS):
            name, step = self._random.choice(steps)
            step()
            self.made[name] += 1
        for http in self._owners.values():
            http.close()
        self._pushes.close()

    def _until_taken(self, attempt: Callable[[], httpx.Response], fine: tuple[int, ...]) -> httpx.Response | None:
        """Repeat a request until its status is one of `fine`; None if the soak test ended first."""
        while True:
            try:
                answer = attempt()
                if answer.status_code in fine:
                    return answer
                self.errors[error_kind(answer)] += 1
            except httpx.HTTPError as error:
                self.errors[error_kind(error)] += 1
            if self._until.is_set() and self._giving_up():
                return None
            time.sleep(RETRY_SECONDS)

    def _giving_up(self) -> bool:
        return not self._site.ready

    # Uploads

    def _send(self, owner: str, text: str, share: list[str]) -> httpx.Response | None:
        metadata = json.dumps({"title": "Note", "share": share})
        return self._until_taken(
            lambda: self._owners[owner].post(
                "/api/upload", files={"file": ("note.md", text.encode(), "text/markdown")}, data={"metadata": metadata}
            ),
            (200, 202),
        )

    def _upload(self) -> None:
        owner = self._random.choice([ADA, BOB])
        fact = self._truth.fact("upload", {owner})
        answer = self._send(owner, _text(fact, "Upload"), [])
        if answer is not None:
            self._truth.done(fact)
            self._uploads[answer.json()["doc_id"]] = (fact, owner, _text(fact, "Upload"))

    def _some_upload(self) -> tuple[str, Fact, str, str] | None:
        if not self._uploads:
            return None
        doc_id = self._random.choice(list(self._uploads))
        return (doc_id, *self._uploads[doc_id])

    def _share(self) -> None:
        if found := self._some_upload():
            _, fact, owner, text = found
            who = self._random.choice([ENGINEERS, "domain:soak.example", BOB, ADA])
            audience = {owner} | (AUDIENCES.get(who) or {who})
            narrows = not fact.audience <= audience
            self._truth.change(fact, audience, kept={owner})
            if self._send(owner, text, [who]) is not None:
                self._truth.done(fact, in_force=narrows)

    def _revoke(self) -> None:
        if found := self._some_upload():
            _, fact, owner, text = found
            self._truth.change(fact, {owner})
            if self._send(owner, text, []) is not None:
                self._truth.done(fact, in_force=True)

    def _delete_upload(self) -> None:
        if found := self._some_upload():
            doc_id, fact, owner, _ = found
            self._truth.change(fact, ())
            done = self._until_taken(
                lambda: self._owners[owner].delete(f"/api/documents/{doc_id}"), (200, 202, 204, 404)
            )
            if done is not None:
                self._truth.done(fact, in_force=True)
            del self._uploads[doc_id]

    # Files

    def _permissions(self) -> tuple[list[str], frozenset[str]]:
        who = self._random.sample(sorted(AUDIENCES), self._random.randint(1, 2))
        return who, frozenset().union(*(AUDIENCES[one] for one in who))

    def _put(self, name: str, text: str) -> None:
        draft = self._site.folder / "draft"
        draft.write_text(text)
        draft.replace(self._site.files / name)

    def _write_file(self) -> None:
        who, audience = self._permissions()
        fact = self._truth.fact("files", audience)
        name = f"{fact.word[4:9]}.md"
        self._put(f"{name}.meta.json", json.dumps({"permissions": who}))
        self._put(name, _text(fact, "File"))
        self._truth.done(fact)
        self._files[name] = fact

    def _edit_file(self) -> None:
        if self._files:
            name = self._random.choice(list(self._files))
            old = self._files[name]
            new = self._truth.fact("files", old.audience)
            self._truth.inherit(new, old)
            self._truth.change(old, ())
            self._put(name, _text(new, "Edited file"))
            self._truth.done(old)
            self._truth.done(new)
            self._files[name] = new

    def _permit_file(self) -> None:
        if self._files:
            name = self._random.choice(list(self._files))
            who, audience = self._permissions()
            self._truth.change(self._files[name], audience)
            self._put(f"{name}.meta.json", json.dumps({"permissions": who}))
            self._truth.done(self._files[name])

    def _delete_file(self) -> None:
        if self._files and self._may_delete("files"):
            name = self._random.choice(list(self._files))
            fact = self._files.pop(name)
            self._truth.change(fact, ())
            (self._site.files / name).unlink()
            (self._site.files / f"{name}.meta.json").unlink()
            self._truth.done(fact)

    def _may_delete(self, source: str) -> bool:
        self._deleted[source] += 1
        return self._deleted[source] <= MAX_DELETIONS

    # Drive

    def _drive_file(self) -> None:
        fact = self._truth.fact("google_drive", ())
        item = self._site.simulate(
            "drive", "file", name="Plan.md", parent=self._my_drive(), content=_text(fact, "Plan")
        )
        self._truth.done(fact)
        self._drive[item] = (fact, set())

    def _my_drive(self) -> str:
        return httpx.get(f"{self._site.drive}/simulator/state", timeout=30).json()["my_drive"]

    def _drive_edit(self) -> None:
        if self._drive:
            item = self._random.choice(list(self._drive))
            old, shares = self._drive[item]
            new = self._truth.fact("google_drive", old.audience)
            self._truth.inherit(new, old)
            self._truth.change(old, ())
            self._site.simulate("drive", "edit", id=item, content=_text(new, "Edited plan"))
            self._truth.done(old)
            self._truth.done(new)
            self._drive[item] = (new, shares)

    def _set_shares(self, item: str, fact: Fact, shares: set[str], operation: str, who: str) -> None:
        audience: set[str] = set()
        for one in shares:
            kind, _, name = one.partition(":")
            audience |= AUDIENCES.get(one) or AUDIENCES.get(name) or ({name} if kind == "user" else set())
        self._truth.change(fact, audience)
        self._site.simulate("drive", operation, id=item, who=who)
        self._truth.done(fact)

    def _drive_share(self) -> None:
        if self._drive:
            item = self._random.choice(list(self._drive))
            fact, shares = self._drive[item]
            who = self._random.choice([f"user:{ADA}", f"user:{BOB}", f"user:{EVE}", ENGINEERS])
            shares.add(who)
            self._set_shares(item, fact, shares, "share", who)

    def _drive_unshare(self) -> None:
        shared = [item for item, (_, shares) in self._drive.items() if shares]
        if shared:
            item = self._random.choice(shared)
            fact, shares = self._drive[item]
            who = self._random.choice(sorted(shares))
            shares.discard(who)
            self._set_shares(item, fact, shares, "unshare", who)

    def _drive_trash(self) -> None:
        if self._drive and self._may_delete("google_drive"):
            item = self._random.choice(list(self._drive))
            fact, _ = self._drive.pop(item)
            self._truth.change(fact, ())
            self._site.simulate("drive", "trash", id=item)
            self._truth.done(fact)

    # Slack

    def _post(self) -> None:
        channel = self._random.choice(list(self._channels))
        fact = self._truth.fact("slack", self._channels[channel])
        ts = self._site.simulate("slack", "post", channel=channel, user=self._users[ADA], text=f"Remember {fact.word}")
        self._truth.done(fact)
        self._messages[channel, ts] = fact

    def _edit_message(self) -> None:
        if self._messages:
            channel, ts = place = self._random.choice(list(self._messages))
            old = self._messages[place]
            new = self._truth.fact("slack", old.audience)
            self._truth.inherit(new, old)
            self._truth.change(old, ())
            self._site.simulate("slack", "edit", channel=channel, ts=ts, text=f"Rather remember {new.word}")
            self._truth.done(old)
            self._truth.done(new)
            self._messages[place] = new

    def _delete_message(self) -> None:
        if self._messages and self._may_delete("slack"):
            channel, ts = place = self._random.choice(list(self._messages))
            fact = self._messages.pop(place)
            self._truth.change(fact, ())
            self._site.simulate("slack", "delete", channel=channel, ts=ts)
            self._truth.done(fact)

    def _member(self) -> None:
        members = self._channels[self._secret]
        joins = BOB not in members
        members ^= {BOB}
        facts = [fact for (channel, _), fact in self._messages.items() if channel == self._secret]
        for fact in facts:
            self._truth.change(fact, members)
        self._site.simulate("slack", "join" if joins else "leave", channel=self._secret, user=self._users[BOB])
        for fact in facts:
            self._truth.done(fact)


class Syncs(threading.Thread):
    """Syncs one source after the other and updates `Truth` after each success."""

    SOURCES = ("files", "google_drive", "slack", "upload", "push")

    def __init__(self, site: Site, truth: Truth, changes: Changes, until: threading.Event) -> None:
        super().__init__(name="syncs", daemon=True)
        self.ended: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._truth, self._changes, self._until = truth, changes, until
        self._http = client(site, "operator@soak.example", admin=True)

    def run(self) -> None:
        """Sync until the end."""
        while True:
            for source in self.SOURCES:
                if self._until.is_set():
                    return
                self.sync(source)

    def sync(self, source: str) -> bool:
        """Sync a source once; return True if it succeeded without errors."""
        started = time.monotonic()
        answer = self._ask("POST", f"/api/sync/{source}")
        if answer is None:
            time.sleep(RETRY_SECONDS)
            return False
        job: dict[str, Any] = answer.json()
        if answer.status_code == 409:
            self._follow(str(job.get("job_id", "")))
            return False
        if answer.status_code != 202:
            self.errors[error_kind(answer)] += 1
            time.sleep(RETRY_SECONDS)
            return False
        end = self._follow(job["job_id"])
        status = str(end.get("status", "unknown"))
        well = status == "success" and not end.get("errors")
        self.ended[f"{source} {status if well or status != 'success' else 'success with faults'}"] += 1
        if well:
            self._truth.synced(source, started)
            self._changes.synced(source)
        return well

    def _follow(self, job_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + SYNC_SECONDS
        while time.monotonic() < deadline:
            answer = self._ask("GET", f"/api/sync/status/{job_id}")
            if answer is not None and answer.status_code == 200 and answer.json()["status"] != "running":
                return answer.json()
            time.sleep(RETRY_SECONDS)
        self.errors[f"a sync took longer than {SYNC_SECONDS:.0f} s"] += 1
        return {}

    def _ask(self, method: str, path: str) -> httpx.Response | None:
        try:
            return self._http.request(method, path)
        except httpx.HTTPError as error:
            self.errors[error_kind(error)] += 1
            return None
