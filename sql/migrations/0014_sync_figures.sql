-- Figures of syncs, kept up as jobs change, so that nobody adds up the whole history for them. Grain: (what, source, label).
CREATE TABLE sync_figures (
    what text NOT NULL,
    source text NOT NULL,
    label text NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (what, source, label)
);

-- What one job counts for. Grain: (what, label).
CREATE FUNCTION figures_of(job sync_jobs) RETURNS TABLE (what text, label text, value double precision)
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
    SELECT 'sync_seconds', b.label, (extract(EPOCH FROM job.completed_at - job.started_at) <= b.seconds)::integer
    FROM (
        VALUES
        ('1', 1.0), ('5', 5), ('10', 10), ('30', 30), ('60', 60), ('120', 120), ('300', 300), ('600', 600), ('1800', 1800),
        ('+Inf', 'infinity'::double precision)
    ) AS b (label, seconds)
    WHERE job.completed_at IS NOT NULL
$$;

INSERT INTO sync_figures (what, source, label, value)
SELECT f.what, j.source, f.label, sum(f.value)
FROM sync_jobs AS j CROSS JOIN LATERAL figures_of(j) AS f
GROUP BY f.what, j.source, f.label;

-- Adds what a job counts for more than before. Jobs that are removed later stay counted.
CREATE FUNCTION count_sync() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sync_figures AS s (what, source, label, value)
    SELECT c.what, NEW.source, c.label, sum(c.value)
    FROM (
        SELECT f.what, f.label, f.value FROM figures_of(NEW) AS f
        UNION ALL
        SELECT f.what, f.label, -f.value FROM figures_of(OLD) AS f WHERE TG_OP = 'UPDATE'
    ) AS c
    GROUP BY c.what, c.label
    HAVING sum(c.value) <> 0 OR TG_OP = 'INSERT'
    ORDER BY c.what, c.label
    ON CONFLICT (what, source, label) DO UPDATE SET value = s.value + excluded.value;
    RETURN NULL;
END
$$;
CREATE TRIGGER sync_jobs_counted AFTER INSERT ON sync_jobs FOR EACH ROW EXECUTE FUNCTION count_sync();
CREATE TRIGGER sync_jobs_recounted AFTER UPDATE ON sync_jobs FOR EACH ROW
WHEN (
    (old.status, old.completed_at, old.synced, old.skipped, old.deleted, old.failed, old.embedded)
    IS DISTINCT FROM (new.status, new.completed_at, new.synced, new.skipped, new.deleted, new.failed, new.embedded)
)
EXECUTE FUNCTION count_sync();

-- The latest good sync of a source, however many have failed since.
CREATE INDEX sync_jobs_latest_good ON sync_jobs (source, started_at DESC) WHERE status = 'success';
-- A sync's errors in order, the first thousand alone.
CREATE INDEX sync_errors_in_order ON sync_errors (job_id, at, source_id);
-- Counts of documents by state, without those that were deleted long ago.
CREATE INDEX documents_counted ON documents (source, partition, state) WHERE state <> 'deleted';
