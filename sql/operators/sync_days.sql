-- Purpose: what the syncs of each day did, and the longest time in seconds between the ends of two successful ones, for plots.
-- Parameters: sources, since. Grain: (source, UTC day). Index: sync_jobs_latest.
SELECT
    j.source,
    j.day,
    sum(j.synced)::bigint AS synced,
    max(j.gap) FILTER (WHERE j.status = 'success') AS gap
FROM (
    SELECT
        source,
        status,
        synced,
        (started_at AT TIME ZONE 'UTC')::date AS day,
        extract(
            EPOCH FROM completed_at - lag(completed_at) OVER (PARTITION BY source, status ORDER BY completed_at)
        )::float8 AS gap
    FROM sync_jobs
    WHERE source = ANY(%(sources)s::text []) AND started_at >= %(since)s::timestamptz
) AS j
GROUP BY j.source, j.day
ORDER BY j.source, j.day
