"""The parts that `explain` returns add up to the score of the same response, in every mode and fusion, with and without a reranker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resources.core import sketch
from resources.core.domain import SourceName
from serving.search.retrieval.fuse import FUSIONS
from tests.fixtures.serving import Running, Site
from tests.fixtures.tiny_model import make_tiny_model

ANN, BOB = "ann@acme.com", "bob@acme.com"
WORDS = ("ferry", "pier", "harbour", "budget", "salary", "vacation", "lighthouse", "contract", "tide", "anchor", "rope")
AGES = (400, 20, 3)
QUERY = "ferry pier tide"
ANY_SCORE = {"top_k": 50, "explain": True, "threshold": 0}


@pytest.fixture
def explained(site: Site, tmp_path: Path) -> Iterator[Running]:
    """A small installation with documents of each age, another person's upload, and a reranker."""
    now = datetime.now(UTC)
    for number, word in enumerate(WORDS):
        first = f"The {word} and the {WORDS[number - 1]} of the island. " + "More of the same. " * (number % 4)
        changed = now - timedelta(days=AGES[number % len(AGES)])
        site.add(f"About the {word}", [first, f"A second text on the {word}."], [BOB], modified_at=changed)
    site.add("Offer", ["The ferry leaves the pier at high tide."], [BOB], source=SourceName.UPLOAD, owner=ANN)
    site.add("Exact", [QUERY], [BOB], modified_at=now)
    for chunk_id, text in site.sql("SELECT chunk_id::text, chunk_text FROM chunks"):
        (small,) = sketch.encode(np.asarray(site.model.embed([text])))
        site.sql("UPDATE chunks SET sketch = %s WHERE chunk_id = %s", small, chunk_id)
    folder = make_tiny_model(tmp_path / "tiny-reranker", cross_encoder=True)
    changes = {"rerank_model": str(folder), "rerank_threshold": 0.0}
    site.settings = site.settings.model_copy(update=changes)
    with site.running() as running:
        yield running


def clamped(score: float) -> float:
    return min(1.0, max(0.0, score))


def recomputed(explain: dict[str, Any]) -> tuple[float, float]:
    """Return the fused score and the score shown, computed as `docs/http.md` says."""
    cosine = clamped(((explain["dense_score"] or 0.0) - explain["floor"]) / (1 - explain["floor"]))
    weight = explain["dense_weight"]
    fused = weight * cosine + (1 - weight) * (explain["keyword_score"] or 0.0)
    if explain["keyword_frequency"] is not None:
        fused *= 0.5 + 0.4 * explain["keyword_frequency"]
    score = fused if explain["rerank_score"] is None else explain["rerank_score"]
    return fused, clamped(score * math.prod(explain["boosts"].values()))


def test_the_parts_add_up_to_the_score(explained: Running, subtests: pytest.Subtests) -> None:
    seen: set[str] = set()
    scores: dict[Any, dict[str, float]] = {}
    for mode, fusion, rerank, group in product(("hybrid", "vector", "keyword"), FUSIONS, (False, True), (False, True)):
        asked = {"mode": mode, "fusion": fusion, "rerank": rerank, "group_by_document": group}
        with subtests.test(**asked):
            answer = explained.search(QUERY, BOB, **asked, **ANY_SCORE)
            assert answer["warnings"] == []
            assert len(answer["results"]) >= (13 if mode != "keyword" else 4)
            for result in answer["results"]:
                explain, score = result["explain"], result["relevance_score"]
                fused, shown = recomputed(explain)
                assert explain["fused_score"] == pytest.approx(fused, abs=2e-6)
                assert score == pytest.approx(shown, abs=2e-6)
                assert score == pytest.approx(sum(explain["parts"].values()), abs=1e-9)
                assert (explain["rerank_score"] is not None) == rerank
                assert explain["fusion"] == (fusion if mode == "hybrid" else None)
                assert (explain["agreement"] > 0) == (mode == "hybrid")
                assert explain["floor"] == 0 or mode == "hybrid"
                seen |= explain["parts"].keys()
            found = {one["chunk_id"]: one["relevance_score"] for one in answer["results"]}
            known = scores.setdefault((mode, rerank), {})
            assert found == {one: known.setdefault(one, score) for one, score in found.items()}, "fusion only orders"
    assert seen == {"dense", "keyword", "frequency", "rerank", "recency", "others_upload", "limit"}
