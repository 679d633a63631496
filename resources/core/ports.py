"""Protocols of the interchangeable parts: sources, their memory, embedders and tokenizers."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from resources.core.domain import Batch, Item, Refusal, SourceName
from resources.core.retrying import NO_CALLS, Tally

Vectors = NDArray[np.float32]
"""Shape (n, dimensions), float32, each row L2-normalised."""


class Memory(Protocol):
    """State that sources saved with their batches, as committed."""

    def read(self, source: SourceName, partition: str, low: str = "", high: str | None = None) -> dict[str, Any]:
        """Return key → value of the keys from `low` (inclusive) to `high` (exclusive), in byte order of the keys."""
        ...


class KnownKeys(Protocol):
    """Documents that the registry holds as they were listed last, by keys: hashes of all that decides what their source says of them.

    Documents that are listed together have one key.
    """

    def listed(self, key: int, documents: int) -> bool:
        """Return True if a key is known and has this number of documents, and note that they are still there."""
        ...


class Source(Protocol):
    """A source of documents. One instance serves one sync. Connectors inherit and override what they support."""

    fetchers: int = 4
    """Number of documents fetched concurrently."""
    groups_unread: bool = False
    """If True, `directory` could not read the groups: those stored of people who are still there stay, and age."""
    warnings: Sequence[str] = ()
    """What the sync does without, as sentences that name no document: optional calls that failed so far."""
    known_keys: KnownKeys | None = None
    """Set for a source with `keyed_listing` before its changes are read, unless each document is to be shown."""
    renamed: str | None = None
    """Key of its memory that has the next sync list a partition from the beginning, since its readers are named by addresses of Google's
    directory and one of these has changed."""
    costly: bool = False
    """If True, fetching makes metered calls: each content is recorded as it arrives, so that no crash makes us fetch it twice."""

    @property
    @abstractmethod
    def name(self) -> SourceName:
        """The source's name."""
        ...

    @property
    def tally(self) -> Tally:
        """Calls made so far, by method, and how often calls were repeated."""
        return NO_CALLS

    @abstractmethod
    def partitions(self) -> list[str]:
        """Return the natural units (roots, channels, upload days), sorted. Raises `AbortSyncError` if they cannot be listed."""
        ...

    def retired(self, known: list[str]) -> list[str]:  # noqa: ARG002 - by default no partition is ever retired
        """Return the known partitions that are no longer configured; their documents are held until someone removes them."""
        return []

    def lost(self, known: list[str]) -> list[str]:  # noqa: ARG002 - as above
        """Return the known partitions that can no longer be read; their documents are hidden until they can."""
        return []

    def directory(self) -> list[tuple[str, str]] | None:
        """Return (email, principal) pairs for what the source knows about people besides groups; None if it knows no people."""
        return None

    def subscribe(self) -> None:
        """Have the source send word of changes, where it does. Called early in each sync, which goes on without if this raises."""

    @abstractmethod
    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what changed since `cursor` (None: everything), each batch with the cursor to save after it.

        Raises `LostPartitionError`, `AuthorizationError`, or `AbortSyncError` if the listing failed: a failed listing is
        never treated as an empty one.
        """
        ...

    @abstractmethod
    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield the bytes of one document in pieces, those of the version that was listed: a later one may be for fewer readers.

        Raises `SkipDocumentError`, `FailedDocumentError` or `RetryLaterError`; the rest of the sync continues. After
        `ChangedDocumentError` it is looked at again.
        """
        ...

    def missing(self, partition: str, source_ids: Collection[str]) -> list[Item | Refusal]:  # noqa: ARG002 - as above
        """Return those of the documents that are there, though a complete listing has not shown them: listings may lag."""
        return []

    def look_again(self, item: Item) -> Item | None:  # noqa: ARG002 - as above
        """Return a document as it is now that changed after it was listed, or was not readable; None leaves it to the next sync."""
        return None


class Embedder(Protocol):
    """A model that turns texts into vectors. Thread-safe."""

    @property
    def model(self) -> str:
        """Name that keys the cache and the collection."""
        ...

    @property
    def dimensions(self) -> int: ...

    @property
    def window(self) -> int:
        """Longest text, in tokens, that the model reads without truncation."""
        ...

    @property
    def price_per_million(self) -> float | None:
        """US dollars per million tokens; None if unknown (set CONCORDANCE_LIMITS__EMBEDDING_PRICE)."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in order. Raises `ServiceUnavailableError` or `ConfigurationError`."""
        ...

    def embed_counted(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Return the rows as `embed` does, and the tokens used (as billed, if the service reports it).

        The row of a text that the service cannot embed, though it embeds others, is NaN.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of one query, shape (dimensions,)."""
        ...


class Tokenizer(Protocol):
    """Counts tokens the way the bundled model does."""

    def weighed(self, text: str) -> list[tuple[int, int]]:
        """Return the start and the weight of each token, without special tokens, in order.

        A token weighs 1; an unknown word is one token, and weighs as many as another tokenizer may need for it.
        """
        ...
