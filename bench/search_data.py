"""Generate the synthetic company for the search benchmark from a seed: documents with permissions, vectors and queries.

Words are drawn by Zipf's law from the bundled model's vocabulary, which is ordered by frequency, followed by synthetic names; every
topic has its own words. A chunk's vector is the real model's vector of its topic plus noise, scaled so that two chunks of one topic
are as similar as the real model finds two such texts. A query embedded by the real model thus has meaningful neighbours.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resources.core.ports import Embedder
from resources.embedding.folder import bundled_folder

SEED = 7
TOPICS = 200
TOPIC_WORDS, TOPIC_NAMES = 150, 30
TOPIC_RANKS = (600, 4600)
PROBES, PROBE_WORDS = 3, 40
"""Texts per topic that the real model embeds, to determine the topic's centre and the similarity of its texts."""
SECTIONS = 5
"""Sections per document; each becomes one chunk."""
WORDS, SPREAD = 100, 12
"""Mean and standard deviation of words per section: about 145 tokens."""
NAMES = 20_000
TOPIC_SHARE = 0.3
ZIPF_SHIFT = 2.7
"""Source: Mandelbrot's form of Zipf's law, f(rank) ~ 1 / (rank + 2.7)."""
GROUPS = 400
OWN_GROUPS = 47
"""Together with email, domain and `public`, the caller has 50 principals."""
READABLE = 0.3
"""Share of the documents that the caller may read."""
EMAIL = "reader@example.org"
NOW = datetime(2026, 1, 1, tzinfo=UTC)

Floats = NDArray[np.float32]


def groups() -> list[str]:
    """Return the caller's groups."""
    return [f"team-{number:03}@example.org" for number in range(OWN_GROUPS)]


class Document(NamedTuple):
    """A document: title, headings and passages of its sections, principals that may read it."""

    number: int
    topic: int
    title: str
    headings: list[str]
    texts: list[str]
    readers: list[str]
    modified: datetime


class Company:
    """The whole company, drawn from one seed; document `n` is always the same."""

    def __init__(self, model: Embedder) -> None:
        spell = random.Random(SEED)
        rng = np.random.default_rng(SEED)
        known: dict[str, int] = json.loads((bundled_folder() / "tokenizer.json").read_text())["model"]["vocab"]
        whole = [word for word in sorted(known, key=known.__getitem__) if re.fullmatch("[a-z]{2,}", word)]
        self._words = np.array([*whole, *(_name(spell, whole) for _ in range(NAMES))])
        self._background = _cumulated(len(self._words))
        self._within = _cumulated(TOPIC_WORDS)
        # a topic is a word of medium frequency with its most similar words according to the model, and some names
        candidates = np.arange(*TOPIC_RANKS)
        meanings, _ = model.embed_counted(self._words[candidates].tolist())
        seeds = rng.choice(len(candidates), TOPICS, replace=False)
        alike = np.argsort(-(meanings[seeds] @ meanings.T), axis=1)[:, : TOPIC_WORDS - TOPIC_NAMES]
        names = rng.integers(len(whole), len(self._words), (TOPICS, TOPIC_NAMES))
        self._topics = rng.permuted(np.hstack([candidates[alike], names]), axis=1)
        self._centres, self._noise, self.figures = self._learn(model, rng)

    def _learn(self, model: Embedder, rng: np.random.Generator) -> tuple[Floats, float, dict[str, float]]:
        """Return the topics' centres by the real model, the length of the noise around them, and the similarity of texts."""
        texts = [
            " ".join(self._words[self._topics[topic][self._draw(rng, self._within, PROBE_WORDS)]])
            for topic in range(TOPICS)
            for _ in range(PROBES)
        ]
        rows, _ = model.embed_counted(texts)
        by_topic = rows.reshape(TOPICS, PROBES, -1)
        inner = np.einsum("tid,tjd->tij", by_topic, by_topic)
        alike = float((inner.sum() / TOPICS - PROBES) / (PROBES * (PROBES - 1)))
        centres = _unit(by_topic.mean(axis=1))
        apart = (float((rows @ rows.T).sum()) - float(inner.sum())) / (TOPICS * (TOPICS - 1) * PROBES**2)
        # a centre plus noise of this length has a cosine of sqrt(alike) with it, and two of them one of `alike`
        return centres, (1 / alike - 1) ** 0.5, {"cosine_in_topic": round(alike, 3), "cosine_apart": round(apart, 3)}

    def document(self, number: int) -> Document:
        """Return a document with its passages, as parsing and chunking Markdown with a heading per section gives them."""
        rng, choose = np.random.default_rng((SEED, number)), random.Random(number)
        topic = choose.randrange(TOPICS)
        title = f"{self._heading(rng, topic)} {number}"
        headings, texts = [], []
        for _ in range(SECTIONS):
            headings.append(self._heading(rng, topic))
            texts.append(f"{headings[-1]}\n\n{self._section(rng, topic)}")
        texts[0] = f"{title}\n\n{texts[0]}"
        modified = NOW - timedelta(hours=choose.randrange(3 * 365 * 24))
        return Document(number, topic, title, headings, texts, _readers(choose), modified)

    def queries(self, count: int) -> list[str]:
        """Return distinct queries: two to six words of a topic and up to three common words."""
        rng, choose = np.random.default_rng((SEED, 1)), random.Random(SEED)
        found: dict[str, None] = {}
        while len(found) < count:
            topic = self._topics[choose.randrange(TOPICS)]
            words = [*topic[self._draw(rng, self._within, choose.randint(2, 6))]]
            words += [*self._draw(rng, self._background, choose.randint(0, 3))]
            choose.shuffle(words)
            found[" ".join(self._words[words])] = None
        return list(found)

    def vectors(self, document: Document) -> Floats:
        """Return one synthetic vector per passage of a document, (n, dimensions), L2-normalised, always the same."""
        rng, dimensions = np.random.default_rng((SEED, document.number, 1)), self._centres.shape[1]
        noise = rng.standard_normal((len(document.texts), dimensions), dtype=np.float32)
        return _unit(self._centres[document.topic] + self._noise / dimensions**0.5 * noise)

    def _heading(self, rng: np.random.Generator, topic: int) -> str:
        return " ".join(self._words[self._topics[topic][self._draw(rng, self._within, 3)]]).capitalize()

    def _section(self, rng: np.random.Generator, topic: int) -> str:
        size = max(60, round(rng.normal(WORDS, SPREAD)))
        own = self._topics[topic][self._draw(rng, self._within, size)]
        other = self._draw(rng, self._background, size)
        words = [str(word) for word in self._words[np.where(rng.random(size) < TOPIC_SHARE, own, other)]]
        ends = np.cumsum(rng.integers(8, 22, size // 8 + 1))
        begun = [0, *(int(end) for end in ends if end < size - 4)]
        return " ".join(
            f"{' '.join(words[start:end]).capitalize()}." for start, end in zip(begun, [*begun[1:], size], strict=True)
        )

    @staticmethod
    def _draw(rng: np.random.Generator, cumulated: NDArray[np.float64], count: int) -> NDArray[np.int64]:
        return np.searchsorted(cumulated, rng.random(count))


def _readers(choose: random.Random) -> list[str]:
    """Return a document's readers: up to three groups without the caller and, for a share of all documents, one of the caller's groups."""
    others = {choose.randrange(OWN_GROUPS, GROUPS) for _ in range(choose.randint(1, 3))}
    readers = [f"group:team-{number:03}@example.org" for number in sorted(others)]
    if choose.random() < READABLE:
        own = f"group:team-{choose.randrange(OWN_GROUPS):03}@example.org"
        readers.append(choose.choices([own, "public", "domain:example.org", EMAIL], [70, 10, 15, 5])[0])
    return readers


def _name(spell: random.Random, words: Sequence[str]) -> str:
    """Return a synthetic name of two short words, like that of a product."""
    return "".join(spell.choice(words)[:5] for _ in range(2))


def _cumulated(count: int) -> NDArray[np.float64]:
    weights = 1 / (np.arange(1, count + 1) + ZIPF_SHIFT)
    cumulated = np.cumsum(weights / weights.sum())
    cumulated[-1] = 1.0
    return cumulated


def _unit(rows: Floats) -> Floats:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
