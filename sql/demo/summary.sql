-- Content of the index from the sample company, for the demonstration's summary.

-- name: totals
-- Purpose: count documents and passages that can currently be found.
-- Parameters: roots (names of file roots), sources (those that contain only sample data). Grain: source.
-- Index: documents_partition.
SELECT
    d.source,
    count(*) AS documents,
    coalesce(sum(e.chunk_count), 0) AS chunks
FROM documents AS d
INNER JOIN active_entries AS e ON d.doc_id = e.doc_id
WHERE
    d.state = 'live'
    AND (d.source = any(:sources) OR (d.source = 'files' AND d.partition = any(:roots)))
GROUP BY d.source
ORDER BY d.source;

-- name: left_out
-- Purpose: list documents that were seen but not indexed, with the reason.
-- Parameters: as above. Grain: document. Index: documents_partition.
SELECT
    source_id,
    state,
    reason
FROM documents
WHERE
    state IN ('skipped', 'failed')
    AND (source = any(:sources) OR (source = 'files' AND partition = any(:roots)))
ORDER BY source_id;
