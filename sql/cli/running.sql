-- Syncs that are running. Grain: job. Index: sync_jobs_running.
SELECT
    source,
    job_id::text AS job_id,
    status,
    sync_stage(sync_jobs) AS stage,
    documents,
    done,
    passages,
    expected,
    extract(EPOCH FROM now() - started_at)::float8 AS seconds
FROM sync_jobs
WHERE status = 'running'
ORDER BY source;
