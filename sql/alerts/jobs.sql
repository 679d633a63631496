-- What the webhook of jobs is told of syncs that have ended.

-- name: claim_job^
-- Take the sync that ended first of those that are due, for one attempt: it is due again only after a pause that doubles with each
-- attempt, from :pause_seconds to an hour; a longer one shows that the clock was set back. Two processes never take the same attempt. Those that ended before :since are too
-- old, and parts of a large first sync are told as one.
-- Grain: one row or none. Index: sync_jobs_untold.
UPDATE sync_jobs SET
    webhook_attempts = webhook_attempts + 1,
    webhook_next_at = now() + least(3600, :pause_seconds::double precision * 2 ^ least(webhook_attempts, 20)) * interval '1 second'
WHERE
    job_id = (
        SELECT j.job_id FROM sync_jobs AS j
        WHERE
            j.webhook_told_at IS NULL AND j.completed_at >= :since AND j.planned_by IS NULL
            AND NOT (j.webhook_next_at > now() AND j.webhook_next_at <= now() + interval '1 hour')
        ORDER BY j.completed_at
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    )
RETURNING
    job_id::text AS job_id,
    source,
    status,
    started_at,
    completed_at,
    synced,
    skipped,
    deleted,
    failed,
    webhook_attempts AS attempts;

-- name: postpone_job!
-- Tell of a sync no sooner than in :seconds. Parameters: job_id, seconds. Grain: sync. Index: primary key.
UPDATE sync_jobs SET webhook_next_at = greatest(webhook_next_at, now() + :seconds::double precision * interval '1 second')
WHERE job_id = :job_id::uuid;

-- name: told_job!
-- Record that the webhook was told of a sync, or is not told any more. Parameters: job_id. Grain: sync. Index: primary key.
UPDATE sync_jobs SET webhook_told_at = now()
WHERE job_id = :job_id::uuid;
