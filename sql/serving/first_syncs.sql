-- Purpose: first syncs that are running, with documents found and done so far. Grain: source.
-- Index: the unique one of running jobs, sync_jobs_latest.
SELECT
    j.source,
    j.documents,
    j.done
FROM sync_jobs AS j
WHERE
    j.status = 'running'
    AND NOT EXISTS (SELECT 1 FROM sync_jobs AS good WHERE good.source = j.source AND good.status = 'success')
ORDER BY j.source
