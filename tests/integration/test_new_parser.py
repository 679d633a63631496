"""A new version of the parser on an existing installation: what it affects is parsed again from stored bytes, and stays findable."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from assets.parsing.pool import ParseJob, ParseOutcome, ParserPool
from orchestration.cli import run
from resources.settings import Settings
from tests.fixtures.desk import ADA, Desk

MODULES = ("stages.parse", "parsed", "chunked", "index.work", "index.targets", "index.collection")
ANIMALS = ("otter", "heron", "badger", "lynx")


def outdated(settings: Settings, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return how many documents `status` says an earlier version parsed, and what it tells people."""
    patch.setenv("CONCORDANCE_HOME", str(settings.home))
    patch.setenv("CONCORDANCE_POSTGRES_URL", settings.postgres_dsn)
    patch.setenv("CONCORDANCE_QDRANT_URL", settings.qdrant_address)
    capsys.readouterr()
    run(["status", "--json"])
    number = json.loads(capsys.readouterr().out)["sources"]["files"]["outdated"]
    run(["status"])
    return number, capsys.readouterr().err


class Watcher:
    """Searches for documents again and again, and notes those that are not found."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ended = threading.Event()
        self.searches = 0
        self.missed: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def look(self) -> None:
        for animal in ANIMALS:
            self.searches += 1
            # each of many people, since one may search 100 times a minute
            found = self._desk.found(f"Where does the {animal} sleep?", f"p{self.searches % 97}@acme.example")
            if f"docs/{animal}.md" not in found:
                self.missed.append(animal)

    def _run(self) -> None:
        while not self._ended.is_set():
            self.look()

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def test_stored_bytes_are_parsed_again_and_documents_stay_findable(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installation = desk.installation
    for animal in ANIMALS:
        installation.write(f"{animal}.md", f"# Keeping a {animal}\n\nThe {animal} sleeps in its den by day.\n")
    installation.write("old.txt", "Gänse und Füchse schlafen nachts, die Käuze nicht.\n".encode("cp1252"))
    installation.sync()
    assert outdated(desk.site.settings, monkeypatch, capsys)[0] == 0
    passages = installation.rows("SELECT chunk_id FROM chunks ORDER BY chunk_id")
    for module in MODULES:
        monkeypatch.setattr(f"assets.{module}.PARSER_VERSION", "p-next")
    number, told = outdated(desk.site.settings, monkeypatch, capsys)
    assert number == len(ANIMALS) + 2
    assert f"an earlier version parsed {number} documents" in told

    parse = ParserPool.run
    watcher = Watcher(desk)

    def watched(pool: ParserPool, *queues: Iterator[ParseJob]) -> Iterator[ParseOutcome]:
        for outcome in parse(pool, *queues):
            watcher.look()
            yield outcome

    monkeypatch.setattr(ParserPool, "run", watched)
    with watcher:
        installation.sync()
    assert watcher.searches > len(ANIMALS)
    assert watcher.missed == []
    raw, parsed, embedded = (installation.last[stage] for stage in ("raw", "parsed", "embedded"))
    assert (raw["fetched"], parsed["parsed"], embedded["embedded"]) == (0, number, 0)
    assert installation.rows("SELECT chunk_id FROM chunks ORDER BY chunk_id") == passages
    assert installation.rows("SELECT count(*) AS noted FROM documents WHERE notes <> '[]'") == [{"noted": 1}]
    assert outdated(desk.site.settings, monkeypatch, capsys)[0] == 0
    assert desk.found("Where does the otter sleep?", ADA)[0] == "docs/otter.md"
    assert installation.sync().counts.synced == 0
