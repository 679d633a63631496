-- Purpose: number of passages that the index should hold, read by a timer. Grain: one row. Index: none, it reads every entry.
SELECT coalesce(sum(e.chunk_count), 0)::bigint AS passages
FROM active_entries AS e
INNER JOIN documents AS d ON e.doc_id = d.doc_id
WHERE d.state = 'live'
