"""Kill a random process with SIGKILL at regular intervals and measure the recovery."""

from __future__ import annotations

import random
import signal
import threading
import time
from dataclasses import dataclass

import httpx
import psutil

from bench.soak.people import client
from bench.soak.site import Site

EVERY_SECONDS = 20.0
PROBE_SECONDS = 0.1
PROBE_DEADLINE = 15.0


@dataclass
class Kill:
    """One killed process. Times are seconds since the kill; None if it had not recovered before the next kill."""

    role: str
    at: float
    search: float = 0.0
    """Time until searches succeeded again without a warning; 0 if they were never disturbed."""
    services: float | None = None
    """Time until every service was ready again."""


class Kills(threading.Thread):
    """Kills processes and probes the recovery with its own searches."""

    def __init__(self, site: Site, until: threading.Event) -> None:
        super().__init__(name="kills", daemon=True)
        self.kills: list[Kill] = []
        self._site, self._until = site, until
        self._random = random.Random(11)
        self._http = client(site, "probe@soak.example")

    def run(self) -> None:
        """Kill and probe until the end."""
        self._http.timeout = httpx.Timeout(PROBE_DEADLINE)
        next_kill = time.monotonic() + EVERY_SECONDS / 2
        while not self._until.wait(PROBE_SECONDS):
            if time.monotonic() >= next_kill:
                self._kill()
                next_kill += EVERY_SECONDS
            self._probe()
        self._http.close()

    def _kill(self) -> None:
        roles = {name: found for name, found in self._site.processes().items() if found}
        if not roles:
            return
        role = self._random.choice(sorted(roles))
        victim = self._random.choice(roles[role])
        try:
            victim.send_signal(signal.SIGKILL)
        except psutil.Error:
            return
        self.kills.append(Kill(role, time.monotonic()))

    def _probe(self) -> None:
        asked = time.monotonic()
        try:
            answer = self._http.post("/api/rag/search", json={"query": "probe", "mode": "keyword", "top_k": 1})
            fine = answer.status_code == 200 and not answer.json()["warnings"]
        except httpx.HTTPError:
            fine = False
        if not self.kills:
            return
        now, last = time.monotonic(), self.kills[-1]
        if not fine and asked >= last.at:
            last.search = now - last.at
        if fine and last.services is None and now - last.at > 1 and self._site.ready:
            last.services = now - last.at
