-- The daily deletion sweep: deleted documents must be gone everywhere. Grain: document, unless a statement says otherwise.

-- name: gone
-- A page of documents that no one may find any more. Parameters: source, after (doc_id), most. Index: primary key.
SELECT
    d.doc_id::text AS doc_id, d.source_id, d.deleted_at, d.gone_at_source, d.gone_is_exact, coalesce(a.chunk_count, 0) AS chunk_count,
    (SELECT count(*) FROM index_entries AS e WHERE e.doc_id = d.doc_id) > 0 AS indexed,
    (SELECT count(*) FROM chunks AS c WHERE c.doc_id = d.doc_id) AS chunks
FROM (
    SELECT * FROM documents
    WHERE source = :source AND state IN ('deleted', 'lost_access') AND doc_id > :after::uuid
    ORDER BY doc_id
    LIMIT :most
) AS d
LEFT JOIN active_entries AS a ON a.doc_id = d.doc_id
ORDER BY d.doc_id;

-- name: verify_receipts
-- Complete the receipts of deletions, and write missing ones: documents that were never indexed had nothing to remove.
-- Parameters: source, rows jsonb. Grain: (document, deletion). Returns those that were not verified before.
INSERT INTO deletion_receipts AS e (
    doc_id, source, source_id, tombstone_at, source_time, source_time_is_exact, points_deleted, points_gone_at, caches_gone_at,
    verified_at
)
SELECT
    r.doc_id, :source, r.source_id, r.tombstone_at, r.source_time, coalesce(r.source_time_is_exact, FALSE), r.points_deleted,
    r.points_gone_at, r.caches_gone_at, now()
FROM jsonb_to_recordset(:rows::jsonb) AS r (
    doc_id uuid, source_id text, tombstone_at timestamptz, source_time timestamptz, source_time_is_exact boolean,
    points_deleted integer, points_gone_at timestamptz, caches_gone_at timestamptz
)
ON CONFLICT (doc_id, tombstone_at) DO UPDATE SET
    verified_at = now(), points_gone_at = coalesce(e.points_gone_at, now()), caches_gone_at = coalesce(e.caches_gone_at, now())
WHERE e.verified_at IS NULL
RETURNING e.doc_id::text AS doc_id;

-- name: forget_listings!
-- Recorded pages of listings that will not be resumed: a partition without a cursor is listed again. Parameters: source.
DELETE FROM listed_documents AS l
WHERE
    l.source = :source
    AND NOT EXISTS (
        SELECT 1 FROM partitions AS p WHERE p.source = l.source AND p.partition = l.partition AND p.cursor IS NOT NULL
    );

-- name: forget_fetched!
-- Contents recorded for a batch that has since completed: the last full sync succeeded. Parameters: source.
DELETE FROM fetched_contents
WHERE
    source = :source
    AND 'success' = (
        SELECT j.status FROM sync_jobs AS j
        WHERE j.source = :source AND j.partitions IS NULL AND j.lists AND j.status <> 'running'
        ORDER BY j.started_at DESC
        LIMIT 1
    );

-- name: receipts
-- Deletions and their results, oldest first. Grain: (document, deletion). Parameters: since, document (doc_id or source
-- id) or null, doc_ids (possible documents of that source id: an erased one has no source id any more).
SELECT
    doc_id::text AS doc_id, source, source_id, source_time, source_time_is_exact, tombstone_at, points_deleted, points_gone_at,
    caches_gone_at, verified_at, erased_at, stores, extract(EPOCH FROM tombstone_at - source_time)::float8 AS seconds_to_invisible
FROM deletion_receipts
WHERE
    tombstone_at >= :since
    AND (
        :document::text IS NULL OR doc_id::text = lower(:document::text) OR source_id = :document::text
        OR doc_id = ANY(:doc_ids::uuid [])
    )
ORDER BY tombstone_at, source_id;
