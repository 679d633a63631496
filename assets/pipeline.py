"""The five stages of one source as plain functions over a `SyncRun`: what each asset does, and what tests run without Dagster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assets.chunked import batches, chunk_missing
from assets.collection import Collection, ensure_collection, finish, wanted_name
from assets.embedded import embed_missing
from assets.indexed import index_missing, refresh_checks, remove_gone, repaint
from assets.parsed import Pending, parse_missing
from assets.raw import collect, raw_table
from assets.stages.profiles import PROFILES, Profile, resolve
from resources.domain import DEFAULT_PROFILE, STAGES
from resources.errors import ConfigurationError
from resources.ports import Source
from resources.sources import open_source
from resources.syncing import SyncRun
from resources.tables import embedded_table
from sql import queries

COMPACT_BATCH = 50_000

registry = queries("registry")


def profiles(run: SyncRun) -> dict[str, Profile]:
    """Return every profile that fits the model's window. Raises `ConfigurationError` when the default one does not."""
    window = run.embedder.window
    found = {DEFAULT_PROFILE: resolve(run.settings.chunk_profile, window)}
    for name in ("auto", *PROFILES):
        try:
            found[name] = resolve(name, window)
        except ConfigurationError:
            continue  # larger than the window: no root may ask for it, and the sources refuse one that does
    return found


def pending(run: SyncRun, *, everything: bool = False) -> list[Pending]:
    """Return the documents that are not indexed as they should be, or all that have content."""
    names = profiles(run)
    shape = Collection(name=wanted_name(run), model="", dimensions=0, bm25_avg_len=1)
    rows = registry.pending(
        run.connection,
        source=run.source.value,
        partitions=run.partitions,
        everything=everything or run.full,
        signatures=shape.signatures(names),
    )
    fields = Pending.__struct_fields__
    return [Pending(**{name: row[name] for name in fields}) for row in rows if row["profile"] in names]


def raw(run: SyncRun, *, source: Source | None = None, everything: bool = False) -> Mapping[str, Any]:
    """Bring lake and ledger up to the source."""
    run.relist = run.relist or everything
    return collect(run, source if source is not None else open_source(run.settings, run.source))


def parsed(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Parse what has no text yet."""
    return parse_missing(run, pending(run, everything=everything))


def chunked(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Chunk what has no chunks yet."""
    return chunk_missing(run, pending(run, everything=everything), profiles(run))


def embedded(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Embed what has no vector yet."""
    return embed_missing(run, pending(run, everything=everything), profiles(run))


def indexed(run: SyncRun, *, everything: bool = False) -> Mapping[str, Any]:
    """Bring Postgres and Qdrant up to the lake, then tidy the lake."""
    names = profiles(run)
    collection = ensure_collection(run, pending(run, everything=everything))
    removed = remove_gone(run, collection)
    repainted = repaint(run, collection, names)
    totals = {"documents": 0, "points": 0, "removed": removed, "repainted": repainted}
    todo = [document for document in pending(run, everything=everything) if document.state == "live"]
    if todo:
        for part in batches(todo, COMPACT_BATCH):
            for name, count in index_missing(run, collection, part, names).items():
                totals[name] += count
    refresh_checks(run, collection)
    finish(run, collection)
    for table in (raw_table(run.source), "parsed", "chunked", embedded_table(collection.model, collection.dimensions)):
        run.lake.compact(table)
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
