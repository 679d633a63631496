"""What follows when points are written after another process has taken over.

A process confirms its lease before it writes to the index, but the index cannot check that: one that is paused in between writes what may
have been replaced long ago. Once it notices, it records that nobody knows what these points say, so that the next sync writes them again.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager

from resources.core.errors import LostLeaseError
from resources.stores.clients import Stores
from resources.stores.postgres import session, undeadlocked
from resources.stores.withholding import withhold_documents
from sql.sync import IndexEntries
from sql.withheld import WithheldStatements


@contextmanager
def doubting(stores: Stores, collections: Sequence[str], doc_ids: Collection[str]) -> Generator[None]:
    """Doubt the entries of these documents if the block ends because another process has taken over. `doc_ids` is read at its end."""
    try:
        yield
    except LostLeaseError:
        if doc_ids:
            _doubt(stores, collections, sorted(doc_ids))
        raise


def _doubt(stores: Stores, collections: Sequence[str], doc_ids: list[str]) -> None:
    """Make entries incomplete without a lease: whoever writes to them now does so again. Their points may show too much until then."""

    def doubted() -> None:
        with connection.transaction():
            WithheldStatements(connection).lock(doc_ids=doc_ids)  # before their entries, as whoever writes these does
            IndexEntries(connection, stores.source.value).doubt(collections=list(collections), doc_ids=doc_ids)
            withhold_documents(connection, stores.withheld, doc_ids)

    with session(stores.settings.postgres_dsn, autocommit=True) as connection:
        undeadlocked(doubted)
