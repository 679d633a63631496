-- Errors of one sync. Parameters: job_id. Grain: (document, stage), oldest first. Index: primary key.
SELECT
    source_id,
    stage,
    reason
FROM sync_errors
WHERE job_id = %(job_id)s
ORDER BY at, source_id, stage;
