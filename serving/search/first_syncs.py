"""Notices on the search page during the first sync of a source, so that missing documents surprise no one."""

from __future__ import annotations

from resources.core.domain import Access, Role
from resources.sources import label
from serving.http.database import Database
from sql.web import WebReads


async def still_reading(database: Database, access: Access) -> str | None:
    """Return a sentence on the first syncs that are running, None if there are none. Counts are for operators and auditors."""
    found = await WebReads(database).first_syncs()
    if not found:
        return None
    *names, last = (label(one.source) for one in found)
    named = f"{', '.join(names)} and {last}" if names else last
    documents, done = sum(one.documents for one in found), sum(one.done for one in found)
    counted = documents and access.has(Role.OPERATOR, Role.AUDITOR)
    count = f": {done:,} of {documents:,} documents" if counted else ""
    return f"Still reading {named}{count}. Try again in a moment."
