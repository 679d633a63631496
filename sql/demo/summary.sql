-- What the index holds of some file roots, for the demonstration's summary.

-- name: totals^
-- Purpose: count documents and passages that can be found now.
-- Parameters: partitions (names of file roots). Grain: one row. Index: documents_partition.
SELECT
    count(*) AS documents,
    coalesce(sum(chunk_count), 0) AS chunks
FROM documents
WHERE source = 'files' AND state = 'live' AND partition = any(:partitions) AND indexed_content IS NOT NULL;

-- name: left_out
-- Purpose: list documents that were seen and are not indexed, with the reason.
-- Parameters: partitions (names of file roots). Grain: document. Index: documents_partition.
SELECT
    source_id,
    state,
    reason
FROM documents
WHERE source = 'files' AND state IN ('skipped', 'failed') AND partition = any(:partitions)
ORDER BY source_id;
