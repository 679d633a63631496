"""Redact questions and answers that quote erased documents, and delete the documents' registry rows.

Rows that record an event (answers, audit, conversations, feedback) are kept without their texts. Texts that quote a document are
found by its ids and by its distinctive words: words of its text that no indexed passage contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from resources.stores.postgres import Connection
from sql import queries

MOST_WORDS = 100_000
_WORD = re.compile(r"\w{4,}")

erase = queries("upkeep")


def words_of(texts: Iterable[str]) -> set[str]:
    """Return the words of texts, split as in the SQL statements: lower case, at least four characters."""
    return {word for text in texts for word in _WORD.findall(text.lower())}


def distinctive(connection: Connection, words: set[str]) -> list[str]:
    """Return the words that no indexed passage contains, longest first, at most `MOST_WORDS`."""
    if not words:
        return []
    found = [row["word"] for row in erase.distinctive(connection, words=sorted(words))]
    return sorted(found, key=len, reverse=True)[:MOST_WORDS]


def redact(
    connection: Connection, documents: Sequence[dict[str, Any]], words: list[str], since: datetime
) -> dict[str, int]:
    """Redact texts since `since` that quote these documents; return the number of changed rows by table."""
    ids = [row["doc_id"] for row in documents]
    names = [name for row in documents for name in (row["doc_id"], row["source_id"], row["url"]) if name]
    with connection.transaction():
        changed = {
            "answers": erase.redact_answers(connection, doc_ids=ids, words=words, since=since),
            "audit_log": erase.redact_audit(connection, doc_ids=ids, words=words, since=since),
            "conversations": erase.redact_conversations(connection, names=names, words=words, since=since),
            "feedback": erase.redact_feedback(connection, words=words, since=since),
            "questions": erase.drop_questions(connection, doc_ids=ids, words=words),
            "answer_cache": erase.drop_answer_cache(connection),
        }
    return {table: int(rows or 0) for table, rows in changed.items()}


def forget(connection: Connection, documents: Sequence[dict[str, Any]], cutoff: datetime, document: str | None) -> None:
    """Delete the registry rows of these documents, in the caller's transaction."""
    ids = [row["doc_id"] for row in documents]
    erase.drop_sync_errors(
        connection,
        sources=[row["source"] for row in documents],
        source_ids=[row["source_id"] for row in documents],
    )
    erase.drop_uploads(connection, doc_ids=ids, cutoff=cutoff, document=document)
    erase.drop_ingest_jobs(connection, doc_ids=ids)
    erase.drop_documents(connection, doc_ids=ids)
