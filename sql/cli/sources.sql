-- Each source's documents by state, how many of them an earlier version of the parser read, its last good sync, why the latest that has
-- ended failed, and why it is paused.
-- Parameters: parser (version). Grain: source that was ever synced. Index: document_counts_partition, index_work_source; until its first
-- sync with a new parser, a source's documents are read (documents_partition, primary key of index_entries); primary key of source_states; sync_jobs_latest.
SELECT
    known.source,
    (
        SELECT max(completed_at) FROM sync_jobs AS done
        WHERE done.source = known.source AND done.status = 'success' AND done.lists
    ) AS last_sync_at,
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'live'), 0) AS bigint) AS live,
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'skipped'), 0) AS bigint) AS skipped,
    cast(coalesce(sum(c.documents) FILTER (WHERE c.state = 'failed'), 0) AS bigint) AS failed,
    CASE
        WHEN EXISTS (
            SELECT FROM index_passes AS p INNER JOIN index_collections AS a ON a.name = p.collection AND a.active
            WHERE p.source = known.source AND p.parser = %(parser)s AND p.after IS NULL
        ) THEN (
            SELECT count(*) FROM documents AS d INNER JOIN active_entries AS e ON d.doc_id = e.doc_id
            WHERE
                d.doc_id = ANY(ARRAY(SELECT w.doc_id FROM index_work AS w WHERE w.source = known.source)) AND d.state = 'live'
                AND starts_with(e.content, d.content_key || '|') AND NOT starts_with(e.content, d.content_key || '|' || %(parser)s || '|')
        )
        ELSE (
            SELECT count(*) FROM documents AS d INNER JOIN active_entries AS e ON d.doc_id = e.doc_id
            WHERE
                d.source = known.source AND d.state = 'live'
                AND starts_with(e.content, d.content_key || '|') AND NOT starts_with(e.content, d.content_key || '|' || %(parser)s || '|')
        )
    END AS outdated,
    CASE WHEN latest.status = 'failed' THEN latest.completed_at END AS failed_at,
    CASE WHEN latest.status = 'failed' THEN latest.error_message END AS failed_reason,
    t.paused_at,
    t.paused_reason
FROM (
    SELECT source FROM sync_jobs
    UNION
    SELECT source FROM partitions
) AS known (source)
LEFT JOIN document_counts AS c ON c.source = known.source
LEFT JOIN source_states AS t ON t.source = known.source
LEFT JOIN LATERAL (
    SELECT
        j.status,
        j.completed_at,
        j.error_message
    FROM sync_jobs AS j
    WHERE j.source = known.source AND j.status <> 'running'
    ORDER BY j.started_at DESC
    LIMIT 1
) AS latest ON TRUE
GROUP BY known.source, t.source, latest.status, latest.completed_at, latest.error_message
ORDER BY known.source;
