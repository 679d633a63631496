-- Purpose: the completeness ledger: the number of documents in each root, channel or day, by its source's count and by ours.
-- Parameters: none. Grain: partition. Index: unique (source, source_id) of documents.
WITH counted AS (
    SELECT
        source,
        partition,
        cast(sum(documents) FILTER (WHERE state = 'live') AS bigint) AS live,
        cast(sum(documents) FILTER (WHERE state = 'skipped') AS bigint) AS skipped,
        cast(sum(documents) FILTER (WHERE state = 'failed') AS bigint) AS failed,
        cast(sum(documents) FILTER (WHERE state = 'lost_access') AS bigint) AS lost_access
    FROM document_counts
    WHERE state <> 'deleted'
    GROUP BY source, partition
    HAVING sum(documents) <> 0
),

held AS (
    SELECT
        d.source,
        d.partition,
        count(*) AS held_deletions
    FROM held_deletions AS h
    INNER JOIN documents AS d ON h.source = d.source AND h.source_id = d.source_id
    WHERE d.state IN ('live', 'skipped', 'failed')
    GROUP BY d.source, d.partition
)

SELECT
    coalesce(p.source, c.source) AS source,
    coalesce(p.partition, c.partition) AS partition,
    p.title,
    p.source_count,
    p.counted_at,
    coalesce(c.live, 0) AS live,
    coalesce(c.skipped, 0) AS skipped,
    coalesce(c.failed, 0) AS failed,
    coalesce(c.lost_access, 0) AS lost_access,
    coalesce(h.held_deletions, 0) AS held_deletions,
    p.lost_at,
    p.last_sync_at,
    p.acl_checked_at
FROM partitions AS p
FULL JOIN counted AS c ON p.source = c.source AND p.partition = c.partition
LEFT JOIN held AS h ON c.source = h.source AND c.partition = h.partition
ORDER BY source, partition
