"""What `concordance doctor` says of the models and the budget: each is called once, over the real wire."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestration.diagnosis import model_checks
from resources.core.breaker import UnresponsiveError
from resources.core.checks import Check
from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.embedding.budget import month_key
from resources.settings import Settings, load
from serving.answers.model import is_outside
from tests.fixtures.llm import ModelServer
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.serving import Site
from tests.fixtures.tiny_model import make_tiny_model


def one(checks: Iterator[Check]) -> Check:
    (found,) = checks
    return found


@pytest.fixture
def described(site: Site) -> Callable[..., Settings]:
    def make(**update: object) -> Settings:
        return site.settings.model_copy(update=update)

    return make


def test_the_language_model_writes_a_word(described: Callable[..., Settings], model_server: ModelServer) -> None:
    assert "answers are quotes" in one(model_checks.language_model(described())).detail
    settings = described(llm_model="m", llm_base_url=model_server.url)
    found = one(model_checks.language_model(settings))
    assert (found.name, found.ok, len(model_server.requests)) == ("language model", True, 1)
    assert "m responds" in found.detail
    model_server.fail(401)
    found = one(model_checks.language_model(settings))
    assert not found.ok
    assert "CONCORDANCE_LLM_API_KEY" in found.remedy


def test_the_lines_of_the_readme_set_a_model_up(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    local, hosted = re.findall(r"^    (printf '.*LLM_MODEL.*' >> \.env)$", readme, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    found: list[Settings] = []
    for line in (local, hosted):
        Path(".env").unlink(missing_ok=True)
        subprocess.run(["sh", "-c", line], check=True)
        found.append(load())
    assert [(one.llm_model is not None, one.llm_api_key is not None, is_outside(one)) for one in found] == [
        (True, False, False), (True, True, True),
    ]  # fmt: skip
    for settings in found:
        check = one(model_checks.language_model(settings.model_copy(update={"llm_base_url": model_server.url})))
        assert (check.ok, f"{settings.llm_model} responds" in check.detail) == (True, True)


def test_a_language_model_that_hangs_is_given_up(
    described: Callable[..., Settings], model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_checks, "CALL_SECONDS", 0.2)
    model_server.hold()
    found = one(model_checks.language_model(described(llm_model="m", llm_base_url=model_server.url)))
    model_server.release()
    assert (found.ok, bool(found.detail), bool(found.remedy)) == (False, True, True)


def test_the_reranker_scores_a_passage(described: Callable[..., Settings], tmp_path: Path) -> None:
    assert "none is set" in one(model_checks.reranker(described())).detail
    folder = make_tiny_model(tmp_path / "tiny-reranker", cross_encoder=True)
    assert "tiny-reranker scores a passage" in one(model_checks.reranker(described(rerank_model=str(folder)))).detail
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ConfigurationError, match="CONCORDANCE_SEARCH__RERANK_MODEL"):
        one(model_checks.reranker(described(rerank_model=str(folder))))


def test_the_embedding_service_is_called_and_compared_with_the_index(
    site: Site, described: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("Open", ["The ferry."], ["public"])
    with OpenAIServer(dimensions=64) as service:
        settings = described(embedding_provider="openai", embedding_model="wordbag", openai_base_url=service.url)
        assert "wordbag: 64 dimensions" in one(model_checks.embedding(settings, registry=True)).detail
        site.sql("UPDATE index_collections SET model = 'wordbag', dimensions = 32 WHERE active")
        assert one(model_checks.embedding(settings, registry=False)).ok
        with pytest.raises(ConfigurationError, match="now returns vectors of 64 numbers, but the index has 32"):
            one(model_checks.embedding(settings, registry=True))
        service.fail(500, times=2, retry_after_ms="1")
        with pytest.raises(ServiceUnavailableError, match=r"fails \(500\)"):
            one(model_checks.embedding(settings, registry=False))
        monkeypatch.setattr(model_checks, "CALL_SECONDS", 0.2)
        service.hold()
        with pytest.raises(UnresponsiveError, match=r"did not answer within 0\.2 s"):
            one(model_checks.embedding(settings, registry=False))


@pytest.mark.parametrize(("spent", "ok"), [(0.0, True), (5.0, True), (9.0, False), (11.0, False)])
def test_the_budget_is_compared_with_what_was_spent(
    site: Site, described: Callable[..., Settings], spent: float, ok: bool
) -> None:
    month = month_key(site.sql("SELECT now()")[0][0])
    site.sql(
        "INSERT INTO embedding_usage (month, model, texts, tokens, cost_usd) VALUES (%s, 'm', 1, 1, %s)", month, spent
    )
    assert "no monthly limit" in one(model_checks.budget(described())).detail
    found = one(model_checks.budget(described(embedding_budget=10.0)))
    assert (found.name, found.ok) == ("budget", ok)
    assert found.detail.startswith(f"${spent:.2f} of $10.00 used this month")
