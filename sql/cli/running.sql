-- Syncs that are running. Grain: source. Index: the unique one of running jobs.
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
