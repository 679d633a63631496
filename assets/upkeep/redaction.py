"""Redact questions and answers that quote erased documents, and delete the documents' registry rows.

Rows that record an event (answers, audit, conversations, feedback) are kept without their texts. Texts that quote a document are
found by its ids and by its distinctive words: words of its text that no indexed passage contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from resources.stores.postgres import Connection
from sql.upkeep import Erasure
from sql.upkeep_rows import DueDocument

MOST_WORDS = 100_000
_WORD = re.compile(r"\w{4,}")


def words_of(texts: Iterable[str]) -> set[str]:
    """Return the words of texts, split as in the SQL statements: lower case, at least four characters."""
    return {word for text in texts for word in _WORD.findall(text.lower())}


def distinctive(connection: Connection, words: set[str]) -> list[str]:
    """Return the words that no indexed passage contains, longest first, at most `MOST_WORDS`."""
    if not words:
        return []
    found = Erasure(connection).distinctive(words=sorted(words))
    return sorted(found, key=len, reverse=True)[:MOST_WORDS]


def redact(
    connection: Connection, documents: Sequence[DueDocument], words: list[str], since: datetime
) -> dict[str, int]:
    """Redact texts since `since` that quote these documents; return the number of changed rows by table."""
    ids = [row.doc_id for row in documents]
    names = [name for row in documents for name in (row.doc_id, row.source_id, row.url) if name]
    statements = Erasure(connection)
    with connection.transaction():
        return {
            "answers": statements.redact_answers(doc_ids=ids, words=words, since=since),
            "audit_log": statements.redact_audit(doc_ids=ids, words=words, since=since),
            "conversations": statements.redact_conversations(names=names, words=words, since=since),
            "feedback": statements.redact_feedback(words=words, since=since),
            "questions": statements.drop_questions(doc_ids=ids, words=words),
            "answer_cache": statements.drop_answer_cache(),
        }


def forget(connection: Connection, documents: Sequence[DueDocument], cutoff: datetime, document: str | None) -> None:
    """Delete the registry rows of these documents, in the caller's transaction."""
    ids = [row.doc_id for row in documents]
    statements = Erasure(connection)
    statements.drop_sync_errors(
        sources=[row.source for row in documents], source_ids=[row.source_id for row in documents]
    )
    statements.drop_uploads(doc_ids=ids, cutoff=cutoff, document=document)
    statements.drop_ingest_jobs(doc_ids=ids)
    statements.drop_documents(doc_ids=ids)
