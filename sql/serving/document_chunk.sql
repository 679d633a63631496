-- Purpose: a chunk's position in a document that the caller may read. Parameters: doc_id, chunk_index, principals, fresh_since.
-- Grain: chunk. Index: chunks (doc_id, collection, chunk_index).
SELECT
    c.chunk_index,
    c.start_char,
    c.end_char,
    c.section_path,
    c.anchor,
    c.page_start,
    c.page_end
FROM active_chunks AS c
INNER JOIN checked_documents AS d ON c.doc_id = d.doc_id
WHERE
    c.doc_id = %(doc_id)s::uuid
    AND c.chunk_index = %(chunk_index)s
    AND d.state = 'live'
    AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
    AND d.acl_checked_at >= %(fresh_since)s
