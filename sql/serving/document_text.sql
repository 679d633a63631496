-- Purpose: the chunks that overlap a range of a document that the caller may read, in order.
-- Parameters: doc_id, start_char, end_char, principals, fresh_since. Grain: chunk. Index: chunks (doc_id, collection, chunk_index).
SELECT
    c.chunk_index,
    c.chunk_text,
    c.start_char,
    c.end_char,
    c.section_path,
    c.anchor,
    c.page_start,
    c.page_end,
    coalesce(c.places, '[]') AS places
FROM active_chunks AS c
INNER JOIN checked_documents AS d ON c.doc_id = d.doc_id
WHERE
    c.doc_id = %(doc_id)s::uuid
    AND c.start_char < %(end_char)s
    AND c.end_char > %(start_char)s
    AND d.state = 'live'
    AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
    AND d.acl_checked_at >= %(fresh_since)s
ORDER BY c.chunk_index
