"""Run the five stages of a source as plain functions over a `SyncRun`, called by the assets and by tests without Dagster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assets.chunked import batches, chunk_missing
from assets.embedded import embed_missing
from assets.index.collection import ensure_collection
from assets.index.keywords import refresh_keyword_vectors
from assets.index.targets import Target, active_target, run_for_secondary
from assets.indexed import index_missing, refresh_checks, remove_gone, update_payloads
from assets.parsed import Pending, parse_missing
from assets.raw import collect, raw_table
from resources.core.domain import STAGES
from resources.core.ports import Source
from resources.core.tables import embedded_table
from resources.sources import open_source
from resources.syncing import SyncRun
from sql import queries

COMPACT_BATCH = 50_000

registry = queries("registry")
events = queries("events")


def pending(run: SyncRun, active: Target, *, everything: bool = False) -> list[Pending]:
    """Return the documents whose index entry is missing or out of date, or all that have content."""
    rows = registry.pending(
        run.connection,
        source=run.source.value,
        partitions=run.partitions,
        everything=everything or run.full,
        signatures=active.signatures(),
    )
    fields = Pending.__struct_fields__
    return [Pending(**{name: row[name] for name in fields}) for row in rows if row["profile"] in active.profiles]


def raw(run: SyncRun, *, source: Source | None = None, everything: bool = False) -> Mapping[str, Any]:
    """Synchronise the lake and the registry with the source."""
    run.relist = run.relist or everything
    return collect(run, source if source is not None else open_source(run.settings, run.source))


def parsed(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Parse documents that have no text yet."""
    return parse_missing(run, pending(run, active_target(run), everything=everything))


def chunked(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Chunk texts that have no chunks yet."""
    active = active_target(run)
    totals = chunk_missing(run, pending(run, active, everything=everything), active.profiles, active.tokenizer())
    run_for_secondary(run, active, "chunked", lambda secondary, documents: chunk_missing(
        run, documents, secondary.profiles, secondary.tokenizer()
    ))  # fmt: skip
    return totals


def embedded(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Embed chunks that have no vector yet."""
    active = active_target(run)
    totals = embed_missing(run, active, pending(run, active, everything=everything))
    run_for_secondary(run, active, "embedded", lambda secondary, documents: embed_missing(run, secondary, documents))
    return totals


def indexed(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Synchronise Postgres and Qdrant with the lake, then compact the lake."""
    active = active_target(run)
    active = ensure_collection(run, active, pending(run, active, everything=everything))
    removed = remove_gone(run, active.collection)
    repainted = update_payloads(run, active)
    reworded = refresh_keyword_vectors(run, active)
    totals = {"documents": 0, "points": 0, "removed": removed, "repainted": repainted, "reworded": reworded}
    todo = [document for document in pending(run, active, everything=everything) if document.state == "live"]
    # before the active collection: once it has these documents, they are no longer recognisable as new
    run_for_secondary(run, active, "indexed", lambda secondary, documents: _write(run, secondary, documents))
    for name, count in _write(run, active, todo).items():
        totals[name] += count
    events.show(run.connection, source=run.source.value)
    events.members_read(run.connection, source=run.source.value)
    refresh_checks(run, active.collection)
    collection = active.collection
    for table in (raw_table(run.source), "parsed", "chunked", embedded_table(collection.model, collection.dimensions)):
        run.lake.compact(table)
    return totals


def _write(run: SyncRun, target: Target, documents: Sequence[Pending]) -> dict[str, int]:
    totals = {"documents": 0, "points": 0}
    for part in batches(documents, COMPACT_BATCH):
        for name, count in index_missing(run, target, part).items():
            totals[name] += count
    return totals


WORK: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "raw": raw,
    "parsed": parsed,
    "chunked": chunked,
    "embedded": embedded,
    "indexed": indexed,
}


def sync(run: SyncRun, *, source: Source | None = None) -> dict[str, Mapping[str, Any]]:
    """Run all five stages in order in this process."""
    done: dict[str, Mapping[str, Any]] = {}
    for stage in STAGES:
        with run.stage(stage):
            done[stage] = raw(run, source=source) if stage == "raw" else WORK[stage](run)
    return done
