"""The cross-encoder: its numbers against the same model computed by hand, and searches in its order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from resources.core.errors import ConfigurationError
from resources.embedding.cross_encoder import CrossEncoder
from resources.embedding.wordpieces import WordPieces
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow, web
from tests.fixtures.tiny_model import HEADS, LAYERS, WIDTH, make_tiny_model

QUERY = "where does the otter sleep"
PASSAGES = ("Otters sleep in a den by the river.", "The tax return is due in May.", "A much longer passage. " * 40)
ADA = "ada@acme.example"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("cross") / "tiny-reranker", cross_encoder=True)


def by_hand(folder: Path, query: str, passage: str) -> float:
    """Return the sigmoid of the model's output, with nothing but matrices."""
    weights = load_file(folder / "model.safetensors")
    pieces = WordPieces(folder)
    first = [*pieces.prefix, *pieces.ids([query])[0], *pieces.suffix]
    second = [*pieces.ids([passage])[0][: 128 - len(first) - 1], *pieces.suffix]
    ids, types = [*first, *second], [0] * len(first) + [1] * len(second)

    def linear(rows: np.ndarray, name: str) -> np.ndarray:
        return rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(rows: np.ndarray) -> np.ndarray:
        return (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-12)

    words, kinds, places = (
        weights[f"bert.embeddings.{name}_embeddings.weight"] for name in ("word", "token_type", "position")
    )
    rows = norm(words[ids] + kinds[types] + places[: len(ids)])
    for layer in range(LAYERS):
        prefix = f"bert.encoder.layer.{layer}"
        q, k, v = (
            linear(rows, f"{prefix}.attention.self.{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        attention = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(WIDTH / HEADS))
        mixed = (attention / attention.sum(-1, keepdims=True)) @ v
        mixed = mixed.transpose(1, 0, 2).reshape(len(ids), WIDTH)
        rows = norm(rows + linear(mixed, f"{prefix}.attention.output.dense"))
        inner = linear(rows, f"{prefix}.intermediate.dense")
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        rows = norm(rows + linear(inner, f"{prefix}.output.dense"))
    logit = linear(np.tanh(linear(rows[0], "bert.pooler.dense")), "classifier")[0]
    return float(1 / (1 + np.exp(-logit)))


def test_scores_are_those_of_the_model(folder: Path, tmp_path: Path) -> None:
    model = CrossEncoder(str(folder), tmp_path, quantization="float32")
    expected = [by_hand(folder, QUERY, passage) for passage in PASSAGES]
    assert model.score(QUERY, PASSAGES) == pytest.approx(expected, abs=1e-4)
    assert model.score(QUERY, []).shape == (0,)


def test_what_is_no_cross_encoder_says_so(tmp_path: Path) -> None:
    plain = make_tiny_model(tmp_path / "plain")
    with pytest.raises(ConfigurationError, match=r"CONCORDANCE_RERANK_MODEL: .* is not a cross-encoder"):
        CrossEncoder(str(plain), tmp_path / "cache")
    with pytest.raises(ConfigurationError, match=r"CONCORDANCE_RERANK_MODEL: .*lacks config\.json"):
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
