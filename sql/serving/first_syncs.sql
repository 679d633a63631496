-- Purpose: first syncs that have begun and are running, with documents found and done so far. Grain: source.
-- Index: sync_jobs_running, sync_jobs_latest.
SELECT
    j.source,
    sum(j.documents)::integer AS documents,
    sum(j.done)::integer AS done
FROM sync_jobs AS j
WHERE
    j.status = 'running'
    AND (j.claimed_at IS NOT NULL OR j.documents > 0)
    AND NOT EXISTS (SELECT 1 FROM sync_jobs AS good WHERE good.source = j.source AND good.status = 'success' AND good.lists)
GROUP BY j.source
ORDER BY j.source
