-- Errors of one sync and of those that it planned. Parameters: job_id. Grain: (document, stage), oldest first.
-- Index: sync_errors_pkey, sync_jobs_planned.
SELECT
    e.source_id,
    e.stage,
    e.reason
FROM sync_errors AS e
INNER JOIN sync_jobs AS j ON e.job_id = j.job_id
WHERE j.job_id = %(job_id)s::uuid OR j.planned_by = %(job_id)s::uuid
ORDER BY e.at, e.source_id, e.stage;
