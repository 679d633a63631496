-- Purpose: chunks next to those of an answer, from documents that the caller may read.
-- Parameters: doc_ids and chunk_indexes (parallel arrays), collection of the index (null: the active one), distance, principals,
-- fresh_since. Grain: (wanted chunk, neighbour). Index: chunks (doc_id, collection, chunk_index).
SELECT
    w.doc_id::text AS doc_id,
    w.chunk_index AS around,
    c.chunk_id::text AS chunk_id,
    c.chunk_index,
    c.chunk_text,
    c.page_start,
    c.page_end
FROM unnest(%(doc_ids)s::uuid [], %(chunk_indexes)s::integer []) AS w (doc_id, chunk_index)
INNER JOIN checked_documents AS d ON w.doc_id = d.doc_id
INNER JOIN chunks AS c
    ON
        w.doc_id = c.doc_id
        AND c.collection = coalesce(%(collection)s::text, (SELECT i.name FROM index_collections AS i WHERE i.active))
        AND c.chunk_index BETWEEN w.chunk_index - %(distance)s AND w.chunk_index + %(distance)s
        AND c.chunk_index <> w.chunk_index
WHERE d.state = 'live' AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text [] AND d.acl_checked_at >= %(fresh_since)s
ORDER BY w.doc_id, w.chunk_index, c.chunk_index
