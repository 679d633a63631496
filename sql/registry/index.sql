-- State of the index. Grain: document or chunk, as each statement says.

-- name: to_remove
-- Documents that must leave the index: not live, but with points in a collection. Grain: document.
SELECT doc_id::text AS doc_id, source_id, state, deleted_at, gone_at_source, gone_is_exact, chunk_count
FROM documents
WHERE
    source = :source AND state <> 'live'
    AND (indexed_content IS NOT NULL OR EXISTS (SELECT 1 FROM index_entries AS e WHERE e.doc_id = documents.doc_id))
ORDER BY doc_id;

-- name: payloads_to_update
-- Documents whose content is indexed and whose payload is out of date. Grain: document.
SELECT d.*, p.acl_checked_at
FROM documents AS d
LEFT JOIN partitions AS p ON p.source = d.source AND p.partition = d.partition
WHERE
    d.source = :source AND d.state = 'live' AND d.indexed_content = d.content_key || '|' || (:signatures::jsonb ->> d.profile)
    AND d.indexed_payload IS DISTINCT FROM d.payload_hash
ORDER BY d.doc_id;

-- name: keywords_to_refresh
-- Documents whose content is indexed, but with other names or with keyword vectors or sketches of another version.
-- Grain: document.
SELECT doc_id::text AS doc_id, title, source_title, path, chunk_count
FROM documents
WHERE
    source = :source AND state = 'live' AND indexed_content = content_key || '|' || (:signatures::jsonb ->> profile)
    AND indexed_keywords IS DISTINCT FROM :version || E'\n' || title || E'\n' || source_title || E'\n' || substring(path FROM '[^/]*$')
ORDER BY doc_id;

-- name: keyword_passages_to_refresh
-- The first passage of such documents, and all passages whose vectors have another version. Grain: chunk.
-- Index: chunks (doc_id, chunk_index).
SELECT c.chunk_id::text AS chunk_id, c.doc_id::text AS doc_id, c.chunk_index, c.chunk_text
FROM chunks AS c
INNER JOIN documents AS d ON d.doc_id = c.doc_id
WHERE
    c.doc_id = ANY(:doc_ids::uuid [])
    AND (c.chunk_index = 0 OR coalesce(NOT starts_with(d.indexed_keywords, :version || E'\n'), TRUE));

-- name: name_passages!
-- Store the words that keyword search reads before the passages. Grain: chunk.
-- Index: primary key.
UPDATE chunks AS c SET name_words = r.words, sketch = r.sketch
FROM unnest(:chunk_ids::uuid [], :words::text [], :sketches::text []) AS r (chunk_id, words, sketch)
WHERE c.chunk_id = r.chunk_id AND (c.name_words <> r.words OR c.sketch IS DISTINCT FROM r.sketch);

-- name: keywords_refreshed!
-- Record that both stores find these documents by their names. Parameters: rows jsonb (doc_id, indexed_keywords). Grain: document.
UPDATE documents AS d SET indexed_keywords = r.indexed_keywords
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, indexed_keywords text)
WHERE d.doc_id = r.doc_id;

-- name: rows
-- Complete registry rows. Grain: document.
SELECT d.*, p.acl_checked_at
FROM documents AS d
LEFT JOIN partitions AS p ON p.source = d.source AND p.partition = d.partition
WHERE d.doc_id = ANY(:doc_ids::uuid []) AND d.state = 'live'
ORDER BY d.doc_id;

-- name: begin_indexing!
-- Mark the points of these documents as being written: they are incomplete until `indexed` is called.
UPDATE documents AS d SET
    indexed_content = '', document_title = r.document_title, language = r.language, page_count = r.page_count
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, document_title text, language text, page_count integer)
WHERE d.doc_id = r.doc_id;

-- name: drop_chunks!
-- Grain: chunk.
DELETE FROM chunks WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: indexed!
-- Record that both stores hold these documents as wanted. Grain: document.
UPDATE documents AS d SET
    indexed_content = r.indexed_content, indexed_payload = r.indexed_payload, indexed_keywords = r.indexed_keywords,
    indexed_at = now(), chunk_count = r.chunk_count
FROM jsonb_to_recordset(:rows::jsonb) AS r (
    doc_id uuid, indexed_content text, indexed_payload text, indexed_keywords text, chunk_count integer
)
WHERE d.doc_id = r.doc_id;

-- name: payloads_updated!
-- Record that payloads are as wanted. Grain: document.
UPDATE documents AS d SET indexed_payload = r.indexed_payload, indexed_at = now()
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, indexed_payload text)
WHERE d.doc_id = r.doc_id;

-- name: removed!
-- Record that no collection has points of these documents. Grain: document.
WITH entries AS (DELETE FROM index_entries WHERE doc_id = ANY(:doc_ids::uuid [])),

passages AS (DELETE FROM chunks_beside WHERE doc_id = ANY(:doc_ids::uuid []))

UPDATE documents SET indexed_content = NULL, indexed_payload = NULL, indexed_keywords = NULL, indexed_at = NULL, chunk_count = 0
WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: save_receipts!
-- Save proofs of deletion, in the transaction that dropped the caches. Grain: (document, deletion).
INSERT INTO deletion_receipts (
    doc_id, source, source_id, tombstone_at, source_time, source_time_is_exact, points_deleted, points_gone_at, caches_gone_at
)
SELECT
    r.doc_id, :source, r.source_id, r.tombstone_at, r.source_time, r.source_time_is_exact, r.points_deleted, now(), now()
FROM jsonb_to_recordset(:rows::jsonb) AS r (
    doc_id uuid, source_id text, tombstone_at timestamptz, source_time timestamptz, source_time_is_exact boolean, points_deleted integer
)
ON CONFLICT (doc_id, tombstone_at) DO UPDATE SET
    points_deleted = excluded.points_deleted, points_gone_at = excluded.points_gone_at, caches_gone_at = excluded.caches_gone_at;

-- name: totals
-- Documents and passages of a source's live documents in Postgres. Grain: one row.
SELECT count(*) AS documents, cast(coalesce(sum(chunk_count), 0) AS bigint) AS chunks
FROM documents
WHERE source = :source AND state = 'live';

-- name: chunk_total
-- Grain: one row.
SELECT count(*) AS chunks
FROM chunks AS c
INNER JOIN documents AS d ON d.doc_id = c.doc_id
WHERE d.source = :source AND d.state = 'live';

-- name: ledger
-- The ledger of a source in one row. unfinished: live but not indexed; lingering: deleted but still indexed.
SELECT
    count(*) FILTER (WHERE state = 'live') AS live,
    count(*) FILTER (WHERE state = 'skipped') AS skipped,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    count(*) FILTER (WHERE state = 'deleted') AS deleted,
    count(*) FILTER (WHERE state = 'lost_access') AS lost_access,
    count(*) FILTER (WHERE state = 'live' AND coalesce(indexed_content, '') = '') AS unfinished,
    count(*) FILTER (WHERE state <> 'live' AND indexed_content IS NOT NULL) AS lingering
FROM documents
WHERE source = :source;

-- name: content_ids
-- Documents whose content the lake should hold: seen and not deleted. Grain: document.
SELECT doc_id::text AS doc_id FROM documents WHERE source = :source AND state <> 'deleted' AND content_hash IS NOT NULL;

-- name: to_refresh
-- Partitions whose payloads carry a permission check that is about to expire. Grain: partition.
SELECT partition, acl_checked_at
FROM partitions
WHERE
    source = :source AND acl_checked_at IS NOT NULL
    AND (acl_painted_at IS NULL OR acl_checked_at > acl_painted_at + make_interval(secs => :seconds));

-- name: held_checks
-- Indexed documents with a held deletion, and since when their permissions are unchecked.
SELECT d.doc_id::text AS doc_id, h.held_at
FROM held_deletions AS h
INNER JOIN documents AS d ON d.source = h.source AND d.source_id = h.source_id
WHERE h.source = :source AND h.partition = ANY(:partitions) AND d.indexed_content IS NOT NULL;

-- name: refreshed!
-- Grain: partition.
UPDATE partitions SET acl_painted_at = :painted WHERE source = :source AND partition = :partition;
