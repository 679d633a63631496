-- Purpose: state of a request to ingest, for the user who made it: whether a sync has processed its change, and the ledger's entry.
-- Parameters: job_id, email. Grain: request. Index: primary keys, unique doc_id of uploads, sync_jobs_running.
SELECT
    j.job_id::text AS job_id,
    j.doc_id::text AS doc_id,
    u.deleted_at IS NOT NULL AS taken_back,
    coalesce(p.cursor ~ '^[0-9]{1,18}$' AND p.cursor::bigint >= j.change, FALSE) AND d.doc_id IS NOT NULL AS seen,
    d.state,
    d.reason,
    d.stage,
    s.stage AS running_stage,
    coalesce(
        d.state = 'live' AND starts_with(e.content, d.content_key || '|') AND e.payload = d.payload_hash, FALSE
    ) AS indexed,
    e.chunk_count,
    d.page_count
FROM ingest_jobs AS j
INNER JOIN uploads AS u ON j.doc_id = u.doc_id
LEFT JOIN partitions AS p ON u.source = p.source AND u.partition = p.partition
LEFT JOIN documents AS d ON j.doc_id = d.doc_id
LEFT JOIN active_entries AS e ON d.doc_id = e.doc_id
LEFT JOIN LATERAL (
    SELECT r.stage FROM sync_jobs AS r
    WHERE r.source = u.source AND r.status = 'running'
    ORDER BY (r.partitions IS NULL OR u.partition = ANY(r.partitions)) DESC, r.started_at ASC
    LIMIT 1
) AS s ON TRUE
WHERE j.job_id = %(job_id)s::uuid AND j.owner = %(email)s
