-- Purpose: whether syncs of sources are paused, when the latest successful one ended, and the latest of all. Parameters: sources.
-- Grain: requested source. Index: sync_jobs_latest, primary keys of sync_jobs and source_states.
SELECT
    s.source,
    t.paused_at,
    t.paused_reason,
    (
        SELECT good.completed_at
        FROM sync_jobs AS good
        WHERE good.source = s.source AND good.status = 'success' AND good.lists
        ORDER BY good.started_at DESC
        LIMIT 1
    ) AS last_sync_at,
    j.job_id::text AS job_id,
    j.status,
    sync_stage(j) AS stage,
    j.started_at,
    j.completed_at,
    j.synced,
    j.skipped,
    j.deleted,
    j.failed,
    j.embedded,
    j.error_message
FROM unnest(%(sources)s::text []) AS s (source)
LEFT JOIN source_states AS t ON s.source = t.source
LEFT JOIN sync_jobs AS j
    ON
        j.job_id = (
            SELECT latest.job_id
            FROM sync_jobs AS latest
            WHERE latest.source = s.source
            ORDER BY latest.started_at DESC
            LIMIT 1
        )
