"""Search with a part of the platform down: it answers, says so, and shows nobody more than before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from resources import keys
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings
from serving.http.database import RegistryDownError
from sql.serving import WebReads
from sql.withheld import Standing
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import PUBLIC_URL, Running, Site
from tests.fixtures.waiting import until

ANN, BOB = "ann@acme.com", "bob@acme.com"


class BrokenModel:
    """An embedder whose service is down."""

    model = "broken"

    def embed_query(self, _text: str) -> Any:
        raise ServiceUnavailableError("The embedding service does not answer.")


def fill(site: Site) -> None:
    site.add("Open", ["The ferry leaves at nine from the northern pier."], ["public"])
    site.add("Old", ["The ferry left at eight from the old pier."], ["public"], tags={"lifecycle": "archived"})
    site.add("Private", ["The ferry contract is confidential, signed at the pier."], [ANN], tags={"dataset": "legal"})


def codes(answer: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in answer["warnings"]]


def titles(answer: dict[str, Any]) -> set[str]:
    return {result["title"] for result in answer["results"]}


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_without_the_model_keywords_answer(site: Site, mode: str) -> None:
    fill(site)
    site.embedder = BrokenModel()
    with site.running() as running:
        answer = running.search("ferry pier", BOB, mode=mode)
        assert (titles(answer), codes(answer)) == ({"Open"}, ["embedding_unavailable"])
        assert titles(running.search("ferry pier", ANN, mode=mode)) == {"Open", "Private"}
        assert running.ready().json()["status"] == "degraded"
        assert running.search("ferry pier", BOB, mode=mode)["cached"] is False


def test_without_the_vector_index_postgres_answers(site: Site) -> None:
    fill(site)
    site.settings = site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    with site.running() as running:
        answer = running.search("which ferry at the pier?", BOB)
        assert (titles(answer), codes(answer)) == ({"Open"}, ["vector_index_unavailable"])
        assert titles(running.search("ferry", ANN)) == {"Open", "Private"}
        assert titles(running.search("ferry", ANN, filters={"tags": {"dataset": "legal"}})) == {"Private"}
        assert titles(running.search("ferry", ANN, filters={"source_types": ["slack"]})) == set()
        assert titles(running.search("ferry", ANN, filters={"date_range": {"start": "2099-01-01"}})) == set()
        assert (running.http.get("/readyz").status_code, running.ready().json()["status"]) == (
            200,
            "degraded",
        )
        assert "rag_search_degraded_total" in running.metrics()


def test_without_postgres_the_index_answers_for_fresh_permissions(site: Site) -> None:
    fill(site)
    site.add(
        "Stale",
        ["The ferry of yore."],
        ["public"],
        partition="old",
        acl_checked_at=datetime.now(UTC) - timedelta(days=2),
    )
    key = f"ck_{'0' * 16}_secret"
    site.settings = site.settings.model_copy(
        update={"postgres_url": type(site.settings.postgres_url)("postgresql://x@127.0.0.1:9/x")}
    )
    with site.running() as running:
        answer = running.search("ferry pier", BOB, neighbours=1, explain=True)
        assert (titles(answer), codes(answer), answer["held_back"], answer["cached"]) == (
            {"Open"},
            ["registry_unavailable", "held_back"],
            1,
            False,
        )
        assert answer["results"][0]["chunk_text"].startswith("The ferry leaves")
        assert titles(running.search("ferry pier", ANN)) == {"Open", "Private"}
        refused = running.http.post("/api/rag/search", json={"query": "x"}, headers={"Authorization": f"Bearer {key}"})
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/service-unavailable")
        assert running.request("GET", "/api/documents/00000000-0000-4000-8000-00000000dead", BOB).status_code == 503
        assert running.http.get("/readyz").status_code == 200


def test_with_both_down_search_is_unavailable_and_the_process_lives(site: Site) -> None:
    nowhere = {
        "postgres_url": type(site.settings.postgres_url)("postgresql://x@127.0.0.1:9/x"),
        "qdrant_url": "http://127.0.0.1:9",
    }
    site.settings = site.settings.model_copy(update=nowhere)
    with site.running() as running:
        response = running.request("POST", "/api/rag/search", BOB, json={"query": "ferry"})
        assert (response.status_code, response.json()["type"]) == (503, "/problems/service-unavailable")
        ready = running.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert "127.0.0.1" not in ready.text
        assert running.http.get("/healthz").status_code == 200


@pytest.fixture
def own_postgres(
    postgres_process: Any, vector_url: str, bundled_model: Any, tmp_path: Path
) -> Iterator[tuple[Site, Any]]:
    """An installation whose Postgres may be killed."""
    from resources.schema import prepare

    prepare(postgres_process.dsn)
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]
        home=tmp_path / "home",
        postgres_url=postgres_process.dsn,
        qdrant_url=vector_url,
        public_url=PUBLIC_URL,
    )
    keys.ensure(settings)
    site = Site(settings, bundled_model)
    site.reset_index()
    yield site, postgres_process
    site.qdrant.close()


def until_ready(running: Running) -> None:
    """Wait until every server answers; what the disk of HOME says is another matter."""

    def all_answer() -> bool:
        services = running.ready().json()["services"].items()
        return all(part["state"] == "ok" for name, part in services if name != "disk")

    until(all_answer, "Postgres used again")


def test_a_postgres_that_dies_and_returns_is_survived(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    fill(site)
    with site.running() as running:
        assert codes(running.search("ferry", BOB)) == []
        process.stop()
        assert codes(running.search("ferry", BOB)) == ["registry_unavailable"]
        process.start()
        until_ready(running)
        answer = running.search("ferry", BOB)
        assert (titles(answer), codes(answer)) == ({"Open"}, [])


def _narrowed_meanwhile(site: Site, process: Any, doc_id: str) -> None:
    """Postgres is back, and the document is narrowed."""
    process.start()
    site.sql("UPDATE documents SET permissions = %s WHERE doc_id = %s", [ANN], doc_id)


def _withheld_by_another(site: Site, _process: Any, doc_id: str) -> None:
    """Another machine still reaches Postgres, and narrows the document there."""
    site.withheld.documents([Standing(doc_id, "files", [ANN], behind=True)])


def _hidden_by_another(site: Site, _process: Any, _doc_id: str) -> None:
    site.withheld.hide_partition("files", "root")


@pytest.mark.parametrize("happens", [_narrowed_meanwhile, _withheld_by_another, _hidden_by_another])
def test_an_answer_begun_without_postgres_ends_once_a_source_is_withdrawn(
    own_postgres: tuple[Site, Any], model_server: ModelServer, happens: Callable[[Site, Any, str], None]
) -> None:
    site, process = own_postgres
    doc_id = site.add("Open", ["The ferry leaves at nine from the northern pier."], ["public"])
    site.settings = site.settings.model_copy(update={"llm_model": "stand-in", "llm_base_url": model_server.url})
    question = {"query": "When does the ferry leave from the northern pier?"}
    with site.running() as running, ThreadPoolExecutor(1) as pool:
        until_ready(running)
        process.stop()
        assert codes(running.search("ferry", BOB)) == ["registry_unavailable"]
        answer = running.request("POST", "/api/ask", BOB, json=question).json()
        assert (answer["mode"], codes(answer)) == ("model", ["registry_unavailable"])
        model_server.hold()
        asked = pool.submit(running.request, "POST", "/api/ask", BOB, json=question)
        model_server.wait_for(2)
        happens(site, process, doc_id)
        if happens is _narrowed_meanwhile:
            until_ready(running)
        model_server.release()
        answer = asked.result()
        assert answer.status_code == 503, answer.text
        assert "A source of this answer can no longer be read" in answer.json()["detail"]


def test_a_search_without_the_memberships_of_its_caller_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres returns between the lookup of the caller's memberships and the search."""
    site.add("Channel", ["The ferry is late, says the channel."], ["slack:T1"])
    site.sql("INSERT INTO directory VALUES ('slack', %s, 'slack:T1')", BOB)
    site.sql("INSERT INTO source_states (source, directory_at) VALUES ('slack', now())")
    read, failures = WebReads.directory, [RegistryDownError("Postgres does not answer.")]

    async def fails_once(self: WebReads, **parameters: Any) -> Any:
        if parameters["email"] == BOB and failures:
            raise failures.pop()
        return await read(self, **parameters)

    with site.running() as running:
        assert titles(running.search("ferry", BOB)) == {"Channel"}
        monkeypatch.setattr(WebReads, "directory", fails_once)
        answer = running.search("ferry", BOB)
        assert (titles(answer), codes(answer)) == (set(), ["registry_unavailable"])
        answer = running.search("ferry", BOB)
        assert (titles(answer), codes(answer)) == ({"Channel"}, [])


@pytest.mark.usefixtures("quick_figures")
def test_an_index_that_lost_its_points_is_told_to_everybody_alike(site: Site) -> None:
    fill(site)
    with site.running() as running:
        assert codes(running.search("ferry pier", BOB)) == []
        site.sql("UPDATE index_entries SET chunk_count = chunk_count + 1")  # as if points were lost
        until(lambda: running.ready().json()["services"]["qdrant"]["state"] == "incomplete", "the lost points noticed")
        assert running.ready().json()["status"] == "degraded"
        told = [running.search(query, who)["warnings"] for who in (ANN, BOB) for query in ("ferry pier", "nothing")]
        assert [[warning["code"] for warning in warnings] for warnings in told] == [["index_incomplete"]] * 4
        assert not any(letter.isdigit() for letter in told[0][0]["message"])
        assert told[0] == told[1] == told[2] == told[3]


def test_a_disk_that_is_full_for_postgres_is_said(site: Site) -> None:
    site.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
    )
    site.sql("CREATE TRIGGER refuse BEFORE INSERT ON uploads FOR EACH ROW EXECUTE FUNCTION refuse()")
    with site.running() as running:
        answer = running.request("POST", "/api/upload", ANN, files={"file": ("a.txt", b"A few words.")})
    assert (answer.status_code, answer.json()["type"]) == (507, "/problems/storage-full")


@pytest.mark.usefixtures("quick_figures")
def test_readyz_tells_a_home_that_takes_no_writes(site: Site) -> None:
    site.settings.home.joinpath("audit").write_text("a file where a folder should be")
    with site.running() as running:
        until(lambda: running.ready().json()["services"]["disk"]["state"] == "down", "the disk shown as down")
        assert running.ready().json()["status"] == "degraded"
