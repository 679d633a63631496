"""Compare the counts of a source in the lake, Postgres and Qdrant, for the checks after each sync and for tests."""

from __future__ import annotations

from typing import Any

import polars as pl

from assets.index.targets import active_target
from assets.raw import raw_table
from resources.stores import qdrant
from resources.stores.clients import Stores
from sql.upkeep import Checks


def ledger(stores: Stores) -> dict[str, Any]:
    """Count documents by state, and those whose index entry does not match their state."""
    return stores.index.ledger()


def totals(stores: Stores) -> dict[str, int]:
    """Count documents in the lake and Postgres, and chunks in Postgres (both ways) and Qdrant."""
    counted = stores.index.totals()
    changes = stores.lake.latest(raw_table(stores.source)).select("doc_id", "op").collect()
    lake = set(changes.filter(pl.col("op") == "upsert")["doc_id"])
    held = set(stores.index.content_ids())
    name = active_target(stores).collection.name
    return {
        "lake_documents": len(lake),
        "postgres_documents_with_content": len(held),
        "only_in_lake": len(lake - held),
        "only_in_postgres": len(held - lake),
        "postgres_live_documents": counted.documents,
        "postgres_chunks": stores.index.chunk_total(),
        "postgres_chunks_counted": counted.chunks,
        "qdrant_points": qdrant.count_source(stores.qdrant, name, stores.source.value),
    }


def differing_partitions(stores: Stores) -> list[str]:
    """Return the partitions whose content hashes differ between the lake and Postgres."""
    wanted = {
        row.partition: (row.documents, row.fingerprint)
        for row in Checks(stores.connection, stores.source.value).fingerprints()
    }
    ledger = stores.lake.ledger(stores.source.value).filter(pl.col("documents") > 0)
    held = {
        partition: (documents, fingerprint)
        for partition, documents, fingerprint in ledger.select("partition", "documents", "fingerprint").iter_rows()
    }
    return sorted(partition for partition in wanted | held if wanted.get(partition) != held.get(partition))


def agree(counts: dict[str, int]) -> bool:
    """Return True if the counts of the stores match."""
    return (
        counts["only_in_lake"] == 0
        and counts["only_in_postgres"] == 0
        and counts["postgres_chunks"] == counts["postgres_chunks_counted"] == counts["qdrant_points"]
    )
