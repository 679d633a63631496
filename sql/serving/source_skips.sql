-- Purpose: why documents were skipped or failed, most frequent reason first. Parameters: none. Grain: (partition, state, reason).
-- Index: documents_skipped.
SELECT
    source,
    partition,
    state,
    coalesce(reason, '') AS reason,
    count(*) AS count
FROM documents
WHERE state IN ('skipped', 'failed')
GROUP BY source, partition, state, coalesce(reason, '')
ORDER BY source ASC, partition ASC, count DESC, reason ASC
