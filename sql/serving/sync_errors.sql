-- Purpose: errors of a sync and of those that it planned. Parameters: job_id, owner (null: all, otherwise only those of this user's uploads).
-- Grain: (document, stage), at most 1000. Index: primary keys, sync_jobs_planned.
SELECT
    e.source_id,
    e.stage,
    e.reason,
    e.outcome
FROM sync_errors AS e
INNER JOIN sync_jobs AS j ON e.job_id = j.job_id
LEFT JOIN uploads AS u ON j.source = u.source AND e.source_id = u.source_id
WHERE
    (j.job_id = %(job_id)s::uuid OR j.planned_by = %(job_id)s::uuid)
    AND (%(owner)s::text IS NULL OR u.owner = %(owner)s::text)
ORDER BY e.at, e.source_id
LIMIT 1000
