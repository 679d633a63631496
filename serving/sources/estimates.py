"""A rough estimate of a first sync, from what the syncs of this installation took so far."""

from __future__ import annotations

import msgspec

from resources.core.durations import how_long
from serving.sources.service import SourceServices


class FirstSync(msgspec.Struct, frozen=True, kw_only=True):
    """Estimate of a first sync. Figures other than `documents` and `size` are extrapolated; null if nothing was synced yet."""

    documents: int
    """Documents that were counted."""
    size: int
    """Bytes of these documents, as far as the source says."""
    passages: int | None
    """Passages, by the mean of the documents indexed here."""
    tokens: int | None
    """Tokens to embed, by the mean of the passages embedded here."""
    cost_usd: float | None
    """Cost of embedding in US dollars, by what was paid per token so far."""
    time: str | None
    """Time that it takes, by the documents per second of past syncs."""
    basis: str
    """What the estimate is based on, in words."""


def first_sync(documents: int, size: int, source_services: SourceServices) -> FirstSync:
    """Return the estimate for a source with this many documents."""
    sums: dict[str, float] = {}
    for row in source_services.http.monitor.totals:
        sums[row.what] = sums.get(row.what, 0.0) + (
            row.value if row.what != "sync_documents" or row.label == "synced" else 0.0
        )
    synced, seconds = sums.get("sync_documents", 0), sums.get("sync_seconds_sum", 0)
    embedded, tokens = sums.get("chunks_embedded", 0), sums.get("embedding_tokens", 0)
    if not synced or not embedded:
        return FirstSync(
            documents=documents, size=size, passages=None, tokens=None, cost_usd=None, time=None,
            basis="Nothing has been synced here yet, so time and cost cannot be estimated.",
        )  # fmt: skip
    passages = round(documents * source_services.http.monitor.passages_per_document)
    wanted = round(passages * tokens / embedded)
    return FirstSync(
        documents=documents,
        size=size,
        passages=passages,
        tokens=wanted,
        cost_usd=round(wanted * sums.get("embedding_cost", 0) / tokens, 2) if tokens else None,
        time=how_long(documents * seconds / synced),
        basis=f"Estimated from the {synced:,.0f} documents that syncs of this installation have read so far.",
    )
