"""Record who may find which document at each moment.

Every text of the soak test contains a word that occurs nowhere else: a `Fact`. A change gives the fact another audience. Between the
change and the moment it must be in force (the API call of an upload has returned; a sync that started afterwards has succeeded), both
the old and the new audience are correct; outside of that interval exactly one is.

The converse is also checked: once a sync has indexed a text, searches must show it to each person who is in every audience that may be
in force at that moment. After a narrowing and a widening that no sync has processed yet, the narrowed audience may come into force
first, so only its members must be shown the text.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

WORD = "soak"
_LETTERS = "bcdfghjklmnpqrstvwxz"


@dataclass(eq=False)
class Change:
    """One audience of a fact. Times are `time.monotonic()` in seconds."""

    audience: frozenset[str]
    made: float
    done: float | None = None
    """When the source accepted it."""
    in_force: float | None = None
    """When earlier audiences cease to be valid."""
    indexed: float | None = None
    """When a sync that began after `done` succeeded, so that the index contains this change."""


@dataclass(eq=False)
class Fact:
    """One word, its source, and the history of who may find it."""

    word: str
    source: str
    changes: list[Change]
    written: Change
    """The change that added the word; earlier ones are inherited from the text that it replaced."""

    @property
    def audience(self) -> frozenset[str]:
        """Return who may find it once all changes are in force."""
        return self.changes[-1].audience

    @property
    def settled(self) -> bool:
        """Return True if the source has confirmed the last change; a request without a response may have taken effect or not."""
        return self.changes[-1].done is not None


class Truth:
    """All facts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._facts: dict[str, Fact] = {}

    def fact(self, source: str, audience: Collection[str]) -> Fact:
        """Return a new fact with a unique word; call this before sending the text to the source."""
        word = WORD + "".join(secrets.choice(_LETTERS) for _ in range(12))
        written = Change(frozenset(audience), time.monotonic())
        made = Fact(word, source, [written], written)
        with self._lock:
            self._facts[word] = made
        return made

    def facts(self) -> list[Fact]:
        """Return every fact, including those that no one may find any more."""
        with self._lock:
            return list(self._facts.values())

    def change(self, fact: Fact, audience: Collection[str], kept: Collection[str] | None = None) -> None:
        """Change a fact's audience; call this before changing the source.

        `kept` is who keeps access throughout where a narrowing is in force immediately and a grant by the next sync: a person
        in both audiences by different principals is between the two for that long.
        """
        with self._lock:
            now = time.monotonic()
            if kept is not None:
                fact.changes.append(Change(frozenset(kept), now))
            fact.changes.append(Change(frozenset(audience), now))

    def inherit(self, new: Fact, old: Fact) -> None:
        """Copy the unsettled audiences of a replaced text to the new one, since either audience may see the new text."""
        with self._lock:
            settled = [at for at, change in enumerate(old.changes) if change.in_force is not None]
            new.changes[:0] = old.changes[settled[-1] if settled else 0 :]

    def done(self, fact: Fact, *, in_force: bool = False) -> None:
        """Record that the source has accepted the last change, and whether it is in force immediately."""
        with self._lock:
            now = time.monotonic()
            fact.changes[-1].done = now
            if in_force:
                fact.changes[-1].in_force = now

    def synced(self, source: str, started: float) -> None:
        """Put in force the changes accepted before the start of a sync that has now succeeded."""
        with self._lock:
            now = time.monotonic()
            for fact in self._facts.values():
                for change in fact.changes if fact.source == source else ():
                    if change.indexed is None and change.done is not None and change.done < started:
                        change.indexed = now
                        change.in_force = change.in_force or now

    def leaked(self, word: str, person: str, start: float, end: float) -> bool:
        """Return True if showing this word to this person between `start` and `end` was wrong."""
        with self._lock:
            fact = self._facts.get(word)
            if fact is None:
                return False
            superseded = False
            for change in reversed(fact.changes):
                if not superseded and change.made <= end and person in change.audience:
                    return False
                superseded = superseded or (change.in_force is not None and change.in_force <= start)
            return True

    def missed(self, word: str, person: str, start: float, end: float) -> bool:
        """Return True if a search between `start` and `end` must show this word to this person."""
        with self._lock:
            fact = self._facts[word]
            if fact.written.indexed is None or fact.written.indexed > start:
                return False
            for change in reversed(fact.changes):
                if change.made <= end and person not in change.audience:
                    return False
                if change.indexed is not None and change.indexed <= start:
                    break
            return True
