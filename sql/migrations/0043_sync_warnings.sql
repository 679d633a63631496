-- What a sync did without is recorded beside its errors: optional calls to a source that failed.
ALTER TABLE sync_errors DROP CONSTRAINT sync_errors_outcome_check;
ALTER TABLE sync_errors ADD CONSTRAINT sync_errors_outcome_check CHECK (outcome IN ('failed', 'skipped', 'warning'));

-- An estimate of the passages of all documents that a sync has found to process; 0: unknown.
ALTER TABLE sync_jobs ADD COLUMN expected integer NOT NULL DEFAULT 0;

-- The stage of a sync. One that no process has begun within a minute is delayed, and so is one that is started again.
CREATE FUNCTION sync_stage(job sync_jobs) RETURNS text STABLE LANGUAGE sql AS $$
    SELECT CASE
        WHEN job.status = 'running' AND job.claimed_at IS NULL AND job.started_at < now() - interval '1 minute' THEN 'delayed'
        ELSE job.stage
    END
$$;
