-- Each source's documents by state and its last good sync. Grain: source that was ever synced. Index: documents_partition.
SELECT
    source,
    (
        SELECT max(completed_at) FROM sync_jobs AS done
        WHERE done.source = known.source AND done.status = 'success'
    ) AS last_sync_at,
    (SELECT count(*) FROM documents AS d WHERE d.source = known.source AND d.state = 'live') AS live,
    (SELECT count(*) FROM documents AS d WHERE d.source = known.source AND d.state = 'skipped') AS skipped,
    (SELECT count(*) FROM documents AS d WHERE d.source = known.source AND d.state = 'failed') AS failed
FROM (
    SELECT source FROM sync_jobs
    UNION
    SELECT source FROM partitions
) AS known (source)
ORDER BY source;
