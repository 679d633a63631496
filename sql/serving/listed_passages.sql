-- Purpose: number of passages in the index's entries, also of documents that are leaving it, read by a timer: if the index holds as many, it
-- is complete. Grain: one row. Index: none, counts have a row per partition.
SELECT cast(coalesce(sum(c.passages), 0) AS bigint) AS passages
FROM passage_counts AS c
WHERE c.collection = (SELECT a.name FROM index_collections AS a WHERE a.active)
