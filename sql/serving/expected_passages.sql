-- Purpose: number of passages that the index should hold, read by a timer. Grain: one row. Index: none, counts have a row per partition,
-- and only documents that differ from the index are read.
SELECT
    cast(
        coalesce((
            SELECT sum(c.passages) FROM passage_counts AS c
            WHERE c.collection = (SELECT a.name FROM index_collections AS a WHERE a.active)
        ), 0)
        - coalesce((
            SELECT sum(e.chunk_count)
            FROM documents AS d
            INNER JOIN active_entries AS e ON d.doc_id = e.doc_id
            WHERE d.doc_id = ANY(ARRAY(SELECT w.doc_id FROM index_work AS w)) AND d.state <> 'live'
        ), 0) AS bigint
    ) AS passages
