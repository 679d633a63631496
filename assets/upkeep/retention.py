"""Retention: delete records of questions, answers and syncs that are older than the settings allow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from resources.core.durations import kept_for
from resources.settings import Settings
from resources.stores.postgres import session
from sql.passkeys import RemovedPasskeys
from sql.upkeep import Retention

BATCH_ROWS = 5000
"""Rows deleted per statement. Each statement is its own transaction, so that locks are short."""

TABLES: dict[str, tuple[str, ...]] = {
    "answers": ("answers", "slack_questions"),
    "questions": ("questions",),
    "conversations": ("conversations",),
    "feedback": ("feedback",),
    "jobs": ("sync_jobs", "ingest_jobs"),
    "sync_errors": ("sync_errors",),
    "audit": ("audit_log", "grant_audit"),
}
"""The tables governed by each setting CONCORDANCE_RETENTION__…."""
EXPIRED: dict[str, timedelta] = {"rate_buckets": timedelta(hours=1), "repeated_requests": timedelta()}
"""Tables whose rows say nothing once they have expired, and how long they are kept after that: buckets of rates so long that clocks that
differ delete none that says something."""


def prune(settings: Settings, *, batch: int = BATCH_ROWS) -> dict[str, int]:
    """Delete rows that are too old and return their number by table. Idempotent. Raises `ServiceUnavailableError`."""
    deleted: dict[str, int] = {}
    with session(settings.postgres_dsn, autocommit=True) as connection:
        statements = Retention(connection)
        now = statements.time()
        for kind, tables in TABLES.items():
            kept = kept_for(getattr(settings, f"retention_{kind}"))
            if kept is None:
                continue
            for table in tables:
                deleted[table] = _delete(statements, table, now - kept, batch)
    return deleted


def prune_expired(settings: Settings) -> dict[str, int]:
    """Delete rows that have expired, and return their number by table. Idempotent. Raises `ServiceUnavailableError`."""
    with session(settings.postgres_dsn, autocommit=True) as connection:
        statements = Retention(connection)
        now = statements.time()
        deleted = {table: _delete(statements, table, now - kept, BATCH_ROWS) for table, kept in EXPIRED.items()}
        if settings.oidc_providers is not None:  # it does not know them, so they must not return without it
            deleted["passkeys"] = RemovedPasskeys(connection).remove_all_passkeys()
        return deleted


def _delete(statements: Retention, table: str, before: datetime, batch: int) -> int:
    delete: Callable[..., int] = getattr(statements, f"prune_{table}")
    deleted = 0
    while rows := delete(before=before, most=batch):
        deleted += rows
    return deleted
