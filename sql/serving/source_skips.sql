-- Purpose: why documents were skipped, most frequent reason first. Parameters: none. Grain: (partition, reason).
-- Index: documents_partition.
SELECT
    source,
    partition,
    coalesce(reason, '') AS reason,
    count(*) AS count
FROM documents
WHERE state = 'skipped'
GROUP BY source, partition, coalesce(reason, '')
ORDER BY source ASC, partition ASC, count DESC, reason ASC
