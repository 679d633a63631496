-- Purpose: number of passages that the index should hold, read by a timer. Grain: one row. Index: documents_counted.
SELECT coalesce(sum(chunk_count), 0)::bigint AS passages
FROM documents
WHERE state = 'live'
