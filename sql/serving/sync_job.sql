-- Purpose: one sync. Parameters: job_id. Grain: job. Index: see the view.
SELECT
    job_id::text AS job_id,
    source,
    status,
    stage,
    started_at,
    completed_at,
    synced,
    skipped,
    deleted,
    failed,
    embedded,
    error_message
FROM requested_syncs
WHERE job_id = %(job_id)s::uuid
