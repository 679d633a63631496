-- One sync as `concordance sync` reports it. Parameters: job_id. Grain: job (one row). Index: see the view.
SELECT
    source,
    job_id::text AS job_id,
    run_id,
    status,
    stage,
    synced,
    skipped,
    deleted,
    failed,
    embedded,
    documents,
    done,
    passages,
    expected,
    error_message,
    extract(EPOCH FROM coalesce(completed_at, now()) - started_at)::float8 AS seconds
FROM requested_syncs
WHERE job_id = %(job_id)s;
