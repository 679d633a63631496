"""Try a model before it is used: whether it finds answers at all, its scale, its speed, and for rerankers the gain on questions."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np

from resources.core.errors import ConfigurationError
from resources.embedding import embedder
from resources.embedding.background import ANSWERED, cosine_scale
from resources.embedding.cross_encoder import CrossEncoder
from resources.settings import Settings

SPEED_TEXTS = 64
SPEED_PAIRS = 30
PASSAGE = " ".join(answer for _, answer in ANSWERED[:12])
"""Some 200 tokens, as a passage of the default profile has."""


class EmbeddingTrial(msgspec.Struct, frozen=True, kw_only=True):
    """How an embedding model does; `found` counts questions whose own answer is nearest."""

    model: str
    dimensions: int
    window: int
    questions: int
    found: int
    floor: float
    related: float
    passages_per_second: float


class RerankerTrial(msgspec.Struct, frozen=True, kw_only=True):
    """How a reranker does; `found` counts questions whose own answer scores highest, `threshold` separates answers from the rest best."""

    model: str
    questions: int
    found: int
    threshold: float
    pairs_per_second: float


def try_embedder(settings: Settings, folder: Path | None) -> EmbeddingTrial:
    """Try the model in a folder; None is the one of the settings. Raises `ConfigurationError` for a model that computes no numbers."""
    own = {"embedding_provider": "local", "embedding_model": str(folder), "embedding_dimensions": None}
    own |= {"embedding_window": None, "embedding_prompts": None}
    model = embedder(settings if folder is None else settings.model_copy(update=own))
    questions, answers = zip(*ANSWERED, strict=True)
    asked = np.stack([model.embed_query(one) for one in questions])
    cosines = asked @ model.embed(answers).T
    if not np.isfinite(cosines).all():
        raise ConfigurationError(f"{model.model} computes no numbers: get it again.")
    scale = cosine_scale(model)
    began = time.perf_counter()
    model.embed([PASSAGE] * SPEED_TEXTS)
    seconds = time.perf_counter() - began
    return EmbeddingTrial(
        model=model.model,
        dimensions=model.dimensions,
        window=model.window,
        questions=len(ANSWERED),
        found=int((cosines.argmax(axis=1) == np.arange(len(ANSWERED))).sum()),
        floor=round(scale.floor, 4),
        related=round(scale.related, 4),
        passages_per_second=round(SPEED_TEXTS / seconds, 1),
    )


def try_reranker(settings: Settings, folder: Path) -> RerankerTrial:
    """Try the cross-encoder in a folder. Raises `ConfigurationError` if it is none, or computes no numbers."""
    model = CrossEncoder(str(folder), settings.home / "models")
    questions, answers = zip(*ANSWERED, strict=True)
    scores = np.stack([model.score(one, answers) for one in questions])
    right = np.eye(len(ANSWERED), dtype=bool)
    # the threshold with the greatest share of answers above it plus share of others below it
    steps = np.unique(np.round(scores, 3))
    balance = [(scores[right] >= one).mean() + (scores[~right] < one).mean() for one in steps]
    began = time.perf_counter()
    model.score(questions[0], [PASSAGE] * SPEED_PAIRS)
    seconds = time.perf_counter() - began
    return RerankerTrial(
        model=model.model,
        questions=len(ANSWERED),
        found=int((scores.argmax(axis=1) == np.arange(len(ANSWERED))).sum()),
        threshold=float(steps[int(np.argmax(balance))]),
        pairs_per_second=round(SPEED_PAIRS / seconds, 1),
    )
