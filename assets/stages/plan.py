"""Decide what one batch of a source changes: which documents to fetch, rewrite, refuse, delete or hold."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from math import inf

import msgspec

from assets.stages.diff import GONE, diff, has_content
from assets.stages.grant import effective_permissions
from assets.stages.identify import payload_hash
from resources.core.domain import Batch, Item, Refusal, State
from sql.rows import Known


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of what one batch may do."""

    full: bool = False
    """Fetch every document again."""
    most: float = inf
    """Deletions that the partition still allows in this sync."""
    waiting: frozenset[str] = frozenset()
    """Documents whose deletion already waits for approval."""
    closed: frozenset[str] = frozenset()
    """Documents in folders that may not be listed: their deletion needs approval."""


class BatchPlan(msgspec.Struct, kw_only=True):
    """Plan of changes to the documents that a batch affects."""

    fetch: list[Item]
    rewrite: list[Item]
    """Documents with new metadata or permissions and unchanged bytes."""
    refuse: list[Refusal]
    """Refusals that the registry does not have yet."""
    delete: dict[str, str] = {}
    """Documents to delete, with their partitions."""
    hold: list[str] = []
    """Documents whose deletion needs approval, because too many are gone at once or their folder may not be listed."""
    drop: list[tuple[str, str]]
    """Documents (source id, partition) to remove from the lake only: the registry already has them as gone, or never had them."""
    moves: Counter[str]
    """Change in the number of documents of each partition, without the one that a listing counts."""


def plan_batch(
    batch: Batch,
    known: Mapping[str, Known],
    absent: Collection[str] = (),
    policy: Policy = Policy(),  # noqa: B008 - frozen
    others: Iterable[Item] = (),
) -> BatchPlan:
    """Return what to do about a batch.

    `known` holds, by source id, the registry's rows of every document that the batch names, empties or leaves out. `absent` are the
    documents that a complete listing did not show. `others` are further documents of the partition, with the permissions that the batch
    sets for all of them.
    """
    work = diff(batch.seen, known, full=policy.full)
    gone = vanished(batch, known, absent)
    fresh = {source_id: partition for source_id, partition in gone.items() if source_id not in policy.waiting}
    certain = {source_id: partition for source_id, partition in fresh.items() if source_id not in policy.closed}
    allowed = len(certain) <= policy.most
    refuse = [refusal for refusal in batch.refused if not _is_recorded(refusal, known.get(refusal.source_id))]
    drop = [(refusal.source_id, refusal.partition) for refusal in refuse if has_content(known.get(refusal.source_id))]
    for source_id in batch.deleted:
        before = known.get(source_id)
        if before is None:  # a killed sync may have written it to the lake but not to the registry
            drop.append((source_id, batch.partition))
        elif before.state == State.DELETED and before.content_hash is not None:
            drop.append((source_id, before.partition))  # an upload that its owner deleted, but not yet in the lake
    return BatchPlan(
        fetch=work.fetch,
        rewrite=work.rewrite + [item for item in others if _is_regranted(item, known[item.source_id])],
        refuse=refuse,
        delete=certain if allowed else {},
        hold=[one for one in fresh if not allowed or one not in certain],
        drop=drop,
        moves=_moves(batch, known, gone),
    )


def vanished(batch: Batch, known: Mapping[str, Known], absent: Collection[str] = ()) -> dict[str, str]:
    """Return registered documents that are gone by tombstone, by folder or by absence, with the partition of each."""
    emptied = set(batch.emptied)
    ids = {*batch.deleted, *absent, *(key for key, one in known.items() if not emptied.isdisjoint(one.collection_ids))}
    ids.difference_update(shown(batch))
    there = (known[source_id] for source_id in sorted(ids) if source_id in known)
    return {
        one.source_id: one.partition
        for one in there
        if one.state != State.DELETED and (not batch.own or one.partition == batch.partition)
    }


def shown(batch: Batch) -> list[str]:
    return [one.source_id for one in (*batch.seen, *batch.refused)]


def refused_item(refusal: Refusal) -> Item:
    """Return the item of a refused document, which no one may read."""
    return Item(
        source_id=refusal.source_id,
        partition=refusal.partition,
        title=refusal.title,
        path=refusal.path,
        mime_type="",
        version=refusal.version,
        permissions=(),
        owner=refusal.owner,
        collection_ids=refusal.collection_ids,
    )


def is_reported(refusal: Refusal, before: Known | None) -> bool:
    """Return True if the registry has this reason for the document already."""
    return before is not None and before.state == State.SKIPPED and before.reason == refusal.reason


def _is_recorded(refusal: Refusal, before: Known | None) -> bool:
    """Return True if the reason is known and the document has not moved."""
    return (
        is_reported(refusal, before)
        and before is not None
        and before.payload_hash == payload_hash(refused_item(refusal), ())
    )


def _is_regranted(item: Item, before: Known) -> bool:
    permissions = effective_permissions(item)
    return payload_hash(item, permissions) != before.payload_hash or tuple(permissions) != item.permissions


def _moves(batch: Batch, known: Mapping[str, Known], gone: Mapping[str, str]) -> Counter[str]:
    moves: Counter[str] = Counter()
    moves.subtract(gone.values())
    for one in (*batch.seen, *batch.refused):
        before = known.get(one.source_id)
        moves[one.partition] += 1
        if before is not None and before.state not in GONE:
            moves[before.partition] -= 1
    if batch.listing != "delta":
        del moves[batch.partition]
    return moves
