"""Asset checks after each sync: the ledger balances, lake, Postgres and Qdrant agree, and nothing that the source has is missing."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from resources.bindings import Syncs
from resources.core.domain import SourceName
from sql import queries

SHOWN_PARTITIONS = 100
COLUMNS = ("partition", "title", "source_count", "live", "skipped", "failed", "held")


def source_checks(source: SourceName) -> Sequence[dg.AssetChecksDefinition]:
    """Return the checks of one source; all run at the end of its sync."""

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="ledger_balances",
        description="Every document that was ever seen is live and indexed, skipped, failed, or deleted and gone.",
        blocking=False,
    )
    def ledger_balances(syncs: Syncs) -> dg.AssetCheckResult:
        from assets.index.agreement import ledger

        counts = ledger(syncs.current(source))
        return dg.AssetCheckResult(passed=counts["unfinished"] == 0 and counts["lingering"] == 0, metadata=counts)

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="stores_agree",
        description="Lake, Postgres and Qdrant hold the same documents with the same contents, and as many chunks.",
        blocking=False,
    )
    def stores_agree(syncs: Syncs) -> dg.AssetCheckResult:
        from assets.index.agreement import agree, differing_partitions, totals

        run = syncs.current(source)
        counts = totals(run)
        # hashing reads all of the source's rows: nothing changed, nothing to hash
        differing = differing_partitions(run) if run.touched else []
        return dg.AssetCheckResult(
            passed=agree(counts) and not differing,
            metadata={**counts, "partitions_with_other_contents": ", ".join(differing[:SHOWN_PARTITIONS]) or "none"},
        )

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="source_is_complete",
        description="Each partition's own count at the source is what is live, skipped and failed here, held deletions aside.",
        blocking=False,
    )
    def source_is_complete(syncs: Syncs) -> dg.AssetCheckResult:
        rows = list(queries("upkeep").completeness(syncs.current(source).connection, source=source.value))
        return dg.AssetCheckResult(passed=all(row["complete"] for row in rows), metadata=completeness_metadata(rows))

    return [ledger_balances, stores_agree, source_is_complete]


def completeness_metadata(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the completeness ledger for the UI: totals, and a table with the partitions that differ first."""
    records = [
        dg.TableRecord({name: "" if row[name] is None else row[name] for name in COLUMNS})
        for row in rows[:SHOWN_PARTITIONS]
    ]
    kinds = {name: "string" if name in ("partition", "title") else "int" for name in COLUMNS}
    schema = dg.TableSchema([dg.TableColumn(name, type=kind) for name, kind in kinds.items()])
    return {
        "partitions": len(rows),
        "incomplete": sum(not row["complete"] for row in rows),
        "ledger": dg.TableMetadataValue(records=records, schema=schema),
    }
