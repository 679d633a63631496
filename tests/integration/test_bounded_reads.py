"""No statement of the service reads more rows as the history grows, nor scans a large index for one request."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sql
from resources.core.domain import SourceName
from resources.sources import names
from resources.sources.uploads import pending
from resources.stores.postgres import session
from serving.search.retrieval.full_text import MOST_PASSAGES
from tests.fixtures.serving import Site

BOB = "bob@acme.com"
NOBODY = "00000000-0000-4000-8000-00000000dead"
NOW = datetime.now(UTC)
FRESH = {"principals": [BOB, "domain:acme.com", "public"], "fresh_since": NOW - timedelta(days=1)}
HISTORY = 10_000, pytest.param(50_000, marks=pytest.mark.slow)
"""Rows of each table: a scan of any of them is a thousand times the rows that a request may read."""
NARROWING: dict[str, Any] = {
    **dict.fromkeys(("source_types", "collection_ids", "document_ids", "mime_types", "authors", "since", "before")),
    "tags": "[]",
    "on_created": False,
    "include_archived": False,
    "collection": None,
    "left_out_chunks": [],
    "left_out_partitions": [],
}
FULL_TEXT = {**NARROWING, **FRESH, "query": "ferry pier", "depth": 50, "most": MOST_PASSAGES, "most_words": 16}
WHY: dict[str, Any] = {
    **FRESH,
    "doc_ids": [],
    "own_id": None,
    "urls": [],
    "channel": "C1",
    "names": ["1700000000.000100"],
    "moment": NOW,
    "operator": False,
}
ANSWER = {"answer_id": NOBODY, "query_id": NOBODY, "email": BOB}
PLACE = {"doc_id": NOBODY, "chunk_index": 0, "start_char": 0, "end_char": 100, **FRESH}
READS: dict[str, dict[str, Any]] = {
    "active_collection": {},
    "unwithheld": {},
    "answer_by_id": ANSWER,
    "answers_of": {"email": BOB, "before_at": None, "before_id": None, "contains": None, "most": 5},
    "answer_cache_lookup": {"cache_key": "none"},
    "any_chunk": FRESH,
    "api_key_by_id": {
        "key_id": "none",
        "key_hash": "",
        "now": NOW,
        "seen_before": NOW,
        "fresh_since": NOW,
        "idle_since": NOW,
    },
    "audit_events": {
        **dict.fromkeys(("email", "action", "since", "until", "before_at", "before_id")),
        "most": 5,  # of the history, it reads its page and no more
    },
    "colleagues": {
        "email": BOB,
        "domain": "acme.com",
        "beginning": "bo",
        "following": "bo\U0010ffff",
        "accounts": True,
        "most": 8,
    },
    "collections": {
        **FRESH,
        "source_types": None,
        "include_archived": False,
        "after_source": None,
        "after_id": None,
        "most": 51,
    },
    "directory": {"email": BOB, "token_id": "none", "issued": 1_700_000_000.0, **FRESH},
    "first_syncs": {},
    "document": {"doc_ids": [NOBODY], **FRESH},
    "document_by_page": {
        "doc_ids": [],
        "own_id": None,
        "urls": ["https://x"],
        "paths": ["a.md"],
        "collection_id": None,
        "sources": [],
        "roots": [],
        **FRESH,
    },
    "document_chunk": PLACE,
    "document_original": PLACE,
    "document_outline": {"doc_id": NOBODY, "most": 500, **FRESH},
    "document_text": PLACE,
    "documents": {**NARROWING, **FRESH, "title": None, "before_at": None, "before_id": None, "most": 51},
    "expected_passages": {},
    "full_text": FULL_TEXT,
    "identity": {"email": BOB},
    "ingest_job": {"job_id": NOBODY, "email": BOB},
    "neighbours": {"doc_ids": [NOBODY], "chunk_indexes": [0], "distance": 1, "collection": None, **FRESH},
    "notification_channel": {"channel_id": NOBODY, "source": "google_drive"},
    "readable_count": {"most": 10_001, **FRESH},
    "listed_passages": {},
    "latest_documents": {"sources": [name.value for name in names()], "looked": 100, "most": 8, **FRESH},
    "names_of_people": {"email": BOB, "emails": [BOB, "ann@acme.com"]},
    "names_of": {"doc_ids": [NOBODY], **FRESH},
    "readable_folders": FRESH,
    "readable_names": FRESH,
    "readable_totals": FRESH,
    "readable_words": {"forms": "ferry", "lexemes": "'ferr':*", "collection": None, "most": 100}
    | FRESH
    | {"principals": json.dumps(dict.fromkeys(FRESH["principals"], 1))},
    "recheck": {"chunk_ids": [NOBODY], "collection": None, "collection_ids": None, **FRESH},
    "shares": {"doc_id": NOBODY, "email": BOB},
    "source_notes": {},
    "source_partitions": {},
    "source_skips": {},
    "sources": {"sources": [name.value for name in names()]},
    "partition_elsewhere": {"partition": "wiki"},
    "stale_partitions": FRESH,
    "sync_errors": {"job_id": NOBODY, "owner": None},
    "sync_job": {"job_id": NOBODY},
    "totals": {},
    "uploads_of": {"email": BOB, "most": 5},
    "why": WHY,
}
WRITES: dict[str, dict[str, Any]] = {
    "answer_cache_expire": {},
    "answer_cache_store": {"cache_key": "new", "body": b"", "seconds": 60},
    "answer_delete": {"answer_id": NOBODY, "email": BOB},
    "answer_insert": {
        **ANSWER, "put_at": NOW, "principals": [], "question": "q", "standalone": None, "answer": "a", "found": True, "mode": "none",
        "model": None, "sources": "[]", "sentences": "[]", "unsupported": 0, "removed_citations": 0, "removed_links": 0,
        "warnings": [], "cached": False, "completed": True, "shareable": True, "latency_ms": 1.0, "model_ms": 1.0,
    },
    "answer_share": {**ANSWER, "shared": True},
    "audit_insert": {
        "put_at": NOW, "email": BOB, "action": "search", "query_id": None, "query": "q", "doc_ids": [], "detail": None, "event_key": NOBODY,
    },
    "feedback_insert": {**ANSWER, **FRESH, "feedback_id": NOBODY, "verdict": "good", "comment": None, "expected_doc_id": NOBODY},
    "sign_in_finish": {"sign_in_id": NOBODY, "claim": NOBODY, "now": NOW},
    "widget_question": {"widget": "w", "a_day": 10, "visitor": b"", "a_minute": 10},
    "source_resume": {"source": "files"},
}  # fmt: skip
PLAIN = {"api_key_insert", "api_key_revoke", "conversation_insert", "sign_in_begin", "sign_in_use", "sign_in_used"}
"""Insert a row, or change one by its key; sign-ins that nobody finished are few, since each new one removes those that have expired."""

LOADED = (
    "ALTER TABLE sync_jobs DISABLE TRIGGER USER",
    "INSERT INTO sync_jobs (source, status, started_at, completed_at)"
    " SELECT 'files', 'failed', now() - n * interval '1 minute', now() - n * interval '1 minute' FROM generate_series(1, %(n)s) AS s (n)",
    "INSERT INTO sync_errors (job_id, source_id, stage, reason) SELECT job_id, 'x', 'raw', 'y' FROM sync_jobs",
    "INSERT INTO audit_log (email, action, query_id, query, event_key)"
    " SELECT %(bob)s, 'search', gen_random_uuid(), 'q', gen_random_uuid() FROM generate_series(1, %(n)s)",
    "INSERT INTO answers (answer_id, query_id, email, principals, question, answer, found, mode, sources, sentences, latency_ms, model_ms)"
    " SELECT gen_random_uuid(), gen_random_uuid(), %(bob)s, '{}', 'q', 'a', TRUE, 'none', '[]', '[]', 1, 1 FROM generate_series(1, %(n)s)",
    "INSERT INTO feedback (feedback_id, email, query_id, verdict)"
    " SELECT gen_random_uuid(), %(bob)s, gen_random_uuid(), 'good' FROM generate_series(1, %(n)s)",
    "INSERT INTO answer_cache (cache_key, body, expires_at)"
    " SELECT n::text, '', now() + interval '1 day' FROM generate_series(1, %(n)s) AS s (n)",
    # documents that were deleted stay in the registry
    "INSERT INTO documents (doc_id, source, source_id, partition, state, permissions, source_title, path, created_at, modified_at)"
    " SELECT gen_random_uuid(), 'files', 'root/gone-' || n, 'root', 'deleted', ARRAY[%(bob)s, 'public'], 't', 'p', now(), now()"
    " FROM generate_series(1, %(n)s) AS s (n)",
)


def read(plan: dict[str, Any]) -> float:
    """Return the rows that the scans of a plan read, whether they were wanted or not."""
    own = 0.0
    if "Scan" in plan["Node Type"] and "Relation Name" in plan:
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        own = (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    return own + sum(read(one) for one in plan.get("Plans", []))


def rows_read(site: Site, name: str, parameters: dict[str, Any]) -> float:
    """Return the rows that a statement of `sql/serving` reads."""
    return rows_of(site, sql.statement("serving", name), parameters)


def rows_of(site: Site, text: str, parameters: dict[str, Any]) -> float:
    """Return the rows that a statement reads. What it writes is taken back."""
    with psycopg.connect(site.settings.postgres_dsn) as connection:
        found = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode(), parameters).fetchone()
        connection.rollback()
    assert found is not None
    plan = found[0] if isinstance(found[0], list) else json.loads(found[0])
    return read(plan[0]["Plan"])


def test_every_statement_of_the_service_is_checked() -> None:
    folder = Path(sql.__file__).parent / "serving"
    assert {file.stem for file in folder.glob("*.sql")} == READS.keys() | WRITES.keys() | PLAIN


@pytest.mark.parametrize("rows", HISTORY)
def test_no_statement_reads_more_with_a_long_history(site: Site, rows: int) -> None:
    site.add("Open", ["The ferry."], ["public"])
    wanted = {**READS, **WRITES}
    before = {name: rows_read(site, name, parameters) for name, parameters in wanted.items()}
    with psycopg.connect(site.settings.postgres_dsn, autocommit=True) as connection:
        for statement in LOADED:
            connection.execute(statement.encode(), {"n": rows, "bob": BOB})
        connection.execute("ANALYZE")
    after = {name: rows_read(site, name, parameters) for name, parameters in wanted.items()}
    more = {name: (before[name], after[name]) for name in wanted if after[name] > before[name] + 10}
    assert more == {}


CHANNELS = (
    "INSERT INTO documents (doc_id, source, source_id, partition, state, permissions, source_title, path, mime_type, tags, created_at,"
    " modified_at) SELECT gen_random_uuid(), 'slack', 'T/C' || mod(n, 5) || '/' || n || '.0', 'C' || mod(n, 5), 'live',"
    " ARRAY['public'], 't', 'p',"
    " 'application/vnd.concordance.conversation+json', jsonb_build_object('thread', FALSE), now() - n * interval '1 hour',"
    " now() - n * interval '1 hour' + interval '10 minutes' FROM generate_series(1, %s) AS s (n)"
)


@pytest.mark.parametrize("moment", [NOW, NOW - timedelta(days=300)])
def test_a_trace_does_not_scan_a_large_slack(site: Site, moment: datetime) -> None:
    site.sql(CHANNELS, 20_000)
    site.sql("ANALYZE documents")
    assert rows_read(site, "why", WHY | {"moment": moment}) < 200
    named = site.sql("SELECT split_part(source_id, '/', 3) FROM documents WHERE partition = 'C1' LIMIT 1")[0][0]
    assert rows_read(site, "why", WHY | {"names": [named], "channel": None, "moment": None}) < 200


PASSAGES = (
    "INSERT INTO chunks (collection, chunk_id, doc_id, chunk_index, chunk_text, text_hash, start_char, end_char, tokens)"
    " SELECT collection, gen_random_uuid(), doc_id, n, 'ferry number ' || n, md5(n::text), 0, 1, 1"
    " FROM index_entries, generate_series(10, %s) AS s (n)"
)


def test_a_frequent_word_is_not_read_in_every_chunk(site: Site) -> None:
    doc_id = site.add("Open", ["The ferry leaves from the northern pier."], ["public"])
    site.sql(PASSAGES, 40_000)
    site.sql("ANALYZE chunks")
    for query in ("ferry", "ferry pier", "ferry number", "the ferry of the pier and the northern one"):
        # each list's passages are read once to be found and once to be ranked, with their documents
        lists = 2 + len(query.split())
        assert rows_read(site, "full_text", FULL_TEXT | {"query": query}) <= 4 * MOST_PASSAGES * lists, query
    with site.running() as running:
        site.settings = site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    with site.running() as running:
        assert running.search("the ferry of the northern pier", BOB)["results"][0]["doc_id"] == doc_id


def test_words_that_are_not_in_their_index_yet_are_few(site: Site) -> None:
    """Each search reads all of them, and the many words of a correction are compared with each."""
    site.add("Open", ["The ferry leaves from the northern pier."], ["public"])
    site.sql(PASSAGES, 10_000)
    pages, size = site.sql("SELECT gin_clean_pending_list('chunks_tsv'), current_setting('block_size')::integer")[0]
    assert pages * size <= 2 * 256 * 1024


FILED = (
    "INSERT INTO documents (doc_id, source, source_id, partition, state, permissions, source_title, path, mime_type, folders,"
    " collection_ids)"
    " SELECT gen_random_uuid(), 'upload', 'filed-' || n, 'filed', 'live', ARRAY['public'], 't', 'p', 'text/plain',"
    " jsonb_build_array(jsonb_build_object('id', 'f' || n, 'name', 'Folder ' || n, 'readers', jsonb_build_array('public'))),"
    " ARRAY['f' || n]"
    " FROM generate_series(1, %s) AS s (n)"
)


def test_a_question_that_may_hold_a_name_does_not_read_every_folder(site: Site) -> None:
    site.sql(FILED, 20_000)
    site.sql("ANALYZE documents")
    assert rows_read(site, "readable_names", FRESH) < 200


INDEXED = (
    "WITH made AS (INSERT INTO documents (doc_id, source, source_id, partition, state, permissions, source_title, path, mime_type)"
    " SELECT gen_random_uuid(), 'files', 'root/' || n, 'root', 'live', ARRAY['public'], 't', 'p', 'text/plain'"
    " FROM generate_series(1, %s) AS s (n) RETURNING doc_id)"
    " INSERT INTO index_entries (collection, doc_id, content, chunk_count) SELECT c.name, m.doc_id, 'x', 1"
    " FROM made AS m, index_collections AS c WHERE c.active"
)


@pytest.mark.parametrize(("file", "name"), [("reconcile", "live_page"), ("sweep", "gone")])
def test_each_page_of_upkeep_reads_its_own_documents(site: Site, file: str, name: str) -> None:
    site.add("Open", ["The ferry."], ["public"])
    site.sql(INDEXED, 20_000)
    if name == "gone":
        site.sql("UPDATE documents SET state = 'deleted'")
    site.sql("ANALYZE")
    page = getattr(sql.load(sql.ROOT / "upkeep" / f"{file}.sql"), name).sql
    read = [
        rows_of(site, page, {"source": "files", "after": f"{digit}0000000-0000-0000-0000-000000000000", "most": 200})
        for digit in "08e"
    ]
    assert max(read) < 2 * 200 * 4  # its documents, their entries and their passages


LAKE_KEYS = (
    "INSERT INTO lake_keys (lake_table, key, at) SELECT 1, gen_random_uuid(), now() - n * interval '1 second'"
    " FROM generate_series(1, %s) AS s (n)"
)


def test_a_wave_reads_only_its_own_keys_of_the_lake(site: Site) -> None:
    site.sql(LAKE_KEYS, 20_000)
    keys = [str(key) for (key,) in site.sql("SELECT key FROM lake_keys LIMIT 100")]
    for analysed in (False, True):
        if analysed:
            site.sql("ANALYZE lake_keys")
        statement = sql.load(sql.ROOT / "registry" / "lake_keys.sql").times.sql
        assert rows_of(site, statement, {"number": 1, "keys": [*keys, NOBODY]}) < 110


PUSHED = (
    "WITH made AS (INSERT INTO uploads (source, source_id, doc_id, owner, partition, content_hash, file_name, title, mime_type, size,"
    " permissions, change) SELECT 'push', 'pushed-' || n, gen_random_uuid(), 'bob@acme.com', 'wiki-' || mod(n, 5), '', 'f', 't',"
    " 'text/plain', 1, '{}', nextval('uploads_change') FROM generate_series(1, %s) AS s (n) RETURNING source, partition, change)"
    " INSERT INTO partitions (source, partition, cursor) SELECT source, partition, max(change)::text FROM made GROUP BY 1, 2"
)


def test_looking_for_waiting_uploads_does_not_read_all_of_them(site: Site) -> None:
    statement = sql.load(sql.ROOT / "uploads" / "uploads.sql").any_pending.sql
    site.sql(PUSHED, 20_000)
    for analysed in (False, True):
        if analysed:
            site.sql("ANALYZE uploads, partitions")
        assert rows_of(site, statement, {"source": "push"}) < 100
    with session(site.settings.postgres_dsn) as connection:
        assert not pending(connection, SourceName.PUSH)
        connection.execute("UPDATE uploads SET change = nextval('uploads_change') WHERE source_id = 'pushed-4'")
        assert pending(connection, SourceName.PUSH)
        assert not pending(connection, SourceName.UPLOAD)


def test_the_permission_check_of_a_search_is_planned_once(site: Site) -> None:
    site.add("Open", ["The ferry."], ["public"])
    parameters = READS["recheck"] | {"principals": [f"group:{number}@acme.com" for number in range(50)] + ["public"]}
    with psycopg.connect(site.settings.postgres_dsn) as connection:
        for _ in range(10):  # of which Postgres plans five for their values
            connection.execute(sql.statement("serving", "recheck").encode(), parameters, prepare=True)
        plans = connection.execute(
            "SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '%wanted AS MATERIALIZED%'"
        ).fetchall()
    assert [generic > 0 for (generic,) in plans] == [True]
