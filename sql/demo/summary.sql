-- Content of the index from the sample company, for the demonstration's summary.

-- name: totals
-- Purpose: count documents and passages that can currently be found.
-- Parameters: roots (names of file roots), sources (those that contain only sample data). Grain: source.
-- Index: documents_partition.
SELECT
    source,
    count(*) AS documents,
    coalesce(sum(chunk_count), 0) AS chunks
FROM documents
WHERE
    state = 'live' AND indexed_content IS NOT NULL
    AND (source = any(:sources) OR (source = 'files' AND partition = any(:roots)))
GROUP BY source
ORDER BY source;

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
