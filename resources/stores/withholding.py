"""Keep the collection of withheld entries in step with Postgres.

A change that takes something away writes its entry before it commits, while it holds the rows that it changes. A process that is killed
in between leaves an entry that withholds more than Postgres demands. `settle_documents` and `settle` remove such entries, and those
of documents whose points carry the change. While the index does not answer, the change is made all the same and noted in the table
`unwithheld`; until `settle` has told the index, the services answer nothing without Postgres.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from resources.core.errors import ServiceUnavailableError
from resources.logging import logger
from resources.stores.repeating import once
from resources.stores.withheld import (
    DOCUMENT,
    FORMER,
    GROUPS,
    HELD,
    PARTITION,
    PERSON,
    TOKEN,
    WithheldCollection,
    partition_key,
)
from sql.sign_in import SignInSession
from sql.withheld import NotedChange, Standing, WithheldStatements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resources.stores.postgres import Connection

PAGE = 500
UNDER_WAY_SECONDS = 900.0
"""An entry of something that Postgres does not know is kept this long: the change that wrote it may not have been committed yet."""
ROUNDS = 20

T = TypeVar("T")

log = logger("withheld")


def withhold_documents(connection: Connection, withheld: WithheldCollection, doc_ids: Sequence[str]) -> None:
    """Limit documents to whom they are open to now. Call it last in the transaction that narrows, hides or deletes them."""
    statements = WithheldStatements(connection)
    for part in _pages(sorted(doc_ids)):
        statements.lock(doc_ids=part)
        behind = [one for one in statements.standing(doc_ids=part) if one.behind]
        _tell(connection, DOCUMENT, [one.doc_id for one in behind], partial(withheld.documents, behind))


def withhold_narrowed(
    connection: Connection, withheld: WithheldCollection, source: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Limit the documents that lose readers with these registry rows. Call it before the rows are saved, in the same transaction."""
    for part in _pages([{name: row[name] for name in ("doc_id", "permissions", "state")} for row in rows]):
        narrowed = WithheldStatements(connection).narrowing(source=source, rows=part)
        _tell(connection, DOCUMENT, [one.doc_id for one in narrowed], partial(withheld.documents, narrowed))


def withhold_people(connection: Connection, withheld: WithheldCollection) -> None:
    """Refuse the people whom this transaction has made inactive, and tokens of those whose address it gave to others.

    Call it last in the transaction.
    """
    statements = WithheldStatements(connection)
    ended, given = statements.ended(), {one.email: one.since.timestamp() for one in statements.given(now=True)}
    _tell(connection, PERSON, ended, lambda: withheld.people(ended))
    _tell(connection, FORMER, sorted(given), lambda: withheld.former(given))


def withhold_groups(connection: Connection, withheld: WithheldCollection, source: str) -> None:
    """Tell that groups come from a source that was never read before. Call it in the transaction that records that it was."""
    if source not in WithheldStatements(connection).read():
        _tell(connection, GROUPS, [source], lambda: withheld.groups([source]))


def withhold_partition(connection: Connection, withheld: WithheldCollection, source: str, partition: str) -> None:
    """Withhold a partition that can no longer be read. Call it in the transaction that hides it."""
    key = partition_key(source, partition)
    _tell(connection, PARTITION, [key], lambda: withheld.hide_partition(source, partition))


def withhold_token(connection: Connection, withheld: WithheldCollection, token_id: str, expires: float) -> None:
    """Refuse a token until it expires (Unix time). Call it in the transaction that puts it on the deny-list."""
    _tell(connection, TOKEN, [token_id], lambda: withheld.tokens({token_id: expires}))


def _tell(connection: Connection, kind: str, keys: list[str], write: Callable[[], None]) -> None:
    """Write entries, or note them for later while the index does not answer: it is waited for once in a transaction."""
    if not keys:
        return
    statements = WithheldStatements(connection)
    if not statements.just_noted():
        try:
            with once():  # the transaction has locked the rows that it changes
                write()
        except ServiceUnavailableError as error:
            log.error("withheld_not_written", kind=kind, entries=len(keys), error=str(error))
        else:
            return
    statements.note(kind=kind, keys=keys)


def settle_documents(connection: Connection, withheld: WithheldCollection, source: str | None = None) -> int:
    """Remove entries of documents whose points carry the change, widen those of documents that have more readers again.

    Returns the number of entries that are left. Documents that a transaction is changing are left alone, and so are those that the
    registry does not know, unless it knows that they were erased: it may have been lost, and be rebuilt.
    """
    statements, left = WithheldStatements(connection), 0
    for page in withheld.entries(DOCUMENT, source):
        ids = [entry.key for entry in page]
        with once(), connection.transaction():
            standing = statements.standing(doc_ids=statements.lock_free(doc_ids=ids))
            done = [one.doc_id for one in standing if not one.behind]
            withheld.remove(DOCUMENT, [*done, *statements.erased(doc_ids=ids)])
            stored = {entry.key: entry.payload.get("readers") for entry in page}
            withheld.documents(
                one for one in standing if one.behind and sorted(one.readers) != sorted(stored[one.doc_id] or ())
            )
        left += len(ids) - len(done)
    return left


def settle_held(connection: Connection, withheld: WithheldCollection, source: str | None = None) -> None:
    """Make the entries of documents whose deletion waits for approval those of Postgres."""
    held = WithheldStatements(connection).held(source=source)
    withheld.held(held)
    known = {one.doc_id for one in held}
    for page in withheld.entries(HELD, source):
        withheld.remove(HELD, [entry.key for entry in page if entry.key not in known and _is_old(entry.payload)])


def settle(connection: Connection, withheld: WithheldCollection) -> None:
    """Make the collection say what Postgres says, and complete it if it is new. Idempotent. `connection` commits by itself.

    A revoked token that only the collection knows, because Postgres was down, is added to the deny-list.
    """
    statements, new = WithheldStatements(connection), not withheld.is_complete()
    noted = statements.noted()
    _settle_tokens(connection, withheld)
    _settle_people(connection, withheld)
    _settle_former(connection, withheld)
    _settle_groups(connection, withheld)
    settle_documents(connection, withheld)
    if new:
        withheld.create()
        _fill(connection, withheld)
        settle_held(connection, withheld)
        withheld.checked(statements.checks())
    _tell_noted(connection, withheld, noted)
    if new:
        withheld.complete()


def _tell_noted(connection: Connection, withheld: WithheldCollection, noted: Sequence[NotedChange]) -> None:
    """Tell the index of documents and partitions that were noted; it has been told of tokens, people and sources of groups."""
    statements = WithheldStatements(connection)
    for part in _pages([one for one in noted if one.kind == DOCUMENT]):
        ids = [one.key for one in part]
        with connection.transaction():
            statements.lock(doc_ids=ids)
            withheld.documents(one for one in statements.standing(doc_ids=ids) if one.behind)
    lost = {partition_key(one.source, one.partition): one for one in statements.lost()}
    for one in noted:
        if one.kind == PARTITION and (found := lost.get(one.key)) is not None:
            withheld.hide_partition(found.source, found.partition)
    if noted:
        statements.told(rows=[(one.kind, one.key, one.noted_at) for one in noted])


def _fill(connection: Connection, withheld: WithheldCollection) -> None:
    statements = WithheldStatements(connection)
    waiting = statements.behind()
    for _ in range(ROUNDS):
        locked: list[str] = []
        for part in _pages(waiting):
            with connection.transaction():
                free = statements.lock_free(doc_ids=part)
                withheld.documents(one for one in statements.standing(doc_ids=free) if one.behind)
                locked += sorted({*part} - {*free} - {*statements.unknown(doc_ids=part)})
        waiting = locked
        if not waiting:
            return
        time.sleep(0.5)  # a transaction that changes them takes less
    for part in _pages(waiting):
        withheld.documents(Standing(one, "", [], behind=True) for one in part)


def _settle_tokens(connection: Connection, withheld: WithheldCollection) -> None:
    now = datetime.now(UTC)
    listed = {one.token_id: one.expires_at.timestamp() for one in WithheldStatements(connection).revoked(now=now)}
    stored: dict[str, float] = {}
    for page in withheld.entries(TOKEN):
        expires = {entry.key: float(entry.payload["until"]) for entry in page}
        withheld.remove(TOKEN, [key for key, until in expires.items() if until < now.timestamp()])
        stored |= {key: until for key, until in expires.items() if until >= now.timestamp()}
    for token_id in sorted(stored.keys() - listed.keys()):
        expires_at = datetime.fromtimestamp(stored[token_id], UTC)
        SignInSession(connection).revoke_token(
            token_id=token_id, revoked_by="concordance", expires_at=expires_at, now=now
        )
    withheld.tokens({key: until for key, until in listed.items() if stored.get(key, 0.0) < until})


def _settle_people(connection: Connection, withheld: WithheldCollection) -> None:
    statements = WithheldStatements(connection)
    stored = {entry.key: entry.payload for page in withheld.entries(PERSON) for entry in page}
    inactive = set(statements.inactive())
    withheld.people(sorted(inactive - stored.keys()))
    for part in _pages(sorted(stored.keys() - inactive)):
        with connection.transaction():
            reported = statements.reported(emails=part)
            known = {one.email for one in reported}
            ended = {one.email for one in reported if not one.active}
            over = [one for one in part if one not in ended and (one in known or _is_old(stored[one]))]
            withheld.remove(PERSON, over)


def _settle_former(connection: Connection, withheld: WithheldCollection) -> None:
    stored = {entry.key: entry.payload for page in withheld.entries(FORMER) for entry in page}
    known = {one.email: one.since.timestamp() for one in WithheldStatements(connection).given(now=False)}
    kept = {email: float(one["since"]) for email, one in stored.items() if not _is_old(one)}
    withheld.former(
        {
            email: since
            for email, since in known.items()
            if kept.get(email, 0.0) < since and (email not in stored or float(stored[email]["since"]) != since)
        }
    )
    withheld.remove(FORMER, sorted(stored.keys() - known.keys() - kept.keys()))


def _settle_groups(connection: Connection, withheld: WithheldCollection) -> None:
    stored = {entry.key: entry.payload for page in withheld.entries(GROUPS) for entry in page}
    read = set(WithheldStatements(connection).read())
    withheld.groups(sorted(read - stored.keys()))
    withheld.remove(GROUPS, [one for one in sorted(stored.keys() - read) if _is_old(stored[one])])


def _is_old(payload: Mapping[str, Any]) -> bool:
    return float(payload["at"]) < time.time() - UNDER_WAY_SECONDS


def _pages(rows: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(rows), PAGE):
        yield list(rows[start : start + PAGE])
