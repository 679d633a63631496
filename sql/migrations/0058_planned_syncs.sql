-- A large sync of a source is divided: the sync of the whole source creates others, each of some of the partitions.
ALTER TABLE sync_jobs ADD COLUMN planned_by uuid;
COMMENT ON COLUMN sync_jobs.planned_by IS 'the sync of the whole source that left these partitions to this one; null: none';
CREATE INDEX sync_jobs_planned ON sync_jobs (planned_by) WHERE planned_by IS NOT NULL;

CREATE OR REPLACE FUNCTION sync_stage(job sync_jobs) RETURNS text STABLE LANGUAGE sql AS $$
    SELECT CASE
        WHEN job.status = 'running' AND job.claimed_at IS NULL AND job.planned_by IS NOT NULL THEN 'queued'
        WHEN job.status = 'running' AND job.claimed_at IS NULL AND job.started_at < now() - interval '1 minute' THEN 'delayed'
        ELSE job.stage
    END
$$;

-- Syncs as who requested them sees them: with what they have left to others, they end when the last of these does. Grain: job.
-- Index: sync_jobs_pkey, sync_jobs_planned.
CREATE VIEW requested_syncs AS
SELECT
    j.job_id,
    j.source,
    j.run_id,
    j.started_at,
    CASE
        WHEN j.status <> 'success' OR p.jobs = 0 THEN j.status
        WHEN p.running > 0 THEN 'running'
        WHEN p.failed > 0 THEN 'failed'
        ELSE j.status
    END AS status,
    CASE
        WHEN j.status <> 'success' OR p.jobs = 0 THEN sync_stage(j)
        WHEN p.running > 0 THEN p.stage
        WHEN p.failed > 0 THEN 'failed'
        ELSE sync_stage(j)
    END AS stage,
    CASE WHEN j.completed_at IS NOT NULL AND p.running = 0 THEN greatest(j.completed_at, p.completed_at) END AS completed_at,
    j.synced + p.synced AS synced,
    j.skipped + p.skipped AS skipped,
    j.deleted + p.deleted AS deleted,
    j.failed + p.not_synced AS failed,
    j.embedded + p.embedded AS embedded,
    j.documents + p.documents AS documents,
    j.done + p.done AS done,
    j.passages + p.passages AS passages,
    j.expected + p.expected AS expected,
    coalesce(j.error_message, p.error_message) AS error_message
FROM sync_jobs AS j
CROSS JOIN LATERAL (
    SELECT
        count(*) AS jobs,
        count(*) FILTER (WHERE q.status = 'running') AS running,
        count(*) FILTER (WHERE q.status = 'failed') AS failed,
        max(q.completed_at) AS completed_at,
        (array_agg(sync_stage(q) ORDER BY q.heartbeat_at DESC NULLS LAST) FILTER (WHERE q.status = 'running'))[1] AS stage,
        min(q.error_message) AS error_message,
        coalesce(sum(q.synced), 0)::integer AS synced,
        coalesce(sum(q.skipped), 0)::integer AS skipped,
        coalesce(sum(q.deleted), 0)::integer AS deleted,
        coalesce(sum(q.failed), 0)::integer AS not_synced,
        coalesce(sum(q.embedded), 0)::integer AS embedded,
        coalesce(sum(q.documents), 0)::integer AS documents,
        coalesce(sum(q.done), 0)::integer AS done,
        coalesce(sum(q.passages), 0)::integer AS passages,
        coalesce(sum(q.expected), 0)::integer AS expected
    FROM sync_jobs AS q
    WHERE q.planned_by = j.job_id
) AS p;
