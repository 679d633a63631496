-- Seconds that calls to a source waited, for its limits or after a fault; those that wait at the same time are added up.
ALTER TABLE sync_jobs ADD COLUMN waited double precision NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION figures_of(job sync_jobs) RETURNS TABLE (what text, label text, value double precision)
LANGUAGE sql IMMUTABLE AS $$
    SELECT f.what, f.label, f.value
    FROM (
        VALUES
        ('sync_documents', 'synced', job.synced::double precision),
        ('sync_documents', 'skipped', job.skipped),
        ('sync_documents', 'deleted', job.deleted),
        ('sync_documents', 'failed', job.failed),
        ('chunks_embedded', '', job.embedded),
        ('source_calls', 'answered', (SELECT coalesce(sum(c.value::double precision), 0) FROM jsonb_each_text(job.calls) AS c)),
        ('source_calls', 'repeated', job.retries),
        ('source_calls', 'failed', job.retries_failed),
        ('source_waited', '', job.waited),
        ('sync_jobs', job.status, 1),
        ('sync_seconds_sum', '', extract(EPOCH FROM job.completed_at - job.started_at))
    ) AS f (what, label, value)
    WHERE f.value IS NOT NULL
    UNION ALL
    SELECT 'stage_seconds', s.key, (s.value ->> 'seconds')::double precision FROM jsonb_each(job.stages) AS s
    UNION ALL
    SELECT 'stage_syncs', s.key, 1 FROM jsonb_each(job.stages) AS s
    UNION ALL
    SELECT 'sync_seconds', b.label, (extract(EPOCH FROM job.completed_at - job.started_at) <= b.seconds)::integer
    FROM (
        VALUES
        ('1', 1.0), ('5', 5), ('10', 10), ('30', 30), ('60', 60), ('120', 120), ('300', 300), ('600', 600), ('1800', 1800),
        ('+Inf', 'infinity'::double precision)
    ) AS b (label, seconds)
    WHERE job.completed_at IS NOT NULL
$$;

DROP TRIGGER sync_jobs_recounted ON sync_jobs;
CREATE TRIGGER sync_jobs_recounted AFTER UPDATE ON sync_jobs FOR EACH ROW
WHEN (
    (
        old.status, old.completed_at, old.synced, old.skipped, old.deleted, old.failed, old.embedded, old.calls, old.retries,
        old.retries_failed, old.waited
    )
    IS DISTINCT FROM
    (
        new.status, new.completed_at, new.synced, new.skipped, new.deleted, new.failed, new.embedded, new.calls, new.retries,
        new.retries_failed, new.waited
    )
)
EXECUTE FUNCTION count_sync();
