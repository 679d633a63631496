-- Entries of documents in a collection of the index, and its passages. Grain: document or chunk, as each statement says.

-- name: to_remove
-- Those of these documents that must leave the index: not live, but with an entry in a collection. chunk_count: passages in the active one.
-- Parameters: doc_ids. Grain: document.
SELECT
    d.doc_id::text AS doc_id, d.source_id, d.partition, d.state, d.deleted_at, d.gone_at_source, d.gone_is_exact,
    coalesce(a.chunk_count, 0) AS chunk_count
FROM documents AS d
LEFT JOIN active_entries AS a ON a.doc_id = d.doc_id
WHERE
    d.source = :source AND d.state <> 'live' AND EXISTS (SELECT FROM index_entries AS e WHERE e.doc_id = d.doc_id)
    AND d.doc_id = ANY(:doc_ids::uuid [])
ORDER BY d.doc_id;

-- name: payloads_to_update
-- Those of these live documents whose payload is out of date. Parameters: source, collection, doc_ids, signatures jsonb (profile ->
-- signature) or null: if given, only those whose content is indexed as wanted. Grain: document.
SELECT d.*, p.acl_checked_at
FROM index_entries AS e
INNER JOIN documents AS d ON d.doc_id = e.doc_id
LEFT JOIN partitions AS p ON p.source = d.source AND p.partition = d.partition
WHERE
    e.collection = :collection AND d.source = :source AND d.state = 'live' AND e.payload IS DISTINCT FROM d.payload_hash
    AND (:signatures::jsonb IS NULL OR e.content = d.content_key || '|' || (:signatures::jsonb ->> d.profile))
    AND e.doc_id = ANY(:doc_ids::uuid [])
ORDER BY d.doc_id;

-- name: keywords_to_refresh
-- Those of these live documents whose content is indexed, but with other names or with keyword vectors or sketches of another version.
-- Parameters: source, collection, doc_ids, signatures jsonb or null (content of any version), version. Grain: document.
SELECT d.doc_id::text AS doc_id, d.partition, d.title, d.source_title, d.path, e.chunk_count
FROM index_entries AS e
INNER JOIN documents AS d ON d.doc_id = e.doc_id
WHERE
    e.collection = :collection AND d.source = :source AND d.state = 'live' AND e.content <> ''
    AND (:signatures::jsonb IS NULL OR e.content = d.content_key || '|' || (:signatures::jsonb ->> d.profile))
    AND e.keywords IS DISTINCT FROM :version || keyword_names(d.title, d.source_title, d.path)
    AND e.doc_id = ANY(:doc_ids::uuid [])
ORDER BY d.doc_id;

-- name: keyword_passages_to_refresh
-- The first passage of such documents, and all passages whose vectors have another version. Grain: chunk.
-- Index: chunks (doc_id, collection, chunk_index).
SELECT c.chunk_id::text AS chunk_id, c.doc_id::text AS doc_id, c.chunk_index, c.chunk_text, c.language
FROM chunks AS c
INNER JOIN index_entries AS e ON e.doc_id = c.doc_id AND e.collection = c.collection
WHERE
    c.collection = :collection AND c.doc_id = ANY(:doc_ids::uuid [])
    AND (c.chunk_index = 0 OR coalesce(NOT starts_with(e.keywords, :version || E'\n'), TRUE));

-- name: name_passages!
-- Store the words that keyword search reads before the passages. Grain: chunk. Index: primary key.
UPDATE chunks AS c SET name_words = r.words, sketch = r.sketch
FROM unnest(:chunk_ids::uuid [], :words::text [], :sketches::text []) AS r (chunk_id, words, sketch)
WHERE
    c.chunk_id = r.chunk_id AND c.collection = :collection AND (c.name_words <> r.words OR c.sketch IS DISTINCT FROM r.sketch);

-- name: keywords_refreshed!
-- Record that both stores find these documents by their names. Parameters: collection, rows jsonb (doc_id, keywords). Grain: document.
UPDATE index_entries AS e SET keywords = r.keywords
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, keywords text)
WHERE e.doc_id = r.doc_id AND e.collection = :collection;

-- name: rows
-- Complete registry rows. Grain: document.
SELECT d.*, p.acl_checked_at
FROM documents AS d
LEFT JOIN partitions AS p ON p.source = d.source AND p.partition = d.partition
WHERE d.doc_id = ANY(:doc_ids::uuid []) AND d.state = 'live'
ORDER BY d.doc_id;

-- name: begin_entries!
-- Mark the points of these documents as being written: their entries are incomplete until `indexed` is called, and nobody knows the payload
-- of their points. Whoever is changing the documents is waited for, so that points get what they are changed to. Grain: document.
WITH facts AS (
    SELECT r.*
    FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, document_title text, language text, page_count integer, notes jsonb)
),

there AS MATERIALIZED (
    SELECT d.doc_id FROM documents AS d INNER JOIN facts AS f ON f.doc_id = d.doc_id ORDER BY d.doc_id FOR NO KEY UPDATE OF d
),

noted AS (
    UPDATE documents AS d SET document_title = f.document_title, language = f.language, page_count = f.page_count, notes = f.notes
    FROM facts AS f
    WHERE
        d.doc_id = f.doc_id
        AND (d.document_title, d.language, d.page_count, d.notes)
        IS DISTINCT FROM (f.document_title, f.language, f.page_count, f.notes)
)

INSERT INTO index_entries (collection, doc_id)
SELECT :collection, t.doc_id FROM there AS t
ON CONFLICT (doc_id, collection) DO UPDATE SET content = '', payload = NULL;

-- name: begin_payloads!
-- Mark the payloads of these documents' points as being written: nobody knows them until `payloads_updated` is called. Grain: document.
UPDATE index_entries SET payload = NULL WHERE doc_id = ANY(:doc_ids::uuid []) AND collection = :collection;

-- name: doubt!
-- Mark entries as incomplete although another process may be writing them, which cannot complete them then: a payload that is not null says
-- that their writing has not begun since. Parameters: collections text[], doc_ids. Grain: (collection, document).
INSERT INTO index_entries (collection, doc_id, payload)
SELECT c.name, d.doc_id, ''
FROM documents AS d CROSS JOIN index_collections AS c
WHERE d.doc_id = ANY(:doc_ids::uuid []) AND c.name = ANY(:collections::text [])
ORDER BY d.doc_id, c.name
ON CONFLICT (doc_id, collection) DO UPDATE SET content = '', payload = '';

-- name: drop_chunks!
-- Grain: chunk. Index: chunks (doc_id, collection, chunk_index).
DELETE FROM chunks WHERE doc_id = ANY(:doc_ids::uuid []) AND collection = :collection;

-- name: indexed!
-- Record that both stores hold these documents as wanted, unless their entries were doubted or written by others since `begin_entries`; in the
-- active collection, they need not be written again. Grain: document.
WITH written AS (
    SELECT r.*
    FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, content text, payload text, keywords text, chunk_count integer)
),

rewritten AS (
    UPDATE index_work AS w SET rewrite = FALSE
    FROM (
        SELECT k.doc_id
        FROM index_work AS k
        INNER JOIN written AS r ON r.doc_id = k.doc_id
        WHERE k.rewrite AND EXISTS (SELECT FROM index_collections AS c WHERE c.name = :collection AND c.active)
        ORDER BY k.doc_id
        FOR UPDATE OF k
    ) AS l
    WHERE w.doc_id = l.doc_id
)

UPDATE index_entries AS e SET
    content = r.content, payload = r.payload, keywords = r.keywords, chunk_count = r.chunk_count, indexed_at = now()
FROM written AS r
WHERE e.doc_id = r.doc_id AND e.collection = :collection AND e.payload IS NULL;

-- name: payloads_updated!
-- Record that payloads are as wanted, with the same exception. Parameters: collection, rows jsonb (doc_id, payload). Grain: document.
UPDATE index_entries AS e SET payload = r.payload, indexed_at = now()
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, payload text)
WHERE e.doc_id = r.doc_id AND e.collection = :collection AND e.payload IS NULL;

-- name: begin_removal!
-- Mark the entries of these documents as incomplete before their points are deleted: a document that returns before `removed` is called has to
-- be written again. Grain: document. Index: primary key.
UPDATE index_entries SET content = '', payload = NULL WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: removed!
-- Record that no collection has points of these documents; their passages go with their entries. Grain: document.
DELETE FROM index_entries WHERE doc_id = ANY(:doc_ids::uuid []);

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
-- Live documents of a source, and their passages according to the entries of the active collection, both as triggers count them.
-- Grain: one row. Index: document_counts_partition, passage_counts_partition, index_work_source.
SELECT
    cast(coalesce((
        SELECT sum(c.documents) FROM document_counts AS c WHERE c.source = :source AND c.state = 'live'
    ), 0) AS bigint) AS documents,
    cast(
        coalesce((
            SELECT sum(c.passages) FROM passage_counts AS c
            WHERE c.source = :source AND c.collection = (SELECT a.name FROM index_collections AS a WHERE a.active)
        ), 0)
        - coalesce((
            SELECT sum(e.chunk_count)
            FROM documents AS d
            INNER JOIN active_entries AS e ON e.doc_id = d.doc_id
            WHERE
                d.doc_id = ANY(ARRAY(SELECT w.doc_id FROM index_work AS w WHERE w.source = :source)) AND d.state <> 'live'
        ), 0) AS bigint
    ) AS chunks;

-- name: ledger
-- The ledger of a source in one row. unfinished: live but not indexed; lingering: deleted but still indexed; both of these partitions only
-- (null: all). They are marked, so only marked documents are read; the others are counted by triggers. Parameters: partitions or null.
-- Index: document_counts_partition, index_work_source.
WITH counted AS (
    SELECT c.state, sum(c.documents) AS documents FROM document_counts AS c WHERE c.source = :source GROUP BY c.state
),

differing AS (
    SELECT
        count(*) FILTER (WHERE d.state = 'live' AND coalesce(e.content, '') = '') AS unfinished,
        count(*) FILTER (WHERE d.state <> 'live' AND e.doc_id IS NOT NULL) AS lingering
    FROM documents AS d
    LEFT JOIN active_entries AS e ON e.doc_id = d.doc_id
    WHERE
        d.doc_id = ANY(ARRAY(SELECT w.doc_id FROM index_work AS w WHERE w.source = :source))
        AND (:partitions::text [] IS NULL OR d.partition = ANY(:partitions))
)

SELECT
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'live'), 0) AS bigint) AS live,
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'skipped'), 0) AS bigint) AS skipped,
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'failed'), 0) AS bigint) AS failed,
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'deleted'), 0) AS bigint) AS deleted,
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'lost_access'), 0) AS bigint) AS lost_access,
    (SELECT g.unfinished FROM differing AS g) AS unfinished,
    (SELECT g.lingering FROM differing AS g) AS lingering
FROM counted AS c;

-- name: sample
-- Those of these documents that are indexed. Grain: document. Parameters: source, doc_ids. Index: primary keys.
SELECT
    d.doc_id::text AS doc_id, d.partition, d.title, d.source_id, d.path, d.owner, d.mime_type, d.permissions, d.language, d.page_count,
    e.chunk_count, e.indexed_at
FROM active_entries AS e
INNER JOIN documents AS d ON d.doc_id = e.doc_id
WHERE d.source = :source AND e.content <> '' AND d.doc_id = ANY(:doc_ids::uuid [])
ORDER BY e.indexed_at DESC, d.doc_id ASC;

-- name: to_refresh
-- Partitions whose permission check, as searches without Postgres know it, is about to expire. Grain: partition.
SELECT partition, acl_checked_at
FROM partitions
WHERE
    source = :source AND acl_checked_at IS NOT NULL
    AND (acl_indexed_at IS NULL OR acl_checked_at > acl_indexed_at + make_interval(secs => :seconds));

-- name: refreshed!
-- Record which permission checks searches without Postgres know. Parameters: source, rows jsonb ([[partition, time], …]). Grain: partition.
UPDATE partitions AS p SET acl_indexed_at = (r.value ->> 1)::timestamptz
FROM jsonb_array_elements(:rows::jsonb) AS r
WHERE p.source = :source AND p.partition = r.value ->> 0;
