-- Purpose: one sync. Parameters: job_id. Grain: job. Index: primary key.
SELECT
    job_id::text AS job_id,
    source,
    status,
    sync_stage(sync_jobs) AS stage,
    started_at,
    completed_at,
    synced,
    skipped,
    deleted,
    failed,
    embedded,
    error_message
FROM sync_jobs
WHERE job_id = %(job_id)s::uuid
