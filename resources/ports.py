"""Protocols between the parts: what an implementation must offer, so that a double and the real thing are interchangeable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from resources.domain import Batch, Item, SourceName

Vectors = NDArray[np.float32]
"""Shape (n, dimensions), float32, each row L2-normalised."""


class Source(Protocol):
    """A place that documents come from. One instance serves one sync."""

    @property
    def name(self) -> SourceName:
        """Which source this is."""
        ...

    def partitions(self) -> list[str]:
        """Return the natural units (roots, channels, upload days), sorted. Raises `AbortSyncError` when they can't be listed."""
        ...

    def retired(self, known: list[str]) -> list[str]:
        """Return those of the known partitions that may not be read any more (no longer configured); their documents go."""
        ...

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what changed since `cursor` (None: everything), each batch with the cursor to save after it.

        Raises `AbortSyncError` when the listing failed: a failed listing is never an empty one.
        """
        ...

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield the bytes of one document in pieces.

        Raises `SkipDocumentError`, `FailedDocumentError` or `RetryLaterError`; the rest of the sync goes on.
        """
        ...


class Embedder(Protocol):
    """A model that turns texts into vectors. Thread-safe."""

    @property
    def model(self) -> str:
        """Name that keys the cache and the collection."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    @property
    def window(self) -> int:
        """Largest text in tokens that a vector sees whole."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row a text, in order. Raises `ServiceUnavailableError` or `ConfigurationError`."""
        ...


class Tokenizer(Protocol):
    """Counts tokens as the bundled model does."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character span of each token, special tokens left out, in order."""
        ...
