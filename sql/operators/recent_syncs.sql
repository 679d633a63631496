-- Purpose: the latest syncs of each source, oldest first, for a plot. Parameters: sources, most. Grain: job. Index: sync_jobs_latest.
SELECT
    j.source,
    j.status,
    j.started_at,
    j.synced,
    j.failed,
    extract(EPOCH FROM coalesce(j.completed_at, now()) - j.started_at)::float8 AS seconds,
    j.run_id
FROM unnest(%(sources)s::text []) AS s (source)
INNER JOIN sync_jobs AS j
    ON
        s.source = j.source
        AND j.started_at >= coalesce(
            (
                SELECT edge.started_at
                FROM sync_jobs AS edge
                WHERE edge.source = s.source
                ORDER BY edge.started_at DESC
                LIMIT 1
                OFFSET %(most)s::int - 1
            ),
            '-infinity'
        )
ORDER BY j.source, j.started_at;
