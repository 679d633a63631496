"""Explain why a document is not found, from its source to its rank for a query. Pure.

A document that the caller may not see gets the same `Trace` as one that does not exist: the statement that reads the registry takes the
caller's principals, and everything else is done alike for both. For the operator's command line alone, it has a row for any document.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from resources.core.domain import STAGES, State
from resources.core.notes import TextNote
from serving.search.references import Reference
from serving.search.retrieval.passage import Passage
from sql.serving_rows import RegistryEntry, Shares

RANKS = 50
"""Number of top documents in which a rank is looked for."""
NO_DOCUMENT = "00000000-0000-0000-0000-000000000000"
"""Looked up in the index when there is no document, so that both cases cost the same."""


class Stages(msgspec.Struct, frozen=True, kw_only=True):
    """Stages that the document has passed. `chunked` counts chunks in Postgres, `embedded` points in Qdrant (null: unavailable)."""

    seen: bool = False
    """True if the source has listed it."""
    parsed: bool = False
    """True if its text was read."""
    chunked: int = 0
    """Number of its passages in Postgres."""
    embedded: int | None = 0
    """Number of its passages in the vector index; null if the index does not answer."""
    indexed: bool = False
    """True if all passages can be found."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation why a document is or is not found. `rank` counts from 1; null if the document is not among the first 50."""

    found: bool = False
    """True if you may see the document."""
    state: str | None = None
    """The state of the document; null if not found."""
    reason: str | None = None
    """The first cause for which it is not found; null if there is none."""
    stages: Stages = Stages()
    """The stages that it has passed."""
    notes: list[TextNote] = []
    """What its text leaves out, was decoded with doubt or removed; empty unless you may read it."""
    permitted: bool = False
    """True if you may read it."""
    rank: int | None = None
    """Its rank for `query` among the first 50 documents, from 1; null if it is not among them."""
    shared_with: list[str] | None = None
    """The principals that it is shared with, any of which gives access. For its owner; null for everyone else."""
    access_by: list[str] | None = None
    """Those of `shared_with` that give this person access; null where that is."""


def parameters(named: Reference) -> dict[str, Any]:
    """Return the parameters of the statement `why` that say which document is meant."""
    return {
        "doc_ids": list(named.doc_ids),
        "own_id": named.own_id,
        "urls": list(named.urls),
        "channel": named.channel,
        "names": list(named.names),
        "moment": named.moment,
    }


def rank_of(doc_id: str | None, passages: Sequence[Passage]) -> int | None:
    """Return the rank of a document among passages, counting one that lists it in `also_in`."""
    for rank, one in enumerate(passages, start=1):
        if doc_id in (one.doc_id, *(other.doc_id for other in one.also_in)):
            return rank
    return None


def trace(
    row: RegistryEntry | None,
    *,
    points: int | None,
    asked: bool,
    rank: int | None,
    max_age: timedelta,
    narrowed: Sequence[str] = (),
    shares: Shares | None = None,
    principals: Collection[str] = (),
) -> Trace:
    """Return the trace for a row of `why`.

    `points` counts the document's points in Qdrant; `asked` is true if there was a query, and `narrowed` are its parts that are
    filters. `shares` are given to those alone who may know
    them, with the person's `principals`.
    """
    if row is None:
        return Trace()
    state = State(row.state) if row.state is not None else None
    indexed = row.indexed and state == State.LIVE and points == row.chunks
    failed_at = STAGES.index(row.stage) if row.stage in STAGES and state != State.LIVE else 0
    stages = Stages(
        seen=True,
        parsed=row.indexed or row.chunks > 0 or failed_at > STAGES.index("parsed"),
        chunked=row.chunks,
        embedded=points,
        indexed=indexed,
    )
    return Trace(
        found=True,
        state=state.value if state is not None else "queued",
        reason=_reason(row, state, stages, asked=asked, rank=rank, narrowed=narrowed, max_age=max_age),
        stages=stages,
        notes=msgspec.convert(row.notes, list[TextNote]) if state == State.LIVE and row.permitted else [],
        permitted=row.permitted,
        rank=rank,
        shared_with=None if shares is None else sorted(shares.permissions),
        access_by=None if shares is None else sorted(set(shares.permissions).intersection(principals)),
    )


def _reason(
    row: RegistryEntry,
    state: State | None,
    stages: Stages,
    *,
    asked: bool,
    rank: int | None,
    narrowed: Sequence[str],
    max_age: timedelta,
) -> str | None:
    """Return the first reason that keeps the document from being found, or None."""
    if state is None:
        return "It was received and waits for the next sync."
    if state != State.LIVE:
        gone = {
            State.DELETED: "It was deleted from its source.",
            State.LOST_ACCESS: "The source no longer grants access to it.",
        }
        return row.reason or gone.get(state)
    if not row.permitted:
        return "This user has no read permission."
    if row.stale:
        hours = max_age.total_seconds() / 3600
        return f"Its permissions were last checked more than {hours:g} h ago: it is withheld until the next sync of its source."
    if not stages.indexed:
        if stages.embedded is None:
            return "The vector index does not answer, so it is not known whether the document is indexed."
        return "It is not complete in the index; the next sync of its source indexes it."
    if row.archived:
        return "It is archived: searches omit it unless filters.include_archived is true."
    if asked and rank is None:
        filters = f" Its parts that narrow the search are: {', '.join(narrowed)}." if narrowed else ""
        return f"The query does not find it among the first {RANKS} documents.{filters}"
    return None
