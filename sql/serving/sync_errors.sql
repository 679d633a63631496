-- Purpose: what went wrong in a sync. Parameters: job_id. Grain: (document, stage), at most 1000. Index: primary key.
SELECT
    source_id,
    stage,
    reason,
    outcome
FROM sync_errors
WHERE job_id = %(job_id)s::uuid
ORDER BY at, source_id
LIMIT 1000
