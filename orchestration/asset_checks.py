"""Asset checks after each sync: document states, agreement of lake, Postgres and Qdrant, and completeness."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from msgspec.structs import asdict

from assets import catalog
from resources.bindings import Syncs, as_failure
from resources.core.domain import SourceName
from sql.upkeep import Checks
from sql.upkeep_rows import Completeness

SHOWN_PARTITIONS = 100
COLUMNS = ("partition", "title", "source_count", "live", "skipped", "failed", "held")


def source_checks(source: SourceName) -> Sequence[dg.AssetChecksDefinition]:
    """Return the checks of one source, which run at the end of its sync."""

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="ledger_balances",
        description="Every known document of what was synced is live and indexed, skipped, failed, or deleted from the index.",
        metadata=catalog.DOCUMENTATION,
        blocking=False,
    )
    @as_failure()
    def ledger_balances(syncs: Syncs) -> dg.AssetCheckResult:
        from assets.index.agreement import ledger

        job = syncs.current(source)
        counts = ledger(job.stores, job.partitions)
        return dg.AssetCheckResult(passed=counts["unfinished"] == 0 and counts["lingering"] == 0, metadata=counts)

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="stores_agree",
        description="Lake and Postgres contain the same documents that this sync changed; Postgres and Qdrant have as many chunks.",
        metadata=catalog.DOCUMENTATION,
        blocking=False,
    )
    @as_failure()
    def stores_agree(syncs: Syncs) -> dg.AssetCheckResult:
        from assets.index.agreement import changed

        job = syncs.current(source)
        found = changed(job.stores, job.started_ns)
        counts = asdict(found)
        differing = ", ".join(counts.pop("partitions")[:SHOWN_PARTITIONS]) or "none"
        return dg.AssetCheckResult(
            passed=found.agrees, metadata={**counts, "partitions_with_other_contents": differing}
        )

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="source_is_complete",
        description="Each partition has as many documents as the source reports, not counting held deletions.",
        metadata=catalog.DOCUMENTATION,
        blocking=False,
    )
    @as_failure()
    def source_is_complete(syncs: Syncs) -> dg.AssetCheckResult:
        rows = Checks(syncs.current(source).stores.connection, source.value).completeness()
        return dg.AssetCheckResult(passed=all(row.complete for row in rows), metadata=completeness_metadata(rows))

    return [ledger_balances, stores_agree, source_is_complete]


def completeness_metadata(rows: Sequence[Completeness]) -> dict[str, Any]:
    """Return totals and a table of partitions for the UI, incomplete ones first."""
    records = [
        dg.TableRecord({name: "" if value is None else value for name, value in asdict(row).items() if name in COLUMNS})
        for row in rows[:SHOWN_PARTITIONS]
    ]
    kinds = {name: "string" if name in ("partition", "title") else "int" for name in COLUMNS}
    schema = dg.TableSchema([dg.TableColumn(name, type=kind) for name, kind in kinds.items()])
    return {
        "partitions": len(rows),
        "incomplete": sum(not row.complete for row in rows),
        "ledger": dg.TableMetadataValue(records=records, schema=schema),
    }
