"""Agreement between passages: similar passages support each other, independently of the scale of a model's cosines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from resources.core import sketch
from resources.embedding.background import ANSWERED, HIGHEST, NARROWEST, PROBES, CosineScale, cosine_scale
from serving.search.retrieval.agree import FIRST, NEIGHBOURS, agree
from serving.search.retrieval.fuse import Leg, fuse


def unit_rows(count: int, dimensions: int, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("dimensions", [384, 1536, 385])
def test_sketches_keep_cosines(dimensions: int) -> None:
    rows = unit_rows(40, dimensions)
    rows[20:] = rows[:20] + 0.5 * rows[20:]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    small = sketch.decode(sketch.encode(rows))
    assert small.shape == (40, dimensions + dimensions % 2)
    assert np.abs(small @ small.T - rows @ rows.T).max() < 0.05
    assert len(sketch.encode(rows)[0]) <= dimensions  # characters


def test_sketches_of_two_models_are_not_compared() -> None:
    with pytest.raises(ValueError):
        sketch.decode([*sketch.encode(unit_rows(1, 384)), *sketch.encode(unit_rows(1, 768))])


def crowd() -> tuple[dict[str, float], dict[str, str]]:
    """Return ten passages around one direction, ten around another, and one isolated passage."""
    rows = unit_rows(21, 64)
    rows[1:10] = rows[0] + 0.2 * rows[1:10]
    rows[11:20] = rows[10] + 0.2 * rows[11:20]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    names = [f"good{n}" for n in range(10)] + [f"poor{n}" for n in range(10)] + ["alone"]
    scores = dict(zip(names, [0.8] * 10 + [0.3] * 10 + [0.8], strict=True))
    return scores, dict(zip(names, sketch.encode(rows), strict=True))


def test_a_passage_with_good_neighbours_passes_an_isolated_one() -> None:
    scores, sketches = crowd()
    found = agree(scores, sketches, 0.3)
    assert found["good0"] == pytest.approx(0.8)
    assert found["poor0"] < 0.4
    assert found["alone"] < 0.8
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert set(found) == set(scores)


def test_without_share_sketches_or_neighbours_nothing_changes() -> None:
    scores, sketches = crowd()
    for found in (agree(scores, sketches, 0), agree(scores, {}, 0.3)):
        assert found == scores
    few = dict(list(scores.items())[:NEIGHBOURS])
    assert agree(few, sketches, 0.3) == few
    assert agree({}, {}, 0.3) == {}


def test_a_passage_without_a_sketch_keeps_its_score() -> None:
    scores, sketches = crowd()
    del sketches["alone"]
    assert agree(scores, sketches, 0.3)["alone"] == scores["alone"]


@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_no_score_passes_the_highest(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    scores = {str(number): float(score) for number, score in enumerate(rng.random(30))}
    sketches = dict(zip(scores, sketch.encode(unit_rows(30, 16, seed)), strict=True))
    found = agree(scores, sketches, share)
    assert set(found) == set(scores)
    assert max(found.values()) <= max(scores.values()) + 1e-9


def test_below_the_first_passages_that_resemble_the_best_move_up() -> None:
    """Two groups of candidates with the same scores, in turns: after the first five, those of the best one's group come first."""
    rows = unit_rows(40, 64)
    rows[2::2] = rows[0] + 0.2 * rows[2::2]
    rows[3::2] = rows[1] + 0.2 * rows[3::2]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    names = [f"{'even' if n % 2 == 0 else 'odd'}{n:02}" for n in range(40)]
    scores = {name: 0.8 - 0.001 * n for n, name in enumerate(names)}
    ranked = list(agree(scores, dict(zip(names, sketch.encode(rows), strict=True)), 0.3))
    assert {name[:3] for name in ranked[:FIRST]} == {"eve", "odd"}
    assert [name[:3] for name in ranked[FIRST:20]] == ["eve"] * (20 - FIRST)


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "dbsf", "minmax"])
@given(
    dense=st.dictionaries(st.integers(0, 30), st.integers(5, 95), min_size=2, max_size=20),
    keyword=st.dictionaries(st.integers(0, 30), st.integers(10, 5000), min_size=1, max_size=20),
    lift=st.floats(0, 0.8),
)
def test_a_model_with_another_range_of_cosines_gives_the_same_scores(
    fusion: str, dense: dict[int, int], keyword: dict[int, int], lift: float
) -> None:
    """Simulate an additional dimension with a constant value: every cosine c becomes lift + (1 - lift) c."""

    def ordered(leg: dict[int, int], raised: float) -> dict[str, float]:
        pairs = sorted(leg.items(), key=lambda pair: (-pair[1], pair[0]))
        return {str(name): raised + (1 - raised) * score / 100 for name, score in pairs}

    words = Leg(ordered(keyword, 0))
    assume(
        len(set(dense.values())) > 1 and len(set(keyword.values())) > 1
    )  # otherwise one has no scale, and rounding decides
    plain = fuse("hybrid", fusion, Leg(ordered(dense, 0), floor=0.05), words, 0.7)
    raised = fuse("hybrid", fusion, Leg(ordered(dense, lift), floor=lift + (1 - lift) * 0.05), words, 0.7)
    assert raised == pytest.approx(plain, abs=1e-6)


class Model:
    """Embeds each text as a random vector with a common component."""

    def __init__(self, lift: float) -> None:
        self._lift = lift

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = unit_rows(len(texts), 2048)
        common = np.full((len(texts), 1), np.sqrt(self._lift), dtype=np.float32)
        return np.concatenate([rows * np.float32(np.sqrt(1 - self._lift)), common], axis=1)


@pytest.mark.parametrize("lift", [0.0, 0.4, 0.75])
def test_the_floor_is_what_unrelated_texts_have(lift: float) -> None:
    assert cosine_scale(Model(lift)).floor == pytest.approx(lift, abs=0.02)


def test_the_scale_leaves_room() -> None:
    scale = cosine_scale(Model(1.0))
    assert scale.floor == HIGHEST
    assert scale.related >= HIGHEST + NARROWEST
    texts = [*PROBES, *(text for pair in ANSWERED for text in pair)]
    assert len(set(texts)) == len(texts)


def test_cosines_are_measured_between_unrelated_and_related_texts() -> None:
    scale = CosineScale(0.7, 0.9)
    assert [scale.relative(cosine) for cosine in (-1.0, 0.7, 0.8, 0.9, 1.0)] == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.5])
