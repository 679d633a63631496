-- Roots, drives and channels with their documents, for the operator. paused: the syncs of its source wait for new credentials.
-- Grain: (source, partition). Index: documents_partition, primary key of source_states.
SELECT
    k.source,
    k.partition,
    p.title,
    p.last_sync_at,
    p.lost_at,
    (
        SELECT count(*) FROM documents AS d
        WHERE d.source = k.source AND d.partition = k.partition AND d.state <> 'deleted'
    ) AS documents,
    (SELECT count(*) FROM held_deletions AS h WHERE h.source = k.source AND h.partition = k.partition) AS held,
    t.paused_at IS NOT NULL AS paused
FROM (
    SELECT source, partition FROM partitions
    UNION
    SELECT source, partition FROM documents WHERE state <> 'deleted'
) AS k
LEFT JOIN partitions AS p ON k.source = p.source AND k.partition = p.partition
LEFT JOIN source_states AS t ON k.source = t.source
ORDER BY k.source, k.partition;
