"""Measure a model's similarity floor: the cosine that it gives to unrelated texts.

Models differ greatly: some put unrelated texts near 0, others near 0.75, where a raw cosine cannot be combined with other
scores. Fusion measures cosines from this floor, so that a weight means the same with every model.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

HIGHEST = 0.95
"""A higher floor would leave no range for related texts; no useful model is above it."""

PROBES = (
    "How long do I have to hand in receipts for a business trip?",
    "The glacier has retreated by forty metres since the last survey.",
    "Preheat the oven and knead the dough until it is smooth.",
    "reset a forgotten password",
    "The violin concerto was first performed in a small hall beside the river.",
    "Quarterly revenue rose by nine percent, driven by renewals.",
    "Bees tell each other with a dance where the flowers are.",
    "An integer overflow in the parser lets a remote attacker run code.",
    "lease agreement for the warehouse",
    "The patient was given antibiotics and discharged after two days.",
    "Goalkeeper saves penalty in the last minute of the match.",
    "Steel beams of this profile carry twelve tonnes over a span of six metres.",
    "Which trains go to the coast on Sundays?",
    "The treaty ended a war that had lasted thirty years.",
    "sunflower seeds, sowing depth and distance",
    "She painted the ceiling blue, with stars of gold leaf.",
    "Backups are kept for ninety days and tested every month.",
    "Saturn's rings consist mostly of ice.",
    "He would not forgive his brother until the winter of that year.",
    "The committee adjourned without a vote on the new school.",
)
"""Unrelated sentences and search terms, more dissimilar than the texts of one company usually are."""


class _Embeds(Protocol):
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


def similarity_floor(model: _Embeds) -> float:
    """Return the mean cosine between unrelated texts, 0 to `HIGHEST`. Raises what the model's `embed` raises."""
    rows = model.embed(PROBES).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    count = len(rows)
    mean = (np.square(rows.sum(axis=0)).sum() - count) / (count * (count - 1))
    return float(min(HIGHEST, max(0.0, mean)))
