-- Each source's documents by state, how many of them an earlier version of the parser read, and its last good sync.
-- Parameters: parser (version). Grain: source that was ever synced. Index: documents_partition, primary key of index_entries.
SELECT
    source,
    (
        SELECT max(completed_at) FROM sync_jobs AS done
        WHERE done.source = known.source AND done.status = 'success'
    ) AS last_sync_at,
    (SELECT count(*) FROM documents AS d WHERE d.source = known.source AND d.state = 'live') AS live,
    (SELECT count(*) FROM documents AS d WHERE d.source = known.source AND d.state = 'skipped') AS skipped,
    (SELECT count(*) FROM documents AS d WHERE d.source = known.source AND d.state = 'failed') AS failed,
    (
        SELECT count(*) FROM documents AS d INNER JOIN active_entries AS e ON d.doc_id = e.doc_id
        WHERE
            d.source = known.source AND d.state = 'live'
            AND starts_with(e.content, d.content_key || '|') AND NOT starts_with(e.content, d.content_key || '|' || %(parser)s || '|')
    ) AS outdated
FROM (
    SELECT source FROM sync_jobs
    UNION
    SELECT source FROM partitions
) AS known (source)
ORDER BY source;
