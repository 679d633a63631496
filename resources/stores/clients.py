"""The stores that work on one source reads and writes, each opened when it is first used."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from resources.core.domain import SourceName
from resources.settings import Settings
from resources.stores.fenced import FencedConnection
from resources.stores.leases import WHOLE
from resources.stores.postgres import Connection
from sql.sync import Collections, Documents, IndexEntries, IndexWork, Jobs, Partitions

if TYPE_CHECKING:
    from qdrant_client.qdrant_remote import QdrantRemote

    from resources.embedding import Embedder
    from resources.stores.blobs import Blobs
    from resources.stores.keyed import KeyedTables
    from resources.stores.lake import Lake
    from resources.stores.leases import Lease
    from resources.stores.repeating import Repeating
    from resources.stores.withheld import WithheldCollection


@dataclass(frozen=True)
class Stores:
    """Postgres, the lake, blobs, the vector index and the model, as the work on one source uses them."""

    settings: Settings
    source: SourceName
    connection: Connection
    lease: Lease | None = None
    """What may be written to; None: these stores are only read."""
    _lake: Lake | None = field(default=None, repr=False)

    def over(self, connection: Connection) -> Stores:
        """Return these stores with another connection, for another thread; they share the lake."""
        return Stores(self.settings, self.source, connection, self.lease, self.lake)

    def covers(self, partition: str) -> bool:
        """Return True if these stores may write to a partition."""
        return self.lease is None or self.lease.covers(partition)

    @property
    def covered(self) -> list[str] | None:
        """The partitions that these stores may write to; None: all."""
        return None if self.lease is None or self.lease.covers(WHOLE) else self.lease.partitions

    def confirm(self) -> None:
        """Renew the lease before a write to the lake or the index: the source's, or else that of the connection, as during a reindex.

        Raises `LostLeaseError` if another process has claimed it.
        """
        fenced = self.connection.lease if isinstance(self.connection, FencedConnection) else None
        lease = self.lease or fenced
        if lease is not None:
            lease.confirm()

    @cached_property
    def documents(self) -> Documents:
        return Documents(self.connection, self.source.value)

    @cached_property
    def partitions(self) -> Partitions:
        return Partitions(self.connection, self.source.value)

    @cached_property
    def index(self) -> IndexEntries:
        return IndexEntries(self.connection, self.source.value)

    @cached_property
    def index_work(self) -> IndexWork:
        return IndexWork(self.connection, self.source.value)

    @cached_property
    def collections(self) -> Collections:
        return Collections(self.connection)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.connection)

    @cached_property
    def lake(self) -> Lake:
        from resources.stores.lake import Lake  # polars and Arrow: slow to import

        return self._lake or Lake(self.settings.lake_address, self.confirm)

    @cached_property
    def keyed(self) -> KeyedTables:
        """The lake's tables by key."""
        from resources.stores.keyed import KeyedTables

        return KeyedTables(self.connection, self.lake)

    @cached_property
    def blobs(self) -> Blobs:
        from resources.stores.blobs import Blobs

        return Blobs(self.settings.lake_address)

    @cached_property
    def qdrant(self) -> QdrantRemote:
        from resources.stores.qdrant import client  # 0.5 s of import that only indexing needs

        return client(self.settings, repeating=self.repeating)

    @cached_property
    def repeating(self) -> Repeating:
        """Repeats what the vector index does not answer for a while, as long as the lease is ours."""
        from resources.stores.repeating import Repeating

        return Repeating(self.confirm)

    @cached_property
    def withheld(self) -> WithheldCollection:
        """What searches without Postgres must know."""
        from resources.stores.withheld import WithheldCollection

        return WithheldCollection(self.qdrant)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedding model in the settings; indexing uses the collection's own model (`assets.index.targets`)."""
        from resources.embedding import embedder  # loads the model

        return embedder(self.settings)

    def next_sequence(self, reserve: int) -> int:
        """Reserve ascending numbers for change rows in the lake and return the first."""
        return self.jobs.next_sequence(clock_ns=time.time_ns(), reserve=reserve)
