"""Protocols between the parts: what an implementation must offer, so that a double and the real thing are interchangeable."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from resources.domain import Batch, Item, SourceName
from resources.retrying import NO_CALLS, Tally

Vectors = NDArray[np.float32]
"""Shape (n, dimensions), float32, each row L2-normalised."""


class Memory(Protocol):
    """What sources remembered with their batches, as committed."""

    def read(self, source: SourceName, partition: str, low: str = "", high: str | None = None) -> dict[str, Any]:
        """Return key → value of the keys from `low` (inclusive) to `high` (exclusive), in byte order of the keys."""
        ...


class Source(Protocol):
    """A place that documents come from. One instance serves one sync. Connectors inherit, and override what they have."""

    fetchers: int = 4
    """How many documents are fetched at a time."""
    costly: bool = False
    """Whether fetching takes calls that count: each content is then noted as it arrives, so that no crash makes us ask twice."""

    @property
    @abstractmethod
    def name(self) -> SourceName:
        """Which source this is."""
        ...

    @property
    def tally(self) -> Tally:
        """Calls made so far, by method, and how often one was tried again."""
        return NO_CALLS

    @abstractmethod
    def partitions(self) -> list[str]:
        """Return the natural units (roots, channels, upload days), sorted. Raises `AbortSyncError` when they can't be listed."""
        ...

    def retired(self, known: list[str]) -> list[str]:  # noqa: ARG002 - nothing ever ends where a source does not say so
        """Return those of the known partitions that are no longer configured; their documents go."""
        return []

    def lost(self, known: list[str]) -> list[str]:  # noqa: ARG002 - as above
        """Return those of the known partitions that cannot be read any more; their documents are hidden until they can."""
        return []

    def directory(self) -> list[tuple[str, str]] | None:
        """Return each (email, principal) that the source knows of people beside their groups; None: it knows no people."""
        return None

    @abstractmethod
    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what changed since `cursor` (None: everything), each batch with the cursor to save after it.

        Raises `LostPartitionError`, `AuthorizationError`, or `AbortSyncError` when the listing failed: a failed listing is
        never an empty one.
        """
        ...

    @abstractmethod
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
