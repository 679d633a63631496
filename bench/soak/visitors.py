"""People with browsers: signed-in sessions on the pages, a reader of the book assistant, and an auditor in Dagster."""

from __future__ import annotations

import random
import re
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from datetime import UTC, datetime

import httpx

from bench.soak.people import DEADLINE_SECONDS, WORDS, Observed, client, error_kind
from bench.soak.site import AUDITOR, READER, Site
from bench.soak.truth import Truth

PAUSE_SECONDS = 1.0
TRACKED = 5
"""Questions that the book assistant reports at once."""
_SNIPPETS = re.compile(r'<p class="snippet">(.*?)</p>', re.DOTALL)
_LINKS = re.compile(r'href="(/documents/[^"#]+)')
_TAGS = re.compile(r"<[^>]+>")
_FILE = re.compile(r"\b[bcdfghjklmnpqrstvwxz]{5}\.md\b")
"""A name that `Changes` gives to files."""
RUNS = "{ runsOrError { ... on Runs { results { runId status } } } }"
LOGS = '{ capturedLogs(logKey: ["%s", "compute_logs", "raw"]) { stdout stderr } }'
EVENTS = '{ logsForRun(runId: "%s") { ... on EventConnection { events { ... on MessageEvent { message } } } } }'
MISSING = "00000000-0000-4000-8000-00000000dead"


class Visitor(threading.Thread, ABC):
    """Does something once a second until the end and counts the responses."""

    SUCCESS = "200"
    """What is counted if a visit succeeds."""

    def __init__(self, http: httpx.Client, name: str, until: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.answers: Counter[str] = Counter()
        self._http, self._until = http, until
        self._random = random.Random(name)

    def run(self) -> None:
        """Visit until the end."""
        while not self._until.wait(PAUSE_SECONDS):
            try:
                self.visit()
            except httpx.HTTPError as error:
                self.answers[error_kind(error)] += 1
        self._http.close()

    @abstractmethod
    def visit(self) -> None:
        """Send a few requests. May raise `httpx.HTTPError`: services are killed all the time."""

    def get(self, path: str, **more: str) -> httpx.Response:
        """Send a GET request as a browser does that opens an address, and count the response."""
        answer = self._http.get(
            path, params=more or None, headers={"accept": "text/html", "sec-fetch-site": "same-origin"}
        )
        self.answers[str(answer.status_code)] += 1
        return answer

    @property
    def faults(self) -> list[str]:
        """Return the responses that were a 500, and that no visit succeeded."""
        errors = [f"{self.name}: {name}" for name in self.answers if " 500" in f" {name}"]
        return errors if self.answers[self.SUCCESS] else [*errors, f"{self.name}: no visit succeeded"]


def signed_in(site: Site, email: str) -> httpx.Client:
    """Return a browser that has opened a link of `concordance sign-in`. Raises `SystemExit`."""
    made = site.command("sign-in", email)
    http = httpx.Client(base_url=site.address, timeout=DEADLINE_SECONDS)
    token = made.stdout.strip().rpartition("#")[2]
    answer = http.post("/sign-in/link", data={"token": token}, headers={"origin": site.address})
    if answer.status_code not in (302, 303):
        raise SystemExit(
            f"{email} could not be signed in: {made.stderr[-500:]} {answer.status_code} {answer.text[:500]}"
        )
    return http


class Browser(Visitor):
    """Searches on the page and opens what was found there."""

    def __init__(self, site: Site, truth: Truth, observed: Observed, email: str, until: threading.Event) -> None:
        super().__init__(signed_in(site, email), f"browser of {email}", until)
        self._email, self._truth, self._observed = email, truth, observed

    def visit(self) -> None:
        """Search for a word, open a result, and look at another page."""
        facts = self._truth.facts()
        if facts:
            start = time.monotonic()
            page = self.get("/results", q=self._random.choice(facts).word)
            self._judge(" ".join(_SNIPPETS.findall(page.text)), start)
            links = _LINKS.findall(page.text)
            if links:
                start = time.monotonic()
                self._judge(self.get(self._random.choice(links).replace("&amp;", "&")).text, start)
        self.get(self._random.choice(["/", "/history", "/sources", "/me"]))

    def _judge(self, text: str, start: float) -> None:
        end = time.monotonic()
        for word in set(WORDS.findall(_TAGS.sub("", text))):
            if self._truth.leaked(word, self._email, start, end):
                self._observed.wrong("leaks", f"{self.name} was shown {word}")


class Reader(Visitor):
    """Reports questions and answers of the book assistant (`POST /track`)."""

    SUCCESS = "202"

    def __init__(self, site: Site, until: threading.Event) -> None:
        super().__init__(client(site, READER), "book assistant", until)

    def visit(self) -> None:
        """Report a few questions at once."""
        body = {"query": "What is a soak test?", "answer": "A long one. " * 40, "sources": []}
        for _ in range(TRACKED):
            answer = self._http.post("/track", json=body | {"timestamp": datetime.now(UTC).isoformat()})
            self.answers[error_kind(answer) if answer.status_code >= 400 else str(answer.status_code)] += 1


class Viewer(Visitor):
    """Opens Dagster as an auditor: neither words nor names of documents may be there."""

    SUCCESS = "GraphQL 200"

    def __init__(self, site: Site, observed: Observed, until: threading.Event) -> None:
        super().__init__(signed_in(site, AUDITOR), "auditor in Dagster", until)
        self._dagster = f"http://127.0.0.1:{site.settings.dagster_port}"
        self._observed = observed

    def visit(self) -> None:
        """Open Dagster if that is not done, list its runs, and ask for what the runs print."""
        if not any(cookie.name == "concordance_dagster" for cookie in self._http.cookies.jar):
            link = self.get("/dagster").headers.get("location")
            if link:
                self._see(self.get(link))
            return
        runs = self._ask(RUNS)
        found = re.findall(r'"runId": ?"([0-9a-f-]{36})"', runs.text) or [MISSING]
        run = self._random.choice(found)
        for document in (LOGS % run, EVENTS % run):
            self._ask(document)
        for path in (f"/download_debug/{run}", f"/logs/{run}/compute_logs/raw/out", f"/runs/{run}"):
            self._see(self.get(f"{self._dagster}{path}"))

    def _ask(self, document: str) -> httpx.Response:
        answer = self._http.post(
            f"{self._dagster}/graphql", json={"query": document}, headers={"origin": self._dagster}
        )
        self.answers[f"GraphQL {answer.status_code}"] += 1
        return self._see(answer)

    def _see(self, answer: httpx.Response) -> httpx.Response:
        for found in (*WORDS.findall(answer.text), *_FILE.findall(answer.text)):
            self._observed.wrong("leaks", f"{self.name} was shown {found} by {answer.request.url.path}")
        return answer
