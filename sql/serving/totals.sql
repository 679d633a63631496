-- Purpose: figures for /metrics that the pipeline stores in the registry. Grain: (what, source, label).
-- Index: none, all of it is small and read whole: counts have a row per partition and state, `sync_figures` has one row per figure, whatever the number of syncs.
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
