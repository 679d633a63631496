"""The `parsed` stage: parse contents that have no text in the lake yet, or record why they have none.

Bytes are parsed in subprocesses with limits, so that a bad file affects nothing else. Outcomes are kept by content and parser version:
the same broken file under ten names is tried once per sync, and three times in total; one that exceeded its time limit is retried only
with a larger limit. Workers alternate between the uploads of different people.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import polars as pl
import structlog

from assets.parsing.pool import TOOK_TOO_LONG, ParseJob, ParseOutcome, ParserPool
from assets.stages.diff import MAX_ATTEMPTS
from assets.stages.identify import is_book
from assets.stages.language import identify_language
from assets.stages.parse import PARSER_VERSION, word_count
from resources.core.domain import ParsedDocument, State
from resources.core.errors import FailedDocumentError
from resources.core.notes import kind_of
from resources.core.tables import table
from resources.core.texts import storable
from resources.settings import Settings
from resources.sources import capabilities
from resources.stores.clients import Stores
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.rows import Pending

TABLE = "parsed"
BATCH_DOCUMENTS = 1000
BATCH_SECONDS = 15.0
BOOK_MINIMUM_WORDS = 50
"""Pages of a book with fewer words are skipped."""

log = structlog.get_logger("sync")
_encode = msgspec.msgpack.Encoder().encode


def parse_missing(job: SyncJob, pending: Sequence[Pending], pool: ParserPool | None = None) -> StageResult:
    """Parse contents without a text in the lake and write each document's outcome to the registry.

    Without a `pool`, it starts one for these documents.
    """
    result, tried, latest = _outcomes(job, pending, pool, lambda _: True)
    if pending:
        result.deferred = tried - latest.keys()
        if result.deferred:
            log.info("parsed_deferred", job_id=job.job_id, documents=len(result.deferred))
        judged = [document for document in pending if document.content_key not in result.deferred]
        result.touched.update(document.partition for document in judged if document.state == State.LIVE)
        result.touched |= _write_outcomes(job, judged, tried, latest)
    return result


def parse_ahead(job: SyncJob, pending: Sequence[Pending], pool: ParserPool) -> StageResult:
    """Parse contents without a text in the lake for another sync, which finds them there and writes the documents' outcomes.

    Failures are left to that sync: it tries again, and each attempt counts.
    """
    result, _, _ = _outcomes(job, pending, pool, lambda row: row["status"] != "failed")
    return result


def _outcomes(
    job: SyncJob, pending: Sequence[Pending], pool: ParserPool | None, kept: Callable[[dict[str, Any]], bool]
) -> tuple[StageResult, set[str], dict[str, dict[str, Any]]]:
    """Parse contents and write those rows to the lake that are to be kept. Returns counts, the keys that were to be tried, and outcomes."""
    stores = job.stores
    by_key = {document.content_key: document for document in pending}
    verdicts = _verdicts(stores, by_key)
    todo = [document for key, document in by_key.items() if _worth_a_try(stores, verdicts.get(key))]
    result = StageResult({"documents": 0, "parsed": 0, "reused": 0, "skipped": 0, "failed": 0})
    for document in pending:
        result.count(document.partition, documents=1)
    for key in by_key.keys() - {document.content_key for document in todo}:
        result.count(by_key[key].partition, reused=1)
    rows: list[dict[str, Any]] = []
    unread: dict[str, dict[str, Any]] = {}
    written = time.monotonic()
    for row, noted in _parse(job, todo, unread, pool):
        if kept(row):
            rows.append(row)
            verdicts[row["content_key"]] = _verdict(row, verdicts.get(row["content_key"]))
            counted = {"parsed" if row["status"] == "ok" else row["status"]: 1} | {f"noted_{kind}": 1 for kind in noted}
            result.count(by_key[row["content_key"]].partition, **counted)
        if len(rows) >= BATCH_DOCUMENTS or time.monotonic() - written > BATCH_SECONDS:
            _append(stores, rows)
            rows, written = [], time.monotonic()
        job.progress("parsed")
    _append(stores, rows)
    for key in unread:
        result.count(by_key[key].partition, failed=1)
    return result, {document.content_key for document in todo}, verdicts | unread


def untried(stores: Stores, documents: Sequence[Pending]) -> list[Pending]:
    """Return documents whose contents the next sync parses, one of each content."""
    by_key = {document.content_key: document for document in documents}
    verdicts = _verdicts(stores, by_key)
    return [document for key, document in by_key.items() if _worth_a_try(stores, verdicts.get(key))]


def parse_unrecorded(stores: Stores, documents: Sequence[Pending]) -> dict[str, ParsedDocument]:
    """Parse documents and return the texts of those that have one, by content key. Nothing is written."""
    if not documents:
        return {}

    def jobs() -> Iterator[ParseJob]:
        for document in documents:
            with suppress(FailedDocumentError):  # its bytes are missing or damaged
                yield _job(stores, document)

    with parser_pool(stores.settings, len(documents)) as parsers:
        outcomes = list(parsers.run(jobs()))
    return {one.key: one.document for one in outcomes if one.document is not None}


def _worth_a_try(stores: Stores, verdict: dict[str, Any] | None) -> bool:
    if verdict is None:
        return True
    if verdict["status"] == "skipped" and str(verdict["reason"]).startswith(TOOK_TOO_LONG):
        return bool(verdict["seconds"] < stores.settings.parse_seconds)
    return bool(verdict["status"] == "failed" and verdict["attempts"] < MAX_ATTEMPTS)


def _verdicts(stores: Stores, keys: dict[str, Pending]) -> dict[str, dict[str, Any]]:
    """Return the latest outcome of each key with the current parser, and how often it failed."""
    if not keys:
        return {}
    frame = (
        stores.keyed.rows(TABLE, keys)
        .filter(pl.col("parser_version") == PARSER_VERSION)
        .select("content_key", "status", "reason", "seconds", "at")
        .sort("at")
        .group_by("content_key")
        .agg(
            pl.col("status").last(),
            pl.col("reason").last(),
            pl.col("seconds").last(),
            (pl.col("status") == "failed").sum().alias("attempts"),
        )
        .collect()
    )
    return {row["content_key"]: row for row in frame.iter_rows(named=True)}


def _verdict(row: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return the outcome of a key after another attempt, as `_verdicts` would read it."""
    attempts = (0 if before is None else before["attempts"]) + int(row["status"] == "failed")
    return {"status": row["status"], "reason": row["reason"], "seconds": row["seconds"], "attempts": attempts}


def _parse(
    job: SyncJob, todo: Sequence[Pending], unread: dict[str, dict[str, Any]], pool: ParserPool | None
) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """Yield a lake row for each file that was tried, with the kinds of the notes on its text.

    A file whose stored bytes are missing or damaged is added to `unread` instead and retried once its bytes are back.
    """
    if not todo:
        return
    stores, slow = job.stores, job.slow
    settings = stores.settings
    books = {document.content_key for document in todo if is_book(document.tags)}
    owners = {document.content_key: _person(stores, document) for document in todo}

    def queue(owner: str) -> Iterator[ParseJob]:
        for document in todo:
            if owners[document.content_key] != owner:
                continue
            if owner in slow:
                return  # do not delay other people's documents; the next sync continues with these
            try:
                found = _job(stores, document)
            except FailedDocumentError as error:
                unread[document.content_key] = {"status": "failed", "reason": str(error), "attempts": 0}
            else:
                yield found

    with nullcontext(pool) if pool is not None else parser_pool(settings, len(todo)) as parsers:
        for outcome in parsers.run(*map(queue, dict.fromkeys(owners.values()))):
            if (
                outcome.document is None
                and (owner := owners[outcome.key])
                and outcome.seconds >= settings.parse_seconds
            ):
                slow.add(owner)
            if outcome.unread:
                unread[outcome.key] = {"status": "failed", "reason": outcome.error, "attempts": 0}
            else:
                yield _judge(outcome, book=outcome.key in books), _noted(outcome)


def parser_pool(settings: Settings, jobs: int) -> ParserPool:
    return ParserPool(
        workers=min(settings.parse_workers, jobs), seconds=settings.parse_seconds, memory_mb=settings.parse_memory_mb
    )


def _person(stores: Stores, document: Pending) -> str:
    """Return the key of a document's parse queue: the owner for documents that users supply, one queue for every other source."""
    return document.owner or "" if capabilities(stores.source).user_supplied else ""


def _job(stores: Stores, document: Pending) -> ParseJob:
    path = stores.blobs.local_path(document.content_hash)
    return ParseJob(
        key=document.content_key,
        path=str(path) if path is not None else None,
        data=None if path is not None else stores.blobs.read(document.content_hash),
        mime_type=document.mime_type,
        title=document.title,
        description=document.description,
        content_hash=document.content_hash,
    )


def _judge(outcome: ParseOutcome, *, book: bool) -> dict[str, Any]:
    status, reason, document = "ok", outcome.error, outcome.document
    if document is None:
        status = "skipped" if outcome.skipped else "failed"
    elif not document.text.strip():
        status, reason, document = "skipped", "The file holds no text.", None
    elif book and word_count(document) < BOOK_MINIMUM_WORDS:
        status, reason, document = "skipped", f"The page has fewer than {BOOK_MINIMUM_WORDS} words.", None
    if document is not None:
        # here and not in the workers, each of which would spend 0.6 s on loading the identifier
        language = identify_language(document.text, document.blocks)
        document = msgspec.structs.replace(document, language=language)
    return {
        "content_key": outcome.key,
        "parser_version": PARSER_VERSION,
        "status": status,
        "reason": reason,
        "document": _encode(document) if document is not None else None,
        "seconds": outcome.seconds,
        "at": datetime.now(UTC),
    }


def _noted(outcome: ParseOutcome) -> set[str]:
    return {kind_of(text) for text in outcome.document.warnings} if outcome.document is not None else set()


def _append(stores: Stores, rows: list[dict[str, Any]]) -> None:
    if rows:
        stores.keyed.append(TABLE, pl.DataFrame(rows, schema=table(TABLE).schema))


def _write_outcomes(
    job: SyncJob, pending: Sequence[Pending], tried: set[str], verdicts: dict[str, dict[str, Any]]
) -> set[str]:
    """Write outcomes to the registry and return the partitions with skipped and failed documents."""
    touched: set[str] = set()
    states = {"ok": State.LIVE, "skipped": State.SKIPPED, "failed": State.FAILED}
    rows: list[dict[str, Any]] = []
    for document in pending:
        verdict = verdicts.get(document.content_key)
        if verdict is None:
            raise FailedDocumentError(f"Parsing produced no outcome for {document.doc_id}. Run the sync again.")
        state = states[verdict["status"]]
        # attempts to embed it count until it succeeds
        attempts = verdict["attempts"] if state == State.FAILED else document.attempts * (document.stage == "embedded")
        reason, stage = (storable(verdict["reason"] or "unknown"), "parsed") if state != State.LIVE else (None, None)
        if document.stage == "raw":  # its new bytes could not be read and still are to be, which `unread` looks for
            state, stage, attempts = State.LIVE if state == State.LIVE else State.FAILED, "raw", document.attempts
        if state != document.state or attempts != document.attempts:
            rows.append(
                {"doc_id": document.doc_id, "state": state, "reason": reason, "stage": stage, "attempts": attempts}
            )
        if state != State.LIVE and (state != document.state or document.content_key in tried):
            job.fault(document.source_id, "parsed", verdict["reason"] or "unknown", skipped=state == State.SKIPPED)
            touched.add(document.partition)
    if rows:
        with job.writing:
            job.stores.documents.set_outcomes(rows=rows)
    return touched
