-- How long each stage of a sync was busy, its rows, tokens and errors: {"parsed": {"seconds": 1.2, "rows": 3, "tokens": 0, "errors": 1}}.
ALTER TABLE sync_jobs ADD COLUMN stages jsonb NOT NULL DEFAULT '{}';

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
