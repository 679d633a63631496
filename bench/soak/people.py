"""People who search continuously, and the check of each of their results."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import httpx

from bench.soak.site import Site
from bench.soak.truth import WORD, Truth
from serving.identity.tokens import mint

LIFETIME = timedelta(hours=4)
DEADLINE_SECONDS = 60.0
HANG_SECONDS = 10.0
PAUSE_SECONDS = 0.15
WORDS = re.compile(rf"{WORD}[a-z]{{12}}")
"""The words of facts."""


class Observed:
    """Counts of everything that people observed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seconds: list[float] = []
        self.errors: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter()
        self.leaks: list[str] = []
        self.doubled: list[str] = []
        self.missed: list[str] = []
        self.query_ids: list[str] = []
        self.longest = 0.0

    def answered(self, seconds: float, query_id: str, warnings: list[str]) -> None:
        """Count an answer."""
        with self._lock:
            self.seconds.append(seconds)
            self.query_ids.append(query_id)
            self.warnings.update(warnings)
            self.longest = max(self.longest, seconds)

    def failed(self, kind: str, seconds: float) -> None:
        """Count an error."""
        with self._lock:
            self.errors[kind if seconds < HANG_SECONDS else f"{kind} after more than {HANG_SECONDS:.0f} s"] += 1
            self.longest = max(self.longest, seconds)

    def wrong(self, kind: str, text: str) -> None:
        """Record a leak, a duplicate or a miss."""
        with self._lock:
            getattr(self, kind).append(text)


def client(site: Site, email: str, groups: tuple[str, ...] = (), *, admin: bool = False) -> httpx.Client:
    """Return a client of the HTTP API that is signed in as one person."""
    token = mint(site.settings, email, groups, admin=admin, expires=LIFETIME)
    return httpx.Client(base_url=site.address, headers={"Authorization": f"Bearer {token}"}, timeout=DEADLINE_SECONDS)


def error_kind(answer: httpx.Response | httpx.HTTPError) -> str:
    """Return a short name of a failure: the problem type with its status, or the transport error."""
    if isinstance(answer, httpx.HTTPError):
        return type(answer).__name__
    try:
        kind = str(answer.json().get("type", "")).rpartition("/")[2]
    except ValueError:
        kind = ""
    return f"{answer.status_code} {kind}".strip()


class Person(threading.Thread):
    """Searches for permitted and forbidden words until the end."""

    def __init__(
        self, site: Site, truth: Truth, observed: Observed, email: str, groups: tuple[str, ...], until: threading.Event
    ) -> None:
        super().__init__(name=email, daemon=True)
        self.email = email
        self._http = client(site, email, groups)
        self._truth, self._observed, self._until = truth, observed, until
        self._random = random.Random(email)

    def run(self) -> None:
        """Search until the end."""
        with self._http:
            while not self._until.wait(PAUSE_SECONDS):
                facts = self._truth.facts()
                if facts:
                    # Every second search is for something recent, where changes are in progress.
                    recent = self._random.random() < 0.5
                    self.look_for(self._random.choice(facts[-40:] if recent else facts).word)

    def look_for(self, word: str, mode: str | None = None) -> bool | None:
        """Search for a word, check the results and return True if it was shown; None if the search failed."""
        mode = mode or self._random.choice(["keyword", "keyword", "hybrid"])
        start = time.monotonic()
        body = {"query": word, "mode": mode, "top_k": 10}
        try:
            answer = self._http.post("/api/rag/search", json=body)
        except httpx.HTTPError as error:
            self._observed.failed(error_kind(error), time.monotonic() - start)
            return None
        end = time.monotonic()
        if answer.status_code != 200:
            self._observed.failed(error_kind(answer), end - start)
            return None
        found: dict[str, Any] = answer.json()
        warnings = [warning["code"] for warning in found["warnings"]]
        self._observed.answered(end - start, found["query_id"], warnings)
        return self._judge(word, mode, found["results"], warnings, start, end)

    def _judge(
        self, word: str, mode: str, results: list[dict[str, Any]], warnings: list[str], start: float, end: float
    ) -> bool:
        shown: set[str] = set()
        for result in results:
            words = set(WORDS.findall(str(result)))
            if word in words and word in shown and result["chunk_text"].count(word):
                self._observed.wrong("doubled", f"{self.email} was shown {word} in two documents ({mode})")
            shown |= words
        for one in shown:
            if self._truth.leaked(one, self.email, start, end):
                self._observed.wrong("leaks", f"{self.email} was shown {one} ({mode}, warnings {warnings})")
        # Only keywords distinguish the texts of the soak test: their vectors are nearly equal.
        if (
            mode == "keyword"
            and word not in shown
            and not warnings
            and self._truth.missed(word, self.email, start, end)
        ):
            self._observed.wrong("missed", f"{self.email} was not shown {word} at {time.strftime('%H:%M:%S')}")
        return word in shown
