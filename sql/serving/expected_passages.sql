-- Purpose: number of passages that the index should hold: `listed_passages` without those of documents that are leaving it. Every document
-- that waits to be written or removed is read, in a first sync all of them, so it is asked only while the index holds fewer than are listed.
-- Grain: one row. Index: primary keys of documents and entries.
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
