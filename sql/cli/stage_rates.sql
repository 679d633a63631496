-- How long stages were busy, for how many rows, in the latest 200 syncs that indexed documents, and when the first of these ended.
-- Parameters: source or null (all). Grain: stage.
SELECT
    s.key AS stage,
    sum((s.value ->> 'seconds')::double precision) AS seconds,
    cast(sum((s.value ->> 'rows')::bigint) AS bigint) AS rows,
    count(*) AS syncs,
    min(j.completed_at) AS since
FROM (
    SELECT
        stages,
        completed_at
    FROM sync_jobs
    WHERE (%(source)s::text IS NULL OR source = %(source)s) AND synced > 0 AND completed_at IS NOT NULL
    ORDER BY completed_at DESC
    LIMIT 200
) AS j
CROSS JOIN LATERAL jsonb_each(j.stages) AS s
WHERE (s.value ->> 'rows')::bigint > 0
GROUP BY s.key
ORDER BY s.key;
