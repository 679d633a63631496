-- Purpose: figures for /metrics that the pipeline leaves in the registry. Grain: (what, source, label).
SELECT
    'documents' AS what,
    source,
    state AS label,
    count(*)::double precision AS value
FROM documents
GROUP BY source, state
UNION ALL
SELECT
    'sync_documents' AS what,
    j.source,
    o.label,
    sum(o.value)::double precision AS value
FROM sync_jobs AS j
CROSS JOIN
    LATERAL (
        VALUES ('synced', j.synced), ('skipped', j.skipped), ('deleted', j.deleted), ('failed', j.failed)
    ) AS o (label, value)
GROUP BY j.source, o.label
UNION ALL
SELECT
    'sync_jobs' AS what,
    source,
    status AS label,
    count(*)::double precision AS value
FROM sync_jobs
GROUP BY source, status
UNION ALL
SELECT
    'sync_seconds' AS what,
    source,
    b.label,
    count(*) FILTER (
        WHERE extract(EPOCH FROM completed_at - started_at) <= b.seconds
    )::double precision AS value
FROM sync_jobs
CROSS JOIN
    (
        VALUES
        ('1', 1.0), ('5', 5), ('10', 10), ('30', 30), ('60', 60), ('120', 120), ('300', 300), ('600', 600), ('1800', 1800),
        ('+Inf', 'infinity'::double precision)
    ) AS b (label, seconds)
WHERE completed_at IS NOT NULL
GROUP BY source, b.label
UNION ALL
SELECT
    'sync_seconds_sum' AS what,
    source,
    '' AS label,
    sum(extract(EPOCH FROM completed_at - started_at))::double precision AS value
FROM sync_jobs
WHERE completed_at IS NOT NULL
GROUP BY source
UNION ALL
SELECT
    'chunks_embedded' AS what,
    source,
    '' AS label,
    sum(embedded)::double precision AS value
FROM sync_jobs
GROUP BY source
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
