-- Syncs of a whole source: the latest good one and the failures since are asked for every few seconds, among any number of syncs of parts.
CREATE INDEX sync_jobs_whole ON sync_jobs (source, status, started_at DESC) WHERE partitions IS NULL;

-- When a sync was asked for; one that no process begins is started again and again.
ALTER TABLE sync_jobs ADD COLUMN requested_at timestamptz NOT NULL DEFAULT now();
