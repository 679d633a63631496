"""The contract of every embedding provider, over the bundled model and over an OpenAI-compatible service."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from resources.core.ports import Embedder
from resources.embedding import embedder
from resources.settings import Settings
from tests.fixtures.openai_server import OpenAIServer

TEXTS = ["the budget of the marine survey", "the marine survey and its budget", "a recipe for lemon cake", ""]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(params=["local", "openai", "openai with plain numbers"])
def provider(request: pytest.FixtureRequest, home: Path) -> Iterator[Embedder]:
    if request.param == "local":
        yield embedder(Settings(home=home))
        return
    with OpenAIServer(plain_numbers="plain" in request.param) as server:
        yield embedder(
            Settings(
                home=home,
                embedding_provider="openai",
                openai_base_url=server.url,
                embedding_model="m",
                embedding_batch=3,
            )
        )


def test_rows_are_unit_vectors_of_the_length_it_says(provider: Embedder) -> None:
    rows = provider.embed(TEXTS)
    assert rows.shape == (len(TEXTS), provider.dimensions)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_texts_of_one_meaning_are_nearer_than_others(provider: Embedder) -> None:
    first, same, other, _ = provider.embed(TEXTS)
    assert first @ same > first @ other + 0.2


def test_rows_come_in_the_order_of_the_texts(provider: Embedder) -> None:
    texts = [f"{'word ' * (number * 37 % 50)} number {number}" for number in range(40)]
    rows = provider.embed(texts)
    turned = provider.embed(texts[::-1])[::-1]
    np.testing.assert_allclose((rows * turned).sum(axis=1), 1, atol=5e-3)
    assert not np.allclose(rows[0], rows[1], atol=1e-3)


def test_a_query_is_embedded_like_a_text(provider: Embedder) -> None:
    query = provider.embed_query(TEXTS[0])
    assert query.shape == (provider.dimensions,)
    assert query @ provider.embed([TEXTS[0]])[0] == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_rows(provider: Embedder) -> None:
    rows, tokens = provider.embed_counted([])
    assert (rows.shape, tokens) == ((0, provider.dimensions), 0)


def test_tokens_are_counted(provider: Embedder) -> None:
    _, few = provider.embed_counted(["one two"])
    _, many = provider.embed_counted(["one two", "three four five", "six", "seven", "eight nine"])
    assert 0 < few < many


def test_threads_share_it(provider: Embedder) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: provider.embed(TEXTS), range(8)))
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=1e-5)


def test_one_embedder_a_process(home: Path) -> None:
    assert embedder(Settings(home=home)) is embedder(Settings(home=home, http_port=9999))
