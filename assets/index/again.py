"""Documents that are indexed again: because the parser, a profile or the model's window has changed, or a full sync or backfill wants it.

They are found as they are until then, so a run may leave some of them to the next one (`CONCORDANCE_LIMITS__REINDEX_DOCUMENTS`). New and
changed documents are never left. Which documents are to be indexed again is in the registry (`pending`), so a run that was killed, stopped
or limited leaves nothing to remember.
"""

from __future__ import annotations

from collections.abc import Sequence

from assets.parsed import untried
from resources.core.domain import State
from resources.syncs.claiming import roots_of
from resources.syncs.syncing import SyncJob
from sql.rows import Pending

SETTING = "CONCORDANCE_LIMITS__REINDEX_DOCUMENTS"


def rewrite_all(job: SyncJob, partitions: Sequence[str] | None) -> None:
    """Have the entries of all documents of these partitions (None: of the source) written again, by this run or the next ones."""
    stores = job.stores
    wanted = None if partitions is None else roots_of(stores.connection, stores.source, partitions)
    with job.writing:
        stores.index_work.rewrite(partitions=wanted)


def admitted(job: SyncJob, documents: Sequence[Pending]) -> list[Pending]:
    """Return the documents without those that this run leaves to the next one; the others come back in each call."""
    most = job.stores.settings.reindex_documents
    if most is None:
        return list(documents)
    found: list[Pending] = []
    left: list[Pending] = []
    judged = _judged(job, documents)
    for one in documents:
        if one.again and one.doc_id not in job.again and one.doc_id not in judged:
            if len(job.again) >= most:
                left.append(one)
                continue
            job.again.add(one.doc_id)
        found.append(one)
    job.left.clear()
    job.left.update(one.doc_id for one in left)
    parsed = job.results.get("parsed")
    if parsed is not None:  # else none of those that parsing rejected is done with
        parsed.deferred.update(one.content_key for one in left if one.state != State.LIVE)
    return found


def _judged(job: SyncJob, documents: Sequence[Pending]) -> set[str]:
    """Return those of the documents that parsing rejected and would not try again: they cost nothing."""
    rejected = [one for one in documents if one.state != State.LIVE]
    if not rejected:
        return set()
    tried_again = {one.content_key for one in untried(job.stores, rejected)}
    return {one.doc_id for one in rejected if one.content_key not in tried_again}


def tell_left(job: SyncJob) -> None:
    """Record how many documents this run has left to the next one, if any."""
    if not job.left:
        return
    limit, left = job.stores.settings.reindex_documents, len(job.left)
    if limit:
        done = f"{limit:,} {'document was' if limit == 1 else 'documents were'} indexed again"
        after = "the next sync continues with them"
    else:
        done, after = "No document was indexed again", "will be until that is raised"
    waiting = f"{left:,} {'is' if left == 1 else 'are'} left"
    job.remaining = f"{done}, and {waiting}: {SETTING} is {limit}. They are found as they are, and {after}."
    job.warn(job.remaining)
