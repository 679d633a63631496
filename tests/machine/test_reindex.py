"""Reindexing with another model: searches continue, syncs reach both collections, crashes are resumed, a worse model is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from assets.chunked import TABLE as CHUNKED
from assets.cutover import drop, promote
from assets.index.collection import activate
from assets.index.targets import Target
from assets.parsed import TABLE as PARSED
from assets.reindex import WORK, Reindex, open_reindex
from assets.upkeep.erase import erase
from orchestration.cli import reindexing
from orchestration.cli import run as command
from orchestration.maintenance import maintain
from orchestration.supervision.environment import child_environment
from resources.core.errors import BusyError, InvalidRequestError, ServiceUnavailableError
from resources.embedding import choose, embedder
from resources.settings.limits import Prompts
from resources.stores import leases, qdrant
from resources.stores.lake import Lake
from sql.sync import IndexEntries
from tests.fixtures.installation import Installation
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.serving import Running
from tests.fixtures.step import follow, web
from tests.fixtures.tiny_model import make_tiny_model
from tests.fixtures.waiting import until
from tests.integration.test_indexed_again import versions
from tests.integration.test_new_parser import MODULES

ANIMALS = ("zebra", "otter", "heron", "badger", "lynx", "stork", "marten", "ibex", "beaver", "osprey", "vole", "mink")
ADA = "ada@acme.example"
SECONDS = 60

WORKER = """
import os, signal, sys
from assets.reindex import open_reindex
from resources.embedding import choose
from resources.settings import load
parts = []
def progress(done, of):
    parts.append(done)
    if len(parts) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
with open_reindex(load()) as work:
    made = work.begin(work.wanted(choose(work.settings, sys.argv[1], None)))
    work.fill(made, progress, 1, batch=5)
"""


def page(animal: str, more: str = "") -> str:
    return f"# Keeping a {animal}\n\nThe {animal} sleeps in its den by day and eats at dusk. {more}\n"


def fill(installation: Installation) -> None:
    for animal in ANIMALS:
        installation.write(f"{animal}.md", page(animal))
    installation.sync()


def quiet(_done: int, _of: int) -> None:
    """Ignore progress."""


def build(work: Reindex, model: str, progress: Callable[[int, int], None] = quiet, batch: int = 1000) -> Target:
    """Fill the collection of a model and return its target."""
    made = work.begin(work.wanted(choose(work.settings, model, None)))
    work.fill(made, progress, 1, batch=batch)
    return made


def payloads(installation: Installation, name: str) -> dict[str, Mapping[str, Any]]:
    """Return one payload per document of a collection, by source id."""
    client = qdrant.client(installation.settings)
    found, _ = client.scroll(name, limit=10_000, with_payload=True)
    client.close()
    return {str((record.payload or {})["source_id"]): record.payload or {} for record in found}


def alias(installation: Installation) -> str | None:
    client = qdrant.client(installation.settings)
    try:
        return qdrant.current_collection(client)
    finally:
        client.close()


class Load:
    """Searches continuously in a thread; `faults` lists the wrong results."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._search, daemon=True)
        self.faults: list[Any] = []
        self.searches = 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(SECONDS)

    def _search(self) -> None:
        while not self._stop.is_set():
            animal = ANIMALS[self.searches % len(ANIMALS)]
            body = {"query": f"where does the {animal} sleep", "top_k": 3}
            response = self._running.request("POST", "/api/rag/search", ADA, json=body)
            answer = response.json()
            if response.status_code != 200 or not answer["results"] or answer["warnings"]:
                self.faults.append((response.status_code, answer))
            self.searches += 1


def test_searches_go_on_while_the_model_changes_and_back(
    installation: Installation, bundled_model: Any, tmp_path: Path
) -> None:
    folder = make_tiny_model(tmp_path / "tiny")
    follow(installation)
    fill(installation)
    old = alias(installation)

    with web(installation, bundled_model) as running:

        def cosine() -> float:
            return running.search("zebra", ADA, explain=True)["results"][0]["explain"]["dense_score"]

        load, before = Load(running), cosine()
        with load.going_on():
            with open_reindex(installation.settings) as work:
                made = build(work, str(folder))
                assert alias(installation) == old
                assert cosine() == pytest.approx(before, abs=1e-5)
                promote(work, made)
            assert alias(installation) == made.collection.name
            until(lambda: abs(cosine() - before) > 1e-4, "the new vector")
            seen = load.searches
            until(lambda: load.searches > seen + 5, "more searches")
            changed = cosine()
            with open_reindex(installation.settings) as work:
                kept = work.begin(work.kept())
                work.fill(kept, quiet, 1)
                promote(work, kept)
            until(lambda: abs(cosine() - changed) > 1e-4, "the earlier vector")
            assert cosine() == pytest.approx(before, abs=1e-5)
        assert load.faults == []
        assert load.searches > 10
    assert alias(installation) == old
    run = installation.sync()
    assert (run.counts.synced, run.counts.embedded) == (0, 0)
    assert installation.agrees()


def test_what_changes_during_the_build_reaches_both(installation: Installation, tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "tiny")
    fill(installation)
    old = alias(installation)
    assert old is not None
    calls: list[int] = []

    def change(_done: int, _of: int) -> None:
        calls.append(1)
        if len(calls) != 2:  # the first part is written, others follow
            return
        (installation.root / "zebra.md").unlink()
        installation.write("otter.md", page("otter"), permissions=["bob@acme.example"])
        installation.write("heron.md", page("heron", "It was ringed in the marsh."))
        installation.write("crane.md", page("crane"))
        run = installation.sync()
        assert run.error is None
        assert run.counts.deleted == 1

    with open_reindex(installation.settings) as work:
        made = build(work, str(folder), change, batch=4)
        new = made.collection.name
        for name in (old, new):
            found = payloads(installation, name)
            assert set(found) == {f"docs/{animal}.md" for animal in (*ANIMALS, "crane")} - {"docs/zebra.md"}, name
            assert found["docs/otter.md"]["permissions"] == ["bob@acme.example"]
            assert "ringed" in found["docs/heron.md"]["chunk_text"]
        promote(work, made)
    # later permission changes and deletions also reach the kept collection
    (installation.root / "lynx.md").unlink()
    installation.write("vole.md", page("vole"), permissions=["bob@acme.example"])
    installation.sync()
    assert installation.agrees()
    for name in (old, new):
        found = payloads(installation, name)
        assert "docs/lynx.md" not in found
        assert found["docs/vole.md"]["permissions"] == ["bob@acme.example"]
    receipts = installation.rows("SELECT count(*) AS receipts FROM deletion_receipts WHERE points_gone_at IS NOT NULL")
    assert receipts == [{"receipts": 2}]


def test_a_command_that_ended_after_it_switched_is_told_so_when_it_is_run_again(
    installation: Installation, tmp_path: Path
) -> None:
    """Its index is in use, and the one before is still wanted for a rollback."""
    folder = str(make_tiny_model(tmp_path / "tiny"))
    fill(installation)
    old = alias(installation)
    assert old is not None
    with open_reindex(installation.settings) as work:
        made = build(work, folder)
        activate(work.connection, made.collection.name)  # and the vector server, or the command, ended here
        with pytest.raises(InvalidRequestError, match=r"^The index already uses tiny@"):
            work.wanted(choose(work.settings, folder, None))
    assert alias(installation) == old
    installation.sync()
    assert alias(installation) == made.collection.name


def test_a_vector_server_that_ends_before_the_switch_leaves_the_index_as_it_was(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise ServiceUnavailableError("Qdrant does not answer")

    fill(installation)
    old = alias(installation)
    with open_reindex(installation.settings) as work:
        made = build(work, str(make_tiny_model(tmp_path / "tiny")))
        with monkeypatch.context() as patch:
            patch.setattr(qdrant, "switch_alias", away)
            with pytest.raises(ServiceUnavailableError):
                promote(work, made)
        assert (work.active_name(), alias(installation)) == (old, old)
        promote(work, made)
        assert work.active_name() == alias(installation) == made.collection.name


def test_a_sync_that_was_killed_while_it_removed_a_document_costs_no_new_index(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(installation)
    with open_reindex(installation.settings) as work:
        made = build(work, str(make_tiny_model(tmp_path / "tiny")))
    (installation.root / "otter.md").unlink()

    def killed(*_: Any, **_more: Any) -> int:
        raise ServiceUnavailableError("Postgres stopped answering.")

    with monkeypatch.context() as patch:
        patch.setattr(IndexEntries, "removed", killed)  # its points are gone, and its entries are not
        with pytest.raises(ServiceUnavailableError):
            installation.sync()
    with open_reindex(installation.settings) as work:
        promote(work, made)
        assert work.active_name() == made.collection.name
    assert len(payloads(installation, made.collection.name)) == len(ANIMALS) - 1


@pytest.fixture
def service() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimensions=48) as server:
        yield server


@pytest.fixture
def served(installation: Installation, service: OpenAIServer) -> Installation:
    """The installation with an embedding service that offers other models."""
    update = {"openai_base_url": service.url, "openai_api_key": SecretStr("test")}
    installation.settings = installation.settings.model_copy(update=update)
    fill(installation)
    return installation


def may_reindex(served: Installation) -> bool:
    """Return True if Postgres has noticed that whoever held the lock is gone."""
    try:
        with open_reindex(served.settings):
            return True
    except BusyError:
        return False


def test_a_killed_reindex_goes_on_where_it_was(served: Installation, service: OpenAIServer) -> None:
    environment = {**os.environ, **child_environment(served.settings), "PYTHONPATH": str(Path.cwd())}
    worker = subprocess.run(
        [sys.executable, "-c", WORKER, "word-counts"], env=environment, stderr=subprocess.PIPE, timeout=240, check=False
    )
    assert worker.returncode == -signal.SIGKILL, worker.stderr.decode()[-2000:]
    written = served.rows(
        "SELECT count(*) AS entries FROM index_entries WHERE content <> '' AND NOT EXISTS"
        " (SELECT FROM active_entries AS a WHERE a.collection = index_entries.collection)"
    )
    assert written == [{"entries": 5}]
    until(lambda: may_reindex(served), "the right to reindex")
    with open_reindex(served.settings) as work:
        made = build(work, "word-counts")
        promote(work, made)
    texts = [text for request in service.requests for text in request["input"] if text not in ("dimensions", "warm up")]
    assert len(texts) == len(set(texts)) == len(ANIMALS)
    assert alias(served) == made.collection.name
    assert set(payloads(served, made.collection.name)) == {f"docs/{animal}.md" for animal in ANIMALS}
    assert served.sync().counts.embedded == 0
    assert served.agrees()


def test_a_limited_reindex_goes_on_with_the_same_command(
    served: Installation,
    service: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = {"reindex_documents": 5, "embedding_price": 1000.0, "embedding_budget": 0.001}
    for name, value in child_environment(served.settings.model_copy(update=limits)).items():
        monkeypatch.setenv(name, value)
    old = alias(served)

    def reindex(*arguments: str) -> tuple[int, dict[str, Any], str]:
        capsys.readouterr()
        chosen = arguments or ("--model", "word-counts", "--yes", "--force")
        status = command(["reindex", *chosen, "--json"])
        said = capsys.readouterr()
        return status, json.loads(said.out.splitlines()[-1]) if status == 0 else {}, said.err

    status, _, said = reindex()
    assert status == 1
    assert "0 of 12 documents were written to the new index. Searches keep using the old one." in said
    assert "CONCORDANCE_LIMITS__EMBEDDING_BUDGET" in said
    monkeypatch.setenv("CONCORDANCE_LIMITS__EMBEDDING_BUDGET", "100")
    reports = [reindex() for _ in range(3)]
    assert [report["switched"] for _, report, _ in reports] == [False, False, True]
    assert [report["estimate"]["documents"] for _, report, _ in reports] == [12, 7, 2]
    (source,) = reports[0][1]["estimate"]["sources"]
    assert (source["source"], source["documents"], source["to_embed"]) == ("files", 12, 12)
    assert (
        "5 of 12 documents were written to the new index. CONCORDANCE_LIMITS__REINDEX_DOCUMENTS is 5." in reports[0][2]
    )
    texts = [text for request in service.requests for text in request["input"] if "sleeps in its den" in text]
    sampled = [texts.count(text) for text in set(texts)]  # the preview measures the model with some of them
    assert len(sampled) == len(ANIMALS)
    assert alias(served) != old
    assert served.rows("SELECT sum(texts)::int AS texts FROM embedding_usage WHERE model = 'word-counts'") == [
        {"texts": len(ANIMALS)}
    ]
    assert served.sync().counts.embedded == 0
    for animal in ANIMALS:
        served.write(f"{animal}.md", page(animal, "It was counted last year."))
    served.sync()
    reports = [reindex("--rollback") for _ in range(3)]
    assert [report["switched"] for _, report, _ in reports] == [False, False, True]
    assert [report["estimate"]["documents"] for _, report, _ in reports] == [12, 7, 2]
    assert alias(served) == old
    assert served.agrees()


@pytest.mark.parametrize("limit", [None, 4])
def test_a_text_that_the_new_model_cannot_embed_holds_up_its_document_only(
    served: Installation,
    service: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    limit: int | None,
) -> None:
    for name, value in child_environment(served.settings.model_copy(update={"reindex_documents": limit})).items():
        monkeypatch.setenv(name, value)
    service.fails_on = "heron"
    old = alias(served)
    others = {f"docs/{animal}.md" for animal in ANIMALS if animal != "heron"}

    def reindex(*arguments: str) -> tuple[int, bool, str]:
        capsys.readouterr()
        status = command(["reindex", "--model", "word-counts", "--yes", "--json", *arguments])
        said = capsys.readouterr()
        return status, json.loads(said.out.splitlines()[-1])["switched"], said.err

    for _ in range(2 if limit else 0):
        assert reindex()[:2] == (0, False)
    status, switched, said = reindex()
    assert (status, switched, alias(served)) == (1, False, old)
    assert "word-counts cannot embed a text of 1 document, such as " in said
    (name,) = (row["name"] for row in served.rows("SELECT name FROM index_collections WHERE building"))
    assert set(payloads(served, name)) == others
    served.write("heron.md", page("heron", "It was ringed in the marsh."))
    assert served.sync().error is None
    assert reindex("--force")[:2] == (0, True)
    assert set(payloads(served, name)) == others
    served.sync()
    failed = served.rows("SELECT source_id, stage FROM documents WHERE state = 'failed'")
    assert failed == [{"source_id": "docs/heron.md", "stage": "embedded"}]
    assert served.agrees()


def test_a_loss_is_refused_and_the_command_line_goes_the_whole_way(
    served: Installation,
    service: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in child_environment(served.settings).items():
        monkeypatch.setenv(name, value)
    # none of these words occur in the page: only a model that knows their meaning finds it
    assert command(["questions", "add", "striped horses", "--document", "docs/zebra.md", "--as", ADA]) == 0
    old = alias(served)

    def reindex(*arguments: str) -> tuple[int, dict[str, Any]]:
        status = command(["reindex", *arguments, "--json"])
        said = capsys.readouterr()
        assert said.out, said.err
        return status, json.loads(said.out.splitlines()[-1])

    def asked(question: str) -> bool:
        with leases.alone(served.settings.postgres_dsn, WORK, "It keeps others out while it asks."):
            return False

    monkeypatch.setattr(reindexing, "confirmed", asked)
    status, report = reindex("--model", "word-counts")
    assert (status, report["switched"], report["estimate"]["to_embed"]) == (0, False, len(ANIMALS))
    assert report["estimate"]["tokens"] > 0
    assert served.rows("SELECT name FROM index_collections WHERE building") == []
    status, report = reindex("--model", "word-counts", "--yes")
    assert (status, report["switched"], report["questions"]["passed"]) == (1, False, False)
    assert (report["questions"]["questions"], report["questions"]["from_titles"]) == (1, False)
    assert report["questions"]["loss"] > 0.03
    assert alias(served) == old
    status, report = reindex("--model", "word-counts", "--yes", "--force")
    assert (status, report["switched"], report["estimate"]["to_embed"]) == (0, True, 0)
    assert alias(served) != old
    assert command(["cleanup", "--yes"]) == 2  # replaced this minute: a search may still use it
    assert reindex("--rollback")[1]["switched"]
    assert alias(served) == old
    served.rows("UPDATE index_collections SET replaced_at = now() - interval '1 hour' WHERE NOT active RETURNING name")
    assert maintain(served.settings)["indexes_dropped"] == 0
    capsys.readouterr()
    assert command(["cleanup", "--yes", "--vectors", "--json"]) == 0
    (dropped,) = json.loads(capsys.readouterr().out)["collections"]
    assert dropped["model"] == "word-counts"
    receipt = {"collection": dropped["collection"], "model": "word-counts", "points": dropped["points"]}
    assert served.rows("SELECT detail FROM audit_log WHERE action = 'index_dropped'") == [{"detail": receipt}]
    assert [row["name"] for row in served.rows("SELECT name FROM index_collections")] == [old]
    assert served.rows("SELECT DISTINCT collection FROM chunks") == [{"collection": old}]
    assert served.sync().counts.embedded == 0
    assert served.agrees()


def test_a_new_index_that_shows_what_must_not_be_found_is_refused(
    served: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in child_environment(served.settings).items():
        monkeypatch.setenv(name, value)
    old = alias(served)
    # Ada may read it: a question that names it as forbidden stands for a permission that the index lacks
    assert command(["questions", "add", "zebra", "--document", "docs/zebra.md", "--as", ADA, "--never"]) == 0
    capsys.readouterr()
    assert command(["reindex", "--model", "word-counts", "--yes", "--json"]) == 1
    said = capsys.readouterr()
    report = json.loads(said.out.splitlines()[-1])
    assert (report["switched"], report["questions"]["leaks"]) == (False, {ADA: 1})
    assert f"asked as {ADA} (1)" in said.err
    assert alias(served) == old


def test_an_index_that_was_replaced_long_ago_is_dropped_by_the_weekly_upkeep(
    served: Installation, service: OpenAIServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installation, old = served, alias(served)
    with open_reindex(installation.settings) as work:
        promote(work, build(work, "word-counts"))
    new = alias(installation)
    assert new != old
    installation.rows(
        "UPDATE index_collections SET replaced_at = now() - interval '15 days' WHERE NOT active RETURNING 1"
    )
    assert maintain(installation.settings)["indexes_dropped"] == 1
    assert maintain(installation.settings)["indexes_dropped"] == 0
    assert [row["name"] for row in installation.rows("SELECT name FROM index_collections")] == [new]
    (event,) = installation.rows("SELECT email, detail FROM audit_log WHERE action = 'index_dropped'")
    assert (event["email"], event["detail"]["collection"]) == ("weekly_upkeep", old)
    for name, value in child_environment(served.settings).items():
        monkeypatch.setenv(name, value)
    lake = Lake(installation.settings.lake_address)
    kept, unused = sorted(
        (name for name in lake.names() if name.startswith("embedded_")), key=lambda name: "word_counts" not in name
    )
    assert lake.scan(unused).collect().height
    capsys.readouterr()
    assert command(["cleanup", "--vectors"]) == 0
    assert capsys.readouterr().out == f"would clear  {unused}  vectors in the lake\n"
    assert command(["cleanup", "--yes", "--vectors"]) == 0
    assert capsys.readouterr() == (f"cleared  {unused}  vectors in the lake\n", "")
    assert lake.scan(unused).collect().is_empty()
    assert lake.scan(kept).collect().height
    assert installation.sync().counts.embedded == 0
    assert installation.agrees()


def test_versions_that_a_second_index_needs_are_not_erased(
    served: Installation, service: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = served

    def parse_anew(version: str) -> None:
        for module in MODULES:
            monkeypatch.setattr(f"assets.{module}.PARSER_VERSION", version)
        assert installation.sync().counts.synced == len(ANIMALS)

    def outdated() -> int:
        return erase(installation.settings, after=timedelta()).outdated

    limited = installation.settings.model_copy(update={"reindex_documents": 5})
    with open_reindex(limited) as work:
        build(work, "word-counts")
    parse_anew("p-next")
    assert outdated() == 0, "a reindex is unfinished"
    with open_reindex(installation.settings) as work:
        promote(work, build(work, "word-counts"))
    assert outdated() > 0
    there = versions(installation)
    assert there[PARSED] == {"p-next": len(ANIMALS)}
    assert list(there[CHUNKED].values()) == [len(ANIMALS)] * 2, "those of both indexes"
    parse_anew("p-last")
    outdated()
    assert versions(installation)[PARSED] == {"p-next": len(ANIMALS), "p-last": len(ANIMALS)}
    assert there[CHUNKED] <= versions(installation)[CHUNKED], "those of the kept index"
    asked = len(service.requests)
    with open_reindex(installation.settings) as work:
        promote(work, work.kept())
    assert installation.sync().counts.embedded == 0
    assert len(service.requests) == asked
    assert installation.agrees()
    with open_reindex(installation.settings) as work:
        installation.rows(
            "UPDATE index_collections SET replaced_at = now() - interval '1 hour' WHERE NOT active RETURNING 1"
        )
        drop(work, unfinished=False, vectors=False, by="test")
    assert outdated() > 0
    assert [list(one.values()) for one in versions(installation).values()] == [[len(ANIMALS)]] * 2
    assert installation.agrees()


def test_changed_prompts_take_effect_with_a_reindex(installation: Installation, service: OpenAIServer) -> None:
    provider = {"embedding_provider": "openai", "embedding_model": "word-counts", "openai_base_url": service.url}
    installation.settings = installation.settings.model_copy(update=provider)
    fill(installation)
    old = alias(installation)
    prompts = Prompts(query="query: ", passage="passage: ")
    installation.settings = installation.settings.model_copy(update={"embedding_prompts": prompts})
    installation.write("newt.md", page("newt"))
    service.requests.clear()
    assert installation.sync().counts.embedded == 1
    assert alias(installation) == old
    assert not [text for request in service.requests for text in request["input"] if text.startswith("passage: ")]
    service.requests.clear()
    with open_reindex(installation.settings) as work:
        made = build(work, "word-counts")
        promote(work, made)
    texts = [text for request in service.requests for text in request["input"]]
    assert len([text for text in texts if "Keeping a" in text]) == len(ANIMALS) + 1
    assert all(text.startswith("passage: ") for text in texts if "Keeping a" in text)
    assert alias(installation) == made.collection.name != old
    follow(installation)
    service.requests.clear()
    with web(installation, embedder(installation.settings)) as running:
        assert running.search("newt", ADA)["warnings"] == []
        assert ["query: newt"] in [request["input"] for request in service.requests]
