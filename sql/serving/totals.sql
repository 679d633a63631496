-- Purpose: figures for /metrics that the pipeline stores in the registry. Grain: (what, source, label).
-- Index: none, all of it is small and read whole: counts have a row per partition and state, `sync_figures` has one row per figure, whatever the number of syncs.
-- `sync_awaited` is judged as `sync_health` of `sql/alerts/alerts.sql` and `figures_of_syncs` judge `SyncOverdue`.
-- Syncs of folders and channels, and jobs that list nothing, say nothing about those of the whole source.
-- Sizes of tables are those of their latest VACUUM or ANALYZE: pg_total_relation_size waits for the erasure's VACUUM FULL.
SELECT
    'documents' AS what,
    source,
    state AS label,
    sum(documents)::double precision AS value
FROM document_counts
WHERE state <> 'deleted'
GROUP BY source, state
HAVING sum(documents) <> 0
UNION ALL
SELECT
    what,
    source,
    label,
    value
FROM sync_figures
UNION ALL
SELECT
    'source_paused' AS what,
    source,
    '' AS label,
    (paused_at IS NOT NULL)::integer::double precision AS value
FROM source_states
UNION ALL
SELECT
    'held_deletions' AS what,
    source,
    '' AS label,
    count(*)::double precision AS value
FROM held_deletions
GROUP BY source
UNION ALL
SELECT
    'embedding_tokens' AS what,
    '' AS source,
    model AS label,
    sum(tokens)::double precision AS value
FROM embedding_usage
GROUP BY model
UNION ALL
SELECT
    'embedding_cost' AS what,
    '' AS source,
    model AS label,
    sum(cost_usd)::double precision AS value
FROM embedding_usage
GROUP BY model
UNION ALL
SELECT
    'queue' AS what,
    '' AS source,
    q.label,
    q.waiting::double precision AS value
FROM (
    SELECT
        'index' AS label,
        (SELECT count(*) FROM (SELECT 1 FROM index_work ORDER BY doc_id LIMIT 10000) AS w) AS waiting
    UNION ALL
    SELECT
        'events' AS label,
        (SELECT count(*) FROM (SELECT 1 FROM source_events WHERE asked_at IS NULL ORDER BY source, received_at LIMIT 10000) AS w) AS waiting
    UNION ALL
    SELECT
        'syncs' AS label,
        (SELECT count(*) FROM sync_jobs WHERE status = 'running' AND claimed_at IS NULL) AS waiting
    UNION ALL
    SELECT
        'slack_questions' AS label,
        (SELECT count(*) FROM (SELECT 1 FROM slack_questions WHERE outcome IS NULL ORDER BY received_at LIMIT 10000) AS w) AS waiting
    UNION ALL
    SELECT
        'alert_notices' AS label,
        (SELECT count(*) FROM alert_notices) AS waiting
) AS q
UNION ALL
SELECT
    'sync_failures_in_a_row' AS what,
    s.source,
    '' AS label,
    (
        SELECT count(*) FROM sync_jobs AS f
        WHERE f.source = s.source AND f.status = 'failed' AND f.partitions IS NULL AND f.lists AND f.started_at > coalesce(
            (
                SELECT max(g.started_at) FROM sync_jobs AS g
                WHERE g.source = s.source AND g.status = 'success' AND g.partitions IS NULL AND g.lists
            ), '-infinity'
        )
    )::double precision AS value
FROM source_states AS s
UNION ALL
SELECT
    'latest_sync' AS what,
    s.source,
    '' AS label,
    extract(EPOCH FROM j.completed_at)::double precision AS value
FROM source_states AS s
CROSS JOIN LATERAL (
    SELECT completed_at FROM sync_jobs
    WHERE source = s.source AND status = 'success' AND partitions IS NULL AND lists
    ORDER BY started_at DESC
    LIMIT 1
) AS j
UNION ALL
SELECT
    'sync_awaited' AS what,
    s.source,
    '' AS label,
    extract(EPOCH FROM coalesce(g.completed_at, o.requested_at, s.set_up_at))::double precision AS value
FROM source_states AS s
LEFT JOIN LATERAL (
    SELECT requested_at FROM sync_jobs
    WHERE source = s.source
    ORDER BY started_at ASC
    LIMIT 1
) AS o ON TRUE
LEFT JOIN LATERAL (
    SELECT
        completed_at,
        started_at
    FROM sync_jobs
    WHERE source = s.source AND status = 'success' AND partitions IS NULL AND lists
    ORDER BY started_at DESC
    LIMIT 1
) AS g ON TRUE
WHERE
    coalesce(g.completed_at, o.requested_at, s.set_up_at) IS NOT NULL
    AND (
        NOT EXISTS (
            SELECT FROM sync_jobs AS w INNER JOIN partition_leases AS p ON w.lease = p.owner AND p.until > now()
            WHERE
                w.source = s.source AND w.status = 'running' AND w.partitions IS NULL AND w.lists
                AND coalesce(w.heartbeat_at, w.claimed_at) > now() - interval '2 hours'
        )
        OR EXISTS (
            SELECT FROM sync_jobs AS f
            WHERE f.source = s.source AND f.status = 'failed' AND f.partitions IS NULL AND f.lists
                AND f.started_at > coalesce(g.started_at, '-infinity')
        )
    )
UNION ALL
SELECT
    'table_bytes' AS what,
    '' AS source,
    c.relname::text AS label,
    sum(p.relpages)::double precision * current_setting('block_size')::integer AS value
FROM pg_class AS c
INNER JOIN pg_class AS p
    ON
        c.oid = p.oid OR c.reltoastrelid = p.oid
        OR EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indexrelid = p.oid AND i.indrelid IN (c.oid, c.reltoastrelid))
WHERE
    c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
    AND c.relname IN ('chunks', 'documents', 'index_entries', 'audit_log', 'answers', 'uploads')
GROUP BY c.relname
UNION ALL
SELECT
    'capacity_full' AS what,
    place AS source,
    what AS label,
    days AS value
FROM capacity_forecasts
UNION ALL
SELECT
    'embedding_month_cost' AS what,
    '' AS source,
    '' AS label,
    coalesce(sum(cost_usd), 0)::double precision AS value
FROM embedding_usage
WHERE month = to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM')
