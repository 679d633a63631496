"""Asset checks after each sync: the ledger balances, and lake, Postgres and Qdrant agree."""

from collections.abc import Sequence

import dagster as dg

from resources.bindings import Syncs
from resources.domain import SourceName


def source_checks(source: SourceName) -> Sequence[dg.AssetChecksDefinition]:
    """Return the checks of one source; both run at the end of its sync."""

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="ledger_balances",
        description="Every document that was ever seen is live and indexed, skipped, failed, or deleted and gone.",
        blocking=False,
    )
    def ledger_balances(syncs: Syncs) -> dg.AssetCheckResult:
        from assets.agreement import ledger

        counts = ledger(syncs.current(source))
        return dg.AssetCheckResult(passed=counts["unfinished"] == 0 and counts["lingering"] == 0, metadata=counts)

    @dg.asset_check(
        asset=dg.AssetKey([source.value, "indexed"]),
        name="stores_agree",
        description="Lake, Postgres and Qdrant hold the same documents and as many chunks.",
        blocking=False,
    )
    def stores_agree(syncs: Syncs) -> dg.AssetCheckResult:
        from assets.agreement import agree, totals

        counts = totals(syncs.current(source))
        return dg.AssetCheckResult(passed=agree(counts), metadata=counts)

    return [ledger_balances, stores_agree]
