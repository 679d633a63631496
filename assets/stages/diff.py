"""Compare a batch of source items with the registry and sort it into documents to fetch, rewrite or keep."""

from collections.abc import Iterable, Mapping

import msgspec

from assets.stages.grant import effective_permissions
from assets.stages.identify import content_key, payload_hash
from resources.core.domain import Item, State
from sql.rows import Known

MAX_ATTEMPTS = 3
"""Attempts at a document with the same version, one in each sync. Bytes that still cannot be read are asked for again after pauses (the
statement `known`); a document that cannot be parsed is left alone until it changes or a full sync asks for it."""


GONE = (State.DELETED, State.LOST_ACCESS)
"""States of documents that are not searchable and whose content is kept: if they return unchanged, nothing is fetched."""


class Diff(msgspec.Struct, kw_only=True):
    """The work that a batch causes: bytes to fetch and metadata to rewrite. Everything else is unchanged."""

    fetch: list[Item] = []
    rewrite: list[Item] = []


def diff(seen: Iterable[Item], known: Mapping[str, Known], *, full: bool = False) -> Diff:
    """Return the work for a batch. `known` is keyed by source id; `full` fetches everything again."""
    result = Diff()
    for item in seen:
        before = known.get(item.source_id)
        if before is None or full or _needs_bytes(item, before):
            result.fetch.append(item)
        elif (
            before.state in GONE
            or before.payload_hash != payload_hash(item, effective_permissions(item))
            or before.partition != item.partition
            or (before.content_hash is not None and before.content_key != content_key(item, before.content_hash))
        ):
            result.rewrite.append(item)
    return result


def _needs_bytes(item: Item, before: Known) -> bool:
    if before.state in GONE:
        return before.content_hash is None or before.version != item.version
    if before.state == State.SKIPPED and not before.mime_type:
        return True  # the source refused it, for a reason that is gone although the bytes may be the same
    return before.due or before.version != item.version


def has_content(before: Known | None) -> bool:
    """Return True if the lake holds the document's current content."""
    return before is not None and before.content_hash is not None and before.state not in GONE
