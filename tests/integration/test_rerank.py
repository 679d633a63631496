"""The cross-encoder: its numbers against the same model computed by hand, and searches in its order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.embedding.cross_encoder import CrossEncoder
from serving.search.retrieval.rerank import Reranker
from tests.fixtures.installation import Installation
from tests.fixtures.reranker import by_hand, train
from tests.fixtures.serving import Running, Site
from tests.fixtures.step import follow, web
from tests.fixtures.tiny_model import make_tiny_model

QUERY = "where does the otter sleep"
PASSAGES = ("Otters sleep in a den by the river.", "The tax return is due in May.", "A much longer passage. " * 40)
ADA = "ada@acme.example"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("cross") / "tiny-reranker", cross_encoder=True)


def test_scores_are_those_of_the_model(folder: Path, tmp_path: Path) -> None:
    model = CrossEncoder(str(folder), tmp_path, quantization="float32")
    expected = [by_hand(folder, QUERY, passage) for passage in PASSAGES]
    assert model.score(QUERY, PASSAGES) == pytest.approx(expected, abs=1e-4)
    assert model.score(QUERY, []).shape == (0,)


def test_what_is_no_cross_encoder_says_so(tmp_path: Path) -> None:
    plain = make_tiny_model(tmp_path / "plain")
    with pytest.raises(ConfigurationError, match=r"CONCORDANCE_SEARCH__RERANK_MODEL: .* is not a cross-encoder"):
        CrossEncoder(str(plain), tmp_path / "cache")
    with pytest.raises(ConfigurationError, match=r"CONCORDANCE_SEARCH__RERANK_MODEL: .*lacks config\.json"):
        CrossEncoder(str(tmp_path / "nowhere"), tmp_path / "cache")


def test_searches_follow_the_cross_encoder(installation: Installation, bundled_model: Any, folder: Path) -> None:
    follow(installation, rerank_model=str(folder), rerank_threshold=0.0)
    for number in range(6):
        installation.write(
            f"otter-{number}.md", f"# Otter {number}\n\nOtter number {number} sleeps {'very ' * number}well.\n"
        )
    installation.sync()
    with web(installation, bundled_model) as running:
        plain = running.search(QUERY, ADA, explain=True)
        answer = running.search(QUERY, ADA, explain=True, rerank=True)
        scores = [result["explain"]["rerank_score"] for result in answer["results"]]
        assert answer["warnings"] == []
        assert len(scores) == 5
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[-1]
        assert all(result["explain"]["rerank_score"] is None for result in plain["results"])
        middle = (scores[1] + scores[2]) / 2
        assert len(running.search(QUERY, ADA, rerank=True, threshold=middle)["results"]) == 2


BOB = "bob@acme.com"
CARRY = "How many unused leave days can I carry over?"
SHIP = "When does the Kingfisher 9 ship?"
TEXTS = {
    "Leave forum": "How many unused leave days can I carry over? Ask how many leave days, unused, you can carry over.",
    "Handbook": "Five days of annual leave that you have not taken remain valid until the end of March.",
    "Roadmap": "The Kingfisher 7 ships in May, and when it ships the Kingfisher 8 follows.",
    "Canteen": "Soup on Mondays. Guests eat at the long table by the window.",
}


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A cross-encoder that has learnt which of these texts answers which question."""
    folder = make_tiny_model(tmp_path / "trained-reranker", cross_encoder=True)
    shown = {title: f"{title}\n{text}" for title, text in TEXTS.items()}
    pairs = [(question, text) for question in (CARRY, SHIP) for text in shown.values()]
    train(folder, pairs, [pair == (CARRY, shown["Handbook"]) for pair in pairs])
    return folder


@pytest.fixture
def desk(site: Site) -> Site:
    for title, text in TEXTS.items():
        site.add(title, [text], [BOB])
    return site


ASKED: dict[str, tuple[dict[str, Any], str, str]] = {
    "/api/ask": ({}, "query", "sources"),
    "/api/chat": ({}, "message", "sources"),
    "/ask": ({}, "query", "sources"),
    "/api/rag.search": ({"mode": "hybrid"}, "query", "data"),
    "/api/search": ({}, "query", "results"),
}
"""Interfaces with the names of their question and of their passages."""


def named(passage: dict[str, Any]) -> str:
    """Return the title of a passage, which each interface shows in its own place."""
    title = passage.get("title") or (passage.get("document") or {}).get("title")
    return title or Path(passage["file"] if isinstance(passage["file"], str) else passage["file"]["name"]).stem


def found(running: Running, path: str, question: str) -> list[str]:
    more, asking, passages = ASKED[path]
    response = running.request("POST", path, BOB, json={asking: question, **more})
    assert response.status_code == 200, response.text
    assert {one["code"] for one in response.json()["warnings"]} <= {"uncertain"}
    return [named(one) for one in response.json()[passages]]


@pytest.mark.parametrize("path", ASKED)
def test_every_interface_follows_the_cross_encoder(desk: Site, trained: Path, path: str) -> None:
    with desk.running() as running:
        assert found(running, path, CARRY)[0] == "Leave forum"
        assert found(running, path, SHIP) != []
    desk.settings = desk.settings.model_copy(update={"rerank_model": str(trained)})
    with desk.running() as running:
        assert found(running, path, CARRY) == ["Handbook"]
        assert found(running, path, SHIP) == []


def test_rag_search_by_meaning_follows_it_too(desk: Site, trained: Path) -> None:
    def scores(running: Running, **more: Any) -> dict[str, float]:
        body = {"query": CARRY, "mode": "vector", **more}
        answer = running.request("POST", "/api/rag.search", BOB, json=body).json()
        return {one["document"]["title"]: one["score"] for one in answer["data"]}

    with desk.running() as running:
        assert next(iter(scores(running))) == "Leave forum"
    desk.settings = desk.settings.model_copy(update={"rerank_model": str(trained)})
    with desk.running() as running:
        assert list(scores(running)) == ["Handbook"]
        assert scores(running)["Handbook"] > 0.5
        everything = scores(running, threshold=0.0)
        assert next(iter(everything)) == "Handbook"
        assert set(everything) == set(TEXTS)


def test_an_answer_quotes_what_the_cross_encoder_found(desk: Site, trained: Path) -> None:
    desk.settings = desk.settings.model_copy(update={"rerank_model": str(trained)})
    with desk.running() as running:
        answer = running.request("POST", "/api/ask", BOB, json={"query": CARRY}).json()
        assert (answer["found"], [one["title"] for one in answer["sources"]]) == (True, ["Handbook"])
        answer = running.request("POST", "/api/ask", BOB, json={"query": SHIP}).json()
        assert (answer["found"], answer["answer"]) == (False, "No data found")


def test_what_is_withdrawn_while_the_cross_encoder_works_is_not_shown(
    desk: Site, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.settings = desk.settings.model_copy(update={"rerank_model": str(trained)})
    score = CrossEncoder.score

    def withdrawn(model: CrossEncoder, query: str, passages: Sequence[str]) -> Any:
        desk.sql("UPDATE documents SET permissions = '{}' WHERE title = 'Handbook'")
        return score(model, query, passages)

    with desk.running() as running:
        assert running.titles(CARRY, BOB, rerank=True, threshold=0.0)[0] == "Handbook"
        monkeypatch.setattr(CrossEncoder, "score", withdrawn)
        assert set(running.titles(CARRY, BOB, rerank=True, threshold=0.0)) == set(TEXTS) - {"Handbook"}


def test_a_threshold_applies_to_the_scores_of_the_cross_encoder(desk: Site, trained: Path) -> None:
    desk.settings = desk.settings.model_copy(update={"rerank_model": str(trained)})
    with desk.running() as running:
        assert running.titles(CARRY, BOB, rerank=True, threshold=0.9) == ["Handbook"]
        assert set(running.titles(CARRY, BOB, rerank=True, threshold=0.0)) == set(TEXTS)


def truncated(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def with_nan(folder: Path, name: str) -> None:
    weights = {key: np.array(value) for key, value in load_file(folder / "model.safetensors").items()}
    weights[name].flat[3] = np.nan
    save_file(weights, folder / "model.safetensors")


def misshapen(folder: Path) -> None:
    weights = {key: np.array(value) for key, value in load_file(folder / "model.safetensors").items()}
    name = next(key for key in weights if key.endswith("encoder.layer.0.output.dense.weight"))
    weights[name] = weights[name][:, :-1]
    save_file(weights, folder / "model.safetensors")


def unconfigured(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert"}')


DAMAGES = {
    "truncated": truncated,
    "NaN": lambda folder: with_nan(folder, "bert.encoder.layer.1.output.dense.weight"),
    "NaN in the head": lambda folder: with_nan(folder, "classifier.weight"),
    "wrong shape": misshapen,
    "no configuration": unconfigured,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_reranker_is_refused_and_searches_go_on(desk: Site, trained: Path, damage: str) -> None:
    DAMAGES[damage](trained)
    with pytest.raises(ConfigurationError, match=r"^CONCORDANCE_SEARCH__RERANK_MODEL: "):
        CrossEncoder(str(trained), desk.settings.home / "models")
    desk.settings = desk.settings.model_copy(update={"rerank_model": str(trained)})
    with desk.running() as running:
        answer = running.search(CARRY, BOB, rerank=True)
        assert answer["results"][0]["title"] == "Leave forum"
        (warning,) = answer["warnings"]
        assert warning["code"] == "rerank_unavailable"
        assert str(trained) not in warning["message"]
        ready = running.ready().json()
        assert ready["status"] == "degraded"
        assert "CONCORDANCE_SEARCH__RERANK_MODEL" in ready["services"]["reranker"]["detail"]
        running.wait_for_metrics('serving_dependency_up{dependency="reranker"} 0.0')
        asked = running.request("POST", "/api/ask", BOB, json={"query": CARRY}).json()
        assert (asked["found"], [one["code"] for one in asked["warnings"]]) == (True, ["rerank_unavailable"])
        assert running.search(CARRY, BOB)["warnings"] == []


def test_a_reranker_is_down_after_three_failures_in_a_row() -> None:
    failing = True

    class Sometimes:
        def score(self, _query: str, passages: Sequence[str]) -> NDArray[np.float32]:
            if failing:
                raise ServiceUnavailableError("No memory.")
            return np.zeros(len(passages), np.float32)

    async def search() -> list[bool]:
        nonlocal failing
        reranker = Reranker(Sometimes, 20, 0.0)
        await reranker.start()
        seen = [reranker.down]
        for _ in range(3):
            assert await reranker.scores("ferry", [], {}) is None
            seen.append(reranker.down)
        failing = False
        assert await reranker.scores("ferry", [], {}) == {}
        return [*seen, reranker.down]

    assert asyncio.run(search()) == [False, False, False, True, False]


def test_a_reranker_that_is_too_slow_once_is_not_down() -> None:
    answered = threading.Event()

    class SlowOnce:
        def score(self, _query: str, passages: Sequence[str]) -> NDArray[np.float32]:
            answered.wait()
            return np.zeros(len(passages), np.float32)

    async def search() -> bool:
        reranker = Reranker(SlowOnce, 20, 0.0, seconds=0.05)
        await reranker.start()
        try:
            await asyncio.gather(*(reranker.scores("ferry", [], {}) for _ in range(2)))
        finally:
            answered.set()
        for _ in range(3):  # not tried while the reranker rests
            await reranker.scores("ferry", [], {})
        return reranker.down

    assert asyncio.run(search()) is False
