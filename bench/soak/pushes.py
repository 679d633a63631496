"""Push documents of a system without a connector while people search: create, edit, share, and delete them."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from typing import Any, Protocol

import httpx

from bench.soak.people import client
from bench.soak.site import PUBLISHER, Site
from bench.soak.truth import Fact, Truth

SYSTEM = "wiki"
"""Name of the pushed source."""


class Insisting(Protocol):
    """Repeat a request until its status is one of `fine`; None if the soak test ended first."""

    def __call__(self, attempt: Callable[[], httpx.Response], fine: tuple[int, ...]) -> httpx.Response | None: ...


class Pushes:
    """Pushes of one program. Every request is safe to repeat, so one whose response was lost is sent again."""

    def __init__(self, site: Site, truth: Truth, insist: Insisting, audiences: dict[str, frozenset[str]]) -> None:
        self._http = client(site, PUBLISHER)
        self._truth, self._insist, self._audiences = truth, insist, audiences
        self._random = random.Random(17)
        self._documents: dict[str, tuple[Fact, str]] = {}
        self.steps: list[tuple[str, Callable[[], None]]] = [
            ("push", self._create), ("push", self._create), ("push edit", self._edit),
            ("push share", self._share), ("push delete", self._delete),
        ]  # fmt: skip

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _put(self, name: str, fact: Fact, who: str) -> bool:
        body: dict[str, Any] = {
            "title": "Page",
            "content": f"# Page\n\nThe word of this page is {fact.word}. No other page contains it.\n",
            "share": [who],
        }
        return (
            self._insist(lambda: self._http.put(f"/api/documents/{SYSTEM}/{name}", json=body), (200, 202)) is not None
        )

    def _create(self) -> None:
        who = self._random.choice(sorted(self._audiences))
        fact = self._truth.fact("push", self._audiences[who])
        name = secrets.token_hex(8)
        if self._put(name, fact, who):
            self._truth.done(fact)
            self._documents[name] = (fact, who)

    def _edit(self) -> None:
        if self._documents:
            name = self._random.choice(list(self._documents))
            old, who = self._documents[name]
            new = self._truth.fact("push", old.audience)
            self._truth.inherit(new, old)
            self._truth.change(old, ())
            if self._put(name, new, who):
                self._truth.done(old)
                self._truth.done(new)
                self._documents[name] = (new, who)

    def _share(self) -> None:
        if self._documents:
            name = self._random.choice(list(self._documents))
            fact, _ = self._documents[name]
            who = self._random.choice(sorted(self._audiences))
            narrows = not fact.audience <= self._audiences[who]
            self._truth.change(fact, self._audiences[who], kept=())
            if self._put(name, fact, who):
                self._truth.done(fact, in_force=narrows)
                self._documents[name] = (fact, who)

    def _delete(self) -> None:
        if self._documents:
            name = self._random.choice(list(self._documents))
            fact, _ = self._documents.pop(name)
            self._truth.change(fact, ())
            if (
                self._insist(lambda: self._http.delete(f"/api/documents/{SYSTEM}/{name}"), (200, 202, 204, 404))
                is not None
            ):
                self._truth.done(fact, in_force=True)
