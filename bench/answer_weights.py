"""Fit `WEIGHTS` of `serving.answers.extractive` and `DOUBT` of `serving.answers.certainty` on the questions that are not kept aside.

`python -m bench.answer_weights`: for each question, the probability that a right piece is chosen (a softmax over the scores of its pieces)
is made as great as possible, with a penalty on large weights. Sets count the same, however many questions they have.
`DOUBT` is a logistic regression on whether the first or second quote is right, with `WEIGHTS` as they are in the code.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.answer_sets import Found, sets
from bench.answers import Meaning, answer, sources_of
from resources.embedding import embedder
from resources.logging import configure
from resources.settings import Settings
from serving.answers.certainty import evidence_of

PENALTY = 0.003
DOUBT_PENALTY = 0.0005
STEPS = 800
LEARNING_RATE = 0.05

Example = tuple[NDArray[Any], NDArray[Any], float]


def main() -> None:
    """Fit and print the weights."""
    configure("error", "bench")
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    meaning = Meaning(embedder(settings))
    rows: list[tuple[list[dict[str, float]], list[bool], float]] = []
    for _, found in sets():
        tuned = [one for one in found or [] if one.question.phrases and not one.question.aside]
        rows += [row for one in tuned if (row := _row(one, meaning, settings, 1 / len(tuned))) is not None]
    meaning.keep()
    names = sorted({name for pieces, _, _ in rows for piece in pieces for name in piece})
    examples = [
        (np.array([[piece.get(name, 0.0) for name in names] for piece in pieces]), np.array(right), share)
        for pieces, right, share in rows
    ]
    weights = _fit(examples, len(names))
    print(json.dumps({name: round(float(weight), 2) for name, weight in zip(names, weights, strict=True)}, indent=4))
    print(json.dumps(_doubt(meaning, settings), indent=4))


def _doubt(meaning: Meaning, settings: Settings) -> dict[str, float]:
    figures: list[dict[str, float]] = []
    right: list[bool] = []
    shares: list[float] = []
    for _, found in sets():
        tuned = [one for one in found or [] if not one.question.aside]
        for one in tuned:
            sources = sources_of(one, settings)
            if pieces := meaning.pieces(one.searched, sources):
                figures.append(evidence_of(one.searched, pieces, sources))
                right.append(answer(one, meaning, settings).right is not None)
                shares.append(1 / len(tuned) / 3)
    names = sorted(figures[0])
    table = np.array([[*(row[name] for name in names), 1.0] for row in figures])
    weights = np.zeros(len(names) + 1)
    for _ in range(20_000):
        chances = 1 / (1 + np.exp(-table @ weights))
        weights -= 0.5 * (table.T @ ((chances - np.array(right)) * np.array(shares)) + DOUBT_PENALTY * weights)
    return {name: round(float(weight), 2) for name, weight in zip([*names, "bias"], weights, strict=True)}


def _row(
    one: Found, meaning: Meaning, settings: Settings, share: float
) -> tuple[list[dict[str, float]], list[bool], float] | None:
    sources = sources_of(one, settings)
    pieces = meaning.pieces(one.searched, sources)
    right = [one.question.answered_by(piece.text, sources[piece.number - 1]) for piece in pieces]
    return ([dict(piece.features) for piece in pieces], right, share) if any(right) else None


def _fit(examples: list[Example], count: int) -> NDArray[Any]:
    weights, first, second = np.zeros(count), np.zeros(count), np.zeros(count)
    for step in range(1, STEPS + 1):
        slope = 2 * PENALTY * weights
        for features, right, share in examples:
            scores = features @ weights
            chances = np.exp(scores - scores.max())
            inside = chances * right
            slope += share * (features.T @ (chances / chances.sum() - inside / inside.sum())) / 3
        first = 0.9 * first + 0.1 * slope  # Adam: Kingma and Ba, 2014
        second = 0.999 * second + 0.001 * slope**2
        weights -= LEARNING_RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


if __name__ == "__main__":
    main()
